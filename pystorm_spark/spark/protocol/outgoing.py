"""Internal. Outgoing: a connection whose sender never waits until the other side reads."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from pystorm_spark.spark.protocol.messages import Lease
from pystorm_spark.spark.protocol.wire import Connection, WireError, pack

MOST_UNSENT_BYTES = 16 << 20  # that a slot may be behind; one that reads never is
MESSAGE_OVERHEAD_BYTES = 128  # bytes of memory that a message takes beside its own
LEASE = b""  # stands for the newest lease; no message is empty


class OverfullError(WireError):
    """The other side has not read for too long: too many bytes wait for it."""


class Outgoing:
    """One end of a connection that sends in a thread of its own, in order.

    A lease says how things stand now, so it takes the place of one that still waits to be sent.
    """

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._lease: bytes | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._write, name=name, daemon=True)
        self._thread.start()

    def send(self, plain: dict[str, Any]) -> None:
        """Have a message sent, given as `Message.to_plain` makes it; a `WireError` if it is known that it cannot be."""
        data = pack(plain)
        with self._changed:
            if self._closed:
                raise WireError("the connection has ended")
            if self._waiting_bytes >= MOST_UNSENT_BYTES:
                raise OverfullError(f"it has not read {self._waiting_bytes:,} bytes of what it was told")
            if plain["kind"] != Lease.kind:
                self._put(data)
            else:
                if self._lease is None:
                    self._put(LEASE)
                self._lease = data
            self._changed.notify()

    def _put(self, data: bytes) -> None:
        self._waiting.append(data)
        self._waiting_bytes += len(data) + MESSAGE_OVERHEAD_BYTES

    def receive(self) -> Any:
        return self._connection.receive()

    def close(self) -> None:
        """End the connection, whatever waits to be sent."""
        self._stop()
        self._connection.close()

    def join(self, secs: float) -> None:
        """Wait for the thread of a connection that has been closed."""
        self._thread.join(secs)

    def _write(self) -> None:
        try:
            while (data := self._next()) is not None:
                self._connection.send_packed(data)
        except WireError:
            self._stop()  # the connection stays open: what the other side has said before it ended can still be read

    def _next(self) -> bytes | None:
        """What is to be sent next, once there is anything; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting)
            if self._closed:
                return None
            data = self._waiting.popleft()
            self._waiting_bytes -= len(data) + MESSAGE_OVERHEAD_BYTES
            if data == LEASE:
                assert self._lease is not None
                data, self._lease = self._lease, None
            return data

    def _stop(self) -> None:
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify()
