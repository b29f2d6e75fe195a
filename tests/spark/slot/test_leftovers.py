"""What a slot removes of a driver that is dead, and what it leaves to others."""

import os
import subprocess
import sys

import msgpack
import pytest

from pystorm_spark.spark.driver.placing import START
from pystorm_spark.spark.protocol.process import process_id
from pystorm_spark.spark.slot.leftovers import Leftovers
from pystorm_spark.spark.slot.process import ORPHANED


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


def test_a_slot_that_has_ended_and_that_nobody_has_asked_for_is_dead(leftovers, tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        (tmp_path / "pystorm-run" / f"slot-1-{zombie.pid}").touch()

        leftovers.remove()

        assert not tmp_path.exists()


def test_a_topology_without_living_slots_keeps_nobody_from_removing_all(leftovers, tmp_path):
    other = tmp_path / "pystorm-other"
    other.mkdir()
    (other / f"slot-0-{ended().pid}").touch()

    leftovers.remove()

    assert not tmp_path.exists()


def test_the_slot_of_another_topology_that_lives_is_left_its_files(leftovers, tmp_path):
    socket = tmp_path / "pystorm-other" / f"slot-0-{os.getpid()}"
    socket.parent.mkdir()
    socket.touch()

    leftovers.remove()

    assert socket.exists()


def test_a_slot_that_finds_no_driver_when_it_starts_removes_the_files_of_a_dead_one(tmp_path):
    files = tmp_path / "pystorm-files"
    folder = files / "pystorm-run"
    folder.mkdir(parents=True)
    dead = list(ended())
    spec = {
        "slot": 0,
        "token": bytes(32),
        "control": [str(folder / "control"), 0],
        "folder": str(folder),
        "host": "",
        "executor": dead,
        "driver": dead,
        "files": str(files),
        "sys_path": sys.path,
        "log_level": 30,
    }

    done = subprocess.run([sys.executable, "-c", START], input=msgpack.packb(spec), timeout=60)

    assert done.returncode == ORPHANED
    assert not files.exists()
