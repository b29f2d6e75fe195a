"""Internal. HadoopLock: one checkpoint has one driver at a time, also where no system ends a lock with its process.

The lock is a file that says who holds it, and beside it is another one that the holder writes again and again. Who
finds a lock watches both: what changes has a holder that lives, what stays as it is for long enough has none, and no
clocks are compared. A holder that was held up for so long finds out when it looks, before it commits or removes
anything.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from pystorm_spark.errors import CheckpointError, StormError
from pystorm_spark.spark.process import ProcessId, machine, process_id

log = logging.getLogger(__name__)

LOCK, BEAT = "driver.lock", "driver.beat"
BEAT_SECS = 3.0
DEAD_SECS = 15.0  # what does not change for so long has no holder
PID_NAMESPACE = Path("/proc/self/ns/pid")


class LockFolder(Protocol):
    """Where a lock is."""

    uri: str

    def create(self, name: str, data: bytes, replace: bool) -> bool:
        """Make a small file; False if it is there and shall not be replaced."""
        ...

    def has(self, name: str) -> bool: ...

    def read(self, name: str) -> bytes: ...

    def remove(self, name: str) -> None: ...


class HadoopLock:
    """Holds a checkpoint for this process, until it is released."""

    def __init__(self, folder: LockFolder, sleep: Callable[[float], None] = time.sleep) -> None:
        self._folder = folder
        self._sleep = sleep
        self._id = secrets.token_hex(8)
        self._beats = 0
        self._take()
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="pystorm-checkpoint-lock", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Refuse to go on if another driver has the checkpoint now."""
        found = self._read()
        if found.get("id") != self._id:
            raise StormError(
                f"the checkpoint {self._folder.uri!r} is now in use by {_shown(found)}: nothing was seen of this "
                f"driver for {DEAD_SECS:g} s, so it has lost it"
            )

    def beat(self) -> None:
        """Let others see that this process lives."""
        self.check()
        self._beats += 1
        self._folder.create(BEAT, f"{self._id} {self._beats}".encode(), replace=True)

    def release(self) -> None:
        """Let another driver have the checkpoint."""
        self._released.set()
        self._thread.join()
        with suppress(StormError):  # another one has it already, or will see that it has no holder
            self.check()
            self._folder.remove(BEAT)
            self._folder.remove(LOCK)

    def _take(self) -> None:
        if self._is_made():
            return
        found = self._read()
        if _is_dead(found) or self._is_silent(found):
            self._folder.remove(LOCK)
        if not self._is_made():
            raise CheckpointError(
                f"the checkpoint {self._folder.uri!r} is in use by {_shown(self._read())}; a checkpoint has one "
                "driver: end that one, or name another folder"
            )

    def _is_made(self) -> bool:
        process = process_id(os.getpid())
        holder = f"pid {process.pid} on {socket.gethostname()}"
        told = {"id": self._id, "holder": holder, "home": _home(), "process": process}
        return self._folder.create(LOCK, json.dumps(told).encode(), replace=False)

    def _is_silent(self, found: dict[str, Any]) -> bool:
        """Whether a lock stays as it is for so long that its holder is dead, as far as anybody can tell."""
        if found.get("home") == _home():
            return False  # it lives, as the system tells
        told = "the checkpoint %r was left locked by %s: it is watched for %g s"
        log.warning(told, self._folder.uri, _shown(found), DEAD_SECS)
        before = found, self._bytes(BEAT)
        for _ in range(round(DEAD_SECS / BEAT_SECS)):
            self._sleep(BEAT_SECS)
            if (self._read(), self._bytes(BEAT)) != before:
                return False
        return True

    def _read(self) -> dict[str, Any]:
        """What the lock says; nothing if there is none, or if it is just being written."""
        try:
            found = json.loads(self._bytes(LOCK))
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
        while not self._released.wait(BEAT_SECS):
            try:
                self.beat()
            except CheckpointError as exc:
                log.warning("%s; if that lasts, another driver may take the checkpoint", exc)
            except StormError as exc:
                log.error("%s", exc)
                return


def _home() -> str:
    """The same where this process could see the holder of a lock, and nowhere else."""
    return f"{machine()} {os.readlink(PID_NAMESPACE) if PID_NAMESPACE.exists() else ''}"


def _is_dead(found: dict[str, Any]) -> bool:
    return found.get("home") == _home() and not ProcessId(*found["process"]).is_alive()


def _shown(found: dict[str, Any]) -> str:
    return str(found.get("holder", "another driver"))
