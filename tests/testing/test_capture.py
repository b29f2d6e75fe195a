"""CaptureBolt keeps the values that it receives."""

import pytest

from pystorm_spark import LocalCluster, TopologyBuilder
from pystorm_spark.testing import CaptureBolt, FeederSpout


@pytest.fixture
def cluster():
    with LocalCluster(simulated_time=True) as cluster:
        yield cluster


def start(cluster, feeder, capture, tasks=1, conf=None):
    builder = TopologyBuilder()
    builder.set_spout("feeder", feeder)
    builder.set_bolt("capture", capture, tasks).shuffle_grouping("feeder")
    cluster.submit_topology("capturing", conf, builder.create_topology())


def test_all_tasks_capture_into_one_list(cluster):
    feeder, capture = FeederSpout(["n"]), CaptureBolt()
    start(cluster, feeder, capture, tasks=3)
    for number in range(9):
        feeder.feed([number])
    cluster.wait_until_idle()
    assert sorted(capture.captured) == [[number] for number in range(9)]


def test_captured_tuples_are_acked(cluster):
    feeder = FeederSpout(["n"])
    start(cluster, feeder, CaptureBolt())
    feeder.feed([1], message_id=1)
    cluster.wait_until_idle()
    assert feeder.tracker.acked == [1]


def test_ticks_are_not_captured(cluster):
    feeder, capture = FeederSpout(["n"]), CaptureBolt()
    start(cluster, feeder, capture, conf={"topology.tick.tuple.freq.secs": 1})
    feeder.feed([1])
    cluster.advance_time(3)
    assert capture.captured == [[1]]


def test_captured_values_outlive_the_cluster():
    feeder, capture = FeederSpout(["n"]), CaptureBolt()
    feeder.feed([1])
    with LocalCluster(simulated_time=True) as cluster:
        start(cluster, feeder, capture)
        cluster.wait_until_idle()
    assert capture.captured == [[1]]


def test_two_capture_bolts_have_separate_values(cluster):
    feeder, used, unused = FeederSpout(["n"]), CaptureBolt(), CaptureBolt()
    start(cluster, feeder, used)
    feeder.feed([1])
    cluster.wait_until_idle()
    assert (used.captured, unused.captured) == ([[1]], [])
