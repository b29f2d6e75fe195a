"""Threads that Py4J keeps for queries that call Python: they end with the topology."""

import threading

import pytest

from pystorm_spark import SparkCluster, TopologyBuilder
from pystorm_spark.dataframe import DataFrameSpout
from pystorm_spark.spark.session.callback import Callback
from tests.spark.components import Sum, wait_until

pytestmark = pytest.mark.spark


@pytest.fixture
def threads(monkeypatch):
    """Return the threads in which queries have called Python."""
    called, noted = Callback.__call__, set()

    def note(self, df, batch):
        noted.add(threading.current_thread())
        called(self, df, batch)

    monkeypatch.setattr(Callback, "__call__", note)
    return noted


def read(spark):
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load().selectExpr("value AS number")


def test_the_py4j_threads_of_queries_end_with_their_topology(spark, journal, threads):
    builder = TopologyBuilder()
    builder.set_spout("rows", DataFrameSpout(read, ["number"]))
    builder.set_bolt("sum", Sum(journal)).shuffle_grouping("rows")
    with SparkCluster(spark) as cluster:
        cluster.submit_topology("calls", {"topology.workers": 1}, builder.create_topology())
        wait_until(lambda: journal.noted("executed"))

    assert len(threads) == 2  # of the loop, and of the source
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)
