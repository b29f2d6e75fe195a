"""Topologies with a checkpoint on a Hadoop file system; `file:` through Hadoop stands for all of them."""

import json
import os
from tempfile import TemporaryDirectory

import pytest

from pystorm_spark import CheckpointError, LocalCluster, SparkCluster, StormError, load_state
from pystorm_spark.repartition import repartition_state
from pystorm_spark.spark.storage.hadoop_folder import HadoopFolder
from pystorm_spark.spark.storage.place import HadoopPlace
from tests.spark.components import wait_until
from tests.spark.durable import CONF, EXACTLY_ONCE, acked, counting

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("conf", [CONF, EXACTLY_ONCE], ids=["at-least-once", "exactly-once"])
def test_a_state_survives_its_slots_and_its_driver(spark, journal, tmp_path, conf):
    mark = str(tmp_path / "mark")
    crashes = {"PYSTORM_SPARK_CRASH_AT": "part-written,part-renamed", "PYSTORM_SPARK_CRASH_MARKS": mark}
    checkpoint = f"file:{tmp_path}/checkpoint"
    with SparkCluster(spark, checkpoint=checkpoint) as cluster:
        cluster.submit_topology("counting", {**conf, "topology.environment": crashes}, counting(100, journal))
        wait_until(lambda: acked(journal) == set(range(100)))
    assert len(list(tmp_path.glob("mark.*"))) == 2

    with SparkCluster(spark, checkpoint=checkpoint) as cluster:
        cluster.submit_topology("counting", {**conf, "topology.workers": 3}, counting(140, journal))
        wait_until(lambda: acked(journal) == set(range(140)))
        counts = cluster.read_state("counting", "count")
        with pytest.raises(CheckpointError, match=f"is in use by pid {os.getpid()}"):
            repartition_state(checkpoint, "counting", "count", 3)
    assert set(counts) == set(range(140))
    if conf is EXACTLY_ONCE:
        assert set(counts.values()) == {1}
    for place in (checkpoint, tmp_path / "checkpoint"):  # both engines write the same files
        assert {row.key: row.value for row in load_state(spark, place, "count").collect()} == counts
    with pytest.raises(CheckpointError, match="holds the states of 1 topologies, but none of 'other'"):
        load_state(spark, checkpoint, "count", "other")

    with pytest.raises(CheckpointError, match="holds no state of a topology 'countin'; did you mean 'counting'"):
        repartition_state(checkpoint, "countin", "count", 3)
    for tasks in (4, 3):
        repartition_state(checkpoint, "counting", "count", tasks)
    moved = load_state(spark, checkpoint, "count").collect()
    assert {row.key: row.value for row in moved} == counts
    assert {row.task for row in moved} == {0, 1, 2}
    assert sorted(os.listdir(tmp_path / "checkpoint")) == ["counting", "driver.flock"]


def test_a_checkpoint_has_one_driver_until_its_cluster_is_shut_down(spark, tmp_path):
    checkpoint = f"file:{tmp_path}/checkpoint"
    with (
        SparkCluster(spark, checkpoint=checkpoint),
        pytest.raises(CheckpointError, match=rf"'{checkpoint}' is in use by pid {os.getpid()} "),
    ):
        SparkCluster(spark, checkpoint=checkpoint)

    SparkCluster(spark, checkpoint=checkpoint).shutdown()
    assert os.listdir(tmp_path / "checkpoint") == ["driver.flock"]


@pytest.mark.parametrize(("first", "second"), [("file:{}", "{}"), ("{}", "file://{}")])
def test_a_folder_has_one_driver_though_it_is_named_with_a_scheme_and_without(spark, tmp_path, first, second):
    held = f"in use by pid {os.getpid()} "
    with SparkCluster(spark, checkpoint=first.format(tmp_path)):
        with pytest.raises(CheckpointError, match=held):
            SparkCluster(spark, checkpoint=second.format(tmp_path))
        with pytest.raises(CheckpointError, match=held):
            LocalCluster(checkpoint=tmp_path)

    SparkCluster(spark, checkpoint=second.format(tmp_path)).shutdown()


@pytest.mark.parametrize(
    ("checkpoint", "told"),
    [
        ("nosuch://host/x", r"'nosuch://host/x' cannot be used: .*No FileSystem for scheme"),
        ("hdfs://[x/y", r"'hdfs://\[x/y' cannot be used: .*URISyntaxException"),
        ("file:/proc/nowhere", r"'file:/proc/nowhere' cannot be used"),
        ("file:{folder}/file/x", r"/file/x' cannot be used"),
        ("file:{folder}/file", r"/file/driver\.lock' cannot be written: .*not a directory"),
    ],
)
def test_an_invalid_place_of_a_checkpoint_is_refused_and_leaves_nothing_behind(
    spark, tmp_path, monkeypatch, checkpoint, told
):
    (tmp_path / "file").write_text("")
    with TemporaryDirectory() as short:  # the length of socket paths is limited
        monkeypatch.setattr("tempfile.tempdir", short)
        with pytest.raises(CheckpointError, match=told):
            SparkCluster(spark, checkpoint=checkpoint.format(folder=tmp_path))
        assert os.listdir(short) == []
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("named", ["file:{}", "{}"], ids=["uri", "path"])
def test_a_topology_whose_state_is_removed_while_it_runs_ends_with_the_reason(spark, journal, tmp_path, named):
    with SparkCluster(spark, checkpoint=named.format(tmp_path)) as cluster:
        handle = cluster.submit_topology("counting", CONF, counting(100_000, journal))
        wait_until(lambda: acked(journal))
        (tmp_path / "counting").rename(tmp_path / "elsewhere")
        with pytest.raises(StormError, match="was removed or replaced while it was in use: manifest-"):
            handle.await_termination(timeout=30)
    assert not (tmp_path / "counting").exists()


def test_dead_letters_are_files_of_their_commits(spark, tmp_path):
    place = HadoopPlace(HadoopFolder(spark, f"file:{tmp_path}/counting"))
    place.add_letters(1, [{"message_id": 1}, {"message_id": 2}])
    place.add_letters(2, [{"message_id": 3}])
    place.add_letters(2, [{"message_id": 4}])  # the commit was not made, and is retried
    texts = [path.read_text() for path in sorted((tmp_path / "counting" / "dead-letters.jsonl").glob("*.jsonl"))]
    assert [json.loads(line)["message_id"] for line in "".join(texts).splitlines()] == [1, 2, 4]
