"""Crashes and bad disks: the store is at the last commit or at the one in flight, and leaves nothing behind."""

import os
import stat
import sys
from pathlib import Path

import pytest

from pystorm_spark.checkpoint.crash_points import Crashes, crash_point
from pystorm_spark.checkpoint.files import PosixFiles
from tests.disks import run, run_where_it_may_mount

HERE = Path(__file__).parent


@pytest.mark.slow
def test_a_store_that_is_crashed_at_each_point_and_each_pair_of_points_goes_on_from_its_last_commit(tmp_path):
    points, crashes = map(int, run(sys.executable, HERE / "crash_sweep.py", tmp_path / "sweep").split())
    assert points >= 20
    assert crashes > points**2 / 2


def test_a_disk_that_is_full_or_read_only_fails_the_commit_and_no_other(tmp_path):
    run_where_it_may_mount(HERE / "bad_disk.py", tmp_path)


def test_a_file_is_synced_before_its_rename_and_its_folder_before_the_write_returns(tmp_path, monkeypatch):
    files = PosixFiles(tmp_path)
    steps = []

    def sync(handle):
        steps.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else f"{os.fstat(handle).st_size} bytes")

    def rename(path, target):
        steps.append(target.name)
        os.rename(path, target)

    monkeypatch.setattr("os.fsync", sync)
    monkeypatch.setattr("pathlib.Path.rename", rename)
    files.write("a.part", b"one")
    assert steps == ["3 bytes", "a.part", "folder"]


class Ended(BaseException):
    pass


@pytest.fixture
def ends_at(monkeypatch, tmp_path):
    """A function: the number of the step, of several, at which a process ends; None if it does not."""

    def end(code):
        assert code == 137
        raise Ended

    def ends(points, *names, marks="marks"):
        crashes = Crashes(points, str(tmp_path / marks) if marks else "")
        for number, name in enumerate(names):
            try:
                crashes.reach(name)
            except Ended:
                return number
        return None

    monkeypatch.setattr("os._exit", end)
    return ends


def test_a_process_ends_at_the_point_that_is_named(ends_at):
    assert ends_at("part-renamed", "part-written", "part-renamed", marks=None) == 1
    assert ends_at("part-renamed:2", "part-renamed", "part-written", "part-renamed", marks=None) == 2
    assert ends_at("part-renamed:3", "part-renamed", "part-renamed", marks=None) is None
    assert ends_at("", "part-renamed", marks=None) is None


def test_the_next_point_counts_when_the_one_before_has_ended_a_process(ends_at):
    points = "part-renamed,file-removed:2"
    assert ends_at(points, "file-removed", "file-removed", "part-renamed") == 2
    assert ends_at(points, "part-renamed", "file-removed", "file-removed") == 2
    assert ends_at(points, "part-renamed", "file-removed", "file-removed") is None


def test_the_environment_counts_when_a_point_is_reached(monkeypatch):
    ended = []
    monkeypatch.setattr("os._exit", ended.append)
    crash_point("part-renamed")
    monkeypatch.setenv("PYSTORM_SPARK_CRASH_AT", "part-renamed:2")
    crash_point("part-renamed")
    assert ended == []
    crash_point("part-renamed")
    assert ended == [137]
    monkeypatch.delenv("PYSTORM_SPARK_CRASH_AT")
    crash_point("part-renamed")
    assert ended == [137]


def test_an_unknown_point_is_refused():
    with pytest.raises(ValueError, match="unknown crash point 'part-lost'; the crash points are part-written, "):
        Crashes("part-lost", "")
