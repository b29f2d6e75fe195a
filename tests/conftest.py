"""Settings for every test: Hypothesis draws the same examples on every CI run, and no example has a deadline."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.spark.conftest import spark  # noqa: F401 - the one session of all tests that need Spark

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture
def synced(monkeypatch):
    """The files and folders that are synced to the disk, in their order."""
    paths, fsync = [], os.fsync

    def noting(handle):
        paths.append(Path(os.readlink(f"/proc/self/fd/{handle}")))
        fsync(handle)

    monkeypatch.setattr("os.fsync", noting)
    return paths


def pytest_collection_modifyitems(items):
    """The behaviour tests last: they are many short ones, and fill what files of few long ones leave of a process."""
    items.sort(key=lambda item: item.path.parent.name == "behaviour")
