"""Sources and sinks outside Spark: the tests of `with_jars.py`, on a session that has their jars."""

import tempfile
from pathlib import Path

import pytest

from tests import jars
from tests.spark import other_session, with_jars

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture(scope="module")
def outcomes():
    of_spark = jars.fetched(jars.KAFKA_SOURCE | jars.SQLITE)
    jars.fetched(jars.KAFKA_BROKER)
    settings = {"spark.jars": ",".join(map(str, of_spark))}
    with tempfile.TemporaryDirectory(prefix="j-", ignore_cleanup_errors=True) as folder:  # Spark needs short paths
        return other_session.outcomes(with_jars, Path(folder), settings)


@pytest.mark.parametrize("name", other_session.names(with_jars))
def test_with_jars(outcomes, name):
    assert "\n".join(outcomes[name]) == ""
