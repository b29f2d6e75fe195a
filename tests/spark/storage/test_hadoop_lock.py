"""The lock of a checkpoint on a file system that does not release it with its process: only live holders keep it."""

import errno
import json
import os
import subprocess
from contextlib import ExitStack

import pytest

from pystorm_spark.checkpoint.memory import MemoryFiles
from pystorm_spark.errors import CheckpointError, StormError
from pystorm_spark.spark.driver.commits import Checkpoint
from pystorm_spark.spark.protocol.messages import Prepared, Unwritten
from pystorm_spark.spark.storage.hadoop_lock import HEARTBEAT, LOCK, LOCK_TIMEOUT_SECS, HadoopLock
from pystorm_spark.spark.storage.place import locked_place
from tests.spark.simulation.run import plan_of
from tests.spark.simulation.state import SimulatedPlace


class Folder:
    """Small files in memory."""

    uri = "nowhere://host/checkpoint"

    def __init__(self):
        self.files = {}

    def create(self, name, data, replace):
        if name in self.files and not replace:
            return False
        self.files[name] = data
        return True

    def has(self, name):
        return name in self.files

    def names(self):
        return list(self.files)

    def read(self, name):
        try:
            return self.files[name]
        except KeyError:
            raise CheckpointError(f"there is no {name}") from None

    def remove(self, name):
        self.files.pop(name, None)

    def change(self, **told):
        """Change what the lock file says about its holder."""
        self.files[LOCK] = json.dumps({**json.loads(self.files[LOCK]), **told}).encode()


@pytest.fixture
def folder():
    return Folder()


@pytest.fixture
def held(folder):
    lock = HadoopLock(folder)
    yield lock
    lock.release()


def no_sleep(secs):
    pytest.fail("the lock must not wait here")


def test_a_second_driver_is_refused_at_once_on_the_same_machine(folder, held):
    with pytest.raises(CheckpointError, match=rf"'{folder.uri}' is in use by pid {os.getpid()} on "):
        HadoopLock(folder, no_sleep)
    held.check()


def test_a_local_folder_whose_file_system_has_no_locks_has_that_of_the_uri(folder, tmp_path, monkeypatch, caplog):
    folder.local_path = lambda: tmp_path
    monkeypatch.setattr("fcntl.flock", lambda *_: throw(OSError(errno.ENOLCK, "No locks available")))
    with ExitStack() as made:
        locked_place(folder, made).check_lock()
        assert (
            "No locks available; drivers that name the folder by its path instead of its URI are not refused"
            in caplog.text
        )
        with pytest.raises(CheckpointError, match="in use by"):
            HadoopLock(folder, no_sleep)


def throw(error):
    raise error


def test_a_lock_that_is_released_is_gone(folder):
    HadoopLock(folder).release()
    assert folder.files == {}


def test_the_lock_of_a_dead_process_of_this_machine_is_taken_at_once(folder, held):
    with subprocess.Popen(["true"]) as dead:
        dead.wait()
    folder.change(process=[dead.pid, "long ago"])
    HadoopLock(folder, no_sleep).release()
    assert folder.files == {}


def test_a_live_lock_of_another_machine_is_refused(folder, held):
    folder.change(home="elsewhere", holder="pid 7 on elsewhere")
    with pytest.raises(CheckpointError, match="in use by pid 7 on elsewhere"):
        HadoopLock(folder, lambda secs: held.heartbeat())
    held.check()


def test_a_stale_lock_of_another_machine_is_taken_after_a_timeout(folder, held):
    held.heartbeat()
    folder.change(home="elsewhere")
    waited = []
    taken = HadoopLock(folder, waited.append)
    assert sum(waited) == LOCK_TIMEOUT_SECS
    with pytest.raises(StormError, match=rf"is now in use by pid {os.getpid()}") as lost:
        held.check()
    assert not isinstance(lost.value, CheckpointError)  # that error would be retried
    held.release()
    taken.check()
    taken.release()


def test_a_holder_that_has_lost_its_lock_does_not_beat(folder, held):
    folder.change(id="another")
    with pytest.raises(StormError, match="is now in use"):
        held.heartbeat()
    assert HEARTBEAT not in folder.files


def test_a_driver_that_has_lost_its_checkpoint_changes_nothing_in_it(folder, held):
    files = MemoryFiles()
    place = SimulatedPlace(files)
    place.check_lock = held.check
    plan, _ = plan_of(slots=1, tasks=1, pending=1, guarantee="exactly-once")
    checkpoint = Checkpoint(plan, place, lambda txid, rows: True)
    files.write("state-1-0-0123abcd.part", b"of the other driver")
    before = files.names()
    folder.change(id="another")
    with pytest.raises(StormError, match="is now in use"):
        checkpoint.make_commit(1, {0: Unwritten(1, "what cannot be written where another driver is")})
    with pytest.raises(StormError, match="is now in use"):
        checkpoint.forget(0)
    assert files.names() == before


def test_a_driver_whose_checkpoint_was_taken_while_its_sinks_wrote_makes_no_commit(folder, held):
    files = MemoryFiles()
    place = SimulatedPlace(files)
    place.check_lock = held.check
    plan, _ = plan_of(slots=1, tasks=1, pending=1, guarantee="exactly-once")

    def write_for_minutes(txid, rows):
        folder.change(id="another")
        files.write = lambda name, data: pytest.fail(f"{name} is written though another driver has the checkpoint")
        return True

    checkpoint = Checkpoint(plan, place, write_for_minutes)
    before = files.names()
    answer = Prepared(1, [[], []], {}, [], {})
    with pytest.raises(StormError, match="is now in use"):
        checkpoint.make_commit(1, {0: answer})
    assert files.names() == before


def test_a_lock_that_is_released_while_it_is_watched_is_taken(folder, held):
    folder.change(home="elsewhere")
    HadoopLock(folder, lambda secs: held.release()).release()
    assert folder.files == {}


DEAD = {"id": "dead", "holder": "pid 1 on gone", "home": "elsewhere", "process": [1, 1]}


class Meeting(Folder):
    """A folder that calls `before` just before its first new lock is created, so that another driver comes first."""

    def __init__(self, before):
        super().__init__()
        self.files[LOCK] = json.dumps(DEAD).encode()
        self.before = before

    def create(self, name, data, replace):
        if name != HEARTBEAT:
            before, self.before = self.before, lambda folder: None
            before(self)
        return super().create(name, data, replace)


def take(folder):
    return HadoopLock(folder, lambda secs: None)


def test_of_two_drivers_that_find_a_dead_lock_at_the_same_time_one_gets_it():
    first = []
    folder = Meeting(lambda folder: first.append(take(folder)))
    with pytest.raises(CheckpointError, match=f"is in use by pid {os.getpid()}"):
        take(folder)
    first[0].check()
    first[0].release()
    assert folder.files == {}


def test_a_driver_that_is_late_for_a_dead_lock_leaves_it_to_those_who_came_meanwhile():
    holders = []

    def come_and_go(folder):
        take(folder).release()
        holders.append(take(folder))

    folder = Meeting(come_and_go)
    with pytest.raises(CheckpointError, match=f"is in use by pid {os.getpid()}"):
        take(folder)
    holders[0].check()
    holders[0].release()


def test_a_driver_that_takes_over_removes_the_files_of_earlier_locks(folder):
    for number in ("", ".1", ".7"):
        folder.files[LOCK + number] = json.dumps(DEAD).encode()
    lock = take(folder)
    assert [name for name in folder.files if name != HEARTBEAT] == [f"{LOCK}.8"]
    lock.release()
    assert folder.files == {}


def test_a_holder_whose_lock_was_taken_but_not_yet_removed_has_lost_it(folder, held, monkeypatch):
    folder.change(home="elsewhere")
    monkeypatch.setattr(folder, "remove", lambda name: None)
    taken = take(folder)
    with pytest.raises(StormError, match="is now in use"):
        held.check()
    taken.check()
    monkeypatch.undo()
    taken.release()


def test_a_lock_that_was_never_written_to_its_end_is_taken_after_a_while(folder):
    folder.files[LOCK] = b""
    waited = []
    HadoopLock(folder, waited.append).release()
    assert sum(waited) == LOCK_TIMEOUT_SECS
