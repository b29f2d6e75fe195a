"""Kafka as a source and a database behind JDBC as a sink: run by `test_with_jars.py`."""

import os
import socket
import sqlite3
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from pystorm_spark import SparkCluster, TopologyBuilder
from pystorm_spark.dataframe import DataFrameSink, DataFrameSpout
from tests import jars
from tests.spark.components import DiesOnce, Numbers, wait_until
from tests.spark.durable import CONF, EXACTLY_ONCE, Count

BROKER_SECS = 120
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
log.dirs={folder}
num.partitions=2
offsets.topic.replication.factor=1
"""
# What Kafka's own tool for it writes, without another JVM.
FORMATTED = "version=1\nnode.id=1\ncluster.id=bmFtZWQtYnktYS10ZXN0\n"


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """The address of a Kafka broker."""
    with running_broker(tmp_path_factory.mktemp("kafka")) as address:
        yield address


@contextmanager
def running_broker(folder):
    port, controller = free_ports(2)
    (folder / "data").mkdir()
    (folder / "data" / "meta.properties").write_text(FORMATTED)
    properties = folder / "server.properties"
    properties.write_text(PROPERTIES.format(port=port, controller=controller, folder=folder / "data"))
    own = [str(path) for path in jars.fetched(jars.KAFKA_SOURCE | jars.KAFKA_BROKER)]
    classes = os.pathsep.join([*own, str(Path(pyspark.__file__).parent / "jars" / "*")])
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    with open(folder / "output", "w") as output:
        command = [java(), *options, "-cp", classes, "kafka.Kafka", str(properties)]
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        wait_until(lambda: process.poll() is not None or answers(port), BROKER_SECS)
        assert process.poll() is None, (folder / "output").read_text()
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def java():
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def free_ports(count):
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


class Topic:
    """A topic of numbers as text, in order, even ones in one partition and odd ones in the other."""

    def __init__(self, spark, broker):
        self.spark, self.broker = spark, broker

    def produce(self, numbers):
        ids = self.spark.range(numbers.start, numbers.stop, 1, 1)
        rows = ids.selectExpr("CAST(id AS string) AS value", "CAST(id % 2 AS int) AS partition")
        rows.write.format("kafka").option("kafka.bootstrap.servers", self.broker).option("topic", "numbers").save()

    def read(self, spark):
        source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.broker)
        source = source.option("subscribe", "numbers").option("startingOffsets", "earliest")
        return (
            source.option("maxOffsetsPerTrigger", 400)
            .load()
            .selectExpr("CAST(CAST(value AS string) AS long) AS number")
        )


def test_rows_of_a_topic_are_counted_once_though_a_slot_dies(spark, broker, journal, tmp_path):
    topic, marker = Topic(spark, broker), tmp_path / "marker"
    topic.produce(range(1000))
    builder = TopologyBuilder()
    builder.set_spout("numbers", DataFrameSpout(topic.read, ["number"]), 2)
    builder.set_bolt("dies", DiesOnce(700, str(marker)), 2).fields_grouping("numbers", ["number"])
    builder.set_bolt("count", Count(journal), 2).fields_grouping("dies", ["number"])

    with SparkCluster(spark, tmp_path / "checkpoint") as cluster:
        # A batch of Spark takes several commits, and the slot dies when some of them have been made.
        conf = {**EXACTLY_ONCE, "topology.max.spout.pending": 50}
        cluster.submit_topology("kafka", conf, builder.create_topology())
        wait_until(marker.exists)
        topic.produce(range(1000, 1200))
        wait_until(lambda: len(cluster.read_state("kafka", "count")) == 1200)
        assert cluster.read_state("kafka", "count") == dict.fromkeys(range(1200), 1)


def test_a_sink_that_replaces_what_its_batch_wrote_over_jdbc_has_every_row_once(spark, journal, tmp_path):
    path, tries = tmp_path / "numbers.db", []
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE numbers (batch integer, number integer)")
    database.close()

    def write(df, batch_id):
        with sqlite3.connect(path) as database:
            database.execute("DELETE FROM numbers WHERE batch = ?", [batch_id])
        database.close()
        rows = df.selectExpr(f"{batch_id} AS batch", "number").coalesce(1)  # SQLite has one writer at a time
        rows.write.jdbc(f"jdbc:sqlite:{path}", "numbers", "append", {"driver": "org.sqlite.JDBC"})
        tries.append(batch_id)
        if len(tries) == 1:
            raise ConnectionError("the answer to the commit was lost")

    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(300, journal), 2)
    builder.set_bolt("sink", DataFrameSink(write, "number long"), 2).fields_grouping("numbers", ["number"])
    with SparkCluster(spark) as cluster:
        cluster.submit_topology("jdbc", CONF, builder.create_topology())
        wait_until(lambda: len(journal.noted("acked")) == 300)

    database = sqlite3.connect(path)
    found = database.execute("SELECT number FROM numbers ORDER BY number").fetchall()
    database.close()
    assert [number for (number,) in found] == list(range(300))
    assert tries[0] == tries[1]
