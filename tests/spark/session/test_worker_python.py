"""The Python that Spark's workers run if `python3` on the PATH belongs to another environment."""

import os
import subprocess
import sys
import venv
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError

from pystorm_spark.spark.session.worker_python import told_python, use_this_python

SCRIPT = """
import sys
from pyspark.sql import SparkSession
from pystorm_spark import Bolt, SparkCluster, TopologyBuilder
from pystorm_spark.dataframe import run_batch
from pystorm_spark.testing import FixedTupleSpout, complete_topology, read_tuples

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder.config("spark.sql.warehouse.dir", sys.argv[1])
session = builder.getOrCreate()
session.sparkContext.setLogLevel("OFF")


class Twice(Bolt):
    outputs = ["number"]

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.collector.emit([2 * tup[0]], anchors=tup)
        self.collector.ack(tup)


builder = TopologyBuilder()
builder.set_spout("numbers", FixedTupleSpout([[1], [2], [3]], ["number"]))
builder.set_bolt("twice", Twice(), 2).fields_grouping("numbers", "number")
with SparkCluster(session) as cluster:
    result = complete_topology(cluster, builder.create_topology(), conf={"topology.workers": 2})
    print("completed:", sorted(read_tuples(result, "twice")))
made = run_batch(session, builder.create_topology(), {"numbers": session.range(4).toDF("number")}, ["twice"])
print("batch:", sorted(row.number for row in made["twice"].collect()))
session.stop()
"""


@pytest.fixture
def other_python(tmp_path):
    """Make the `python3` of another, empty environment."""
    venv.create(tmp_path / "other", with_pip=False)
    return tmp_path / "other" / "bin" / "python3"


def run(tmp_path, other_python, **environ):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    left_out = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    kept["PATH"] = f"{other_python.parent}{os.pathsep}{kept['PATH']}"
    command = [sys.executable, str(script), str(tmp_path / "warehouse")]
    return subprocess.run(command, env={**kept, **environ}, cwd=tmp_path, capture_output=True, text=True, timeout=300)


@pytest.mark.spark
def test_workers_of_a_given_local_session_run_this_python(tmp_path, other_python):
    done = run(tmp_path, other_python)

    assert "completed: [[2], [4], [6]]" in done.stdout, done.stderr
    assert "batch: [0, 2, 4, 6]" in done.stdout, done.stderr


@pytest.mark.spark
def test_a_python_that_the_user_has_set_is_kept_and_named_if_slots_cannot_start(tmp_path, other_python):
    done = run(tmp_path, other_python, PYSPARK_PYTHON=str(other_python))

    told = done.stderr.splitlines()[-1]
    version = sys.version.split()[0]
    assert "Spark could not start slots [0, 1]: ModuleNotFoundError: No module named 'pystorm_spark'" in told
    assert f"Spark's workers run {other_python} (Python {version})" in told
    assert f"this is {sys.executable} (Python {version})" in told
    assert "set PYSPARK_PYTHON" in told


def session(master, **settings):
    """Make a session whose workers run `python3`; it has only the parts that the choice of a Python uses."""
    context = SimpleNamespace(master=master, pythonExec="python3", getConf=lambda: settings)
    return SimpleNamespace(sparkContext=context)


@pytest.mark.parametrize(
    ("master", "environ", "settings", "runs"),
    [
        ("local[2]", {}, {}, sys.executable),
        ("local-cluster[2,1,1024]", {}, {}, sys.executable),
        ("local[2]", {"PYSPARK_PYTHON": "python3"}, {}, "python3"),
        ("local[2]", {}, {"spark.pyspark.python": "/opt/python"}, "python3"),  # PySpark has ignored this setting
        ("spark://master:7077", {}, {}, "python3"),
    ],
)
def test_this_python_is_chosen_if_the_master_is_local_and_none_is_set(monkeypatch, master, environ, settings, runs):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    brought = session(master, **settings)

    use_this_python(brought)

    assert brought.sparkContext.pythonExec == runs


def test_workers_whose_python_is_unknown_run_the_one_that_spark_was_given():
    told = told_python(SimpleNamespace(parallelize=fails, pythonExec="/nonexistent/python"))

    assert told.startswith("Spark's workers run /nonexistent/python; this is ")


def fails(*_):
    raise Py4JError("Cannot run program")
