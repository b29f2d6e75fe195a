"""Crashes of a whole topology: its state is at last what it would be if nothing had crashed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def swept(folder, crashes):
    """How many durable steps there are, and how often a topology was crashed at them."""
    done = subprocess.run(
        [sys.executable, str(HERE / "crash_sweep.py"), str(folder), str(crashes)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
    )
    assert done.returncode == 0, done.stderr
    return map(int, done.stdout.split())


def test_a_topology_that_is_crashed_at_any_step_loses_nothing_and_counts_nothing_twice(tmp_path):
    points, crashes = swept(tmp_path / "sweep", crashes=1)
    assert points == crashes >= 20


@pytest.mark.slow
def test_a_topology_that_is_crashed_at_any_two_steps_loses_nothing_and_counts_nothing_twice(tmp_path):
    points, crashes = swept(tmp_path / "sweep", crashes=2)
    assert crashes > points**2 / 2
