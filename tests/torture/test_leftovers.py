"""Leftovers of a run are found: processes with its mark, and folders."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.torture import leftovers, prey


@pytest.fixture
def driver(monkeypatch):
    monkeypatch.setattr(leftovers, "GONE_SECS", 0.0)
    return SimpleNamespace(mark=f"test-{os.getpid()}", unclaimed=set())


def test_a_clean_system_has_no_leftovers(driver, tmp_path):
    (tmp_path / "t1" / "local").mkdir(parents=True)
    assert leftovers.clear(tmp_path, driver) == []


def test_a_remaining_folder_is_found_with_its_content(driver, tmp_path):
    (tmp_path / "t1" / "pystorm-abc").mkdir(parents=True)
    (tmp_path / "t1" / "pystorm-abc" / "control").touch()
    assert leftovers.clear(tmp_path, driver) == ["t1/pystorm-abc with ['control']"]


def test_a_folder_without_a_surviving_process_does_not_count(driver, tmp_path):
    (tmp_path / "t1" / "pystorm-abc").mkdir(parents=True)
    driver.unclaimed.add("t1")
    assert leftovers.clear(tmp_path, driver) == []


def test_a_process_that_stays_is_found_and_ended(driver, tmp_path):
    code = "import time; print(flush=True); time.sleep(600)"
    environ = {**os.environ, **prey.environment(driver.mark)}
    with subprocess.Popen([sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert [found.pid for found in prey.marked(driver.mark)] == [process.pid]

        (left,) = leftovers.clear(tmp_path, driver)

        assert f"other {process.pid}" in left
        assert process.wait(60) < 0
    assert prey.marked(driver.mark) == []
