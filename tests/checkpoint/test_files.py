"""The files of a checkpoint in a folder: written atomically, and only by their owner."""

import errno
import os
import stat

import pytest

from pystorm_spark.checkpoint.files import PosixFiles
from pystorm_spark.errors import CheckpointError


@pytest.fixture
def files(tmp_path):
    return PosixFiles(tmp_path / "state")


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_what_was_written_is_read(files):
    files.write("a.part", b"one")
    files.write("a.part", b"another")
    assert files.read("a.part") == b"another"
    assert files.size("a.part") == 7
    assert files.names() == ["a.part"]


def test_a_file_that_is_removed_is_gone_and_may_be_removed_again(files):
    files.write("a.part", b"one")
    files.remove("a.part")
    files.remove("a.part")
    assert files.names() == []


def test_folder_and_files_are_for_their_owner_only(files, tmp_path):
    files.write("a.part", b"one")
    assert mode(tmp_path / "state") == 0o700
    assert mode(tmp_path / "state" / "a.part") == 0o600


def test_foreign_file_names_are_neither_listed_nor_accepted(files, tmp_path):
    (tmp_path / "state" / "driver.lock").write_text("")
    (tmp_path / "state" / "folder.part").mkdir()
    assert files.names() == []
    for name in ["driver.lock", "driver.flock", "../a.part", ".part", "manifest-1", f"manifest-{1:020d}-1"]:
        with pytest.raises(CheckpointError, match="is not the name"):
            files.remove(name)


@pytest.mark.parametrize("lax", [0o720, 0o702, 0o777])
def test_a_folder_that_others_can_write_is_refused(tmp_path, lax):
    tmp_path.chmod(lax)
    with pytest.raises(CheckpointError, match=f"can be written by others .its mode is {lax:04o}.") as raised:
        PosixFiles(tmp_path)
    assert repr(str(tmp_path)) in str(raised.value)


def test_a_folder_that_others_can_only_read_is_used(tmp_path):
    tmp_path.chmod(0o755)
    PosixFiles(tmp_path)


def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    with pytest.raises(CheckpointError, match=f"belongs to the user {os.getuid()}, not to {os.getuid() + 1}") as raised:
        PosixFiles(tmp_path)
    assert repr(str(tmp_path)) in str(raised.value)


def test_a_file_that_others_could_write_is_not_read(files, tmp_path):
    files.write("a.part", b"one")
    (tmp_path / "state" / "a.part").chmod(0o622)
    with pytest.raises(CheckpointError, match="can be written by others") as raised:
        files.read("a.part")
    assert repr(files.path("a.part")) in str(raised.value)


def test_a_missing_file_is_named(files):
    with pytest.raises(CheckpointError, match="cannot be read: No such file") as raised:
        files.read("a.part")
    assert repr(files.path("a.part")) in str(raised.value)


def test_a_path_that_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be used"):
        PosixFiles(tmp_path / "file" / "below")


@pytest.mark.parametrize("call", ["os.fsync", "pathlib.Path.rename"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(files, monkeypatch, call):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    files.write("a.part", b"one")
    with monkeypatch.context() as broken:
        broken.setattr(call, fail)
        with pytest.raises(CheckpointError, match="cannot be written: No space left") as raised:
            files.write("a.part", b"another")
    assert repr(files.path("a.part")) in str(raised.value)
    assert files.names() == ["a.part"]
    assert files.read("a.part") == b"one"


def test_a_file_whose_folder_cannot_be_synced_is_removed(files, monkeypatch):
    def fail(_):
        raise OSError(errno.EIO, "the disk does not answer")

    monkeypatch.setattr("pystorm_spark.checkpoint.files.sync_folder", fail)
    with pytest.raises(CheckpointError, match="cannot be written: the disk does not answer"):
        files.write("a.part", b"one")
    assert files.names() == []
