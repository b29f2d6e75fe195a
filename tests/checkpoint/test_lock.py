"""Checkpoint folders: one driver at a time, and a clear error for a folder that cannot be one."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

from pystorm_spark import CheckpointError, StormError
from pystorm_spark.checkpoint.lock import CheckpointLock, checkpoint_folder

HOLDER = """
import sys, time
from pathlib import Path
from pystorm_spark.checkpoint.lock import CheckpointLock
lock = CheckpointLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_driver_is_refused_and_told_who_holds_the_checkpoint(tmp_path):
    lock = CheckpointLock(tmp_path)
    with pytest.raises(CheckpointError, match=f"in use by pid {os.getpid()} on ") as raised:
        CheckpointLock(tmp_path)
    assert str(tmp_path) in str(raised.value)
    lock.release()


def test_a_checkpoint_is_free_when_its_driver_releases_it(tmp_path):
    CheckpointLock(tmp_path).release()
    CheckpointLock(tmp_path).release()


def test_the_lock_of_a_driver_that_was_killed_is_taken_over(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(CheckpointError, match=f"pid {holder.pid} "):
            CheckpointLock(tmp_path)
        holder.send_signal(signal.SIGKILL)
        holder.wait()

        CheckpointLock(tmp_path).release()


def test_a_process_that_the_driver_starts_does_not_inherit_the_lock(tmp_path):
    lock = CheckpointLock(tmp_path)
    with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
        lock.release()
        CheckpointLock(tmp_path).release()
        child.kill()


FORKING = """
import os, sys, time
from pathlib import Path
from pystorm_spark.checkpoint.lock import CheckpointLock
released = CheckpointLock(Path(sys.argv[1], "other"))
released.release()
lock = CheckpointLock(Path(sys.argv[1]))
if os.fork() == 0:
    print("forked", flush=True)
    sys.stdin.read()
    os._exit(0)
sys.stdin.read(1)
os._exit(1)
"""


def test_a_process_that_the_driver_has_forked_does_not_keep_the_lock(tmp_path):
    command = [sys.executable, "-c", FORKING, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout.readline() == "forked\n"
        with pytest.raises(CheckpointError, match=f"pid {driver.pid} "):
            CheckpointLock(tmp_path)
        driver.send_signal(signal.SIGKILL)
        driver.wait()

        CheckpointLock(tmp_path).release()


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_folder_that_was_removed_while_it_was_held_is_noticed(tmp_path, is_made_again):
    lock = CheckpointLock(tmp_path / "held")
    lock.check()
    shutil.rmtree(tmp_path / "held")
    other = CheckpointLock(tmp_path / "held") if is_made_again else None
    with pytest.raises(StormError, match=f"'{tmp_path}/held' was removed or replaced while it was in use"):
        lock.check()
    for held in filter(None, (lock, other)):
        held.release()


@pytest.mark.parametrize("below", [".", "deeper/still"])
def test_a_file_is_no_checkpoint(tmp_path, below):
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / below
    with pytest.raises(CheckpointError, match="cannot be written") as raised:
        CheckpointLock(path)
    assert str(path) in str(raised.value)


def test_a_folder_that_cannot_be_made_is_named():
    with pytest.raises(CheckpointError, match="'/proc/nowhere' cannot be written"):
        CheckpointLock(checkpoint_folder("/proc/nowhere"))


def test_missing_parents_are_made(tmp_path):
    CheckpointLock(tmp_path / "a" / "b").release()
    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize("named", ["", 7, b"bytes", "hdfs://host/path", "s3a://bucket/path", "file://host/path"])
def test_a_checkpoint_that_is_not_a_local_folder_is_refused(named):
    with pytest.raises(CheckpointError):
        checkpoint_folder(named)


def test_a_checkpoint_may_be_named_as_a_file_url(tmp_path):
    assert checkpoint_folder(f"file://{tmp_path}") == tmp_path
    assert checkpoint_folder(f"file:{tmp_path}") == tmp_path
    assert checkpoint_folder(str(tmp_path)) == tmp_path
    assert checkpoint_folder(tmp_path) == tmp_path
