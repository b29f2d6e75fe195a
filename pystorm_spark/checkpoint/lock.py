"""Internal. CheckpointLock: one checkpoint folder has one driver at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
import weakref
from pathlib import Path

from pystorm_spark.checkpoint.files import make_folder
from pystorm_spark.errors import CheckpointError, StormError

LOCK_NAME = "driver.flock"  # differs from the name of Hadoop's lock file: one driver may hold both locks
URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://|(?=/))")  # the beginning of a URI, with its scheme


class CheckpointLock:
    """Locks a checkpoint folder for this process. The system releases the lock when the process ends or crashes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / LOCK_NAME
        try:
            make_folder(folder)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as exc:
            raise CheckpointError(
                f"the checkpoint {str(folder)!r} cannot be written: {exc}; name a folder that can be made and written"
            ) from exc
        self._is_released = False
        try:
            self._take()
        except BaseException:
            self.release()
            raise
        _held.add(self)

    def _take(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            holder = f"pid {os.getpid()} on {socket.gethostname()}".encode()
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, holder, 0)  # raises if the disk is full
        except OSError as exc:
            if exc.errno not in (errno.EAGAIN, errno.EACCES):
                raise CheckpointError(f"the checkpoint {str(self.folder)!r} cannot be locked: {exc}") from exc
            holder_shown = os.pread(self._file, 200, 0).decode(errors="replace") or "another driver"
            raise CheckpointError(
                f"the checkpoint {str(self.folder)!r} is in use by {holder_shown}; only one driver may use a "
                "checkpoint: end that one, or name another folder"
            ) from None

    def check(self) -> None:
        """Raise a `StormError` if the folder was replaced since it was locked: another driver can lock the new one."""
        if self._is_released:
            raise StormError(
                f"the checkpoint {str(self.folder)!r} was released at shutdown: make a new cluster with it"
            )
        try:
            is_same = os.path.samestat(os.fstat(self._file), os.stat(self._path))
        except (FileNotFoundError, NotADirectoryError):
            is_same = False
        except OSError as exc:
            raise CheckpointError(f"the checkpoint {str(self._path)!r} cannot be read: {exc.strerror}") from exc
        if not is_same:
            raise StormError(
                f"the checkpoint {str(self.folder)!r} was removed or replaced while it was in use: the committed state "
                "is gone, so nothing more can be committed"
            )

    def release(self) -> None:
        """Unlock the folder."""
        if not self._is_released:
            self._is_released = True
            os.close(self._file)


_held: weakref.WeakSet[CheckpointLock] = weakref.WeakSet()


def _release_in_child() -> None:
    """Release all locks in a forked process, which would otherwise keep them after the end of this one."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_release_in_child)


def checkpoint_folder(checkpoint: object) -> Path:
    """The checkpoint folder that the user has named, as an absolute path of this machine."""
    named = os.fspath(checkpoint) if isinstance(checkpoint, (str, os.PathLike)) else None
    if not isinstance(named, str) or not named:
        raise CheckpointError(f"a checkpoint is the path of a folder, or None for a temporary one; got {checkpoint!r}")
    uri = URI.match(named)
    if uri is not None and uri[1] != "file":
        raise CheckpointError(
            f"the checkpoint {named!r} is not a path of this machine: only a SparkCluster can have one on {uri[1]}:"
        )
    path = named[uri.end() :] if uri is not None else named
    if uri is not None and not path.startswith("/"):
        raise CheckpointError(f"the checkpoint {named!r} is not a path of this machine: name it as file:///path")
    return Path(path).absolute()
