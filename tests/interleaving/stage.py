"""A slot whose bolts may have threads of their own, and a model that knows the fate of every message."""

from __future__ import annotations

import random
from collections import Counter, deque
from importlib import import_module

from pystorm_spark import runtime
from pystorm_spark.runtime.components import pickle_components
from pystorm_spark.runtime.plan import make_plan
from pystorm_spark.runtime.slot import Slot
from pystorm_spark.topology.builder import TopologyBuilder
from pystorm_spark.topology.component import Bolt, Spout
from pystorm_spark.topology.config import resolve
from tests.interleaving.scheduler import Scheduler
from tests.runtime.slots import HandClock

TRACED = (
    "arrivals",
    "bolt_collector",
    "bolt_task",
    "frames",
    "slot",
    "spout_collector",
    "spout_task",
    "task",
    "trees",
    "slot_context",
)
MODULES = [import_module(f"{runtime.__name__}.{name}") for name in TRACED]


class Numbers(Spout):
    """Emits the numbers below `count`, and writes down what becomes of them."""

    outputs = ("number",)

    def __init__(self, count=2):
        self.count = count

    def open(self, conf, context, collector):
        self.collector = collector
        self.next, self.told = 0, []

    def next_tuple(self):
        if self.next < self.count:
            self.next += 1
            self.collector.emit([self.next - 1], message_id=self.next - 1)

    def ack(self, message_id):
        self.told.append(("ack", message_id))

    def fail(self, message_id):
        self.told.append(("fail", message_id))


class Leaf(Bolt):
    """Acks what it gets, or fails the numbers that it is told to fail; writes down what it has executed."""

    def __init__(self, *failing):
        self.failing = failing

    def prepare(self, conf, context, collector):
        self.collector, self.executed = collector, []

    def execute(self, tup):
        self.executed.append(tup[0])
        if tup[0] in self.failing:
            self.collector.fail(tup)
        else:
            self.collector.ack(tup)


class Asks(Leaf):
    """Asks which trees its tuples belong to, which gives them their ids."""

    def execute(self, tup):
        assert len(tup.message_id.anchors) == 1
        super().execute(tup)


class Fan(Leaf):
    """Passes each number on, anchored, and acks it."""

    outputs = ("number",)

    def execute(self, tup):
        self.executed.append(tup[0])
        self.collector.emit([tup[0]], anchors=tup)
        self.collector.ack(tup)


class Pairs(Leaf):
    """Joins two numbers: one tuple anchored to both, and both are acked."""

    outputs = ("number",)

    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        self.waiting = None

    def execute(self, tup):
        self.executed.append(tup[0])
        first, self.waiting = self.waiting, tup
        if first is not None:
            self.waiting = None
            self.collector.emit([first[0]], anchors=[first, tup])
            self.collector.ack(first)
            self.collector.ack(tup)


def made(build, slots=1, **conf):
    """The slots of a topology that `build` wires, open and active."""
    builder = TopologyBuilder()
    build(builder)
    plan = make_plan(builder.create_topology(), resolve({"topology.name": "stage", **conf}), "stage-1", slots)
    clock, components = HandClock(), pickle_components(plan)
    found = [Slot(plan, number, components, clock, random.Random(1)) for number in range(slots)]
    for each in found:
        each.open()
        each.set_active(True)
    return found


class Stage:
    """Slots under a scheduler: a thread that turns them, and one for each bolt task that is set aside.

    Frames are carried between two turns, one at a time, so that those of one tree come one after the other.
    """

    def __init__(self, build, aside, schedule=(), modules=MODULES, slots=1, **conf):
        self.scheduler = Scheduler(schedule, modules)
        self.slots = made(build, slots, **conf)
        self.slot = self.slots[0]
        self.wire = deque()
        self.aside = {}  # {name of its thread: (slot, bolt task)}
        for slot in self.slots:
            slot.slot_context.lock = self.scheduler.lock()
            for task in slot.bolts:
                if task.component_id in aside:
                    slot.set_aside(task, -1 - task.task_id, lambda: None)
                    self.aside[f"{task.component_id}_{slot.number}"] = slot, task

    def play(self, turns=3, looks=12):
        """Run all threads by the schedule, and then whatever is left, one after the other."""

        def turn():
            for _ in range(turns):
                self.turn()

        self.scheduler.run(turner=turn, **{name: self._serving(task, looks) for name, (_, task) in self.aside.items()})
        self.finish()
        return self

    def turn(self):
        """Turn each slot, and carry what they send; whether there was anything to do."""
        busy = False
        for slot in self.slots:
            busy |= slot.turn()
            self.wire.extend(slot.take())
        if self.wire:
            frame = self.wire.popleft()
            self.slots[self.slot.plan.slot_of[frame.target]].deliver([frame])
        return busy or bool(self.wire) or any(slot.arrivals.is_waiting() for slot in self.slots)

    def _serving(self, task, looks):
        def serve():
            for _ in range(looks):
                if task.inbox or task.backlog:
                    task.run_aside(0.0)
                else:
                    self.scheduler.pause()

        return serve

    def finish(self):
        busy = True
        while busy:
            busy = self.turn()
            for _, task in self.aside.values():
                while task.inbox or task.backlog:
                    task.run_aside(0.0)
                    busy = True

    def check(self, failing=(), count=2):
        """Every message has one fate, which is the one that the model says; nothing is left behind."""
        (spout,) = self.slot.spouts
        told = Counter(spout.spout.told)
        wanted = Counter(("fail" if number in failing else "ack", number) for number in range(count))
        assert told == wanted, self.scheduler.handed_over
        assert (len(spout.pending), len(spout._left), len(spout._ledger)) == (0, 0, 0)
        assert failing or not any(len(slot.outbox.branches) for slot in self.slots)
