"""One Spark session for all tests of the Spark engine, and topologies whose results come back through files."""

import os
import sys

import pytest


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = (
        SparkSession.builder.master("local[2]")
        .appName("pystorm-spark tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.python.unix.domain.socket.dir", str(tmp_path_factory.mktemp("s")))
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


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

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()

    def note(self, topic, entry):
        with open(self.folder / f"{topic}-{os.getpid()}", "a") as file:
            file.write(f"{entry}\n")

    def noted(self, topic):
        return [line for path in sorted(self.folder.glob(f"{topic}-*")) for line in path.read_text().splitlines()]
