"""Nothing stays behind when the driver dies, and a script shuts down cleanly on a signal."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.spark.components import wait_until
from tests.spark.processes import XDIST_WORKER, slot_processes

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import sys
from pathlib import Path
from pystorm_spark import {engine}
from tests.spark.components import doubling
from tests.spark.conftest import Journal

journal = Journal(Path(sys.argv[1]))
topology = doubling(10_000_000, journal)
conf = {{"topology.workers": 2, "topology.max.spout.pending": 10}}
{run}
"""
CLUSTER = SCRIPT.format(
    engine="SparkCluster",
    run="with SparkCluster() as cluster:\n    cluster.submit_topology('t', conf, topology).await_termination()",
)
SUBMITTER = SCRIPT.format(engine="StormSubmitter", run="StormSubmitter.submit_topology('t', conf, topology)")
THREE_SESSIONS = SCRIPT.format(
    engine="SparkCluster",
    run="""
import signal
from pyspark.sql import SparkSession

for _ in range(2):
    with SparkCluster() as cluster:
        cluster.submit_topology('t', conf, topology)
spark = SparkSession.builder.getOrCreate()
journal.note("counted", spark.sparkContext.range(5).map(str).count())
spark.stop()
signal.pause()
""",
)
WITHOUT_SLOTS = SCRIPT.format(
    engine="SparkCluster",
    run="""
import signal

with SparkCluster() as cluster:
    journal.note("made", 1)
    signal.pause()
""",
)
STOPPED_SESSION = SCRIPT.format(
    engine="SparkCluster, StormError",
    run="""
from tests.spark.components import wait_until

with SparkCluster() as cluster:
    handle = cluster.submit_topology('t', conf, topology, active=False)
    wait_until(lambda: handle.run.driver.slots.changed._waiters)  # in a batch of Spark's that has no end
    cluster.spark.stop()
    try:
        handle.await_termination(timeout=30)
    except StormError as exc:
        print(exc)
""",
)


def start(script, folder):
    script_path = folder / "script.py"
    script_path.write_text(script)
    command = [sys.executable, str(script_path), str(folder / "journal")]
    environ = {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "tmp"), **_environ()}
    (folder / "tmp").mkdir()
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _environ():
    kept = ("PATH", "HOME", "JAVA_HOME", "PYSPARK_PYTHON", XDIST_WORKER)
    return {name: os.environ[name] for name in kept if name in os.environ}


def runs(folder):
    return any((folder / "journal").glob("acked-*"))


@pytest.fixture
def short_folder():
    folder = Path(tempfile.mkdtemp(prefix="o-"))  # Spark needs short paths
    yield folder
    shutil.rmtree(folder)


def test_slots_and_their_files_are_gone_soon_after_the_driver_was_killed(short_folder):
    before = slot_processes()
    script = start(CLUSTER, short_folder)
    wait_until(lambda: runs(short_folder))
    assert len(slot_processes() - before) == 2

    script.send_signal(signal.SIGKILL)
    script.communicate()

    wait_until(lambda: not slot_processes() - before, secs=10)
    wait_until(lambda: not list((short_folder / "tmp").glob("pystorm-*")), secs=10)


def test_the_files_of_a_driver_that_was_killed_while_no_slot_lived_are_gone_soon(short_folder):
    script = start(WITHOUT_SLOTS, short_folder)
    made = short_folder / "journal" / f"made-{script.pid}"
    wait_until(lambda: made.exists() or script.poll() is not None, secs=120)
    assert len(list((short_folder / "tmp").glob("pystorm-*"))) == 2  # its own, and its JVM's

    script.send_signal(signal.SIGKILL)
    script.communicate()

    wait_until(lambda: not list((short_folder / "tmp").glob("pystorm-*")), secs=10)


def test_several_sessions_of_a_killed_process_leave_nothing_behind(short_folder):
    script = start(THREE_SESSIONS, short_folder)
    counted = short_folder / "journal" / f"counted-{script.pid}"
    wait_until(lambda: counted.exists() or script.poll() is not None, secs=120)

    script.send_signal(signal.SIGKILL)
    out, _ = script.communicate()

    assert counted.exists(), out
    assert counted.read_text() == "5\n"
    wait_until(lambda: not list((short_folder / "tmp").glob("pystorm-*")), secs=10)


def test_an_idle_topology_notices_that_its_session_was_stopped(short_folder):
    out, _ = start(STOPPED_SESSION, short_folder).communicate(timeout=120)

    assert "the SparkSession was stopped while the topology ran" in out
    assert not list((short_folder / "tmp").glob("pystorm-*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_its_script_closes_a_submitted_topology(short_folder, number):
    before = slot_processes()
    script = start(SUBMITTER, short_folder)
    wait_until(lambda: runs(short_folder))

    script.send_signal(number)
    out, _ = script.communicate(timeout=60)

    assert script.returncode == 0, out
    assert "Traceback" not in out
    assert len(list((short_folder / "journal").glob("closed-*"))) == 2
    assert not slot_processes() - before
    assert not list((short_folder / "tmp").glob("pystorm-*"))
