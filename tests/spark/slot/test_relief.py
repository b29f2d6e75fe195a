"""Relief: what happens in a slot while one of its bolts is held up, with threads and without Spark."""

import queue
import random
import sqlite3
import threading
import time

import pytest

from pystorm_spark import Bolt, Spout, TopologyBuilder
from pystorm_spark.clock import SystemClock
from pystorm_spark.runtime.components import pickle_components
from pystorm_spark.runtime.plan import make_plan
from pystorm_spark.runtime.slot import Slot
from pystorm_spark.spark.slot import relief as relief_module
from pystorm_spark.spark.slot.relief import Relief
from pystorm_spark.spark.slot.turners import Turners
from pystorm_spark.topology.config import resolve
from tests.spark.components import wait_until

SLOW_SECS = 0.05


class Counter(Spout):
    """Emits the numbers below `count`."""

    outputs = ("number",)

    def __init__(self, count):
        self.count = count

    def open(self, conf, context, collector):
        self.collector = collector
        self.next, self.acked, self.failed = 0, [], []

    def next_tuple(self):
        if self.next < self.count:
            self.next += 1
            self.collector.emit([self.next - 1], message_id=self.next - 1)

    def ack(self, message_id):
        self.acked.append(message_id)

    def fail(self, message_id):
        self.failed.append(message_id)
        self.whys = [*getattr(self, "whys", ()), self.collector.why]


class Gated(Bolt):
    """Waits for a gate on some numbers, and passes them on."""

    outputs = ("number",)

    def __init__(self, *numbers):
        self.numbers = numbers

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.gate, self.is_held, self.threads = threading.Event(), threading.Event(), []

    def execute(self, tup):
        self.threads.append(threading.get_ident())
        if tup[0] in self.numbers:
            self.is_held.set()
            assert self.gate.wait(60)
        self.collector.emit(tup, [tup[0]])
        self.collector.ack(tup)


class Lingering(Bolt):
    """Takes long each time."""

    outputs = ("number",)

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.threads = []

    def execute(self, tup):
        self.threads.append(threading.get_ident())
        threading.Event().wait(4 * SLOW_SECS)
        self.collector.ack(tup)


class Chatty(Bolt):
    """Is in the engine's code most of the time, and takes long all the same."""

    outputs = ("number",)

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        until = time.monotonic() + 3 * SLOW_SECS
        while time.monotonic() < until:
            self.collector.emit(tup, [tup[0]])
        self.collector.ack(tup)


class Raising(Gated):
    """Raises, or fails its tuple, once it has a thread of its own."""

    def execute(self, tup):
        if tup[0] == 1:
            raise ValueError("of the user")
        if tup[0] == 2:
            self.collector.fail(tup)
            return
        super().execute(tup)


class Seen(Bolt):
    def prepare(self, conf, context, collector):
        self.collector = collector
        self.seen = []

    def execute(self, tup):
        self.seen.append(tup[0])
        self.collector.ack(tup)


class Database(Seen):
    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        self.connection = sqlite3.connect(":memory:")


class Turned:
    """A slot that threads turn, as those of a slot process do."""

    def __init__(self, slow, fast=None, count=20):
        builder = TopologyBuilder()
        builder.set_spout("slow-numbers", Counter(count))
        builder.set_bolt("slow", slow).shuffle_grouping("slow-numbers")
        builder.set_bolt("after", Seen()).shuffle_grouping("slow")
        builder.set_spout("fast-numbers", Counter(10**9))
        builder.set_bolt("fast", fast or Seen()).shuffle_grouping("fast-numbers")
        topology = builder.create_topology()
        conf = resolve({"topology.max.spout.pending": 50})
        plan = make_plan(topology, conf, "t-1", 1)
        self.slot = Slot(plan, 0, pickle_components(plan), SystemClock(), random.Random(1))
        self.slot.open()
        self.slot.active = True
        self.errors = []
        self.turners = Turners(self.slot.turn, lambda idle_turns: time.sleep(0.001), self.errors.append)
        self.relief = Relief(self.slot, SLOW_SECS)
        self.first = threading.Thread(target=self.turners.run, args=(self.relief,))
        self.first.start()

    def user(self, component):
        return next(task.component() for task in self.slot.tasks.values() if task.component_id == component)

    def end(self):
        self.turners.stop()
        self.first.join(60)
        assert not self.first.is_alive()
        self.slot.close()
        assert self.errors == []


@pytest.fixture
def turned():
    started = []

    def start(*args, **options):
        started.append(Turned(*args, **options))
        return started[-1]

    yield start
    for each in started:
        each.end()


def goes_on(spout):
    """Whether a spout gets acks from now on."""
    before = len(spout.acked)
    wait_until(lambda: len(spout.acked) > before + 100)


def test_the_other_tasks_go_on_while_a_bolt_is_held_up(turned):
    slot = turned(Gated(3, 4))
    slow, fast = slot.user("slow"), slot.user("fast-numbers")
    assert slow.is_held.wait(60)
    goes_on(fast)
    assert sorted(slot.user("slow-numbers").acked) == [0, 1, 2]
    slow.gate.set()
    wait_until(lambda: len(slot.user("slow-numbers").acked) == 20)
    assert sorted(slot.user("slow-numbers").acked) == list(range(20))
    assert slot.user("after").seen == list(range(20))
    assert (slot.user("slow-numbers").failed, fast.failed) == ([], [])
    stats = {task.component_id: task.counted() for task in slot.slot.tasks.values()}
    assert (stats["slow"].executed, stats["slow"].acked, stats["slow"].emitted) == (20, 20, 20)


def test_a_bolt_stays_with_the_thread_that_it_holds(turned):
    slot = turned(Gated(0, 7))
    slow = slot.user("slow")
    assert slow.is_held.wait(60)
    goes_on(slot.user("fast-numbers"))
    slow.gate.set()
    wait_until(lambda: len(slot.user("slow-numbers").acked) == 20)
    assert set(slow.threads) == {slot.first.ident}


def test_what_a_bolt_in_its_own_thread_raises_comes_of_nothing_of_ours(turned):
    slot = turned(Raising(0))
    slow, numbers = slot.user("slow"), slot.user("slow-numbers")
    assert slow.is_held.wait(60)
    goes_on(slot.user("fast-numbers"))
    slow.gate.set()
    wait_until(lambda: len(numbers.acked) == 18)
    wait_until(lambda: sorted(numbers.failed) == [1, 2])

    task = next(task for task in slot.slot.tasks.values() if task.component_id == "slow")
    assert "Relieved" not in task.errors[-1].traceback
    assert [why.partition(" ")[2] for why in numbers.whys] == ["ValueError: of the user", "failed it"]


def test_every_bolt_that_is_held_up_has_its_own_thread(turned):
    slot = turned(Gated(0), Gated(5))
    slow, fast = slot.user("slow"), slot.user("fast")
    assert slow.is_held.wait(60)
    assert fast.is_held.wait(60)
    wait_until(lambda: len(slot.turners._took_over) == 2)
    slow.gate.set()
    wait_until(lambda: len(slot.user("slow-numbers").acked) == 20)
    fast.gate.set()
    goes_on(slot.user("fast-numbers"))


def test_a_bolt_that_is_quick_again_goes_back_to_the_others(turned, monkeypatch):
    monkeypatch.setattr(relief_module, "QUICK_SECS", 0.1)
    slot = turned(Gated(0), count=10**9)
    slow = slot.user("slow")
    assert slow.is_held.wait(60)
    goes_on(slot.user("fast-numbers"))
    slow.gate.set()
    wait_until(lambda: len(set(slow.threads)) == 2)
    goes_on(slot.user("slow-numbers"))
    assert not slot.slot._aside


def test_nothing_is_kept_of_threads_that_have_stayed_with_a_bolt(turned, monkeypatch):
    monkeypatch.setattr(relief_module, "QUICK_SECS", 0.0)
    slot = turned(Lingering(), count=8)
    slow, turners = slot.user("slow"), slot.turners
    wait_until(lambda: len(slot.user("slow-numbers").acked) == 8)

    assert len(set(slow.threads)) >= 2
    # The one that turns the slot now is the last one that took it over.
    wait_until(lambda: len(turners._took_over) == 1, secs=10)
    wait_until(lambda: not slot.relief._has_work, secs=10)
    assert set(turners._calls_began) <= {turners._took_over[0].ident}


def test_a_bolt_that_is_busy_with_the_engine_loses_and_repeats_nothing(turned):
    slot = turned(Chatty(), count=5)
    numbers = slot.user("slow-numbers")
    wait_until(lambda: len(numbers.acked) == 5)
    assert (sorted(numbers.acked), numbers.failed) == (list(range(5)), [])
    (chatty,) = (task for task in slot.slot.tasks.values() if task.component_id == "slow")
    wait_until(lambda: len(slot.user("after").seen) == chatty.counted().emitted)


def test_a_component_that_one_thread_alone_can_call_forbids_it(turned, caplog):
    slot = turned(Gated(0), Database())
    slow, fast = slot.user("slow"), slot.user("fast-numbers")
    assert slow.is_held.wait(60)
    wait_until(lambda: "'fast' has a connection to SQLite" in caplog.text)
    acked = len(fast.acked)
    time.sleep(3 * SLOW_SECS)
    assert len(fast.acked) == acked
    slow.gate.set()
    goes_on(fast)
    assert not slot.turners._took_over


class Hostile:
    """Changes what holds it, or raises, when it is asked for its class."""

    def __init__(self, deed):
        self.deed = deed

    @property
    def __class__(self):
        self.deed()
        return Hostile


@pytest.mark.parametrize("deed", ["adds", "raises"])
def test_relief_runs_no_code_of_what_a_component_holds(deed):
    bolt = Seen()

    def add():
        setattr(bolt, f"more{len(vars(bolt))}", 0)

    def refuse():
        raise ValueError("ask somebody else")

    bolt.first, bolt.last = Hostile({"adds": add, "raises": refuse}[deed]), 0
    assert not relief_module._is_bound(bolt)


class Held:
    """Stands for the relief of a slot that is held up."""

    def take_over(self):
        return True


class Broken:
    def take_over(self):
        raise RuntimeError("broken")


@pytest.mark.parametrize("relief", [Broken(), Held()], ids=["the look fails", "there are no more threads"])
def test_a_slot_ends_when_nobody_can_relieve_its_thread_any_more(relief, monkeypatch):
    """Else it would live on, and nobody would turn it."""
    crashes, looks_out, started = queue.SimpleQueue(), Turners._look_out, []

    def once(turners, relief):
        if started:
            raise RuntimeError("can't start new thread")
        started.append(relief)
        looks_out(turners, relief)

    monkeypatch.setattr(Turners, "_look_out", once)
    turners = Turners(lambda: False, lambda idle_turns: time.sleep(0.001), crashes.put)
    first = threading.Thread(target=turners.run, args=(relief,))
    first.start()

    assert isinstance(crashes.get(timeout=60), RuntimeError)
    turners.stop()
    first.join(60)
    assert not first.is_alive()


def test_a_batch_that_was_nearly_taken_over_is_over_for_the_next_look():
    """Else a slot that has nothing to do would be taken from a thread that nothing holds up."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", Counter(0))
    builder.set_bolt("seen", Seen()).shuffle_grouping("numbers")
    plan = make_plan(builder.create_topology(), resolve({}), "t-1", 1)
    slot = Slot(plan, 0, pickle_components(plan), SystemClock(), random.Random(1))
    (task,) = slot.bolts
    slot.slot_context.executing = task
    relief = Relief(slot, SLOW_SECS)
    assert not relief.is_relieved()
    assert slot.slot_context.executing is None
