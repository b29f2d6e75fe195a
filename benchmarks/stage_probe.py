"""Notes when frames pass from one stage to the next, in the slots and in Spark's Python workers: once a frame.

The measured code is unchanged. The probes wrap it from outside, by a worker hook in the slots and by the driver in
the functions that it sends to Spark's workers. They do nothing for single tuples.
"""

import functools
import gc
import json
import os
import time
from bisect import bisect_left
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks.spark_components import PacedSpout
from pystorm_spark import WorkerHook
from pystorm_spark.runtime.frames import Outbox
from pystorm_spark.spark.exchange import chain as exchange
from pystorm_spark.spark.exchange.visit import Visit
from pystorm_spark.spark.slot import exchanges as answers
from pystorm_spark.spark.slot.exchanges import Exchanges

STAGES = (
    "emitted",
    "sealed",
    "handed over",
    "shuffle written",
    "read",
    "delivered",
    "executed",
    "ack handed over",
    "ack written",
    "ack read",
    "ack delivered",
    "acked home",
)


class SlotProbe(WorkerHook):
    """Notes in a slot when frames are sealed, brought and taken; `settings` are put into `answers` first."""

    def __init__(self, folder, **settings):
        self.folder, self.settings = folder, settings

    def start(self, conf):
        for name, value in self.settings.items():
            setattr(answers, name, value)
        self.notes = {"sealed": [], "brought": [], "taken": []}
        self._patch()

    def _patch(self):
        notes, now = self.notes, time.monotonic
        seal, take_in, taken = Outbox.seal, Exchanges.take_in, Exchanges._taken

        def seal_and_note(outbox):
            before = outbox._sealed_bytes
            seal(outbox)
            if outbox._sealed_bytes != before:
                notes["sealed"].append(now())

        def take_in_and_note(exchanges, epoch, job, number, parcels):
            answer, is_first = take_in(exchanges, epoch, job, number, parcels)
            if is_first:
                notes["slot"] = exchanges._slot.number
                notes["brought"].append([job, number, now()])
            return answer, is_first

        def take_and_note(exchanges, epoch, is_last):
            content = taken(exchanges, epoch, is_last)
            if not is_last:
                job, number, _ = notes["brought"][-1]
                notes["taken"].append([job, number, now()])
            return content

        Outbox.seal, Exchanges.take_in, Exchanges._taken = seal_and_note, take_in_and_note, take_and_note

    def shutdown(self):
        Path(self.folder, f"slot-{os.getpid()}").write_text(json.dumps(self.notes))


@dataclass(frozen=True)
class NotedVisit(Visit):
    """Notes when a Spark task has read its input, and when it has the slot's answer.

    With `spares_modules` false the worker then looks for garbage everywhere, as Spark's workers do.
    """

    folder: str = ""
    spares_modules: bool = True

    def __call__(self, slot, parcels):
        taken = list(parcels)
        read = time.monotonic()
        found = list(super().__call__(slot, taken))
        line = [self.order.job, self.number, slot, read, time.monotonic()]
        with Path(self.folder, f"visits-{os.getpid()}").open("a") as notes:
            notes.write(f"{json.dumps(line)}\n")
        (gc.freeze if self.spares_modules else gc.unfreeze)()
        return iter(found)


@contextmanager
def visits_noted(folder, spares_modules):
    """Make the Spark tasks of all chains that start meanwhile record their steps."""
    exchange.Visit = functools.partial(NotedVisit, folder=folder, spares_modules=spares_modules)
    try:
        yield
    finally:
        exchange.Visit = Visit


class StampedSpout(PacedSpout):
    """Also notes when each tuple was emitted."""

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        self.emitted = {}

    def next_tuple(self):
        due = self.due
        super().next_tuple()
        if self.due != due:
            self.emitted[due] = time.monotonic()

    def close(self):
        lives = [[due, self.emitted[due], acked] for due, acked in self.times if due in self.emitted]
        Path(self.folder, f"lives-{os.getpid()}").write_text(json.dumps(lives))


class Notes:
    """The records of the probes of one topology with two slots."""

    def __init__(self, folder):
        read = {path.name: path.read_text() for path in Path(folder).iterdir()}
        self._lives = _by_pid(read, "lives")
        self._pids = {notes["slot"]: pid for pid, notes in _by_pid(read, "slot").items()}
        self._slots = {notes["slot"]: notes for notes in _by_pid(read, "slot").values()}
        lines = [json.loads(line) for name in read if name.startswith("visits-") for line in read[name].splitlines()]
        self._read = {(job, number, slot): (when, answered) for job, number, slot, when, answered in lines}
        self._brought = {
            (job, number, slot): when for slot, notes in self._slots.items() for job, number, when in notes["brought"]
        }

    def lives(self, since, until, completed):
        """Return the seconds in each of `STAGES` of every tuple that was due in that time.

        `completed` holds the times of Spark's stages, in order. Tuples whose tree did not leave its slot are left out.
        """
        found = []
        for slot, pid in self._pids.items():
            for due, emitted, acked in self._lives.get(pid, ()):
                if since <= due < until:
                    stamps = self._stamps(slot, due, emitted, acked, completed)
                    if stamps is not None:
                        found.append([later - earlier for earlier, later in pairwise(stamps)])
        return found

    def _stamps(self, slot, due, emitted, acked, completed):
        other = 1 - slot
        there = self._crossing(slot, other, emitted, completed)
        if there is None:
            return None
        back = self._crossing(other, slot, there[-1], completed)
        if back is None or back[-1] > acked:
            return None
        return [due, emitted, *there, *back, acked]

    def _crossing(self, source, target, since, completed):
        """Return when the first frame sealed after `since` was sealed, taken, written, read, and delivered."""
        sealed = _first(self._slots[source]["sealed"], since)
        at = bisect_left(self._slots[source]["taken"], sealed, key=lambda taken: taken[2])
        if at == len(self._slots[source]["taken"]):
            return None
        job, number, taken = self._slots[source]["taken"][at]
        following = (job, number + 1, target)
        if following not in self._read or following not in self._brought:
            return None
        answered = max(self._read[job, number, slot][1] for slot in self._slots if (job, number, slot) in self._read)
        written = _first(completed, answered - 0.001)
        read, delivered = self._read[following][0], self._brought[following]
        return [sealed, taken, min(max(written, taken), read), read, delivered]


def _by_pid(read, kind):
    return {name.split("-")[1]: json.loads(text) for name, text in read.items() if name.startswith(f"{kind}-")}


def _first(times, since):
    """Return the first of the ordered `times` that is not before `since`."""
    at = bisect_left(times, since)
    return times[at] if at < len(times) else float("inf")
