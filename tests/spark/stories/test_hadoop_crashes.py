"""Crashes of drivers with a checkpoint at a URI, and crashes at every durable step of its files."""

import os
import signal
import subprocess
import sys
from collections import Counter

import pytest

from pystorm_spark import SparkCluster, load_state
from pystorm_spark.checkpoint.crash_points import EXIT_CODE, POINTS
from pystorm_spark.checkpoint.files import PosixFiles
from pystorm_spark.checkpoint.store import CheckpointStore
from pystorm_spark.runtime.keys.hashing import stable_hash
from pystorm_spark.spark.storage.hadoop_files import HadoopFiles
from pystorm_spark.spark.storage.hadoop_folder import HadoopFolder
from tests.checkpoint.crash_sweep import LAST, check, left, run
from tests.checkpoint.raised_crashes import crashed_at
from tests.spark.components import wait_until
from tests.spark.durable import EXACTLY_ONCE, acked, counting
from tests.spark.other_session import ROOT

pytestmark = pytest.mark.spark

COUNT = 200
SCRIPT = f"""
import sys, time
from pathlib import Path
from pystorm_spark import SparkCluster
from tests.spark.conftest import Journal
from tests.spark.durable import EXACTLY_ONCE, counting

with SparkCluster(checkpoint=f"file://{{sys.argv[1]}}/checkpoint") as cluster:
    journal = Journal(Path(sys.argv[1], "journal"), exist_ok=True)
    conf = {{**EXACTLY_ONCE, "topology.max.spout.pending": 10}}  # what is acked waits for a commit, so there are some
    cluster.submit_topology("counting", conf, counting({COUNT}, journal))
    time.sleep(100)
"""


def killed_at(point):
    """Ends a driver by itself, right after the step `point`."""

    def ended(command, env, journal):
        done = subprocess.run(command, env={**env, "PYSTORM_SPARK_CRASH_AT": point}, timeout=100)
        assert done.returncode == EXIT_CODE

    return ended


def killed_from_outside(command, env, journal):
    with subprocess.Popen(command, env=env) as script:
        wait_until(lambda: journal.noted("acked"))
        script.send_signal(signal.SIGKILL)


@pytest.mark.parametrize(
    "end",
    [killed_at("manifest-written:3"), pytest.param(killed_from_outside, marks=pytest.mark.slow)],
    ids=["at a step", "from outside"],
)
def test_the_driver_after_a_killed_one_counts_nothing_twice(spark, journal, tmp_path, end):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    end([sys.executable, "-c", SCRIPT, str(tmp_path)], env, journal)
    assert (tmp_path / "checkpoint" / "driver.lock").exists()
    assert len(acked(journal)) < COUNT

    checkpoint = f"file://{tmp_path}/checkpoint"
    with SparkCluster(spark, checkpoint=checkpoint) as cluster:
        cluster.submit_topology("counting", EXACTLY_ONCE, counting(COUNT, journal))
        wait_until(lambda: acked(journal) == set(range(COUNT)))
        assert cluster.read_state("counting", "count") == dict.fromkeys(range(COUNT), 1)
    assert sorted(os.listdir(tmp_path / "checkpoint")) == ["counting", "driver.flock"]
    assert unneeded(tmp_path / "checkpoint" / "counting" / "state") == []

    command = [sys.executable, "-m", "pystorm_spark.repartition", checkpoint, "counting", "count", "3"]
    told = subprocess.run(command, env=env, timeout=100, check=True, capture_output=True, text=True).stdout
    rows = load_state(spark, checkpoint, "count").collect()
    assert {row.key: row.task for row in rows} == {key: stable_hash([key]) % 3 for key in range(COUNT)}
    sizes = Counter(row.task for row in rows)
    assert told == f"{COUNT} keys of 'count' are in 3 tasks now: {sizes[0]}, {sizes[1]}, {sizes[2]}\n"
    assert sorted(os.listdir(tmp_path / "checkpoint")) == ["counting", "driver.flock"]


def unneeded(folder):
    """List the files of a state that neither of the two kept manifests needs."""
    files = PosixFiles(folder)
    kept = CheckpointStore(files, "counting")._kept
    needed = set().union(*(manifest.file_names() for manifest in kept))
    assert len(kept) == len([name for name in files.names() if name.startswith("manifest-")]) == 2
    return [name for name in files.names() if name not in needed and not name.startswith("manifest-")]


def steps(spark, folder, point=""):
    """Continue to the last commit, or to the crash; returns the reached points, and the last reported commit."""
    told = [0]
    with crashed_at(point) as crashes:
        hadoop = HadoopFolder(spark, f"file:{folder}")
        hadoop.remove = crashes.refused_when_over(hadoop.remove)
        run(HadoopFiles(hadoop), told.append)
    return crashes.points(), told[-1]


def test_files_after_a_crash_at_any_step_hold_a_whole_commit_and_nothing_else(spark, tmp_path):
    points, _ = steps(spark, tmp_path / "whole")
    assert {point.partition(":")[0] for point in points} == {*POINTS}
    for point in points:
        folder = tmp_path / point.replace(":", "-")
        _, told = steps(spark, folder, point)
        check(PosixFiles(folder), told, told + 1)
        steps(spark, folder)
        check(HadoopFiles(HadoopFolder(spark, f"file:{folder}")), LAST, LAST)
        assert left(folder) == left(tmp_path / "whole"), point
