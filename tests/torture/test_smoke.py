"""One short run of the whole program."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.spark
@pytest.mark.slow
def test_a_short_run_loses_nothing_and_leaves_nothing(tmp_path):
    command = [sys.executable, "-m", "tests.torture", "--secs", "15", "--seed", "1", "--pace", "0.4"]
    environ = {**os.environ, "TMPDIR": "/tmp", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [*command, "--keep", str(tmp_path)], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=900
    )

    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["passed"]
    assert sum(told["faults"].values()) >= 1
    assert told["rows"] > 0
    assert told["messages"] > 0
    assert not list(tmp_path.iterdir())
