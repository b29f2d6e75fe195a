"""StatefulBolt: the calls it gets, when its spouts hear of acks, and what is committed."""

import threading

import pytest

from pystorm_spark import (
    BasicBolt,
    Bolt,
    InvalidTopologyError,
    LocalCluster,
    SlotLostError,
    StormError,
    TopologyBuilder,
)
from pystorm_spark.state import BaseStatefulBolt, IStatefulBolt, StatefulBolt
from pystorm_spark.testing import CaptureBolt, FeederSpout
from tests.state.components import EXACTLY_ONCE, Count, Replaying, Source, counting


def run(cluster, topology, conf=None):
    """Submit a topology and let it work without a commit."""
    handle = cluster.submit_topology("words", conf, topology)
    cluster.wait_until_idle()
    return handle


def fed(*words):
    """A spout that emits each word once, with itself as message id."""
    feeder = FeederSpout(["word"])
    for word in words:
        feeder.feed([word], message_id=word)
    return feeder


# Invalid stateful bolts.


@pytest.mark.parametrize("version", [None, "2", 1.5, True])
def test_a_state_version_that_is_not_an_integer_is_refused(version):
    bolt = Count(Source())
    bolt.state_version = version
    with pytest.raises(InvalidTopologyError, match=f"state_version of Count must be an integer, got {version!r}"):
        counting(Source(), bolt)


@pytest.mark.parametrize("bases", [(BasicBolt, StatefulBolt), (StatefulBolt, BasicBolt)])
def test_a_bolt_that_is_basic_and_stateful_is_refused(bases):
    with pytest.raises(InvalidTopologyError, match="Both is a BasicBolt and a StatefulBolt, but can be only one of"):
        type("Both", bases, {})


# The life of a state.


def test_a_state_is_given_after_prepare_and_before_the_first_execute(cluster):
    source = Source("a")
    run(cluster, counting(source))
    assert source.calls == [("prepare",), ("init_state", {}), ("execute", "a")]


def test_a_state_is_given_without_any_data(cluster):
    source = Source()
    run(cluster, counting(source))
    assert source.calls == [("prepare",), ("init_state", {})]


def test_the_bolt_is_called_before_and_after_a_commit(cluster):
    source = Source("a")
    run(cluster, counting(source))
    source.take_calls()
    cluster.advance_time(1)
    source.add("b")
    cluster.advance_time(2)
    assert source.calls == [
        *[("pre_prepare", 1), ("pre_commit", 1)],
        *[("execute", "b"), ("pre_prepare", 2), ("pre_commit", 2)],
    ]


def test_values_put_in_pre_prepare_belong_to_the_commit(cluster):
    class Stamps(Count):
        def pre_prepare(self, txid):
            self.state.put("txid", txid)

    source = Source("a")
    run(cluster, counting(source, Stamps(source)))
    cluster.advance_time(1)
    assert cluster.read_state("words", "count") == {"a": 1, "txid": 1}


def test_each_task_has_a_state_of_its_own(cluster):
    source = Source(*"abcdefgh")
    run(cluster, counting(source, tasks=3))
    cluster.advance_time(1)
    cluster.rebalance("words")
    given = [call[1] for call in source.calls if call[0] == "init_state"][3:]
    assert all(given)
    assert sorted(word for state in given for word in state) == list("abcdefgh")


class JavaCount(BaseStatefulBolt):
    def __init__(self, source):
        self.calls = source

    def prepare(self, conf, context, collector):
        self.collector = collector

    def initState(self, state):
        super().initState(state)
        self.calls.calls.append("initState")
        self.state = state

    def execute(self, tup):
        self.state.put(tup.getString(0), self.state.get(tup.getString(0), 0) + 1)
        self.collector.fail(tup) if tup[0] == "bad" else self.collector.ack(tup)

    def prePrepare(self, txid):
        super().prePrepare(txid)
        self.calls.calls.append("prePrepare")

    def preCommit(self, txid):
        super().preCommit(txid)
        self.calls.calls.append("preCommit")

    def preRollback(self):
        super().preRollback()
        self.calls.calls.append("preRollback")


def test_a_stateful_bolt_may_be_written_with_the_names_of_java(cluster):
    source = Source("a", "a")
    run(cluster, counting(source, JavaCount(source)), {**EXACTLY_ONCE, "topology.max.replays": 0})
    cluster.advance_time(1)
    source.add("bad")
    cluster.advance_time(1)
    assert IStatefulBolt is BaseStatefulBolt is StatefulBolt
    assert cluster.read_state("words", "count") == {"a": 2}
    assert source.calls[:4] == ["initState", "prePrepare", "preCommit", "preRollback"]


# Acks.


def test_a_spout_gets_an_ack_after_the_commit(cluster):
    source = Source("a", "b")
    run(cluster, counting(source))
    cluster.advance_time(0.9)
    assert (source.acked, cluster.read_state("words", "count")) == ([], {})
    cluster.advance_time(0.2)
    assert (source.acked, cluster.read_state("words", "count")) == ([0, 1], {"a": 1, "b": 1})


def test_a_tree_that_waits_for_a_commit_is_pending(cluster):
    source = Source("a", "b")
    run(cluster, counting(source))
    assert cluster.topology_info("words").pending == 2
    cluster.advance_time(1)
    assert cluster.topology_info("words").pending == 0


def test_a_tree_that_waits_for_a_commit_does_not_time_out(cluster):
    source = Source("a")
    conf = {"topology.state.checkpoint.interval.ms": 60_000, "topology.message.timeout.secs": 5}
    run(cluster, counting(source), conf)
    cluster.advance_time(61)
    assert (source.acked, source.failed) == ([0], [])


def test_the_interval_between_commits_can_be_set(cluster):
    source = Source("a")
    run(cluster, counting(source), {"topology.state.checkpoint.interval.ms": 250})
    cluster.advance_time(0.25)
    assert source.acked == [0]


def test_a_fail_reaches_the_spout_at_once_and_only_that_tree_fails(cluster):
    feeder = fed("a", "bad", "b")
    run(cluster, counting(Source(), spout=feeder))
    assert (feeder.tracker.failed, feeder.tracker.acked) == (["bad"], [])
    cluster.advance_time(1)
    assert feeder.tracker.acked == ["a", "b"]


def test_a_spout_that_reaches_no_stateful_bolt_gets_its_acks_at_once(cluster):
    plain, capture, source = FeederSpout(["word"]), CaptureBolt(), Source("a")
    builder = TopologyBuilder()
    builder.set_spout("plain", plain)
    builder.set_spout("words", Replaying(source))
    builder.set_bolt("capture", capture).shuffle_grouping("plain")
    builder.set_bolt("count", Count(source)).shuffle_grouping("words")
    plain.feed(["a"], message_id=7)
    run(cluster, builder.create_topology())
    assert (plain.tracker.acked, source.acked) == ([7], [])


def test_a_spout_that_reaches_a_stateful_bolt_through_others_waits_for_the_commit(cluster):
    class Passes(Bolt):
        outputs = ("word",)

        def prepare(self, conf, context, collector):
            self.collector = collector

        def execute(self, tup):
            self.collector.emit(tup.values, anchors=tup)
            self.collector.ack(tup)

    source = Source("a")
    builder = TopologyBuilder()
    builder.set_spout("words", Replaying(source))
    builder.set_bolt("pass", Passes()).shuffle_grouping("words")
    builder.set_bolt("count", Count(source)).shuffle_grouping("pass")
    run(cluster, builder.create_topology())
    assert source.acked == []
    cluster.advance_time(1)
    assert source.acked == [0]


def test_untracked_tuples_change_the_state_too(cluster):
    feeder = FeederSpout(["word"])
    feeder.feed(["a"])
    run(cluster, counting(Source(), spout=feeder))
    cluster.advance_time(1)
    assert cluster.read_state("words", "count") == {"a": 1}


def test_a_topology_without_changes_makes_no_commits(cluster):
    source = Source("a")
    run(cluster, counting(source))
    cluster.advance_time(1)
    source.take_calls()
    cluster.advance_time(60)
    assert source.calls == []


# Exceptions of user code.


@pytest.mark.parametrize("hook", ["prepare", "init_state"])
def test_an_exception_at_the_start_is_raised_by_the_submit(cluster, hook):
    source = Source("a")
    with pytest.raises(StormError, match=rf"^{hook} of 'count' \(task 2\) raised RuntimeError: {hook} of the test"):
        cluster.submit_topology("words", None, counting(source, Count(source, {hook})))
    assert cluster.list_topologies() == []


def errors(cluster):
    return [error.exception for error in cluster.topology_info("words").components["count"].errors]


def test_an_exception_in_pre_commit_is_reported_and_the_commit_stands(cluster):
    source = Source("a")
    run(cluster, counting(source, Count(source, {"pre_commit"})))
    cluster.advance_time(1)
    assert source.acked == [0]
    assert cluster.read_state("words", "count") == {"a": 1}
    assert errors(cluster) == ["RuntimeError: pre_commit of the test"]


def test_an_exception_in_pre_rollback_is_reported_and_the_state_is_rolled_back(cluster):
    source = Source("a")
    run(cluster, counting(source, Count(source, {"pre_rollback"})), {**EXACTLY_ONCE, "topology.max.replays": 0})
    cluster.advance_time(1)
    source.add("bad")
    cluster.advance_time(1)
    assert cluster.read_state("words", "count") == {"a": 1}
    assert "RuntimeError: pre_rollback of the test" in errors(cluster)


class RaisesOnce(Count):
    """Raises in its first `pre_prepare`."""

    def pre_prepare(self, txid):
        is_first = ("pre_prepare", txid) not in self.source.calls
        super().pre_prepare(txid)
        if is_first:
            raise SystemExit("pre_prepare of the test")


@pytest.mark.parametrize("conf", [{}, EXACTLY_ONCE], ids=["at-least-once", "exactly-once"])
def test_an_exception_in_pre_prepare_rolls_back_to_the_last_commit(cluster, conf):
    source = Source("a", "b")
    run(cluster, counting(source, RaisesOnce(source)), conf)
    source.take_calls()
    cluster.advance_time(1)
    assert source.calls[:2] == [("pre_prepare", 1), ("pre_rollback",)]
    assert (source.failed, source.acked) == ([0, 1], [])
    assert errors(cluster) == ["SystemExit: pre_prepare of the test"]
    cluster.advance_time(1)
    assert (source.acked, cluster.read_state("words", "count")) == ([0, 1], {"a": 1, "b": 1})


def test_a_pre_prepare_that_keeps_raising_ends_the_topology(cluster):
    source = Source("a")
    handle = run(cluster, counting(source, Count(source, {"pre_prepare"})))
    cluster.advance_time(10)
    with pytest.raises(
        StormError, match=r"pre_prepare of 'count' \(task 2\) raised RuntimeError: pre_prepare of the t"
    ):
        handle.await_termination(0)
    assert source.calls[-1] == ("cleanup",)
    assert cluster.list_topologies() == []


def test_failing_commits_end_the_wait_for_the_topology():
    source = Source("a")
    conf = {"topology.state.checkpoint.interval.ms": 1}
    with LocalCluster() as cluster:
        handle = cluster.submit_topology("words", conf, counting(source, Count(source, {"pre_prepare"})))
        with pytest.raises(StormError, match="pre_prepare of the test"):
            handle.await_termination(30)


def test_a_value_that_cannot_be_stored_fails_only_its_tuple(cluster):
    class Keeps(Count):
        def execute(self, tup):
            self.state.put(tup["word"], threading.Lock() if tup["word"] == "bad" else 1)
            self.collector.ack(tup)

    feeder = fed("a", "bad", "b")
    run(cluster, counting(Source(), Keeps(Source()), spout=feeder))
    cluster.advance_time(1)
    assert feeder.tracker.failed == ["bad"]
    assert cluster.read_state("words", "count") == {"a": 1, "b": 1}
    assert "the value for key 'bad' cannot be kept in the state" in errors(cluster)[0]


# Slots that are restarted.

RESTART = {"topology.bolt.on.error": "restart", "topology.slot.max.restarts": 3}


def test_acks_without_a_commit_do_not_reset_the_count_of_restarts(cluster):
    source = Source("a", "bad")
    handle = run(cluster, counting(source), RESTART)
    with pytest.raises(SlotLostError, match="a bad word"):
        handle.await_termination(timeout=1)
    assert source.calls.count(("execute", "bad")) == 4


def test_a_slot_may_keep_dying_if_there_are_commits_in_between(cluster):
    source = Source()
    cluster.submit_topology("words", RESTART, counting(source, DiesOnce(source)))
    for number in range(8):
        source.add("a", f"bad {number}")
        cluster.advance_time(2)
    assert cluster.read_state("words", "count")["a"] >= 8
    assert len(source.acked) == 16


class DiesOnce(Count):
    """Raises when a bad word comes for the first time."""

    def execute(self, tup):
        is_first = ("execute", tup["word"]) not in self.source.calls
        super().execute(tup)
        if is_first and tup["word"].startswith("bad"):
            raise ValueError("a bad word")
