"""One Spark session for all tests of the Spark engine, and topologies whose results come back through files.

A process has one SparkContext. What needs another kind of session is run in a process of its own, which is told of its
kind by the environment: see `test_local_cluster.py`.
"""

import json
import os
import shutil
import sys
import tempfile

import pytest

SETTINGS = "PYSTORM_TEST_SPARK_SETTINGS"  # of the session, as JSON


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from pyspark.sql import SparkSession

    from pystorm_spark.spark.session.session import CONTEXT_SETTINGS

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    sockets = tempfile.mkdtemp(prefix="s-")  # their paths must be short
    settings = {
        "spark.master": "local[2]",
        "spark.app.name": "pystorm-spark tests",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **CONTEXT_SETTINGS,
        # The quick compiler alone: it is the better one for some minutes of many things that are done a few times.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.python.unix.domain.socket.dir": sockets,
        "spark.local.dir": str(tmp_path_factory.mktemp("local")),
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        **json.loads(os.environ.get(SETTINGS, "{}")),
    }
    session = SparkSession.builder.config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
    shutil.rmtree(sockets, ignore_errors=True)  # Spark removes what is its own at the same time


@pytest.fixture
def cluster(spark):
    from pystorm_spark import SparkCluster

    with SparkCluster(spark) as made:
        yield made


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "journal")


class Journal:
    """Lines that tasks write in whatever process they live, for the test to read."""

    def __init__(self, folder, exist_ok=False):
        self.folder = folder
        folder.mkdir(exist_ok=exist_ok)

    def note(self, topic, entry):
        with open(self.folder / f"{topic}-{os.getpid()}", "a") as file:
            file.write(f"{entry}\n")

    def noted(self, topic):
        return [line for path in sorted(self.folder.glob(f"{topic}-*")) for line in path.read_text().splitlines()]
