"""How Spark writes the logs of queries: fast on a local disk, elsewhere as Spark or the user has set."""

from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JJavaError

from pystorm_spark import InvalidTopologyError, SparkCluster, TopologyBuilder
from pystorm_spark.dataframe import DataFrameSpout
from pystorm_spark.spark.session.session import FILE_MANAGER, LOCAL_FILE_MANAGERS, set_file_manager
from tests.spark.components import Numbers, Sum, wait_until
from tests.spark.durable import acked

ONE_SLOT = {"topology.workers": 1}
LOCAL_FILE_MANAGER, OLD_FILE_MANAGER = LOCAL_FILE_MANAGERS


class Settings(dict):
    """A session that has only settings."""

    set = dict.__setitem__
    unset = dict.pop


class Jvm:
    """A JVM that has one class."""

    def __init__(self, has):
        self.has = has
        self.java = SimpleNamespace(lang=SimpleNamespace(Class=self))

    def forName(self, name):
        if name != self.has:
            raise Py4JJavaError(f"no class {name}", SimpleNamespace(_target_id="o1", _gateway_client=None))


def set_to(named, checkpoint, has=LOCAL_FILE_MANAGER):
    settings = Settings({} if named is None else {FILE_MANAGER: named})
    set_file_manager(SimpleNamespace(conf=settings, _jvm=Jvm(has)), checkpoint)
    return settings.get(FILE_MANAGER)


@pytest.mark.parametrize(
    ("named", "checkpoint", "expected"),
    [
        (None, "file:///tmp/checkpoint", LOCAL_FILE_MANAGER),
        (None, "file:/tmp/checkpoint", LOCAL_FILE_MANAGER),
        (None, "hdfs://host/checkpoint", None),
        (None, "s3a://bucket/checkpoint", None),
        (None, "abfs://container@account/checkpoint", None),
        (LOCAL_FILE_MANAGER, "s3a://bucket/checkpoint", None),
        ("some.Manager", "file:///tmp/checkpoint", "some.Manager"),
        ("some.Manager", "s3a://bucket/checkpoint", "some.Manager"),
    ],
)
def test_the_fast_log_is_for_local_disks_unless_the_user_has_set_another(named, checkpoint, expected):
    assert set_to(named, checkpoint) == expected


def test_the_fast_log_of_an_older_spark_is_found_and_may_be_missing():
    assert set_to(None, "file:/tmp/checkpoint", has=OLD_FILE_MANAGER) == OLD_FILE_MANAGER
    assert set_to(None, "file:/tmp/checkpoint", has="something.Else") is None


@pytest.fixture
def named_manager(spark):
    spark.conf.set(FILE_MANAGER, "for.an.ObjectStore")
    yield "for.an.ObjectStore"
    spark.conf.unset(FILE_MANAGER)


@pytest.mark.spark
def test_the_users_setting_counts_for_sources_and_not_for_the_engines_own_log(spark, journal, named_manager):
    with SparkCluster(spark) as cluster:
        cluster.submit_topology("plain", ONE_SLOT, summing(Numbers(3, journal), journal))
        wait_until(lambda: acked(journal) == {0, 1, 2})
        with pytest.raises(InvalidTopologyError, match=f"of spout 'numbers' cannot be started: .*{named_manager}"):
            rates = DataFrameSpout(lambda spark: spark.readStream.format("rate").load(), fields=["value"])
            cluster.submit_topology("rates", ONE_SLOT, summing(rates, journal))
        assert spark.conf.get(FILE_MANAGER) == named_manager


@pytest.mark.spark
def test_the_engines_own_log_of_a_run_ends_with_the_run(spark, journal):
    def logs():
        return [path.name for path in (cluster._folder / "triggers").iterdir()]

    with SparkCluster(spark) as cluster:
        handle = cluster.submit_topology("plain", ONE_SLOT, summing(Numbers(3, journal), journal))
        wait_until(lambda: acked(journal) == {0, 1, 2})
        cluster.rebalance("plain")
        assert logs() == [f"{handle.id}-2"]
        cluster.kill_topology("plain")
        assert logs() == []


def summing(spout, journal):
    builder = TopologyBuilder()
    builder.set_spout("numbers", spout)
    builder.set_bolt("sum", Sum(journal)).shuffle_grouping("numbers")
    return builder.create_topology()
