"""Internal. Files: where the files of a checkpoint are. PosixFiles: a folder that has a path."""

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

# A name, and what is behind it while the file is being written.
OURS = re.compile(r"(manifest-[-0-9][0-9]{19}(-[0-9]{6})?(-g[0-9]{6,})?|[^/.][^/]*\.part)(\.[0-9a-f]{8}\.tmp)?")


ABOVE = 2  # folders above that of a state: its topology's, and the checkpoint itself


class ReadableFiles(Protocol):
    """Files by name, to be read. What goes wrong with one is a `CheckpointError` that names its path."""

    def read(self, name: str) -> bytes: ...

    def size(self, name: str) -> int: ...

    def path(self, name: str) -> str:
        """Where the file is, for an error message."""
        ...


class Files(ReadableFiles, Protocol):
    """Files by name in one place."""

    def write(self, name: str, data: bytes) -> None:
        """Make the file, or replace it: all of it or nothing, and what is there when this returns stays there."""
        ...

    def names(self) -> list[str]:
        """All files of a checkpoint that are there, unfinished ones included; none if the folder is gone."""
        ...

    def remove(self, name: str) -> None:
        """Remove the file, which may be gone already."""
        ...


def step(name: str, done: str) -> str:
    """The crash point after something was `done` with the file of that name."""
    return f"{'manifest' if name.startswith('manifest-') else 'part'}-{done}"


class PosixFiles:
    """The files of a checkpoint in a folder of this user, which is made if it is missing.

    A state may hold pickled values, and they are code: what another user could have written is not read, and neither is
    what is in a folder that another user could have put in the place of this one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with _told(folder, "cannot be used"):
            make_folder(folder)
            _refuse_strangers(folder, os.stat(folder))
            for above in folder.parents[:ABOVE]:
                _refuse_strangers(above, os.stat(above), is_above=True)
            os.listdir(folder)

    def write(self, name: str, data: bytes) -> None:
        path = self._path(name)
        temporary = path.with_name(f"{name}.{secrets.token_hex(4)}.tmp")
        with _told(path, "cannot be written"):
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
            except OSError:  # who was told that it is not written does not look for it again
                with suppress(OSError):
                    path.unlink()
                raise
        crash_point(step(name, "renamed"))

    def read(self, name: str) -> bytes:
        path = self._path(name)
        with _told(path, "cannot be read"), open(path, "rb") as file:
            _refuse_strangers(path, os.fstat(file.fileno()))
            return file.read()

    def size(self, name: str) -> int:
        path = self._path(name)
        with _told(path, "cannot be read"):
            return path.stat().st_size

    def names(self) -> list[str]:
        with _told(self._folder, "cannot be read"):
            try:
                found = os.scandir(self._folder)
            except (FileNotFoundError, NotADirectoryError):
                return []
            with found:
                return [
                    entry.name
                    for entry in found
                    if OURS.fullmatch(entry.name) and not entry.is_dir(follow_symlinks=False)
                ]

    def remove(self, name: str) -> None:
        path = self._path(name)
        with _told(path, "cannot be removed"):
            path.unlink(missing_ok=True)
        crash_point("file-removed")

    def path(self, name: str) -> str:
        return str(self._folder / name)

    def _path(self, name: str) -> Path:
        if not OURS.fullmatch(name):
            raise CheckpointError(f"{name!r} is no name of a checkpoint's file, in {str(self._folder)!r}")
        return self._folder / name


def make_folder(folder: Path) -> None:
    """Make a folder, for its owner only, and those above it that are missing; what is made stays there."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
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
def _told(path: Path, problem: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise CheckpointError(f"the checkpoint {str(path)!r} {problem}: {exc.strerror or exc}") from exc


def _refuse_strangers(path: Path, status: os.stat_result, is_above: bool = False) -> None:
    """Refuse what others could have written; of a folder above, what others could have put others into.

    Root may do that anyway, and in a folder like `/tmp`, which is sticky, nobody else may.
    """
    if status.st_uid != os.geteuid() and not (is_above and status.st_uid == 0):
        problem = f"belongs to the user {status.st_uid}, not to {os.geteuid()}"
    elif status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not (is_above and status.st_mode & stat.S_ISVTX):
        problem = f"can be written by others (its mode is {stat.S_IMODE(status.st_mode):04o})"
    else:
        return
    raise CheckpointError(
        f"the checkpoint {str(path)!r} {problem}: a state may hold pickled values, which are code, so only what "
        "nobody else can write is read; run as its owner, or `chmod go-w` it if you trust what it holds"
    )
