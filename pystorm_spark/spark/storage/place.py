"""Internal. Place: a folder of a checkpoint, on this machine or on any file system that Hadoop supports."""

from __future__ import annotations

import errno
import logging
import os
import secrets
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from pystorm_spark.checkpoint import dead_letters
from pystorm_spark.checkpoint.files import Files, PosixFiles, make_folder, sync_folder
from pystorm_spark.checkpoint.lock import URI, CheckpointLock, checkpoint_folder
from pystorm_spark.errors import CheckpointError
from pystorm_spark.spark.storage.hadoop_files import HadoopFiles
from pystorm_spark.spark.storage.hadoop_folder import HadoopFolder, file_uri
from pystorm_spark.spark.storage.hadoop_lock import HadoopLock

log = logging.getLogger(__name__)

WITHOUT_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)  # from mounted file systems without locks

Letters = Iterable[Mapping[str, Any]]


class Place(Protocol):
    """A folder of a checkpoint. `str()` gives the name that the user knows."""

    @property
    def uri(self) -> str:
        """Its URI, for Spark."""
        ...

    def __truediv__(self, name: str) -> Place: ...

    def folders(self) -> list[str]:
        """The names of its folders."""
        ...

    def read_text(self, name: str) -> str | None:
        """The content of a file; None if it does not exist."""
        ...

    def write_text(self, name: str, text: str) -> None: ...

    def remove_unfinished(self) -> None:
        """Remove temporary files that Spark left when it was stopped. Nobody may be writing here."""
        ...

    def files(self) -> Files:
        """The files of the state in this folder."""
        ...

    def add_letters(self, txid: int, letters: Letters) -> None:
        """Add the dead letters of a commit. They are durable when this returns."""
        ...

    def add_component_letter(self, component: str, line: str) -> None:
        """Add a letter that a component has written; it is there when this returns."""
        ...

    def check_lock(self) -> None:
        """Raise a `StormError` if this process no longer holds the lock."""
        ...


class PosixPlace:
    """A folder that has the same path for the driver and all slots."""

    def __init__(self, path: Path, lock: CheckpointLock | None = None) -> None:
        self.path = path
        self._lock = lock
        self._letters = dead_letters.DeadLetters(path)
        self._component_letters = dead_letters.ComponentLetters(path)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def uri(self) -> str:
        return file_uri(self.path)

    def __truediv__(self, name: str) -> PosixPlace:
        return PosixPlace(self.path / name, self._lock)

    def folders(self) -> list[str]:
        return [found.name for found in self.path.iterdir() if found.is_dir()] if self.path.is_dir() else []

    def read_text(self, name: str) -> str | None:
        path = self.path / name
        return path.read_text(encoding="utf-8") if path.exists() else None

    def write_text(self, name: str, text: str) -> None:
        make_folder(self.path)
        temporary = self.path / f".{name}.tmp"
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(self.path / name)  # atomic
        sync_folder(self.path)

    def remove_unfinished(self) -> None:
        for path in self.path.glob(".*.tmp*"):  # each with its checksum file
            path.unlink()

    def files(self) -> PosixFiles:
        return PosixFiles(self.path)

    def add_letters(self, txid: int, letters: Letters) -> None:
        self._letters.add(txid, letters)

    def add_component_letter(self, component: str, line: str) -> None:
        self._component_letters.add(component, line)

    def check_lock(self) -> None:
        if self._lock is not None:
            self._lock.check()


class HadoopPlace:
    """A folder that the driver reads through its JVM, and slots through the driver."""

    def __init__(self, folder: HadoopFolder, lock: HadoopLock | None = None) -> None:
        self._folder = folder
        self._lock = lock

    def __str__(self) -> str:
        return self.uri

    @property
    def uri(self) -> str:
        return self._folder.uri

    def __truediv__(self, name: str) -> HadoopPlace:
        return HadoopPlace(self._folder / name, self._lock)

    def folders(self) -> list[str]:
        return self._folder.names(folders=True)

    def read_text(self, name: str) -> str | None:
        return self._folder.read(name).decode() if self._folder.has(name) else None

    def write_text(self, name: str, text: str) -> None:
        self._folder.create(name, text.encode(), replace=True)

    def remove_unfinished(self) -> None:
        for name in self._folder.names():
            if name.startswith(".") and name.endswith(".tmp"):
                self._folder.remove(name)

    def files(self) -> HadoopFiles:
        return HadoopFiles(self._folder)

    def add_letters(self, txid: int, letters: Letters) -> None:
        """Write a file for each commit, because object stores cannot append. A retry of a commit replaces its file."""
        (self / dead_letters.FILE_NAME).write_text(f"commit-{txid:020d}.jsonl", dead_letters.to_lines(letters))

    def add_component_letter(self, component: str, line: str) -> None:
        """A file for each letter."""
        folder = self / dead_letters.LETTERS / dead_letters.folder_name(component)
        folder.write_text(f"{secrets.token_hex(8)}.jsonl", f"{line}\n")

    def check_lock(self) -> None:
        if self._lock is not None:
            self._lock.check()


def locked_place(folder: HadoopFolder, made: ExitStack) -> HadoopPlace:
    """The place of a folder, locked for this process until `made` is closed.

    Another driver may use a local folder by its path instead of its URI, and then takes a `CheckpointLock`. So a local
    folder gets that lock, too.
    """
    lock = HadoopLock(folder)
    made.callback(lock.release)
    local = folder.local_path()
    if local is not None:
        try:
            made.callback(CheckpointLock(local).release)
        except CheckpointError as exc:
            if getattr(exc.__cause__, "errno", None) not in WITHOUT_LOCKS:
                raise
            log.warning("%s; drivers that name the folder by its path instead of its URI are not refused", exc)
    return HadoopPlace(folder, lock)


def topologies_in(checkpoint: Place) -> list[str]:
    """The names of the topologies whose states a checkpoint holds."""
    return sorted(name for name in checkpoint.folders() if "state" in (checkpoint / name).folders())


def named_place(checkpoint: object) -> Path | str:
    """The checkpoint that the user has named: a URI for Hadoop as a string, or a path of this machine."""
    return checkpoint if isinstance(checkpoint, str) and URI.match(checkpoint) else checkpoint_folder(checkpoint)
