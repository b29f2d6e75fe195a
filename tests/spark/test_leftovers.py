"""What a slot removes of a driver that is dead, and what it leaves to others."""

import os
import subprocess
import sys

import pytest

from pystorm_spark.spark.leftovers import Leftovers
from pystorm_spark.spark.process import process_id


def ended():
    """A process that has ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        return process_id(process.pid)


@pytest.fixture
def leftovers(tmp_path):
    """Those of slot 0, whose driver and executor are dead; they are in a folder of the driver's."""
    folder = tmp_path / "pystorm-run"
    folder.mkdir()
    return Leftovers(0, folder, tmp_path, executor=ended(), driver=ended())


def test_the_last_slot_removes_the_files_of_a_dead_driver(leftovers, tmp_path):
    leftovers.remove()

    assert not tmp_path.exists()


def test_a_slot_that_lives_is_left_its_files(leftovers, tmp_path):
    socket = tmp_path / "pystorm-run" / f"slot-1-{os.getpid()}"
    socket.touch()

    leftovers.remove()

    assert socket.exists()


def test_the_socket_of_a_slot_that_was_killed_keeps_nobody_from_removing_all(leftovers, tmp_path):
    (tmp_path / "pystorm-run" / f"slot-1-{ended().pid}").touch()

    leftovers.remove()

    assert not tmp_path.exists()
