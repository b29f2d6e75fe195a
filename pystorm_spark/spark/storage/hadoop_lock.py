"""Internal. HadoopLock: one checkpoint has one driver at a time, also where no system ends a lock with its process.

The lock is a file that says who holds it, and beside it is another one that the holder writes again and again. Who
finds a lock watches both: what changes has a holder that lives, what stays as it is for long enough has none, and no
clocks are compared. Who takes a dead lock over makes the file with the next number, which only one can, and then
removes the older ones: the highest number holds. A holder that was held up finds out when it looks: see
`CheckpointStore` for what that is relied on.
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
NUMBERED = re.compile(rf"{re.escape(LOCK)}(?:\.([0-9]+))?")  # the first one has number 0, and no number in its name
HEARTBEAT_SECS = 3.0
LOCK_TIMEOUT_SECS = 15.0  # what does not change for so long has no holder
PID_NAMESPACE = Path("/proc/self/ns/pid")


class LockFolder(Protocol):
    """Where a lock is."""

    uri: str

    def create(self, name: str, data: bytes, replace: bool) -> bool:
        """Make a small file; False if it is there and shall not be replaced."""
        ...

    def has(self, name: str) -> bool: ...

    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes: ...

    def remove(self, name: str) -> None: ...


class HadoopLock:
    """Holds a checkpoint for this process, until it is released."""

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
        """Refuse to go on if another driver has the checkpoint now.

        Who takes it over makes the next lock before it removes this one: so that one is looked for first.
        """
        newer = self._read(self._number + 1) if self._folder.has(_lock(self._number + 1)) else None
        found = self._read(self._number) if newer is None else newer
        if newer is not None or found.get("id") != self._id:
            raise StormError(
                f"the checkpoint {self._folder.uri!r} is now in use by {_shown(found)}: nothing was seen of this "
                f"driver for {LOCK_TIMEOUT_SECS:g} s, so it has lost it"
            )

    def heartbeat(self) -> None:
        """Let others see that this process lives."""
        self.check()
        self._heartbeats += 1
        self._folder.create(HEARTBEAT, f"{self._id} {self._heartbeats}".encode(), replace=True)

    def release(self) -> None:
        """Let another driver have the checkpoint."""
        self._released.set()
        self._thread.join()
        with suppress(StormError):  # another one has it already, or will see that it has no holder
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
        """Whether others have come and gone meanwhile, and one of them is there: it knows nothing of our number."""
        if set(self._numbers()) - {*judged, self._number}:
            return True
        return bool(judged) and self._read(judged[-1]) not in (found, {})

    def _refusal(self) -> CheckpointError:
        newest = self._numbers()[-1:]
        return CheckpointError(
            f"the checkpoint {self._folder.uri!r} is in use by {_shown(self._read(*newest) if newest else {})}; a "
            "checkpoint has one driver: end that one, or name another folder"
        )

    def _numbers(self) -> list[int]:
        """The numbers of the locks that are there, the highest last."""
        found = map(NUMBERED.fullmatch, self._folder.names())
        return sorted(int(lock[1] or 0) for lock in found if lock is not None)

    def _is_made(self) -> bool:
        process = process_id(os.getpid())
        holder = f"pid {process.pid} on {socket.gethostname()}"
        told = {"id": self._id, "holder": holder, "home": _home(), "process": process}
        return self._folder.create(_lock(self._number), json.dumps(told).encode(), replace=False)

    def _is_silent(self, number: int, found: dict[str, Any]) -> bool:
        """Whether a lock stays as it is for so long that its holder is dead, as far as anybody can tell."""
        if found.get("home") == _home():
            return False  # it lives, as the system tells
        told = "the checkpoint %r was left locked by %s: it is watched for %g s"
        log.warning(told, self._folder.uri, _shown(found), LOCK_TIMEOUT_SECS)
        before = found, self._bytes(HEARTBEAT)
        for _ in range(round(LOCK_TIMEOUT_SECS / HEARTBEAT_SECS)):
            self._sleep(HEARTBEAT_SECS)
            if (self._read(number), self._bytes(HEARTBEAT)) != before:
                return False
        return True

    def _read(self, number: int) -> dict[str, Any]:
        """What a lock says; nothing if there is none, or if it is just being written."""
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
            return b""  # nobody has it, or its holder has let go of it just now

    def _keep(self) -> None:
        while not self._released.wait(HEARTBEAT_SECS):
            try:
                self.heartbeat()
            except CheckpointError as exc:
                log.warning("%s; if that lasts, another driver may take the checkpoint", exc)
            except StormError as exc:
                log.error("%s", exc)
                return


def _lock(number: int) -> str:
    return f"{LOCK}.{number}" if number else LOCK


def _home() -> str:
    """The same where this process could see the holder of a lock, and nowhere else."""
    return f"{machine()} {os.readlink(PID_NAMESPACE) if PID_NAMESPACE.exists() else ''}"


def _is_dead(found: dict[str, Any]) -> bool:
    return found.get("home") == _home() and not ProcessId(*found["process"]).is_alive()


def _shown(found: dict[str, Any]) -> str:
    return str(found.get("holder", "another driver"))
