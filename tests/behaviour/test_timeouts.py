"""Message timeouts: a tree that takes too long fails between once and twice the timeout after its emit."""

import pytest

from pystorm_spark import InvalidConfigError, TopologyBuilder, is_tick
from tests.behaviour.engine import (
    LONG_TIME,
    OTHER_FRAMES,
    STANDING_TIME,
    advance,
    chain,
    component,
    run,
    run_until_idle,
)
from tests.behaviour.probes import (
    Does,
    Fed,
    Holder,
    Replaying,
    Rows,
    Sink,
    Starts,
    acks,
    feed,
    holds,
    note,
    noted,
    numbers,
    passes_on,
)

T = 1
CONF = {"topology.message.timeout.secs": T}


@pytest.mark.local_only(STANDING_TIME)
def test_a_tree_does_not_fail_before_the_timeout(cluster):
    run(cluster, chain(numbers(1), Does(holds)), CONF)

    advance(cluster, 0.99 * T)

    assert noted("failed") == []
    assert cluster.topology_info("topology").pending == 1


def test_a_tree_has_failed_after_twice_the_timeout(cluster):
    run(cluster, chain(numbers(1), Does(holds)), CONF)

    advance(cluster, 2 * T)

    assert noted("failed") == [0]
    assert cluster.topology_info("topology").pending == 0


@pytest.mark.local_only(STANDING_TIME)
@pytest.mark.parametrize("emitted_at", [0.05, 0.5, 0.99, 1.01, 1.3])
def test_the_timeout_counts_from_the_emit(cluster, emitted_at):
    run(cluster, chain(Fed(), Does(holds)), CONF)
    advance(cluster, emitted_at * T)
    feed("spout", ["a"], 1)
    run_until_idle(cluster)

    advance(cluster, 0.99 * T)
    assert noted("failed by spout") == []
    advance(cluster, 1.01 * T)
    assert noted("failed by spout") == [1]


def test_a_tree_times_out_once(cluster):
    run(cluster, chain(numbers(1), Does(holds)), CONF)

    advance(cluster, 4 * T)

    assert noted("failed") == [0]
    assert component(cluster, "spout").failed == 1


def test_a_timeout_does_not_count_as_a_fail_of_the_bolt(cluster):
    run(cluster, chain(numbers(1), Does(holds)), CONF)

    advance(cluster, 2 * T)

    assert component(cluster, "a").failed == 0
    assert component(cluster, "spout").errors == []


@pytest.mark.local_only(STANDING_TIME)
def test_a_complete_tree_does_not_time_out(cluster):
    run(cluster, chain(numbers(3), Does(passes_on, ["value"]), Does(acks)), CONF)

    advance(cluster, 3 * T)

    assert (noted("acked"), noted("failed")) == ([0, 1, 2], [])


@pytest.mark.local_only(STANDING_TIME)
def test_only_pending_trees_time_out(cluster):
    def holds_one(bolt, tup):
        if tup[0] != 1:
            bolt.collector.ack(tup)

    run(cluster, chain(numbers(3), Does(holds_one)), CONF)
    advance(cluster, 2 * T)

    assert (noted("acked"), noted("failed")) == ([0, 2], [1])


def test_a_timeout_may_be_a_fraction_of_a_second(cluster):
    run(cluster, chain(numbers(1), Does(holds)), {"topology.message.timeout.secs": 0.25})

    advance(cluster, 0.5)

    assert noted("failed") == [0]


def test_a_tree_with_two_roots_times_out_for_each(cluster):
    def joins(bolt, tup):
        bolt.held.append(tup)
        if len(bolt.held) == 2:
            bolt.collector.emit(["both"], anchors=bolt.held)
            for held in bolt.held:
                bolt.collector.ack(held)

    run(cluster, chain(numbers(2), Does(joins, ["value"]), Does(holds)), CONF)
    advance(cluster, 2 * T)

    assert sorted(noted("failed")) == [0, 1]


RESETTING = {"topology.message.timeout.secs": 2, "topology.tick.tuple.freq.secs": 0.5}


class ResetsOnTick:
    """Holds data, and resets its timeout at each tick, or only at the first ones."""

    def __init__(self, ticks=1000):
        self.ticks = ticks

    def __call__(self, bolt, tup):
        if not is_tick(tup):
            bolt.held.append(tup)
            return
        self.ticks -= 1
        if self.ticks >= 0:
            for held in bolt.held:
                bolt.collector.reset_timeout(held)


@pytest.mark.local_only(STANDING_TIME)
def test_reset_timeout_keeps_a_tree_pending(cluster):
    run(cluster, chain(numbers(1), Does(ResetsOnTick(10))), RESETTING)

    advance(cluster, 5)
    assert noted("failed") == []
    advance(cluster, 4)
    assert noted("failed") == [0]


def test_reset_timeout_by_a_tuple_deep_in_the_tree_keeps_its_root_pending(cluster):
    run(cluster, chain(numbers(1), Does(passes_on, ["value"]), Does(ResetsOnTick())), RESETTING)
    advance(cluster, 5)

    assert noted("failed") == []


def test_reset_timeout_of_a_tuple_with_two_roots_keeps_both_pending(cluster):
    def joins(bolt, tup):
        if is_tick(tup):
            return
        bolt.held.append(tup)
        if len(bolt.held) == 2:
            bolt.collector.emit(["both"], anchors=bolt.held)
            for held in bolt.held:
                bolt.collector.ack(held)

    run(cluster, chain(numbers(2), Does(joins, ["value"]), Does(ResetsOnTick())), RESETTING)
    advance(cluster, 5)

    assert noted("failed") == []


def test_reset_timeout_of_untracked_and_settled_tuples_does_nothing(cluster):
    def execute(bolt, tup):
        bolt.collector.reset_timeout(tup)
        bolt.collector.ack(tup)
        bolt.collector.reset_timeout(tup)

    run(cluster, chain(Rows([["tracked"], ["untracked"]], ids=[0, None]), Does(execute)), CONF)

    assert noted("acked") == [0]
    assert component(cluster, "a").errors == []


@pytest.mark.local_only(STANDING_TIME)
def test_a_late_ack_is_ignored_and_does_not_affect_the_replay(cluster):
    """The old tuple and its replay are in the bolt at the same time; only the replay's ack counts."""

    def execute(bolt, tup):
        if is_tick(tup):
            return
        bolt.held.append(tup)
        if len(bolt.held) == 2:
            bolt.collector.ack(bolt.held[0])

    run(cluster, chain(Replaying([["a"]]), Does(execute)), CONF)
    advance(cluster, 2 * T)

    assert (noted("failed"), noted("acked")) == ([0], [])
    assert component(cluster, "a").executed == 2
    assert cluster.topology_info("topology").pending == 1


@pytest.mark.local_only(STANDING_TIME)
def test_the_replay_of_a_timed_out_tuple_is_acked_once_it_is_done(cluster):
    def acks_the_second(bolt, tup):
        if bolt.held:
            bolt.collector.ack(tup)
        bolt.held.append(tup)

    run(cluster, chain(Replaying([["a"]]), Does(acks_the_second)), CONF)
    advance(cluster, 3 * T)

    assert (noted("failed"), noted("acked")) == ([0], [0])


@pytest.mark.every_case(OTHER_FRAMES)
@pytest.mark.parametrize("verdict", ["ack", "fail"])
def test_acks_and_fails_after_the_timeout_are_ignored(cluster, verdict):
    run(cluster, chain(Fed(), Holder()), CONF)
    feed("spout", ["late"], 1)
    run_until_idle(cluster)
    advance(cluster, 2 * T)
    feed("spout", [verdict], None)
    run_until_idle(cluster)

    assert (noted("failed by spout"), noted("acked by spout")) == ([1], [])


def test_a_timed_out_tuple_is_not_cancelled(cluster):
    def passes_on_at_the_word(bolt, tup):
        bolt.held.append(tup)
        if tup[0] == "go":
            bolt.collector.emit(["old"], anchors=bolt.held[0])

    run(cluster, chain(Fed(), Does(passes_on_at_the_word, ["value"]), Sink()), CONF)
    feed("spout", ["a"], 1)
    run_until_idle(cluster)
    advance(cluster, 2 * T)
    feed("spout", ["go"], None)
    run_until_idle(cluster)

    assert noted("b") == [["old"]]
    assert noted("failed by spout") == [1]


@pytest.mark.local_only(LONG_TIME)
def test_timeouts_can_be_switched_off(cluster):
    conf = {**CONF, "topology.enable.message.timeouts": False}

    run(cluster, chain(numbers(1), Does(holds)), conf)
    advance(cluster, 100 * T)

    assert noted("failed") == []
    assert cluster.topology_info("topology").pending == 1


def test_no_timeouts_and_max_spout_pending_are_refused_together(cluster):
    conf = {"topology.enable.message.timeouts": False, "topology.max.spout.pending": 10}

    with pytest.raises(InvalidConfigError, match=r"topology\.max\.spout\.pending.*topology\.enable\.message\.timeouts"):
        cluster.submit_topology("topology", conf, chain(numbers(1)))
    assert cluster.list_topologies() == []


def test_no_timeouts_and_max_spout_pending_of_one_spout_are_refused_together(cluster):
    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers(1)).set_max_spout_pending(10)

    with pytest.raises(InvalidConfigError, match="'numbers'"):
        cluster.submit_topology("topology", {"topology.enable.message.timeouts": False}, builder.create_topology())


def test_a_spout_at_max_spout_pending_goes_on_after_a_timeout(cluster):
    run(cluster, chain(numbers(4), Does(holds)), {**CONF, "topology.max.spout.pending": 2})
    advance(cluster, 2 * T)

    assert noted("failed")[:2] == [0, 1]
    assert component(cluster, "a").executed == 4


def test_trees_time_out_while_the_topology_is_deactivated(cluster):
    run(cluster, chain(numbers(1), Does(holds)), CONF)
    cluster.deactivate("topology")

    advance(cluster, 2 * T)

    assert noted("failed") == [0]


@pytest.mark.local_only(STANDING_TIME)
def test_complete_latency_is_the_time_from_emit_to_ack(cluster):
    def acks_on_tick(bolt, tup):
        if is_tick(tup):
            bolt.collector.ack(bolt.held.pop())
        else:
            bolt.held.append(tup)

    run(cluster, chain(numbers(1), Does(acks_on_tick)), {"topology.tick.tuple.freq.secs": 4})
    advance(cluster, 4)

    assert component(cluster, "spout").complete_latency_ms == pytest.approx(4000)
    assert component(cluster, "a").process_latency_ms == pytest.approx(4000)


@pytest.mark.local_only(STANDING_TIME)
def test_a_replay_from_fail_has_its_own_latency(cluster):
    """`fail` runs right after the clock has moved: the replay's latency counts from then, not from an earlier time."""

    def acks_the_second(bolt, tup):
        if bolt.held:
            bolt.collector.ack(tup)
        bolt.held.append(tup)

    class EmitsInFail(Starts):
        def fail(self, message_id):
            note("failed", message_id)
            self.collector.emit(["again"], message_id=message_id)

    spout = EmitsInFail(lambda spout: spout.collector.emit(["a"], message_id=0))
    run(cluster, chain(spout, Does(acks_the_second)), CONF)
    advance(cluster, 5 * T)

    assert (noted("failed"), noted("acked")) == ([0], [0])
    assert component(cluster, "spout").complete_latency_ms == 0
