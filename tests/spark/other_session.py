"""Tests that need another kind of session than the others: run in a process of their own, which has one Spark."""

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from tests.spark.conftest import SETTINGS

ROOT = Path(__file__).resolve().parents[2]


def names(module):
    """The tests of a module."""
    return [name for name in vars(module) if name.startswith("test_")]


def outcomes(module, folder, settings, **environ):
    """{name of a test of `module`: what went wrong with its cases}."""
    environ = {
        **os.environ,
        SETTINGS: json.dumps(settings),
        "TMPDIR": str(folder),
        "PYTHONPATH": str(ROOT),
        **environ,
    }
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={report}", module.__file__]
    done = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert report.exists(), done.stdout + done.stderr
    found = {name: [] for name in names(module)}
    for case in ElementTree.parse(report).iter("testcase"):
        found[case.get("name").partition("[")[0]] += [part.text for part in case if part.tag in ("failure", "error")]
    return found
