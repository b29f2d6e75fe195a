"""Internal. HadoopLock: lets one driver use a checkpoint at a time, where no system releases a lock with its process.

The lock is a file that names its holder. The holder also rewrites a heartbeat file every few seconds. A driver that
finds a lock watches both files. If either file changes, the holder is alive; if neither changes for 15 s, it is dead.
No clocks are compared. To take over a dead lock, a driver creates the lock file with the next number, which succeeds
for only one driver, and then removes the older ones: the highest number holds the lock. A holder that was suspended
notices the loss at its next `check`; `CheckpointStore` relies on that.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from pystorm_spark.errors import CheckpointError, StormError
from pystorm_spark.spark.protocol.process import ProcessId, machine, process_id

log = logging.getLogger(__name__)

LOCK, HEARTBEAT = "driver.lock", "driver.beat"
NUMBERED = re.compile(rf"{re.escape(LOCK)}(?:\.([0-9]+))?")  # the first one has the number 0, but not in its name
HEARTBEAT_SECS = 3.0  # between two writes of the heartbeat file
LOCK_TIMEOUT_SECS = 15.0  # if neither file changes for so long, the holder is dead
PID_NAMESPACE = Path("/proc/self/ns/pid")


class LockFolder(Protocol):
    """The folder of a lock."""

    uri: str

    def create(self, name: str, data: bytes, replace: bool) -> bool:
        """Write a small file. Without `replace` it must be new; False if it exists."""
        ...

    def has(self, name: str) -> bool: ...

    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes: ...

    def remove(self, name: str) -> None: ...


class HadoopLock:
    """Locks a checkpoint for this process until `release`."""

    def __init__(self, folder: LockFolder, sleep: Callable[[float], None] = time.sleep) -> None:
        self._folder = folder
        self._sleep = sleep
        self._id = secrets.token_hex(8)
        self._heartbeats = 0
        self._take()
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="pystorm-checkpoint-lock", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise a `StormError` if another driver has taken over the checkpoint.

        Such a driver creates the next lock before it removes this one. So look for the next one first.
        """
        newer = self._read(self._number + 1) if self._folder.has(_lock(self._number + 1)) else None
        found = self._read(self._number) if newer is None else newer
        if newer is not None or found.get("id") != self._id:
            raise StormError(
                f"the checkpoint {self._folder.uri!r} is now in use by {_shown(found)}: this driver wrote no heartbeat "
                f"for {LOCK_TIMEOUT_SECS:g} s, so it has lost the lock"
            )

    def heartbeat(self) -> None:
        """Show other drivers that this process is alive."""
        self.check()
        self._heartbeats += 1
        self._folder.create(HEARTBEAT, f"{self._id} {self._heartbeats}".encode(), replace=True)

    def release(self) -> None:
        """Unlock the checkpoint."""
        self._released.set()
        self._thread.join()
        with suppress(StormError):  # another driver has the lock already, or will find it dead
            self.check()
            self._folder.remove(HEARTBEAT)
            self._folder.remove(_lock(self._number))

    def _take(self) -> None:
        judged = self._numbers()
        found = self._read(judged[-1]) if judged else {}
        is_left = not judged or _is_dead(found) or self._is_silent(judged[-1], found)
        if not is_left and self._numbers():
            raise self._refusal()
        self._number = judged[-1] + 1 if judged else 0
        if not self._is_made():
            raise self._refusal()
        if self._has_come_too_late(judged, found):
            self._folder.remove(_lock(self._number))
            raise self._refusal()
        for number in judged:  # the oldest first, see `check`
            self._folder.remove(_lock(number))

    def _has_come_too_late(self, judged: list[int], found: dict[str, Any]) -> bool:
        """Whether other drivers took and released the lock meanwhile, and one that has not seen ours holds it."""
        if set(self._numbers()) - {*judged, self._number}:
            return True
        return bool(judged) and self._read(judged[-1]) not in (found, {})

    def _refusal(self) -> CheckpointError:
        newest = self._numbers()[-1:]
        return CheckpointError(
            f"the checkpoint {self._folder.uri!r} is in use by {_shown(self._read(*newest) if newest else {})}; only "
            "one driver may use a checkpoint: end that one, or name another folder"
        )

    def _numbers(self) -> list[int]:
        """The numbers of the existing locks, the highest last."""
        found = map(NUMBERED.fullmatch, self._folder.names())
        return sorted(int(lock[1] or 0) for lock in found if lock is not None)

    def _is_made(self) -> bool:
        process = process_id(os.getpid())
        holder = f"pid {process.pid} on {socket.gethostname()}"
        told = {"id": self._id, "holder": holder, "home": _home(), "process": process}
        return self._folder.create(_lock(self._number), json.dumps(told).encode(), replace=False)

    def _is_silent(self, number: int, found: dict[str, Any]) -> bool:
        """Watch a lock; True if neither it nor the heartbeat changes before the timeout, so its holder is dead."""
        if found.get("home") == _home():
            return False  # on this machine the system has shown that the holder is alive
        text = "the checkpoint %r is locked by %s: waiting %g s to see whether it is alive"
        log.warning(text, self._folder.uri, _shown(found), LOCK_TIMEOUT_SECS)
        before = found, self._bytes(HEARTBEAT)
        for _ in range(round(LOCK_TIMEOUT_SECS / HEARTBEAT_SECS)):
            self._sleep(HEARTBEAT_SECS)
            if (self._read(number), self._bytes(HEARTBEAT)) != before:
                return False
        return True

    def _read(self, number: int) -> dict[str, Any]:
        """The content of a lock; empty if it does not exist, or is not completely written."""
        try:
            found = json.loads(self._bytes(_lock(number)))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def _bytes(self, name: str) -> bytes:
        try:
            return self._folder.read(name)
        except CheckpointError:
            if self._folder.has(name):
                raise
            return b""  # it does not exist, or its holder has just released it

    def _keep(self) -> None:
        while not self._released.wait(HEARTBEAT_SECS):
            try:
                self.heartbeat()
            except CheckpointError as exc:
                log.warning("%s; if this lasts, another driver may take over the checkpoint", exc)
            except StormError as exc:
                log.error("%s", exc)
                return


def _lock(number: int) -> str:
    return f"{LOCK}.{number}" if number else LOCK


def _home() -> str:
    """The machine and PID namespace. Processes with the same home can see each other."""
    return f"{machine()} {os.readlink(PID_NAMESPACE) if PID_NAMESPACE.exists() else ''}"


def _is_dead(found: dict[str, Any]) -> bool:
    return found.get("home") == _home() and not ProcessId(*found["process"]).is_alive()


def _shown(found: dict[str, Any]) -> str:
    return str(found.get("holder", "another driver"))
