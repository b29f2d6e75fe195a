"""Limits of a machine: open files, lengths of paths, temporary files. Errors come before anything starts."""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pystorm_spark import SparkCluster, StormError
from pystorm_spark.spark.protocol.process import process_id
from pystorm_spark.spark.session.limits import check_open_files

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def file_limit():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda limit: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_too_few_open_files_are_refused_with_the_limit_and_the_way_to_raise_it(file_limit):
    file_limit(40)
    with pytest.raises(StormError, match=r"may have 40 files open \(ulimit -Sn\).*at least \d+.*ulimit -n"):
        SparkCluster()


def test_a_process_without_a_free_open_file_gets_the_same_error(file_limit):
    held = [open(os.devnull) for _ in range(60)]  # noqa: SIM115 - closed below
    try:
        file_limit(40)
        with pytest.raises(StormError, match=r"may have 40 files open"):
            check_open_files()
    finally:
        for file in held:
            file.close()


def test_too_few_open_files_for_the_jvm_are_refused_before_it_starts():
    code = "from pystorm_spark import SparkCluster; SparkCluster()"
    command = f"ulimit -n 256; exec {sys.executable} -c '{code}'"
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(["bash", "-c", command], env=environ, capture_output=True, text=True, timeout=60)

    assert ended.returncode == 1
    assert "StormError: this process may have 256 files open (ulimit -Hn)" in ended.stderr


def test_enough_open_files_are_accepted():
    check_open_files()


def test_a_process_without_a_free_open_file_counts_as_alive(file_limit):
    this = process_id(os.getpid())
    os.close(lowest_free := os.dup(0))
    file_limit(lowest_free)
    assert this.is_alive()


@pytest.fixture
def temporary(monkeypatch):
    """Sets the folder for temporary files."""
    return lambda folder: monkeypatch.setattr(tempfile, "tempdir", str(folder))


def test_a_missing_folder_for_temporary_files_is_named(temporary, tmp_path):
    temporary(tmp_path / "missing")
    with pytest.raises(StormError, match=r"missing/pystorm-.*set TMPDIR to one that can be written"):
        SparkCluster()


def test_a_folder_that_cannot_be_written_is_named(temporary):
    temporary("/proc")
    with pytest.raises(StormError, match="set TMPDIR"):
        SparkCluster()


def test_a_folder_whose_path_is_too_long_for_sockets_is_refused_and_left_as_it_was(temporary, tmp_path):
    folder = tmp_path / ("long" * 12)
    folder.mkdir()
    temporary(folder)

    with pytest.raises(StormError, match=r"has a path of \d+ bytes.*TMPDIR to one of at most \d+ bytes") as raised:
        SparkCluster()

    assert str(folder) in str(raised.value)
    assert not list(folder.iterdir())
