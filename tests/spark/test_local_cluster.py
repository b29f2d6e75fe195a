"""Executors that are processes of their own: the tests of `on_executors.py`, on `local-cluster`, in one process."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.spark import on_executors
from tests.spark.conftest import SETTINGS
from tests.spark.processes import spark_home

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]
SPARK_SETTINGS = {
    "spark.master": "local-cluster[2,1,1024]",
    "spark.locality.wait": "0s",
    "spark.shuffle.io.retryWait": "100ms",
}
TESTS = [name for name in vars(on_executors) if name.startswith("test_")]


@pytest.fixture(scope="module")
def outcomes():
    """{name of a test: what went wrong with its cases}."""
    folder = Path(tempfile.mkdtemp(prefix="c-"))  # the paths of sockets must be short
    spark_home(folder / "spark")
    settings = {**SPARK_SETTINGS, "spark.local.dir": str(folder / "local")}
    environ = {
        **os.environ,
        SETTINGS: json.dumps(settings),
        "SPARK_HOME": str(folder / "spark"),
        "SPARK_TEST_LOCAL_DIR": str(folder / "local"),
        "TMPDIR": str(folder),
        "PYTHONPATH": str(ROOT),
    }
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={report}", on_executors.__file__]
    done = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert report.exists(), done.stdout + done.stderr
    found = {name: [] for name in TESTS}
    for case in ElementTree.parse(report).iter("testcase"):
        found[case.get("name").partition("[")[0]] += [part.text for part in case if part.tag in ("failure", "error")]
    shutil.rmtree(folder, ignore_errors=True)  # executors remove what is their own at the same time
    return found


@pytest.mark.parametrize("name", TESTS)
def test_on_executors(outcomes, name):
    assert "\n".join(outcomes[name]) == ""
