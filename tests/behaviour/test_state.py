"""State on every engine: when it is committed, what a commit acks, and how it is rolled back."""

import pytest

from pystorm_spark import StormError
from pystorm_spark.state import StatefulBolt
from tests.behaviour.engine import advance, chain, component, run, run_until_idle
from tests.behaviour.probes import Replaying, Rows, note, noted

SOON = {"topology.state.checkpoint.interval.ms": 100}
EXACTLY_ONCE = {**SOON, "topology.state.guarantee": "exactly-once", "topology.max.replays": 2}
WORDS = [["a"], ["b"], ["a"], ["c"]]


class Count(StatefulBolt):
    """Counts words; "bad" fails after it was counted, and "strange" cannot be stored."""

    outputs = ("word", "count")

    def prepare(self, conf, context, collector):
        self.collector = collector
        note("calls", "prepare")

    def init_state(self, state):
        self.state = state
        note("calls", "init_state")

    def pre_prepare(self, txid):
        note("calls", "pre_prepare")

    def pre_commit(self, txid):
        note("calls", "pre_commit")

    def pre_rollback(self):
        note("calls", "pre_rollback")

    def execute(self, tup):
        word = tup[0]
        note("calls", "execute")
        self.state.put(word, (i for i in ()) if word == "strange" else self.state.get(word, 0) + 1)
        self.collector.fail(tup) if word == "bad" else self.collector.ack(tup)

    def cleanup(self):
        note("calls", "cleanup")


def count(cluster):
    return cluster.read_state("topology", "a")


class UnreadableError(Exception):
    """Can be pickled, but unpickling raises: the constructor then gets the message alone."""

    def __init__(self, word, why):
        super().__init__(f"{word} {why}")


class KeepsUnreadable(Count):
    def execute(self, tup):
        self.state.put(tup[0], UnreadableError(tup[0], "it is so") if tup[0] == "b" else 1)
        self.collector.ack(tup)


def test_a_value_that_cannot_be_unpacked_is_an_error_only_where_it_is_read(cluster):
    run(cluster, chain(Rows(WORDS), KeepsUnreadable()), SOON)
    advance(cluster, 1)

    for key in ("b", None):
        with pytest.raises(StormError, match=r"the value for key 'b' of the state cannot be read: .*TypeError"):
            cluster.read_state("topology", "a", key)
    assert cluster.read_state("topology", "a", "c") == 1
    assert noted("calls").count("prepare") == 1


def test_a_state_is_committed_and_then_the_spout_gets_acks(cluster):
    run(cluster, chain(Rows(WORDS), Count()), SOON)
    advance(cluster, 1)

    assert count(cluster) == {"a": 2, "b": 1, "c": 1}
    assert (cluster.read_state("topology", "a", "a"), cluster.read_state("topology", "a", "d")) == (2, None)
    assert sorted(noted("acked")) == [0, 1, 2, 3]
    calls = noted("calls")
    assert calls[:3] == ["prepare", "init_state", "execute"]
    assert calls[-2:] == ["pre_prepare", "pre_commit"]


def test_nothing_is_acked_before_a_commit_and_a_kill_commits(cluster):
    conf = {**EXACTLY_ONCE, "topology.state.checkpoint.interval.ms": 60_000}
    run(cluster, chain(Rows(WORDS), Count()), conf)
    before = count(cluster), noted("acked")
    cluster.kill_topology("topology")

    assert before == ({}, [])
    assert sorted(noted("acked")) == [0, 1, 2, 3]
    assert noted("calls")[-3:] == ["pre_prepare", "pre_commit", "cleanup"]


def test_a_rebalance_keeps_the_state(cluster):
    run(cluster, chain(Rows(WORDS), Count()), SOON)
    advance(cluster, 1)
    cluster.rebalance("topology")
    advance(cluster, 1)

    assert count(cluster) == {"a": 4, "b": 2, "c": 2}  # a new instance of the spout emits all words again


def test_a_message_that_keeps_failing_is_given_up_and_the_others_are_counted_once(cluster):
    run(cluster, chain(Replaying([*WORDS, ["bad"]]), Count()), EXACTLY_ONCE)
    advance(cluster, 2)

    assert count(cluster) == {"a": 2, "b": 1, "c": 1}
    assert sorted(noted("acked")) == [0, 1, 2, 3, 4]
    assert noted("failed").count(4) == 3
    assert noted("calls").count("pre_rollback") == 3


def test_a_value_that_cannot_be_stored_fails_only_its_tuple(cluster):
    run(cluster, chain(Rows([["a"], ["strange"], ["b"]]), Count()), SOON)
    advance(cluster, 1)

    assert count(cluster) == {"a": 1, "b": 1}
    assert (sorted(noted("acked")), noted("failed")) == ([0, 2], [1])
    (error,) = component(cluster, "a").errors
    assert "the value for key 'strange' cannot be kept in the state" in error.exception


class Unshowable:
    def __repr__(self):
        raise ValueError("no repr")


class FailsUnshowable(Count):
    def execute(self, tup):
        if isinstance(tup[0], Unshowable):
            self.collector.fail(tup)
        else:
            super().execute(tup)


def test_a_message_that_cannot_be_shown_is_given_up_too(cluster, caplog):
    run(cluster, chain(Replaying([["a"], [Unshowable()]]), FailsUnshowable()), EXACTLY_ONCE)
    advance(cluster, 2)

    assert count(cluster) == {"a": 1}
    assert sorted(noted("acked")) == [0, 1]
    assert "the message 1 has failed 3 times and is given up" in caplog.text


class CommitsBadly(Count):
    def pre_prepare(self, txid):
        raise ValueError("not now")


def test_a_topology_whose_commits_fail_ends_with_their_error(cluster):
    handle = run(cluster, chain(Replaying(WORDS), CommitsBadly()), SOON)
    for _ in range(20):
        if handle.ended.is_set():
            break
        advance(cluster, 0.5)
        run_until_idle(cluster)
    try:
        handle.await_termination(0)
        told = "nothing"
    except StormError as exc:
        told = str(exc)

    assert "pre_prepare of 'a' (task 2) raised ValueError: not now" in told
    assert noted("acked") == []
