"""Spouts and bolts that write what they saw to files, for they live in other processes."""

import json
import os
import time
from pathlib import Path

from benchmarks.components import CountBolt, NumberingSpout
from benchmarks.reference_loop import SENTENCES


class TallyingCountBolt(CountBolt):
    """Says at its end how many words it has counted."""

    def __init__(self, folder):
        self.folder = folder

    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        self.task = context.this_task_id

    def cleanup(self):
        Path(self.folder, f"counted-{self.task}").write_text(str(sum(self.counts.values())))


def counted(folder):
    """All words that `TallyingCountBolt`s have counted."""
    return sum(int(path.read_text()) for path in Path(folder).glob("counted-*"))


class PacedSpout(NumberingSpout):
    """Emits `rate` tuples a second over all its tasks, and says at its end when each was due and when it was acked.

    The message id is the time at which the tuple was due: a spout that is held up cannot hide it.
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
        self.times = []
        self.activate()

    def activate(self):
        self.due = time.monotonic() + self.lead

    def next_tuple(self):
        due = self.due
        if due <= time.monotonic():
            self.number += 1
            self.due = due + self.every
            self.collector.emit([self.values[self.number % len(self.values)]], message_id=due)

    def ack(self, message_id):
        self.times.append((message_id, time.monotonic()))

    def close(self):
        Path(self.folder, f"times-{self.task}-{os.getpid()}").write_text(json.dumps(self.times))


def latencies(folder, since=0.0, until=float("inf")):
    """Seconds from due to acked, of the tuples that were due in that time."""
    times = [pair for path in Path(folder).glob("times-*") for pair in json.loads(path.read_text())]
    return [acked - due for due, acked in times if since <= due < until]
