"""Spouts and bolts that write their counts to files, because they run in other processes."""

import json
import math
import os
import time
from pathlib import Path

from benchmarks.components import CollectingBolt, CountBolt, NumberingSpout
from benchmarks.reference_loop import SENTENCES
from pystorm_spark import CustomStreamGrouping


class TallyingCountBolt(CountBolt):
    """Writes its number of counted words when it is cleaned up."""

    def __init__(self, folder):
        self.folder = folder

    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        self.task = context.this_task_id

    def cleanup(self):
        Path(self.folder, f"counted-{self.task}").write_text(str(sum(self.counts.values())))


def counted(folder):
    """Sum the words that `TallyingCountBolt`s have counted."""
    return sum(int(path.read_text()) for path in Path(folder).glob("counted-*"))


class PacedSpout(NumberingSpout):
    """Emits `rate` tuples a second over all its tasks, and writes at its end when each was due and when it was acked.

    The message id is the time at which the tuple was due, so the delay of a blocked spout counts. A tuple that is never
    acked, or not emitted in time, has an infinite latency.
    """

    outputs = ["value"]

    def __init__(self, rate, folder, values=SENTENCES):
        self.rate, self.folder, self.values = rate, folder, values

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        tasks = context.component_tasks(context.this_component_id)
        self.every = len(tasks) / self.rate
        self.task = context.this_task_id
        self.lead = context.this_task_index / self.rate  # so that tasks do not emit at the same moment
        self.times, self.pending = [], set()
        self.activate()

    def activate(self):
        self.due = time.monotonic() + self.lead

    def deactivate(self):
        now = time.monotonic()
        while self.due <= now:
            self.pending.add(self.due)
            self.due += self.every

    def next_tuple(self):
        due = self.due
        if due <= time.monotonic():
            self.number += 1
            self.due = due + self.every
            self.pending.add(due)
            self.collector.emit([self.values[self.number % len(self.values)]], message_id=due)

    def ack(self, message_id):
        self.pending.remove(message_id)
        self.times.append((message_id, time.monotonic()))

    def close(self):
        self.times += [(due, math.inf) for due in self.pending]
        Path(self.folder, f"times-{self.task}-{os.getpid()}").write_text(json.dumps(self.times))


def latencies(folder, since=0.0, until=float("inf")):
    """Return the seconds from due to acked of the tuples that were due in that time; infinite without an ack."""
    times = [pair for path in Path(folder).glob("times-*") for pair in json.loads(path.read_text())]
    found = [acked - due for due, acked in times if since <= due < until]
    if not found:
        raise RuntimeError(f"nothing was due in {until - since:.1f} s, or no spout has written what it saw")
    return found


def percentile(samples, percent):
    """Return the sample that `percent` of all do not exceed, never the mean of two, because one may be infinite."""
    return sorted(samples)[math.ceil(len(samples) * percent / 100) - 1]


class AwayGrouping(CustomStreamGrouping):
    """Sends every tuple to the next task, which is in the next slot; a shuffle would keep it in its own slot."""

    def prepare(self, context, stream, target_tasks):
        self.chosen = [target_tasks[(context.this_task_index + 1) % len(target_tasks)]]

    def choose_tasks(self, task_id, values):
        return self.chosen


class SlowBolt(CollectingBolt):
    """Blocks for `secs` in each tuple, like a call to a slow service."""

    def __init__(self, secs):
        self.secs = secs

    def execute(self, tup):
        time.sleep(self.secs)
        self.collector.ack(tup)


class LastTaskSpout(PacedSpout):
    """Only its last task emits."""

    def next_tuple(self):
        if self.is_last:
            super().next_tuple()

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        self.is_last = self.task == context.component_tasks(context.this_component_id)[-1]
        self.every = 1 / self.rate


class NotingSpout(NumberingSpout):
    """Emits `rate` tuples a second. Records each ack at once, because its process may be killed at any moment."""

    outputs = ["value"]

    def __init__(self, rate, folder):
        self.every, self.folder = 1 / rate, folder

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        name = f"acks-{context.this_task_index}-{time.monotonic_ns()}-{os.getpid()}"
        self.notes = Path(self.folder, name).open("w", buffering=1)  # noqa: SIM115 - closed by close
        self.due = time.monotonic()

    def next_tuple(self):
        now = time.monotonic()
        if now >= self.due:
            self.due = now + self.every
            self.collector.emit([self.number], message_id=now)
            self.number += 1

    def ack(self, message_id):
        self.notes.write(f"{message_id!r} {time.monotonic()!r}\n")

    def close(self):
        self.notes.close()


def noted_pids(folder):
    """Return the process id of each task of a `NotingSpout`, by the index of the task."""
    opened = sorted(path.name.split("-")[1:] for path in Path(folder).glob("acks-*"))
    return {index: int(pid) for index, _, pid in opened}


def noted_acks(folder):
    """Return the times (emitted, acked) of all tuples that have been acked so far."""
    lines = [line for path in Path(folder).glob("acks-*") for line in path.read_text().splitlines(keepends=True)]
    return [tuple(map(float, line.split())) for line in lines if line.endswith("\n")]
