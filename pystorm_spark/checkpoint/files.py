"""Internal. Files: reads and writes the files of a checkpoint by name. PosixFiles: in a folder of this machine."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from pystorm_spark.checkpoint.crash_points import crash_point
from pystorm_spark.errors import CheckpointError

# The names of checkpoint files, with the suffix that a file has while it is being written.
OUR_FILES = re.compile(r"(manifest-[-0-9][0-9]{19}(-[0-9]{6})?(-g[0-9]{6,})?|[^/.][^/]*\.part)(\.[0-9a-f]{8}\.tmp)?")
PARENTS = 2  # the folders above that of a state that belong to a checkpoint: the topology's and the checkpoint's


class ReadableFiles(Protocol):
    """Reads files by name. Errors are `CheckpointError`s that name the path."""

    def read(self, name: str) -> bytes: ...

    def size(self, name: str) -> int: ...

    def path(self, name: str) -> str:
        """The path of the file, for error messages."""
        ...


class Files(ReadableFiles, Protocol):
    """Reads and writes files by name in one folder."""

    def write(self, name: str, data: bytes) -> None:
        """Create or replace the file atomically. It is durable when this returns."""
        ...

    def names(self) -> list[str]:
        """The names of all checkpoint files, unfinished ones included; empty if the folder is missing."""
        ...

    def remove(self, name: str) -> None:
        """Remove the file if it exists."""
        ...


def step(name: str, done: str) -> str:
    """The crash point after a step (`written`, `renamed`) with the file `name`."""
    return f"{'manifest' if name.startswith('manifest-') else 'part'}-{done}"


class PosixFiles:
    """The files of a checkpoint in a folder of this user, which is created if it is missing.

    A state may hold pickled values, which are code. So this class refuses files that another user could have written,
    and folders that another user could have replaced.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with _as_checkpoint_error(folder, "cannot be used"):
            make_folder(folder)
            _refuse_writable_by_others(folder, os.stat(folder))
            for parent in folder.parents[:PARENTS]:
                _refuse_writable_by_others(parent, os.stat(parent), is_parent=True)
            os.listdir(folder)

    def write(self, name: str, data: bytes) -> None:
        path = self._path(name)
        temporary = path.with_name(f"{name}.{secrets.token_hex(4)}.tmp")
        with _as_checkpoint_error(path, "cannot be written"):
            try:
                _write_new(temporary, data)
                crash_point(step(name, "written"))
                temporary.rename(path)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink()
                raise
            try:
                sync_folder(self._folder)
            except OSError:  # the caller learns that the write failed, and will not remove the file itself
                with suppress(OSError):
                    path.unlink()
                raise
        crash_point(step(name, "renamed"))

    def read(self, name: str) -> bytes:
        path = self._path(name)
        with _as_checkpoint_error(path, "cannot be read"), open(path, "rb") as file:
            _refuse_writable_by_others(path, os.fstat(file.fileno()))
            return file.read()

    def size(self, name: str) -> int:
        path = self._path(name)
        with _as_checkpoint_error(path, "cannot be read"):
            return path.stat().st_size

    def names(self) -> list[str]:
        with _as_checkpoint_error(self._folder, "cannot be read"):
            try:
                found = os.scandir(self._folder)
            except (FileNotFoundError, NotADirectoryError):
                return []
            with found:
                return [
                    entry.name
                    for entry in found
                    if OUR_FILES.fullmatch(entry.name) and not entry.is_dir(follow_symlinks=False)
                ]

    def remove(self, name: str) -> None:
        path = self._path(name)
        with _as_checkpoint_error(path, "cannot be removed"):
            path.unlink(missing_ok=True)
        crash_point("file-removed")

    def path(self, name: str) -> str:
        return str(self._folder / name)

    def _path(self, name: str) -> Path:
        if not OUR_FILES.fullmatch(name):
            raise CheckpointError(f"{name!r} is not the name of a checkpoint file, in {str(self._folder)!r}")
        return self._folder / name


def make_folder(folder: Path) -> None:
    """Create a folder, for its owner only, and its missing parents. All are durable when this returns."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder stay as they are now, also where the machine loses its power."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_new(path: Path, data: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0) as file:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())


@contextmanager
def _as_checkpoint_error(path: Path, problem: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise CheckpointError(f"the checkpoint {str(path)!r} {problem}: {exc.strerror or exc}") from exc


def _refuse_writable_by_others(path: Path, status: os.stat_result, is_parent: bool = False) -> None:
    """Refuse files another user could have written, and parent folders another user could have swapped.

    A parent may belong to root, who can do that anyway. A sticky parent such as `/tmp` does not allow it to others.
    """
    if status.st_uid != os.geteuid() and not (is_parent and status.st_uid == 0):
        problem = f"belongs to the user {status.st_uid}, not to {os.geteuid()}"
    elif status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not (is_parent and status.st_mode & stat.S_ISVTX):
        problem = f"can be written by others (its mode is {stat.S_IMODE(status.st_mode):04o})"
    else:
        return
    raise CheckpointError(
        f"the checkpoint {str(path)!r} {problem}: a state may hold pickled values, which are code, so pystorm-spark "
        "reads only files that nobody else can write; run as its owner, or `chmod go-w` it if you trust its content"
    )
