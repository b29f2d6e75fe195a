"""Slots of one plan in one process, turned by hand, and the wire between them: the stage of the runtime tests."""

from __future__ import annotations

import random
from collections import Counter

from pystorm_spark.runtime.components import pickle_components
from pystorm_spark.runtime.plan import make_plan
from pystorm_spark.runtime.slot import Slot
from pystorm_spark.runtime.trees import Joint
from pystorm_spark.topology.builder import TopologyBuilder
from pystorm_spark.topology.component import Bolt, Spout
from pystorm_spark.topology.config import resolve
from pystorm_spark.topology.grouping import CustomStreamGrouping
from pystorm_spark.topology.tuple import SETTLED

TIMEOUT_SECS = 10


class HandClock:
    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    time = monotonic


class CountingRandom(random.Random):
    """A source of random ids that counts how many were drawn."""

    draws = 0

    def getrandbits(self, bits):
        self.draws += 1
        return super().getrandbits(bits)


class ToNamedTasks(CustomStreamGrouping):
    """Sends a tuple to the tasks that its second value lists, so that a test controls every edge."""

    def choose_tasks(self, task_id, values):
        return values[1]


STREAMS = {"default": ["label", "targets"], "side": ["label", "targets"]}


class ScriptedSpout(Spout):
    """Emits when the test calls `emit`; records acks and fails in their order."""

    outputs = STREAMS

    def open(self, conf, context, collector):
        self.task_id = context.this_task_id
        self.collector = collector
        self.told = []
        self.acked = []
        self.failed = []

    def emit(self, label, *targets, message_id=None, stream="default"):
        return self.collector.emit([label, list(targets)], message_id=message_id, stream=stream)

    def ack(self, message_id):
        self.told.append(("ack", message_id))
        self.acked.append(message_id)

    def fail(self, message_id):
        self.told.append(("fail", message_id))
        self.failed.append(message_id)


class HoldingBolt(Bolt):
    """Holds every tuple until the test acks, fails or passes it on."""

    outputs = STREAMS

    def prepare(self, conf, context, collector):
        self.task_id = context.this_task_id
        self.collector = collector
        self.held = []
        self.seen = []

    def execute(self, tup):
        self.held.append(tup)
        self.seen.append(tup["label"])

    def emit(self, label, *targets, anchors=None, stream="default"):
        return self.collector.emit([label, list(targets)], anchors=anchors, stream=stream)

    def take(self, label):
        """Remove and return the oldest held tuple with that label."""
        tup = next(tup for tup in self.held if tup["label"] == label)
        self.held.remove(tup)
        return tup

    def ack(self, label):
        self.collector.ack(self.take(label))

    def fail(self, label):
        self.collector.fail(self.take(label))

    def ack_all(self):
        while self.held:
            self.collector.ack(self.held.pop(0))


class Mesh:
    """Several slots and the wire between them; frames wait on the wire until they are moved."""

    def __init__(self, topology, slots, conf=None, rng=None):
        conf = {"topology.message.timeout.secs": TIMEOUT_SECS, **(conf or {})}
        self.plan = make_plan(topology, resolve(conf), "mesh-1-0", slots)
        self.clock = HandClock()
        self.rng = rng or CountingRandom(1)
        self.wire = []
        components = pickle_components(self.plan)
        self.slots = [Slot(self.plan, number, components, self.clock, self.rng) for number in range(slots)]
        for slot in self.slots:
            slot.open()
            slot.active = True
        for slot in self.slots:
            slot.turn()  # This turn activates the spouts. From here on nothing happens unless the test causes it.

    def task(self, component_id, index=0):
        task_id = self.plan.tasks[component_id][index]
        return self.slots[self.plan.slot_of[task_id]].tasks[task_id]

    def spout(self, component_id="spout", index=0):
        return self.task(component_id, index).spout

    def bolt(self, component_id="bolt", index=0):
        return self.task(component_id, index).bolt

    def tasks(self, component_id):
        return self.plan.tasks[component_id]

    def turn(self, number):
        """Turn one slot and put its frames on the wire; return whether anything happened."""
        busy = self.slots[number].turn()
        frames = self.slots[number].take()
        self.wire.extend(frames)
        return busy or bool(frames)

    def move(self, index=0):
        self.carry(self.wire.pop(index))

    def carry(self, frame):
        self.slots[self.plan.slot_of[frame.target]].deliver([frame])

    def settle(self):
        """Turn slots and move frames until nothing happens, without moving the clock."""
        happened = True
        while happened:
            happened = sum(self.turn(number) for number in range(len(self.slots))) + len(self.wire)
            while self.wire:
                self.move()

    def advance(self, secs):
        self.clock.now += secs
        self.settle()

    def leftovers(self):
        """Return the entries of trees in all slots: empty if nothing is in flight and nothing has leaked."""
        found = Counter()
        for slot in self.slots:
            found["branches"] += len(slot.outbox.branches)
            for task in slot.spouts:
                found["pending"] += len(task.pending)
                found["left"] += len(task._left)
                found["ledger"] += len(task._ledger)
        return +found

    def unsettled(self, slot):
        """Return the unsettled tuples in a slot: queued, or held by a bolt."""
        for task in slot.bolts:
            for tup in [*task.inbox, *task.backlog[task._at :], *task.bolt.held]:
                if tup._tree is not SETTLED:
                    yield tup

    def open_by_part(self, slot):
        """Return {subtree: its number of unsettled tuples}, counted from the tuples themselves."""
        found = Counter()
        joints = set()
        for tup in self.unsettled(slot):
            found[tup._tree] += 1
            if isinstance(tup._tree, Joint):
                joints.add(tup._tree)
        found.update(parent for joint in joints for parent in joint.parents)
        return found


def web(spouts=1, bolts=3):
    """Build one spout and one bolt; each of their tasks can send to each task of the bolt."""
    builder = TopologyBuilder()
    builder.set_spout("spout", ScriptedSpout(), spouts)
    declarer = builder.set_bolt("bolt", HoldingBolt(), bolts)
    for source in ("spout", "bolt"):
        for stream in STREAMS:
            declarer.custom_grouping(source, ToNamedTasks(), stream)
    return builder.create_topology()


def web_mesh(slots=2, spouts=1, bolts=None, **options):
    """A web whose bolt has one task in each slot, or `bolts` tasks dealt over them."""
    return Mesh(web(spouts, bolts or slots), slots, **options)
