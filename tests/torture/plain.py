"""Workload B: a word count with at-least-once, by a spout that knows the outcome of each message.

Each emission of a message has a number of its own, so that an ack can be compared with the work for that emission.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any

from pystorm_spark import Bolt, Spout, TopologyBuilder
from tests.torture.journal import Journal

NAME = "plain"
VOCABULARY = ("the", "cow", "jumped", "over", "moon", "seven", "dwarfs", "bird", "hand", "bush", "apple", "day")
CHANCE_BITS = 24
INDEX_BITS = 4
DUE_POLL_SECS = 0.2  # between two checks for due messages
CONF = {
    "topology.workers": 2,
    "topology.max.spout.pending": 200,
    "topology.message.timeout.secs": 30,
    "topology.execute.timeout.secs": 20,
    "topology.execute.slow.secs": 0.1,
    "supervisor.worker.start.timeout.secs": 240,
}


def new_emission(message: int) -> int:
    return message << CHANCE_BITS | random.getrandbits(CHANCE_BITS)


def message_of(emission: int) -> int:
    return emission >> CHANCE_BITS


def chance_of(emission: int) -> int:
    return emission & ((1 << CHANCE_BITS) - 1)


def word_of(emission: int, index: int) -> int:
    """The number under which a word of an emission is noted."""
    return emission << INDEX_BITS | index


def words_of(message: int) -> list[str]:
    """Return the sentence of a message, the same at each emission."""
    return [VOCABULARY[(message + index * index) % len(VOCABULARY)] for index in range(2 + message % 4)]


class Due:
    """How many messages the source has: a file that is replaced."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "due"

    def raise_to(self, count: int) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.write_text(str(count))
        fresh.rename(self._path)

    def count(self) -> int:
        return int(self._path.read_text()) if self._path.exists() else 0


class Messages(Spout):
    """The spout. A new process emits all messages whose acks are not recorded."""

    outputs = ("emission", "text")

    def __init__(self, folder: Path) -> None:
        self._due = Due(folder)
        self._journal = Journal(folder / "journal")

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self._collector = collector
        self._index, self._step = context.this_task_index, len(context.component_tasks(context.this_component_id))
        emitted = {*map(message_of, filter(self._is_mine, self._journal.noted("emitted")))}
        acked = {*map(message_of, filter(self._is_mine, self._journal.noted("acked")))}
        self._again = deque(sorted(emitted - acked))
        self._next = max(emitted) + self._step if emitted else self._index
        self._count, self._looked = 0, 0.0

    def _is_mine(self, emission: int) -> bool:
        return message_of(emission) % self._step == self._index

    def next_tuple(self) -> None:
        message = self._choose()
        if message is not None:
            emission = new_emission(message)
            self._journal.note("emitted", emission)
            self._collector.emit([emission, " ".join(words_of(message))], message_id=emission)

    def _choose(self) -> int | None:
        if self._again:
            return self._again.popleft()
        if self._next >= self._count and time.monotonic() > self._looked + DUE_POLL_SECS:
            self._count, self._looked = self._due.count(), time.monotonic()
        if self._next >= self._count:
            return None
        self._next += self._step
        return self._next - self._step

    def ack(self, message_id: int) -> None:
        self._journal.note("acked", message_id)

    def fail(self, message_id: int) -> None:
        self._journal.note("failed", message_id)
        self._again.append(message_of(message_id))


class Split(Bolt):
    """Sends on each word; fails some messages when it has sent some of their words, or all."""

    outputs = ("emission", "index", "word")

    def __init__(self, folder: Path) -> None:
        self._journal = Journal(folder / "journal")

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self._collector = collector

    def execute(self, tup: Any) -> None:
        emission = tup["emission"]
        fails_at = chance_of(emission) // 100 if chance_of(emission) % 100 == 0 else -1
        words = tup["text"].split()
        for index, word in enumerate(words):
            if fails_at % (len(words) + 1) == index and fails_at >= 0:
                break
            self._collector.emit([emission, index, word], anchors=tup)
        if fails_at >= 0:
            self._journal.note("refused", emission)
            self._collector.fail(tup)
        else:
            self._collector.ack(tup)


class Count(Bolt):
    """Counts words, and notes which ones; fails some when it has counted them."""

    def __init__(self, folder: Path, topic: str = "counted") -> None:
        self._journal = Journal(folder / "journal")
        self._topic = topic

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self._collector = collector
        self._counts: Counter[str] = Counter()

    def execute(self, tup: Any) -> None:
        emission, index = tup["emission"], tup["index"]
        self._counts[tup["word"]] += 1
        self._journal.note(self._topic, word_of(emission, index))
        if chance_of(emission) % 100 == 1 and index == 1:
            self._journal.note("refused", emission)
            self._collector.fail(tup)
        else:
            self._collector.ack(tup)


class Audit(Count):
    """A second subscriber: slow now and then, so that it is set aside; prints; acks some words from a thread."""

    def execute(self, tup: Any) -> None:
        chance = chance_of(tup["emission"])
        self._journal.note(self._topic, word_of(tup["emission"], tup["index"]))
        if chance % 10 == 2:
            print(f"heard {tup['word']!r} of message {message_of(tup['emission'])}")
        if chance % 300 == 3:
            time.sleep(0.3)
        if chance % 50 == 4:
            threading.Timer(0.05, self._collector.ack, [tup]).start()
        else:
            self._collector.ack(tup)


def topology(folder: Path) -> Any:
    builder = TopologyBuilder()
    builder.set_spout("messages", Messages(folder), 2)
    builder.set_bolt("split", Split(folder), 2).shuffle_grouping("messages")
    builder.set_bolt("count", Count(folder), 2).fields_grouping("split", ["word"])
    builder.set_bolt("audit", Audit(folder, "audited"), 2).shuffle_grouping("split")
    return builder.create_topology()
