"""The write of a sink whose Spark job fails: how often it is called again."""

import pytest
from py4j.protocol import Py4JError
from pyspark.sql.types import LongType, StructField, StructType

from pystorm_spark import Spout, StormError, TopologyBuilder
from pystorm_spark.dataframe import DataFrameSink
from pystorm_spark.spark.driver.control import SlotLink
from pystorm_spark.spark.protocol.wire import Address
from pystorm_spark.spark.rows.sinking import WRITE_TRIES, Sinks
from pystorm_spark.spark.storage.place import PosixPlace

LOST_WORKER = Py4JError("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)")


class Session:
    """A session, its context and the rows that it makes, of which only the write matters here."""

    environment = {}

    @property
    def sparkContext(self):
        return self

    def parallelize(self, places, count):
        return self

    def mapPartitions(self, fetching):
        return self

    def createDataFrame(self, rows, columns, **_):
        return rows


class Numbers(Spout):
    outputs = ("number",)


class Deaf:
    def send(self, message):
        pass


class Write:
    """Raises for so many times."""

    def __init__(self, error, failures):
        self.error, self.failures, self.calls = error, failures, 0

    def __call__(self, df, batch_id):
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error


def written(folder, write):
    """Whether a sink with `write` has written the batch of a commit."""
    columns = StructType([StructField("number", LongType())])
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers())
    builder.set_bolt("sink", DataFrameSink(write, columns)).shuffle_grouping("numbers")
    link = SlotLink(0, 0, Deaf(), is_near=False)
    link.state, link.address = "ready", Address("slot-0")
    sinks = Sinks(builder.create_topology(), Session(), PosixPlace(folder))
    return sinks.write(1, {"sink": [2]}, [(2, 1, link)], b"token", lambda secs: True)


def test_a_write_under_which_python_workers_die_is_called_until_it_succeeds(tmp_path):
    write = Write(LOST_WORKER, failures=10)

    assert written(tmp_path, write)
    assert write.calls == 11


def test_a_write_that_fails_by_itself_is_given_up_soon(tmp_path):
    write = Write(Py4JError("the table is gone"), failures=10)

    with pytest.raises(StormError, match=f"the table is gone; it was tried {WRITE_TRIES} times"):
        written(tmp_path, write)
    assert write.calls == WRITE_TRIES
