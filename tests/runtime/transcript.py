"""A digest of how slots treat tuples of all kinds: `python -m tests.runtime.transcript` prints a line for each seed.

The actions of the components depend on the seed alone, so different lines mean that two cores differ.
"""

from __future__ import annotations

import hashlib
import logging
import random

from pystorm_spark.core import CORE
from pystorm_spark.runtime.spout_collector import emit_numbered
from pystorm_spark.topology.builder import TopologyBuilder
from pystorm_spark.topology.component import Bolt, Spout
from pystorm_spark.topology.fields import Fields

from .slots import TIMEOUT_SECS, Mesh

SEEDS = range(8)
ROUNDS = 6
LINES = 60  # emits of each spout in a round
TASKS = 3
SLOTS = 3

KEYS = [
    "",
    "a",
    "word",
    "x" * 64,
    "x" * 65,
    "naïve",
    "語",
    "\ud800",
    0,
    1,
    1.0,
    True,
    None,
    b"raw",
    2**70,
    ("a", 1),
    [1],
]
VALUES = [*KEYS, {"k": [1]}, "y" * 70_000, 3.5, -1]
STREAMS = {"default": ["key", "value"], "side": ["key"], "all": ["value"], "lone": ["value"]}


class Lines(Spout):
    outputs = ["line"]

    def __init__(self, seed):
        self.seed = seed

    def open(self, conf, context, collector):
        self.collector = collector
        self.draw = random.Random(f"{self.seed} {context.this_task_id}")
        self.left = 0
        self.told = []

    def next_tuple(self):
        if self.left > 5 and self.draw.random() < 0.1:
            self.left -= 3
            rows = [[self.draw.choice(VALUES) for _ in range(arity)] for arity in (1, self.draw.choice([1, 2]), 1)]
            emit_numbered(self.collector, rows, ("line",), self.left, self.refused)
        elif self.left:
            self.left -= 1
            known = {"message_id": self.left} if self.draw.random() < 0.9 else {}
            self.told.append(self.collector.emit([self.draw.choice(VALUES)], **known))

    def refused(self, message_id, row, error):
        self.told.append(("refused", message_id, row, repr(error)))

    def ack(self, message_id):
        self.told.append(("ack", message_id))

    def fail(self, message_id):
        self.told.append(("fail", message_id))


class Mill(Bolt):
    """Emits, acks, fails, holds and raises at random."""

    outputs = STREAMS

    def __init__(self, seed, emits):
        self.seed = seed
        self.emits = emits

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.draw = random.Random(f"{self.seed} {context.this_task_id}")
        self.held = []
        self.told = []

    def execute(self, tup):
        draw = self.draw
        self.told.append(repr(tup))
        for _ in range(draw.randrange(6) if self.emits else 0):
            self.told.append(self.emit(tup))
        deed = draw.random()
        if deed < 0.1:
            self.held.append(tup)
        elif deed < 0.13:
            self.collector.fail(tup)
        elif deed < 0.15:
            raise ValueError(deed)
        else:
            self.collector.ack(tup)
        if deed < 0.16 and deed > 0.14:
            self.collector.ack(tup)
        if self.held and deed > 0.9:
            self.collector.ack(self.held.pop(0))

    def emit(self, tup):
        draw, emit = self.draw, self.collector.emit
        stream = draw.choice(list(STREAMS))
        values = [draw.choice(KEYS if name == "key" else VALUES) for name in STREAMS[stream]]
        way = draw.randrange(7)
        if way == 0:
            return emit(values, stream=stream)
        if way == 1:
            return emit(stream, [tup, *self.held[:2]], values)
        if way == 2:
            return emit(tuple(values), anchors=[tup], stream=stream)
        if way == 3 and stream == "default":
            return emit(tup, values)
        return emit(values, anchors=tup, stream=stream)


def topology(seed):
    builder = TopologyBuilder()
    builder.set_spout("lines", Lines(seed), 2)
    builder.set_bolt("first", Mill(seed, emits=True), TASKS).shuffle_grouping("lines")
    last = builder.set_bolt("last", Mill(seed, emits=False), TASKS)
    last.fields_grouping("first", Fields("key")).fields_grouping("first", Fields("key"), "side")
    last.all_grouping("first", "all").global_grouping("first", "lone")
    return builder.create_topology()


def transcript(seed):
    """Run one seed; return a digest of all frames, all callbacks and counts of components, and their errors."""
    mesh = Mesh(topology(seed), SLOTS, {"topology.max.spout.pending": 40})
    digest = hashlib.sha256()
    for _ in range(ROUNDS):
        for index in range(2):
            mesh.spout("lines", index).left += LINES
        happened = True
        while happened:
            happened = sum(mesh.turn(number) for number in range(SLOTS)) + len(mesh.wire)
            while mesh.wire:
                digest.update(mesh.wire[0].payload)
                mesh.move()
        mesh.clock.now += TIMEOUT_SECS / 3
    for slot in mesh.slots:
        for task in slot.tasks.values():
            component = getattr(task, "spout", None) or task.bolt
            digest.update(repr((component.told, task.counted(), [error.exception for error in task.errors])).encode())
    return f"seed {seed}: {digest.hexdigest()}, {mesh.rng.draws} ids, left {sorted(mesh.leftovers().items())}"


def main():
    logging.disable()
    print(CORE)
    for seed in SEEDS:
        print(transcript(seed))


if __name__ == "__main__":
    main()
