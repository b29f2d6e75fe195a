"""The outside of a simulated topology: the source that its spouts read, and a record of all that its tasks do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import cloudpickle

from pystorm_spark.runtime.components import pickle_components
from pystorm_spark.runtime.plan import make_plan
from pystorm_spark.state import StatefulBolt
from pystorm_spark.topology.builder import TopologyBuilder
from pystorm_spark.topology.component import Bolt, Spout
from pystorm_spark.topology.config import resolve
from pystorm_spark.topology.tuple import is_tick

if TYPE_CHECKING:
    from tests.spark.simulation.processes import SimulatedProcess

TICK_SECS = 0.5
SILENCE_SECS = 60.0  # that a slot may be silent, and a call of user code may take
PARTS = ("twice", 0, 1)  # of the tree of a number: what is executed, each once


@dataclass
class Emission:
    """One emit of a number by a spout, and what became of its tree."""

    number: int
    spout: Numbers
    executed: Counter = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)


class World:
    """Knows every emission. A number is done when the emission that a living spout made of it was acked."""

    def __init__(self, numbers, guarantee=None, failing=()):
        self.numbers = numbers
        self.guarantee = guarantee  # of the state, None if there is none
        self.failing = set(failing)  # numbers whose trees fail, each once
        self.emissions = []
        self.done = set()
        self.claimed = {}  # {number: the spout that it was given to}, where they share all numbers
        self.committed = {}  # {(number, part): how often it was counted}, as of the last commit

    def emit(self, number, spout):
        self.emissions.append(Emission(number, spout))
        return len(self.emissions) - 1

    def claim(self, spout):
        """A number for a spout: one that nobody has, or whose spout is gone; None if there is none."""
        for number in range(self.numbers):
            holder = self.claimed.get(number)
            if number not in self.done and (holder is None or not holder.process.is_alive):
                self.claimed[number] = spout
                return number
        return None

    def execute(self, label, part):
        emission = self.emissions[label]
        emission.executed[part] += 1
        assert emission.executed[part] == 1, f"part {part} of emission {label} was executed twice"

    def tell(self, label, verb):
        emission = self.emissions[label]
        emission.told.append(verb)
        assert len(emission.told) == 1, f"emission {label} was told {emission.told}"
        if verb == "ack":
            self._check_acked(label, emission)
            self.done.add(emission.number)

    def _check_acked(self, label, emission):
        # With exactly-once an emission of what is committed already is acked and not executed.
        if self.guarantee != "exactly-once":
            missing = [part for part in PARTS if not emission.executed[part]]
            assert not missing, f"emission {label} was acked, but its parts {missing} were not executed"
        if self.guarantee is not None:
            self.check_committed(emission.number)

    def check_committed(self, number):
        """What is acked is committed, and with exactly-once it is so once."""
        counts = [self.committed.get((number, part), 0) for part in (0, 1)]
        assert all(counts), f"{number} was acked, but {counts} of its parts are committed"
        assert self.guarantee != "exactly-once" or counts == [1, 1], f"{number} was counted {counts} times"

    def shall_fail(self, number, part):
        if part == 0 or number not in self.failing:
            return False
        self.failing.discard(number)
        return True

    def is_done(self):
        return len(self.done) == self.numbers


class Numbers(Spout):
    """Emits its share of the numbers that are not done, and again what fails."""

    outputs = ("number", "label")
    world: World
    process: SimulatedProcess
    fails_to_open = False

    def open(self, conf, context, collector):
        if self.fails_to_open:
            raise OSError("no numbers here")
        self.collector = collector
        share = range(context.this_task_index, self.world.numbers, len(context.component_tasks("numbers")))
        self.todo = [number for number in share if number not in self.world.done]
        self.labels = {}  # {number: its last emission}

    def next_tuple(self):
        if self.todo:
            number = self.todo.pop(0)
            label = self.labels[number] = self.world.emit(number, self)
            self.collector.emit([number, label], message_id=number)

    def ack(self, number):
        self.world.tell(self.labels[number], "ack")

    def fail(self, number):
        self.world.tell(self.labels[number], "fail")
        self.todo.append(number)


class Flushes(Numbers):
    """Emits also when it is activated or deactivated."""

    def activate(self):
        self.next_tuple()

    deactivate = activate


class Claims(Numbers):
    """Emits whatever number it is given: after a death, those of other spouts, too."""

    def next_tuple(self):
        number = self.world.claim(self)
        if number is not None:
            self.todo = [number]
            super().next_tuple()

    def fail(self, number):
        super().fail(number)
        if self.world.claimed[number] is self:
            del self.world.claimed[number]


class Holds(Bolt):
    """Holds numbers until there are three, or a tick comes, and sends each on anchored to all of them."""

    outputs = ("number", "label")
    world: World

    def component_configuration(self):
        return {"topology.tick.tuple.freq.secs": TICK_SECS}

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.held = []

    def execute(self, tup):
        if not is_tick(tup):
            self.held.append(tup)
        if len(self.held) == 3 or is_tick(tup):
            for held in self.held:
                self.collector.emit(held.values, anchors=self.held)
            for held in self.held:
                self.collector.ack(held)
            self.held = []


class Twice(Bolt):
    """Sends each number on in two parts."""

    outputs = ("number", "label", "part")
    world: World

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.world.execute(tup["label"], "twice")
        for part in (0, 1):
            self.collector.emit([*tup.values, part], anchors=tup)
        self.collector.ack(tup)


class End(Bolt):
    """Where the parts arrive."""

    world: World

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.world.execute(tup["label"], tup["part"])
        self.collector.ack(tup)


class Count(StatefulBolt):
    """Where the parts arrive and are counted durably."""

    world: World

    def prepare(self, conf, context, collector):
        self.collector = collector

    def init_state(self, state):
        self.state = state

    def execute(self, tup):
        number, label, part = tup.values
        self.world.execute(label, part)
        self.state.put((number, part), self.state.get((number, part), 0) + 1)
        settle = self.collector.fail if self.world.shall_fail(number, part) else self.collector.ack
        settle(tup)


@cache
def plan_of(slots, tasks, pending, guarantee=None, holds=False, shares=False, flushes=False):
    """The plan, and what a slot is made from: numbers → (holds →) twice → end, so that tuples cross slots."""
    builder = TopologyBuilder()
    spout = Claims() if shares else Flushes() if flushes else Numbers()
    builder.set_spout("numbers", spout, tasks)
    if holds:
        builder.set_bolt("holds", Holds(), tasks).shuffle_grouping("numbers")
    builder.set_bolt("twice", Twice(), tasks).fields_grouping("holds" if holds else "numbers", ["number"])
    end, keys = (Count(), ["number", "part"]) if guarantee else (End(), ["label", "part"])
    builder.set_bolt("end", end, tasks).fields_grouping("twice", keys)
    # What is lost must fail because the driver sees to it: nothing times out here.
    conf = {"topology.message.timeout.secs": 1_000_000, "topology.max.spout.pending": pending}
    conf |= {"topology.name": "simulated", "topology.state.guarantee": guarantee or "at-least-once"}
    conf |= {"topology.state.checkpoint.interval.ms": 50}  # so that there are some commits in the short time it takes
    plan = make_plan(builder.create_topology(), resolve(conf), "simulated-1-0", slots)
    return plan, cloudpickle.dumps((cloudpickle.dumps(plan), pickle_components(plan), SILENCE_SECS))
