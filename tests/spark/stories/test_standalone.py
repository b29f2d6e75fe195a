"""A topology submitted with `spark-submit` to a standalone cluster: a master and two workers on this machine."""

import inspect
import os
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.spark import components
from tests.spark.components import wait_until
from tests.spark.conftest import Journal
from tests.spark.processes import executor_of, kill, listening_at, running, running_below, slots_below, spark_home

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import sys
from pathlib import Path
from pystorm_spark import StormSubmitter
from pystorm_spark.spark import topology
from notes import Journal
from parts.components import doubling

if sys.argv[2] == "elsewhere":
    topology.home = lambda: "another machine"  # so that slots find no file by the driver's paths
conf = {"topology.workers": 2, "topology.max.spout.pending": 10}
StormSubmitter.submit_topology("t", conf, doubling(10_000_000, Journal(Path(sys.argv[1]))))
"""


class Standalone:
    """The cluster, and the environment of its scripts."""

    def __init__(self, folder):
        self.folder = folder
        self.home = spark_home(folder / "spark")
        self.tmp = folder / "tmp"
        self.tmp.mkdir()
        known = ("PATH", "HOME", "JAVA_HOME")
        self.environ = {name: os.environ[name] for name in known if name in os.environ} | {
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self.tmp),
        }
        self.processes = []
        self.url = self._start_master()
        for _ in range(2):
            self._start("worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"), self.url)

    def _start_master(self):
        log = self._start("master.Master", "--port", "0")
        wait_until(lambda: "Starting Spark master at" in log.read_text())
        return re.search(r"Starting Spark master at (spark://\S+)", log.read_text()).group(1)

    def _start(self, name, *arguments):
        log = self.folder / f"{len(self.processes)}.log"
        command = [str(self.home / "bin/spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
        command += ["--host", "127.0.0.1", "--webui-port", "0"]
        with log.open("w") as output:
            self.processes.append(subprocess.Popen(command, env=self.environ, stdout=output, stderr=output))
        return log

    def submit(self, name, where="home"):
        """Start a script; returns it, and the folder with its journal."""
        folder = self.folder / name
        folder.mkdir()
        script, notes, parts = folder / "script.py", folder / "notes.py", folder / "parts.zip"
        script.write_text(SCRIPT)
        notes.write_text(f"import os\n\n\n{inspect.getsource(Journal)}")
        with zipfile.ZipFile(parts, "w") as archive:
            archive.writestr("parts/__init__.py", "")
            archive.writestr("parts/components.py", inspect.getsource(components))
        command = [str(self.home / "bin/spark-submit"), "--master", self.url, "--conf", "spark.ui.enabled=false"]
        command += ["--executor-memory", "512m", "--py-files", f"{notes},{parts}"]
        command += [str(script), str(folder / "journal"), where]
        with (folder / "log").open("w") as output:
            submitted = subprocess.Popen(command, env=self.environ, cwd=folder, stdout=output, stderr=output)
        self.processes.append(submitted)
        return submitted, folder

    def slots(self):
        return slots_below(self.tmp)

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait(60)


@pytest.fixture(scope="module")
def standalone(tmp_path_factory):
    cluster = Standalone(tmp_path_factory.mktemp("d"))
    yield cluster
    cluster.stop()


def await_run(submitted, folder):
    def runs():
        assert submitted.poll() is None, (folder / "log").read_text()
        return any((folder / "journal").glob("acked-*"))

    wait_until(runs)


def python_driver(submitted):
    (pid,) = [pid for pid, parent in running("script.py").items() if parent == submitted.pid]
    return pid


def test_a_script_under_spark_submit_runs_beside_executors_and_ends_cleanly(standalone):
    submitted, folder = standalone.submit("first", "elsewhere")
    await_run(submitted, folder)
    driver, slots = python_driver(submitted), standalone.slots()
    assert len({executor_of(slot) for slot in slots}) == 2
    assert [listening_at(pid) for pid in (driver, *slots)] == [{"127.0.0.1"}] * 3

    os.kill(driver, signal.SIGTERM)

    assert submitted.wait(120) == 0, (folder / "log").read_text()
    assert len(list((folder / "journal").glob("closed-*"))) == 2
    assert_nothing_stays(standalone)


def test_a_new_driver_replaces_a_killed_one_which_leaves_nothing_behind(standalone):
    killed, folder = standalone.submit("killed")
    await_run(killed, folder)
    old = standalone.slots()

    kill(python_driver(killed))
    submitted, folder = standalone.submit("second")
    wait_until(lambda: not old & standalone.slots(), secs=10)

    await_run(submitted, folder)
    submitted.terminate()  # this signals the JVM of Spark, not Python
    submitted.wait(120)
    assert_nothing_stays(standalone)


def assert_nothing_stays(standalone):
    ours = ("script.py", "CoarseGrainedExecutorBackend", "pystorm_spark.spark.slot.process")
    wait_until(lambda: not running_below(standalone.tmp, *ours), secs=20)
    assert not list(standalone.tmp.glob("pystorm-*"))
