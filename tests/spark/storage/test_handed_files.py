"""Files that slots hand to the driver in pieces: complete or not at all; the slots get the errors of the driver."""

import os
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from msgpack import packb

from pystorm_spark.checkpoint.commit_log import CommitLog
from pystorm_spark.checkpoint.files import PosixFiles
from pystorm_spark.checkpoint.slot_side import SlotCheckpoint
from pystorm_spark.checkpoint.store import CheckpointStore
from pystorm_spark.errors import CheckpointError
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.spark.protocol.messages import TO_DRIVER_FIRST, FileRequest
from pystorm_spark.spark.protocol.wire import Door, WireError, connect, listen, private_folder
from pystorm_spark.spark.storage import handed_files
from pystorm_spark.spark.storage.handed_files import FilesDesk, HandedFiles
from pystorm_spark.state.key_value import pairs_of
from pystorm_spark.topology.durable import TaskKey

TOKEN = b"t" * 32
CODEC = ValueCodec()
A, B = TaskKey("count", 0), TaskKey("count", 1)


class CopiedFiles(PosixFiles):
    """Stands for a Hadoop file system: it copies from and to local files."""

    def __init__(self, folder):
        super().__init__(folder)
        self.on_put = lambda: None

    @contextmanager
    def local_file(self):
        with TemporaryDirectory() as folder:
            yield Path(folder) / "file"

    def put(self, local, name):
        self.on_put()
        self.write(name, local.read_bytes())

    def get(self, name, local):
        local.write_bytes(self.read(name))


@pytest.fixture
def files(tmp_path):
    return CopiedFiles(tmp_path / "state")


@pytest.fixture
def desk(files):
    return FilesDesk(files)


@pytest.fixture
def connected(desk):
    """A function that connects to the driver."""
    folder = private_folder()
    server, address = listen(folder, "", "control")
    door = Door(
        server,
        address,
        TOKEN,
        lambda connection: desk.serve(connection, TO_DRIVER_FIRST.read(connection.receive())),
        pytest.fail,
    )
    thread = threading.Thread(target=door.run)
    thread.start()
    yield partial(connect, address, TOKEN)
    door.close()
    thread.join(10)
    door.join(10)
    os.unlink(address.host)
    folder.rmdir()


@pytest.fixture
def handed(connected):
    return HandedFiles(connected, 0, "place")


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 100])
def test_a_handed_file_is_stored_and_can_be_read(handed, files, monkeypatch, size):
    monkeypatch.setattr(handed_files, "PIECE_BYTES", 10)
    data = os.urandom(size)
    handed.write("a.part", data)
    assert files.read("a.part") == handed.read("a.part") == data
    assert handed.size("a.part") == size
    assert handed.names() == ["a.part"]
    handed.remove("a.part")
    assert files.names() == []


def test_no_message_is_larger_than_a_piece(handed, monkeypatch):
    monkeypatch.setattr(handed_files, "PIECE_BYTES", 1000)
    monkeypatch.setattr(handed_files, "MESSAGE_LIMIT_BYTES", 1100)  # the largest message that a receiver accepts
    handed.write("a.part", bytes(10_000))
    assert handed.read("a.part") == bytes(10_000)


def test_an_error_on_the_driver_is_raised_in_the_slot(handed, files):
    def fail():
        raise OSError(28, "No space left on device")

    files.on_put = fail
    with pytest.raises(CheckpointError, match=r"cannot write its local copy .*No space left on device"):
        handed.write("a.part", b"one")
    with pytest.raises(CheckpointError, match=r"state/b\.part' cannot be read: No such file"):
        handed.read("b.part")
    with pytest.raises(CheckpointError, match=r"'\.\./a\.part' is not the name"):
        handed.remove("../a.part")
    assert files.names() == []


def test_a_lost_driver_is_an_error(handed, desk):
    desk.serve = lambda connection, request: None
    with pytest.raises(CheckpointError, match="'place' cannot be reached through the driver"):
        handed.read("a.part")


def test_a_refused_slot_connects_again(connected, files, monkeypatch):
    monkeypatch.setattr(handed_files, "CONNECT_BACKOFF_SECS", (0.0, 0.0))
    refusals = [WireError("turned away"), WireError("turned away")]

    def connect_at_last():
        if refusals:
            raise refusals.pop()
        return connected()

    HandedFiles(connect_at_last, 0, "place").write("a.part", b"one")
    assert files.read("a.part") == b"one"


def test_a_slot_that_ends_in_the_middle_leaves_nothing(connected, desk, files, monkeypatch):
    monkeypatch.setattr(handed_files, "PIECE_BYTES", 10)
    slot = connected()
    slot.send(FileRequest(3, "write", ["a.part", 15]).to_plain())
    slot.receive()
    slot.send(bytes(10))
    slot.receive()
    slot.close()
    desk.await_end(3)
    assert files.names() == []


def test_a_write_of_a_slot_that_has_ended_is_waited_for(connected, desk, files):
    begun, go_on = threading.Event(), threading.Event()

    def wait():
        begun.set()
        assert go_on.wait(10)

    files.on_put = wait
    slot = connected()
    slot.send(FileRequest(3, "write", ["a.part", 3]).to_plain())
    slot.receive()
    slot.send(b"one")
    begun.wait(10)
    slot.close()
    threading.Timer(0.05, go_on.set).start()
    desk.await_end(3)
    assert files.names() == ["a.part"]


def test_parts_that_slots_commit_and_merge_are_restored_by_other_slots(handed, files):
    log = CommitLog(CheckpointStore(files, "words"), "words", [[A], [B]])
    sides = [SlotCheckpoint(handed, slot, log.assignment(slot), CODEC) for slot in (0, 1)]
    for txid in range(1, 12):
        changes = {A: packb([txid, "a"]), B: packb([txid, "b"])}
        written = [side.write(txid, {task: changes[task]}, {}, False) for side, task in zip(sides, (A, B), strict=True)]
        log.append(txid, written, {})
        for side in sides:
            side.settle()
            side.merge()

    again = CommitLog(CheckpointStore(files, "words"), "words", [[A, B]])
    sections = SlotCheckpoint(handed, 0, again.assignment(0), CODEC).sections([A, B])
    assert pairs_of(sections[A], CODEC) == dict.fromkeys(range(1, 12), "a")
    assert pairs_of(sections[B], CODEC) == dict.fromkeys(range(1, 12), "b")
    assert len(sections[A]) < 11
