"""Internal. SlotLink: one slot as the driver knows it, and the driver's end of the connection to it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any, Protocol

from pystorm_spark.spark.protocol.messages import SLOT_TO_DRIVER, Doing, Message, Standing
from pystorm_spark.spark.protocol.outgoing import OverfullError
from pystorm_spark.spark.protocol.process import ProcessId, process_id
from pystorm_spark.spark.protocol.wire import Address, WireError


class Channel(Protocol):
    """A connection that never makes its sender wait: `Outgoing`, or what stands for it."""

    def send(self, plain: dict[str, Any]) -> None: ...

    def receive(self) -> Any: ...

    def close(self) -> None: ...


class SlotLink:
    """One slot as the driver knows it."""

    def __init__(self, slot: int, pid: int, connection: Channel, is_near: bool) -> None:
        self.slot = slot
        self.process: ProcessId | None = process_id(pid) if is_near else None
        self.address: Address | None = None
        self.heard_at = time.monotonic()
        self.tasks: list[Any] = []  # [component, counts, errors] of each of its tasks, as last heard
        self.inbox_bytes = 0
        self.full: list[str] = []  # components of which it has more than it can take
        self.is_at_work = False  # has frames for other slots, or a thread beside its own
        self.doing = ""  # which call of user code it is about to make, where it tells
        self.executing: dict[int, tuple[str, int]] = {}  # {thread: (key of the tuple, epoch)}, see `Announcer`
        self.epoch = 0  # in which it was started
        self.state = "starting"  # then ready, then stopped, failed, lost or surplus
        self.reason = ""
        self._connection = connection

    def tell(self, message: Message) -> None:
        """Have a message sent, without waiting for that; a slot that is gone is noticed by whoever listens to it."""
        try:
            self._connection.send(message.to_plain())
        except OverfullError as exc:
            self.reason = self.reason or str(exc)
            self.kill()
        except WireError:
            pass

    def hear(self) -> Message:
        """Its next message; a `WireError` when its connection has ended, a `MessageError` when it talks nonsense."""
        plain = self._connection.receive()
        self.heard_at = time.monotonic()
        return SLOT_TO_DRIVER.read(plain)

    def note_doing(self, message: Doing) -> None:
        """It is about to call user code, or, with an empty text, announces calls no more."""
        self.doing = message.what
        if self.doing:
            self.executing[message.thread] = message.key, message.epoch
        else:
            self.executing.clear()

    def note_standing(self, message: Standing) -> None:
        self.tasks, self.inbox_bytes = message.tasks, message.inbox_bytes
        self.is_at_work, self.full = message.is_at_work, message.full

    def note_crash(self, reason: str) -> None:
        self.reason = reason  # which says all: what it was doing does not matter
        self.doing = ""
        self.executing = {}

    def note_survival(self, key: str) -> None:
        """It has executed a tuple: what ends it later is not known by that."""
        self.executing = {thread: begun for thread, begun in self.executing.items() if begun[0] != key}

    def last_words(self) -> str:
        """Why it has ended, as far as is known."""
        reason = self.reason or "its process has ended"
        return f"{reason}; the last it ran was {self.doing}" if self.doing else reason

    def kill(self) -> None:
        """End the process the hard way, if it is on this machine; elsewhere it ends by its lease."""
        self._connection.close()
        if self.process is not None and self.process.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)
