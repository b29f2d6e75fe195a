"""Scripts that tests run, some of them on a small disk of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# In a namespace of its own a process may mount what it likes, and nobody else sees it.
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]


def run(*command):
    """The output of a script."""
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_where_it_may_mount(script, folder):
    """Run a script that mounts a disk at `folder`; skip the test where nobody may."""
    allowed = [*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", str(folder)]
    try:
        may_mount = subprocess.run(allowed, capture_output=True, timeout=60).returncode == 0
    except FileNotFoundError:
        may_mount = False
    if not may_mount:
        pytest.skip("needs `unshare` and leave to use it")
    run(*NAMESPACE, sys.executable, script, folder)


def mount(folder, *options):
    """For such a script."""
    subprocess.run(["mount", *options, folder], check=True)


def fill(path):
    """Write to a file until there is no room."""
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return
