"""Spouts whose position is part of the commit."""

import threading

import pytest

from pystorm_spark import DurableSpout, LocalCluster, TopologyBuilder
from pystorm_spark.state import StatefulBolt
from tests.behaviour.engine import ONE_PROCESS, advance, chain, component, run
from tests.behaviour.probes import Sink, note, noted

SOON = {"topology.state.checkpoint.interval.ms": 100, "topology.message.timeout.secs": 10}
EXACTLY_ONCE = {**SOON, "topology.state.guarantee": "exactly-once"}
COUNT = 40
ONCE_EACH = dict.fromkeys(range(COUNT), 1)
both_guarantees = pytest.mark.parametrize("conf", [SOON, EXACTLY_ONCE], ids=["at-least-once", "exactly-once"])


class Log(DurableSpout):
    """Emits the numbers up to `COUNT`, a few at a time; its position is the first one that is not settled."""

    outputs = ("number",)

    def __init__(self, known=None):
        self.known = known  # by the source itself

    def open(self, conf, context, collector):
        self.collector = collector
        self.go_to(self.known or 0)
        context.call_every(0.05, self.let_some_in)

    def go_to(self, position):
        self.first = self.next = position
        self.most = position
        self.done, self.again = set(), []

    def let_some_in(self):
        self.most = min(COUNT, self.most + 5)

    def init_position(self, position):
        note("init", position)
        if position is not None:
            self.go_to(position)

    def rollback_position(self, position):
        note("rollback", position)
        self.go_to(position or 0)

    def settled(self, message_ids):
        self.done.update(message_ids)
        while self.first in self.done:
            self.done.remove(self.first)
            self.first += 1

    def position(self):
        return self.first

    def next_tuple(self):
        if self.again:
            self.emit(self.again.pop())
        elif self.next < self.most:
            self.next += 1
            self.emit(self.next - 1)

    def emit(self, number):
        note("emitted", number)
        self.collector.emit([number], message_id=number)

    def ack(self, message_id):
        note("acked", message_id)

    def fail(self, message_id):
        note("failed", message_id)
        self.again.append(message_id)


class Counts(StatefulBolt):
    """Counts each number; does `deed(bolt, tup)` the first time that 17 comes."""

    def __init__(self, deed=None):
        self.deed = deed

    def prepare(self, conf, context, collector):
        self.collector = collector

    def init_state(self, state):
        self.state = state

    def execute(self, tup):
        self.state.put(tup[0], self.state.get(tup[0], 0) + 1)
        if tup[0] == 17 and self.deed is not None and not noted("deeds"):
            note("deeds", 1)
            self.deed(self, tup)
        else:
            self.collector.ack(tup)


def crashes(bolt, tup):
    raise ValueError("the slot shall die")


def fails(bolt, tup):
    bolt.collector.fail(tup)


def topology(deed=None, known=None):
    builder = TopologyBuilder()
    builder.set_spout("log", Log(known))
    builder.set_bolt("counts", Counts(deed), 2).fields_grouping("log", "number")
    return builder.create_topology()


def run_to_the_end(cluster, built, conf):
    run(cluster, built, conf)
    for _ in range(20):
        advance(cluster, 1)
        if set(noted("acked")) == set(range(COUNT)):
            break
    advance(cluster, 1)
    return cluster.read_state("topology", "counts")


@both_guarantees
def test_each_number_is_counted_once_where_nothing_fails(cluster, conf):
    assert run_to_the_end(cluster, topology(), conf) == ONCE_EACH
    assert sorted(noted("acked")) == list(range(COUNT))
    assert noted("init") == [None]


def test_after_a_crash_the_spout_goes_on_behind_the_last_commit(cluster):
    conf = {**EXACTLY_ONCE, "topology.bolt.on.error": "restart"}

    assert run_to_the_end(cluster, topology(crashes), conf) == ONCE_EACH
    assert noted("deeds") == [1]
    assert noted("failed") == []


def test_after_a_crash_nothing_is_lost_at_least_once(cluster):
    found = run_to_the_end(cluster, topology(crashes), {**SOON, "topology.bolt.on.error": "restart"})

    assert found.keys() == ONCE_EACH.keys()
    assert noted("deeds") == [1]


def test_a_failed_tree_rolls_the_position_back(cluster):
    assert run_to_the_end(cluster, topology(fails), EXACTLY_ONCE) == ONCE_EACH
    assert len(noted("rollback")) == 1
    assert noted("failed") == []


def test_at_least_once_a_failed_message_is_the_spouts_concern(cluster):
    found = run_to_the_end(cluster, topology(fails), SOON)

    assert found == {**ONCE_EACH, 17: 2}
    assert (noted("failed"), noted("rollback")) == ([17], [])


@pytest.fixture
def start(cluster, tmp_path):
    """A function: another cluster of the same kind, on one checkpoint."""

    def started():
        if isinstance(cluster, LocalCluster):
            return LocalCluster(simulated_time=True, checkpoint=tmp_path / "checkpoint")
        return type(cluster)(cluster.spark, checkpoint=tmp_path / "checkpoint")

    return started


@both_guarantees
def test_the_checkpoint_goes_before_what_the_source_remembers(start, conf):
    with start() as first:
        found = run_to_the_end(first, topology(), conf)
    with start() as second:
        run(second, topology(known=3), conf)
        advance(second, 1)
        again = second.read_state("topology", "counts")

    assert found == again == ONCE_EACH
    assert noted("init") == [None, COUNT]
    assert sorted(noted("emitted")) == list(range(COUNT))


def test_the_first_position_is_committed_though_nothing_comes(start):
    class Latest(Log):
        def open(self, conf, context, collector):
            self.collector = collector
            self.go_to(COUNT)  # the end of a source that has nothing new

    for _ in range(2):
        with start() as cluster:
            run(cluster, chain(Latest(), Sink()), SOON)
            advance(cluster, 1)

    assert noted("init") == [None, COUNT]


def test_a_position_that_raises_is_no_commit(cluster):
    class Raises(Log):
        def position(self):
            if not noted("raised"):
                note("raised", 1)
                raise ValueError("not now")
            return self.first

    builder = TopologyBuilder()
    builder.set_spout("log", Raises())
    builder.set_bolt("counts", Counts()).shuffle_grouping("log")

    assert run_to_the_end(cluster, builder.create_topology(), EXACTLY_ONCE) == ONCE_EACH
    assert [error.exception for error in component(cluster, "log").errors] == ["ValueError: not now"]


class ByTimer(DurableSpout):
    """Emits the numbers up to `COUNT` by a timer; with exactly-once a counter does for a position."""

    outputs = ("number",)

    def open(self, conf, context, collector):
        self.collector = collector
        self.go_to(0)
        self.begin(context)

    def begin(self, context):
        context.call_every(0.05, self.emit_next)

    def go_to(self, position):
        self.next = position or 0

    init_position = rollback_position = go_to

    def position(self):
        return self.next

    def next_tuple(self):
        pass

    def emit_next(self):
        if self.next < COUNT:
            self.next += 1
            self.collector.emit([self.next - 1], message_id=self.next)


class ByIdle(ByTimer):
    def begin(self, context):
        pass

    def idle(self):
        self.emit_next()


class CountsByTick(Counts):
    """Holds its input until a tick comes."""

    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        self.waiting = []

    def component_configuration(self):
        return {"topology.tick.tuple.freq.secs": 0.3}

    def execute(self, tup):
        if tup.source_component != "__system":
            self.waiting.append(tup)
            return
        waiting, self.waiting = self.waiting, []
        for held in waiting:
            super().execute(held)
        self.collector.ack(tup)


@pytest.mark.parametrize("spout", [ByTimer, ByIdle])
@pytest.mark.parametrize("deed", [crashes, fails])
def test_what_is_emitted_outside_next_tuple_waits_for_a_commit_whole(cluster, spout, deed):
    builder = TopologyBuilder()
    builder.set_spout("log", spout())
    builder.set_bolt("counts", CountsByTick(deed)).global_grouping("log")
    run(cluster, builder.create_topology(), {**EXACTLY_ONCE, "topology.bolt.on.error": "restart"})
    for _ in range(8):
        advance(cluster, 1)

    assert noted("deeds") == [1]
    assert cluster.read_state("topology", "counts") == ONCE_EACH


class InReach(ByTimer):
    """Its position ends before the first message that is not settled, so that its emits may come from any thread."""

    most = 20  # before the rollback

    def begin(self, context):
        the_spout[:] = [self]

    def go_to(self, position):
        super().go_to(position)
        self.first = self.next

    def rollback_position(self, position):
        self.go_to(position)
        self.most = COUNT

    init_position = go_to

    def next_tuple(self):
        if self.next < self.most:
            self.emit_next()

    def settled(self, message_ids):
        self.first = max([self.first, *message_ids])

    def position(self):
        return self.first


the_spout = []  # of this process


def has_a_thread_emit_and_fails(bolt, tup):
    emitter = threading.Thread(target=the_spout[0].emit_next)
    emitter.start()
    emitter.join()
    bolt.collector.fail(tup)


@pytest.mark.local_only(ONE_PROCESS)
def test_what_a_thread_has_emitted_before_a_rollback_is_emitted_once_more_and_not_twice(cluster):
    builder = TopologyBuilder()
    builder.set_spout("log", InReach())
    builder.set_bolt("counts", CountsByTick(has_a_thread_emit_and_fails)).global_grouping("log")

    run(cluster, builder.create_topology(), EXACTLY_ONCE)
    for _ in range(3):
        advance(cluster, 1)

    assert noted("deeds") == [1]
    assert cluster.read_state("topology", "counts") == ONCE_EACH
