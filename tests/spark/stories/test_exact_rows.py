"""Rows of a DataFrameSpout with exactly-once: a batch takes many commits, while processes are killed."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from pystorm_spark import SparkCluster, TopologyBuilder
from pystorm_spark.dataframe import DataFrameSpout
from tests.spark.components import wait_until
from tests.spark.durable import EXACTLY_ONCE, Count
from tests.spark.rows.test_dataframe_spout import ROOT, Files, committed

pytestmark = pytest.mark.spark

ROWS = 3000
CONF = {**EXACTLY_ONCE, "topology.max.spout.pending": 100, "topology.state.checkpoint.interval.ms": 100}


class SlowCount(Count):
    """Counts at most a thousand rows a second."""

    def execute(self, tup):
        time.sleep(0.001)
        self.journal.note("executed", tup[0])
        super().execute(tup)


def topology(files, journal, count=SlowCount):
    builder = TopologyBuilder()
    builder.set_spout("rows", DataFrameSpout(files.read, ["number"]), 2)
    builder.set_bolt("count", count(journal), 2).fields_grouping("rows", ["number"])
    return builder.create_topology()


def await_commits(journal, count):
    wait_until(lambda: len(set(journal.noted("committed"))) >= count)


def kill_a_slot(journal):
    os.kill(int(journal.noted("prepared")[-1]), signal.SIGKILL)


@pytest.fixture
def files(tmp_path):
    files = Files(tmp_path / "files")
    files.put(range(ROWS))
    return files


def test_a_batch_of_many_commits_keeps_few_files_and_is_counted_once_though_slots_die(spark, journal, files, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    with SparkCluster(spark, checkpoint) as cluster:
        cluster.submit_topology("exact", CONF, topology(files, journal))
        for killed in range(1, 3):
            await_commits(journal, 3 * killed)
            kill_a_slot(journal)
        await_commits(journal, 9)
        names = [path.name for path in (checkpoint / "exact" / "state").iterdir()]
        wait_until(lambda: committed(checkpoint, "exact") == {0})
        counts = cluster.read_state("exact", "count")

    assert counts == dict.fromkeys(range(ROWS), 1)
    # At most the files of two commits and three starts; some may be partly written or about to be removed.
    assert len([name for name in names if name.startswith("acked")]) <= 2 * (3 + 3)


def test_the_next_run_continues_a_batch_after_its_last_commit(spark, journal, files, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    with SparkCluster(spark, checkpoint) as cluster:
        cluster.submit_topology("exact", CONF, topology(files, journal))
        await_commits(journal, 5)
    executed = len(journal.noted("executed"))
    assert committed(checkpoint, "exact") == set()

    with SparkCluster(spark, checkpoint) as cluster:
        cluster.submit_topology("exact", {**CONF, "topology.workers": 1}, topology(files, journal))
        wait_until(lambda: committed(checkpoint, "exact") == {0})
        counts = cluster.read_state("exact", "count")

    assert counts == dict.fromkeys(range(ROWS), 1)
    restored = sum(map(int, journal.noted("restored")))
    assert 0 < restored < ROWS
    assert len(journal.noted("executed")) - executed == ROWS - restored


class RefusesSeven(SlowCount):
    """Counts a row and then raises, every time."""

    def execute(self, tup):
        if tup[0] == 7:
            self.state.put(7, self.state.get(7, 0) + 1)
            raise ValueError("not that one")
        super().execute(tup)


def test_a_row_that_always_fails_is_a_dead_letter_and_all_others_count_once(spark, journal, files, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    with SparkCluster(spark, checkpoint) as cluster:
        cluster.submit_topology("exact", CONF, topology(files, journal, RefusesSeven))
        wait_until(lambda: committed(checkpoint, "exact") == {0})
        counts = cluster.read_state("exact", "count")

    assert counts == {number: 1 for number in range(ROWS) if number != 7}
    (letter,) = spark.read.json(str(checkpoint / "exact" / "dead-letters" / "rows")).collect()
    assert (letter.row.number, letter.number) == (7, 7)
    assert "not that one" in letter.error


class DiesOnSeven(SlowCount):
    def execute(self, tup):
        if tup[0] == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        super().execute(tup)


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_a_row_that_kills_its_slot_every_time_is_a_dead_letter_and_no_other(spark, journal, files, tmp_path, guarantee):
    checkpoint = tmp_path / "checkpoint"
    conf = {**CONF, "topology.state.guarantee": guarantee}
    with SparkCluster(spark, checkpoint) as cluster:
        cluster.submit_topology("exact", conf, topology(files, journal, DiesOnSeven))
        wait_until(lambda: committed(checkpoint, "exact") == {0}, secs=240)
        counts = cluster.read_state("exact", "count")

    assert sorted(counts) == [number for number in range(ROWS) if number != 7]
    assert set(counts.values()) == {1} or guarantee == "at-least-once"
    (letter,) = spark.read.json(str(checkpoint / "exact" / "dead-letters" / "rows")).collect()
    assert letter.row.number == 7
    assert "is not executed (topology.poison.deaths)" in letter.error


SCRIPT = """
import sys
from pathlib import Path
from pystorm_spark import SparkCluster
from tests.spark.conftest import Journal
from tests.spark.rows.test_dataframe_spout import Files
from tests.spark.stories.test_exact_rows import CONF, topology

folder = Path(sys.argv[1])
journal, files = object.__new__(Journal), object.__new__(Files)
journal.folder, files.folder = folder / "journal", folder / "files"
with SparkCluster(checkpoint=folder / "checkpoint") as cluster:
    cluster.submit_topology("exact", CONF, topology(files, journal)).await_termination()
"""


def run_script(folder):
    home = folder / "tmp"
    home.mkdir(exist_ok=True)
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(home)}
    command = [sys.executable, "-c", SCRIPT, str(folder)]
    return subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def short_folder():
    folder = Path(tempfile.mkdtemp(prefix="k-"))  # Spark needs short paths
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_a_batch_during_which_the_driver_is_killed_is_counted_once(spark, journal, short_folder):
    journal.folder = short_folder / "journal"
    journal.folder.mkdir()
    files = Files(short_folder / "files")
    files.put(range(ROWS))
    for seen in (3, 6):
        script = run_script(short_folder)
        await_commits(journal, seen)
        script.send_signal(signal.SIGKILL)
        script.wait()
        assert committed(short_folder / "checkpoint", "exact") == set()

    with SparkCluster(spark, short_folder / "checkpoint") as cluster:
        cluster.submit_topology("exact", CONF, topology(files, journal))
        wait_until(lambda: committed(short_folder / "checkpoint", "exact") == {0})
        counts = cluster.read_state("exact", "count")
    assert counts == dict.fromkeys(range(ROWS), 1)
