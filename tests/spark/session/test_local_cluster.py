"""Executors that are processes of their own: the tests of `on_executors.py`, on `local-cluster`, in one process."""

import tempfile
from pathlib import Path

import pytest

from tests.spark import on_executors, other_session
from tests.spark.processes import spark_home

pytestmark = pytest.mark.spark

SPARK_SETTINGS = {
    "spark.master": "local-cluster[2,1,1024]",
    "spark.locality.wait": "0s",
    "spark.shuffle.io.retryWait": "100ms",
}


@pytest.fixture(scope="module")
def outcomes():
    # Spark needs short paths, and executors remove their own files at the same time.
    with tempfile.TemporaryDirectory(prefix="c-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        spark_home(folder / "spark")
        settings = {**SPARK_SETTINGS, "spark.local.dir": str(folder / "local")}
        environ = {"SPARK_HOME": str(folder / "spark"), "SPARK_TEST_LOCAL_DIR": str(folder / "local")}
        return other_session.outcomes(on_executors, folder, settings, **environ)


@pytest.mark.parametrize("name", other_session.names(on_executors))
def test_on_executors(outcomes, name):
    assert "\n".join(outcomes[name]) == ""
