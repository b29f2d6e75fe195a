"""Crashes of a whole topology, and bad disks: its final state is the same as without faults."""

import sys
from pathlib import Path

import pytest

from tests.disks import run, run_where_it_may_mount

HERE = Path(__file__).parent


def swept(folder, crashes):
    """How many durable steps there are, and how often a topology was crashed at them."""
    return map(int, run(sys.executable, HERE / "crash_sweep.py", folder, crashes).split())


def test_a_topology_that_is_crashed_at_any_step_loses_nothing_and_counts_nothing_twice(tmp_path):
    points, crashes = swept(tmp_path / "sweep", crashes=1)
    assert points == crashes >= 20


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_a_durable_source_and_timers_that_are_crashed_at_any_step_lose_nothing(tmp_path, guarantee):
    told = run(sys.executable, "-m", "tests.state.source_crash_sweep", tmp_path / "sweep", guarantee)
    points, crashes = map(int, told.split())
    assert points == crashes >= 20


@pytest.mark.slow
def test_a_topology_that_is_crashed_at_any_two_steps_loses_nothing_and_counts_nothing_twice(tmp_path):
    points, crashes = swept(tmp_path / "sweep", crashes=2)
    assert crashes > points**2 / 2


def test_a_disk_that_is_full_or_read_only_delays_commits_and_loses_nothing(tmp_path):
    run_where_it_may_mount(HERE / "bad_disk.py", tmp_path)
