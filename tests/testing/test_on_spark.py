"""The testing kit on a SparkCluster, whose tasks are in other processes."""

import pytest

from pystorm_spark import BasicBolt, Bolt, SerializationError, SparkCluster, Spout, StormError, TopologyBuilder
from pystorm_spark.testing import CaptureBolt, CrashOn, FeederSpout, FixedTupleSpout, complete_topology, read_tuples

pytestmark = pytest.mark.spark


@pytest.fixture
def cluster(spark):
    with SparkCluster(spark) as made:
        yield made


class Sentences(Spout):
    """Never ends, so a test has to replace it."""

    outputs = {"default": ["sentence"], "errors": ["code"]}


class Split(BasicBolt):
    outputs = ("word",)

    def execute(self, tup, collector):
        for word in tup["sentence"].split():
            collector.emit([word])


class Refuses(Bolt):
    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.collector.fail(tup)


def test_complete_topology_returns_the_tuples_of_tasks_in_all_processes(cluster):
    builder = TopologyBuilder()
    builder.set_spout("sentences", Sentences(), 2)
    builder.set_bolt("split", Split(), 3).shuffle_grouping("sentences")
    builder.set_bolt("refuse", Refuses()).shuffle_grouping("sentences", "errors")
    rows = {"default": [["a b"], ["c"], ["a"]], "errors": [[7]]}

    result = complete_topology(cluster, builder.create_topology(), {"sentences": rows}, {"topology.workers": 2})

    assert sorted(read_tuples(result, "sentences")) == [["a"], ["a b"], ["c"]]
    assert read_tuples(result, "sentences", "errors") == [[7]]
    assert sorted(read_tuples(result, "split")) == [["a"], ["a"], ["b"], ["c"]]
    assert result["refuse"] == {}
    assert cluster.list_topologies() == []


def test_complete_topology_raises_the_error_of_a_refused_emit(cluster):
    class Cannot(FixedTupleSpout):
        def next_tuple(self):
            raise ValueError("out of order")

    builder = TopologyBuilder()
    builder.set_spout("words", Cannot([["a"]], ["word"]))

    with pytest.raises(StormError, match=r"spout 'words' cannot emit its rows: ValueError: out of order"):
        complete_topology(cluster, builder.create_topology(), conf={"topology.workers": 1})
    assert cluster.list_topologies() == []


def test_crash_on_kills_the_slot_and_its_spout_starts_again(cluster, tmp_path):
    marker = tmp_path / "crashed"

    def once(tup):
        crashed, _ = marker.exists(), marker.touch()
        return not crashed

    builder = TopologyBuilder()
    builder.set_spout("sentences", FixedTupleSpout([["a"], ["b"]], ["sentence"]))
    builder.set_bolt("split", CrashOn(Split(), once)).shuffle_grouping("sentences")

    result = complete_topology(cluster, builder.create_topology(), conf={"topology.workers": 1})

    assert marker.exists()
    assert sorted(read_tuples(result, "sentences")) == [["a"], ["a"], ["b"], ["b"]]
    assert sorted(read_tuples(result, "split")) == [["a"], ["b"]]


@pytest.mark.parametrize("probe", [FeederSpout(["word"]), CaptureBolt()], ids=lambda probe: type(probe).__name__)
def test_probes_that_share_memory_with_the_test_are_refused_with_the_reason(cluster, probe):
    spout, bolt = (probe, Refuses()) if isinstance(probe, FeederSpout) else (FixedTupleSpout([], ["word"]), probe)
    builder = TopologyBuilder()
    builder.set_spout("words", spout)
    builder.set_bolt("end", bolt).shuffle_grouping("words")

    with pytest.raises(SerializationError, match=rf"{type(probe).__name__}.* works on LocalCluster only"):
        cluster.submit_topology("topology", {"topology.workers": 1}, builder.create_topology())
