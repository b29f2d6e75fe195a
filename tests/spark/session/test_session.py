"""Sessions: their settings stay as they were, and a topology reports that its session was stopped."""

from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import AnalysisException

from pystorm_spark import SparkCluster, StormError, TopologyBuilder
from pystorm_spark.dataframe import DataFrameSpout
from pystorm_spark.spark.session.session import FILE_MANAGER, await_end, check_session, told
from tests.spark.components import Sum, wait_until


def session(is_stopped):
    """Make a session whose context answers with the result of `is_stopped`."""
    context = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=is_stopped))
    return SimpleNamespace(sparkContext=SimpleNamespace(_jsc=context))


def is_gone():
    raise Py4JNetworkError("Answer from Java side is empty")


def is_long_gone():
    raise ConnectionRefusedError


@pytest.mark.parametrize(
    "stopped",
    [
        session(lambda: True),
        session(is_gone),
        session(is_long_gone),
        SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None)),
    ],
)
def test_a_stopped_session_is_named_as_the_cause(stopped):
    came_of_it = Py4JError("an error occurred while calling o17.collect")

    error = told(came_of_it, stopped)

    assert isinstance(error, StormError)
    assert "the SparkSession was stopped while the topology ran" in str(error)
    assert error.__cause__ is came_of_it


def test_a_stopped_session_ends_the_wait_for_a_running_query():
    goes_on = SimpleNamespace(awaitTermination=lambda secs: False)
    await_end(goes_on, session(lambda: True))


def test_the_wait_for_a_query_lasts_as_long_as_its_session():
    looks = iter([False, False, True])
    await_end(SimpleNamespace(awaitTermination=lambda secs: next(looks)), session(lambda: False))
    assert not list(looks)


def test_errors_of_spark_become_one_line():
    error = told(
        AnalysisException("Traceback (most recent call last):\n  File\nValueError: no"), session(lambda: False)
    )
    assert isinstance(error, StormError)
    assert str(error) == "ValueError: no"


def test_other_errors_are_unchanged():
    error = StormError("out of ink")
    assert told(error, session(lambda: False)) is error


def test_an_object_that_is_not_a_session_is_refused():
    with pytest.raises(StormError, match=r"needs a classic SparkSession, got builtins\.NoneType: give one"):
        check_session(None)


def settings(spark):
    return {row.key: row.value for row in spark.sql("SET").collect()}


@pytest.mark.spark
def test_the_session_of_the_user_is_left_as_it_was(spark, journal):
    before = settings(spark)
    builder = TopologyBuilder()
    rates = DataFrameSpout(lambda spark: spark.readStream.format("rate").load(), ["value"])
    builder.set_spout("rates", rates)
    builder.set_bolt("sum", Sum(journal)).shuffle_grouping("rates")
    with SparkCluster(spark) as cluster:
        cluster.submit_topology("rates", {"topology.workers": 1}, builder.create_topology())
        during = settings(spark)
        wait_until(lambda: journal.noted("executed"))

    during.pop(FILE_MANAGER)  # Spark reads the setting whenever it creates the log of a source
    assert during == before
    assert settings(spark) == before
