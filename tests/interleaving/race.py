"""A race of real threads in the engine, against a model that knows what becomes of every message.

    python -m tests.interleaving.race --roots 10000000 --switch-interval 0.000001

Two slots, turned by one thread. Beside it work the threads of bolts that are set aside, and threads that bolts have
started themselves. The judge fails each third message; all others must be acked, and no message may be told otherwise.
"""

from __future__ import annotations

import argparse
import queue
import random
import sys
import threading
import time

from pystorm_spark.clock import SystemClock
from pystorm_spark.core import CORE
from pystorm_spark.runtime.components import pickle_components
from pystorm_spark.runtime.plan import make_plan
from pystorm_spark.runtime.slot import Slot
from pystorm_spark.topology.builder import TopologyBuilder
from pystorm_spark.topology.component import Bolt, Spout
from pystorm_spark.topology.config import resolve

SLOTS = 2
FAILING = 3  # each third message fails
GIVE_UP_SECS = 60.0  # without any outcome
TOLD_SECS = 5.0


class Numbers(Spout):
    """Emits numbers, and checks what it is told of each."""

    outputs = ("number",)

    def open(self, conf, context, collector):
        self.collector = collector
        self.emitted = self.acked = self.failed = 0
        self.most = 0
        self.wrong = []

    def next_tuple(self):
        if self.emitted < self.most:
            self.emitted += 1
            self.collector.emit([self.emitted], message_id=self.emitted)

    def ack(self, number):
        self.acked += 1
        if number % FAILING == 0:
            self.wrong.append(("acked", number))

    def fail(self, number):
        self.failed += 1
        if number % FAILING:
            self.wrong.append(("failed", number))


class Quick(Bolt):
    """Acks; every now and then it asks for the id of the tree first."""

    outputs = ()

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        if tup[0] % 16 == 0:
            assert len(tup.message_id.anchors) == 1
        self.collector.ack(tup)


class Judge(Quick):
    """Fails each third message."""

    def execute(self, tup):
        if tup[0] % FAILING:
            self.collector.ack(tup)
        else:
            self.collector.fail(tup)


class Fan(Quick):
    """Passes tuples on, to several subscribers."""

    outputs = ("number",)

    def execute(self, tup):
        self.collector.emit([tup[0]], anchors=tup)
        self.collector.ack(tup)


class Hands(Fan):
    """Has a thread of its own emit and ack."""

    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        self.waiting = queue.SimpleQueue()
        threading.Thread(target=self.work, daemon=True).start()

    def execute(self, tup):
        self.waiting.put(tup)

    def work(self):
        while (tup := self.waiting.get()) is not None:
            super().execute(tup)

    def cleanup(self):
        self.waiting.put(None)


class Pairs(Fan):
    """Emits for two tuples at a time one that is anchored to both: messages of one fate, as the judge sees them."""

    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        self.first = {}

    def execute(self, tup):
        fate = tup[0] % FAILING == 0
        first = self.first.pop(fate, None)
        if first is None:
            self.first[fate] = tup
            return
        self.collector.emit([first[0]], anchors=[first, tup])
        self.collector.ack(first)
        self.collector.ack(tup)


def topology():
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers())
    builder.set_bolt("quick", Quick(), SLOTS).all_grouping("numbers")
    builder.set_bolt("fan", Fan(), SLOTS).shuffle_grouping("numbers")
    builder.set_bolt("hands", Hands(), SLOTS).shuffle_grouping("numbers")
    builder.set_bolt("pairs", Pairs(), 1).shuffle_grouping("numbers")
    judge = builder.set_bolt("judge", Judge(), SLOTS)
    leaf = builder.set_bolt("leaf", Quick(), SLOTS)
    for source in ("fan", "hands"):
        judge.shuffle_grouping(source)
        leaf.all_grouping(source)
    judge.shuffle_grouping("pairs")
    return builder.create_topology()


class Race:
    """The slots and the threads of the bolts that are set aside."""

    def __init__(self, aside=("quick", "leaf", "fan")):
        conf = resolve({"topology.max.spout.pending": 64, "topology.message.timeout.secs": 1000})
        self.plan = make_plan(topology(), {**conf, "topology.name": "race"}, "race-1", SLOTS)
        components = pickle_components(self.plan)
        self.slots = [Slot(self.plan, n, components, SystemClock(), random.Random(n)) for n in range(SLOTS)]
        self.is_over = False
        self.threads = []
        for slot in self.slots:
            slot.open()
            slot.set_active(True)
            for task in slot.bolts:
                if task.component_id in aside:
                    self.set_aside(slot, task)
        self.spout = self.slots[0].spouts[0].spout

    def set_aside(self, slot, task):
        def serve():
            while not self.is_over:
                if task.inbox or task.backlog:
                    task.run_aside(time.monotonic())
                else:
                    time.sleep(0.00001)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        slot.set_aside(task, thread.ident, lambda: None)
        self.threads.append(thread)

    def run(self, roots, tell=lambda text: None):
        """Emit so many messages, and turn the slots until each has had its outcome; what was told wrongly."""
        spout = self.spout
        spout.most = roots + (-roots % (2 * FAILING))  # so that pairs come out even
        done, moved_at, tell_at = 0, time.monotonic(), time.monotonic() + TOLD_SECS
        while done < spout.most:
            self.turn()
            now = time.monotonic()
            if spout.acked + spout.failed > done:
                done, moved_at = spout.acked + spout.failed, now
            assert now < moved_at + GIVE_UP_SECS, f"{spout.most - done} of {spout.most} messages have no outcome"
            if now > tell_at:
                tell_at = now + TOLD_SECS
                tell(f"{done:,} of {spout.most:,}, told wrongly: {len(spout.wrong)}")
        return spout.wrong

    def turn(self):
        for slot in self.slots:
            slot.turn()
            for frame in slot.take():
                self.slots[self.plan.slot_of[frame.target]].deliver([frame])

    def close(self):
        self.is_over = True
        for thread in self.threads:
            thread.join()
        for slot in self.slots:
            slot.close()


def race(roots, switch_interval, tell=lambda text: None):
    """What was told wrongly in a race of so many messages."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(switch_interval)
    run = Race()
    try:
        return run.run(roots, tell)
    finally:
        run.close()
        sys.setswitchinterval(before)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--roots", type=int, default=100_000)
    parser.add_argument("--switch-interval", type=float, default=1e-6)
    asked = parser.parse_args()
    wrong = race(asked.roots, asked.switch_interval, print)
    print(f"{asked.roots:,} roots on the {CORE} core, told wrongly: {len(wrong)} {wrong[:5] or ''}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
