"""FeederSpout emits the rows that a test feeds it, and its tracker records acks and fails."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import cloudpickle
import pytest

from pystorm_spark import (
    Bolt,
    EmitError,
    Fields,
    InvalidTopologyError,
    LocalCluster,
    StormError,
    TopologyBuilder,
    Values,
)
from pystorm_spark.testing import AckFailTracker, CaptureBolt, FeederSpout

ROOT = Path(__file__).parents[2]  # where another process finds the package
TIMEOUT = {"topology.message.timeout.secs": 10}


class Fail(Bolt):
    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.collector.fail(tup)


class Forget(Bolt):
    """Neither acks nor fails."""


@pytest.fixture
def cluster():
    with LocalCluster(simulated_time=True) as cluster:
        yield cluster


def start(cluster, feeder, bolt, tasks=1):
    builder = TopologyBuilder()
    builder.set_spout("feeder", feeder, tasks)
    builder.set_bolt("bolt", bolt).global_grouping("feeder")
    return cluster.submit_topology("feeding", TIMEOUT, builder.create_topology())


def test_fed_values_are_emitted_in_order(cluster):
    feeder, capture = FeederSpout(["word"]), CaptureBolt()
    start(cluster, feeder, capture)
    feeder.feed(["storm"])
    feeder.feed(Values("spark"))
    cluster.wait_until_idle()
    assert capture.captured == [["storm"], ["spark"]]


def test_feeding_is_allowed_before_the_submit(cluster):
    feeder, capture = FeederSpout(["word"]), CaptureBolt()
    feeder.feed(["early"], message_id=1)
    start(cluster, feeder, capture)
    cluster.wait_until_idle()
    assert (capture.captured, feeder.tracker.acked) == ([["early"]], [1])


def test_each_fed_row_is_emitted_once_whatever_the_parallelism(cluster):
    feeder, capture = FeederSpout(["n"]), CaptureBolt()
    start(cluster, feeder, capture, tasks=3)
    for number in range(20):
        feeder.feed([number], message_id=number)
    cluster.wait_until_idle()
    assert sorted(capture.captured) == [[number] for number in range(20)]
    assert sorted(feeder.tracker.acked) == list(range(20))


def test_tracker_records_acks_in_order(cluster):
    feeder = FeederSpout(["word"])
    start(cluster, feeder, CaptureBolt())
    feeder.feed(["b"], message_id="second")
    feeder.feed(["a"], message_id="first")
    cluster.wait_until_idle()
    assert feeder.tracker.acked == ["second", "first"]
    assert feeder.tracker.is_acked("first")
    assert not feeder.tracker.is_failed("first")


def test_tracker_records_fails(cluster):
    feeder = FeederSpout(["word"])
    start(cluster, feeder, Fail())
    feeder.feed(["a"], message_id=7)
    cluster.wait_until_idle()
    assert (feeder.tracker.acked, feeder.tracker.failed) == ([], [7])
    assert feeder.tracker.is_failed(7)


def test_an_unacked_row_fails_at_the_timeout_and_not_before(cluster):
    feeder = FeederSpout(["word"])
    start(cluster, feeder, Forget())
    feeder.feed(["a"], message_id=7)
    cluster.advance_time(TIMEOUT["topology.message.timeout.secs"] - 1)
    assert feeder.tracker.failed == []
    cluster.advance_time(TIMEOUT["topology.message.timeout.secs"] + 1)
    assert feeder.tracker.failed == [7]


def test_a_row_without_a_message_id_is_not_tracked(cluster):
    feeder, capture = FeederSpout(["word"]), CaptureBolt()
    start(cluster, feeder, capture)
    feeder.feed(["a"])
    cluster.wait_until_idle()
    assert capture.captured == [["a"]]
    assert (feeder.tracker.acked, feeder.tracker.failed) == ([], [])


def test_a_falsy_message_id_is_tracked(cluster):
    feeder = FeederSpout(["word"])
    start(cluster, feeder, CaptureBolt())
    feeder.feed(["a"], message_id=0)
    cluster.wait_until_idle()
    assert feeder.tracker.acked == [0]


def test_wrong_arity_is_an_error_at_the_feed():
    feeder = FeederSpout(Fields("word", "count"))
    with pytest.raises(EmitError, match=r"1 values for 2 fields \['word', 'count'\]: \['storm'\]"):
        feeder.feed(["storm"])


def test_values_of_another_type_than_a_list_are_an_error_at_the_feed():
    with pytest.raises(EmitError, match="'storm' of type str; values must be a list or a tuple"):
        FeederSpout("word").feed("storm")


def test_a_refused_row_is_not_emitted(cluster):
    feeder, capture = FeederSpout(["word"]), CaptureBolt()
    start(cluster, feeder, capture)
    with pytest.raises(EmitError):
        feeder.feed([])
    cluster.wait_until_idle()
    assert capture.captured == []


def test_a_list_changed_after_the_feed_is_emitted_as_it_was_fed(cluster):
    feeder, capture = FeederSpout(["word"]), CaptureBolt()
    start(cluster, feeder, capture)
    values = ["storm"]
    feeder.feed(values)
    values[0] = "changed"
    cluster.wait_until_idle()
    assert capture.captured == [["storm"]]


def test_remaining_rows_are_emitted_after_a_rebalance(cluster):
    feeder, capture = FeederSpout(["n"]), CaptureBolt()
    start(cluster, feeder, capture)
    cluster.deactivate("feeding")
    feeder.feed([1], message_id=1)
    cluster.rebalance("feeding")
    cluster.activate("feeding")
    cluster.wait_until_idle()
    assert (capture.captured, feeder.tracker.acked) == ([[1]], [1])


def test_two_feeders_have_separate_rows(cluster):
    first, second, capture = FeederSpout(["n"]), FeederSpout(["n"]), CaptureBolt()
    start(cluster, first, capture)
    second.feed([2])
    cluster.wait_until_idle()
    assert capture.captured == []


def test_feeding_from_several_threads_loses_nothing_in_real_time():
    feeder, done = FeederSpout(["n"]), threading.Event()

    class Until(AckFailTracker):
        def ack(self, message_id):
            super().ack(message_id)
            if len(self.acked) == 400:
                done.set()

    feeder.tracker = Until()
    with LocalCluster() as cluster:
        start(cluster, feeder, CaptureBolt(), tasks=2)
        threads = [
            threading.Thread(target=lambda first=first: [feeder.feed([n], n) for n in range(first, first + 100)])
            for first in range(0, 400, 100)
        ]
        for thread in threads:
            thread.start()
        assert done.wait(30)
    assert sorted(feeder.tracker.acked) == list(range(400))


def test_wrong_field_names_are_an_error_at_construction():
    with pytest.raises(InvalidTopologyError, match="duplicate field 'a'"):
        FeederSpout(["a", "a"])


@pytest.mark.parametrize("shared", [FeederSpout(["word"]), CaptureBolt(), AckFailTracker()], ids=type)
def test_in_another_process_the_error_names_local_cluster(shared):
    load = "import sys, cloudpickle; cloudpickle.loads(sys.stdin.buffer.read())"
    ran = subprocess.run(
        [sys.executable, "-c", load], input=cloudpickle.dumps(shared), capture_output=True, check=False, cwd=ROOT
    )
    expected = f"StormError: {type(shared).__name__} works on LocalCluster only"
    assert expected in ran.stderr.decode()


def test_a_forked_process_is_refused_too(monkeypatch):
    feeder = FeederSpout(["word"])
    pickled = cloudpickle.dumps(feeder)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(StormError, match="FeederSpout works on LocalCluster only"):
        cloudpickle.loads(pickled)


def test_tracker_has_storms_method_names():
    tracker = AckFailTracker()
    tracker.fail("a")
    assert tracker.isFailed("a")
    assert not tracker.isAcked("a")
