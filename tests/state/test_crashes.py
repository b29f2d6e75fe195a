"""Crashes of a whole topology, and bad disks: its state is at last what it would be if nothing had gone wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# In a namespace of its own a process may mount what it likes, and nobody else sees it.
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]


def run(*command):
    """The output of a script of this folder."""
    done = subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def swept(folder, crashes):
    """How many durable steps there are, and how often a topology was crashed at them."""
    return map(int, run(sys.executable, HERE / "crash_sweep.py", folder, crashes).split())


def test_a_topology_that_is_crashed_at_any_step_loses_nothing_and_counts_nothing_twice(tmp_path):
    points, crashes = swept(tmp_path / "sweep", crashes=1)
    assert points == crashes >= 20


@pytest.mark.slow
def test_a_topology_that_is_crashed_at_any_two_steps_loses_nothing_and_counts_nothing_twice(tmp_path):
    points, crashes = swept(tmp_path / "sweep", crashes=2)
    assert crashes > points**2 / 2


def test_a_disk_that_is_full_or_read_only_holds_commits_up_and_harms_nothing(tmp_path):
    mount = [*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)]
    try:
        allowed = subprocess.run(mount, capture_output=True, timeout=60).returncode == 0
    except FileNotFoundError:
        allowed = False
    if not allowed:
        pytest.skip("needs `unshare` and leave to use it")
    run(*NAMESPACE, sys.executable, HERE / "bad_disk.py", tmp_path)
