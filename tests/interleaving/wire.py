"""A connection between two threads of a scheduler. Who reads waits there, as does who writes to an end that is full."""

from __future__ import annotations

from collections import deque

import msgpack

from pystorm_spark.spark.protocol.wire import WireError, pack


class End:
    """One end of a connection, as a `Connection` is."""

    def __init__(self, scheduler, room):
        self._scheduler = scheduler
        self._pending_limit = room  # for so many messages that the other side has not read
        self._come = deque()
        self.other = self
        self.is_closed = False

    def send(self, message):
        self.send_packed(pack(message))

    def send_packed(self, data):
        ends, waiting = (self, self.other), self.other._come
        self._scheduler.wait_for(
            lambda: len(waiting) < self._pending_limit or any(end.is_closed for end in ends), "send"
        )
        if any(end.is_closed for end in ends):
            raise WireError("the connection broke while sending")
        waiting.append(data)

    def receive(self, limit=0):
        self._scheduler.wait_for(lambda: bool(self._come) or self.is_closed or self.other.is_closed, "receive")
        if self.is_closed or not self._come:
            raise WireError("the other side has closed the connection")
        return msgpack.unpackb(self._come.popleft(), strict_map_key=False)

    def close(self):
        self.is_closed = True


def connected(scheduler, room=1):
    """Both ends of a connection."""
    one, other = End(scheduler, room), End(scheduler, room)
    one.other, other.other = other, one
    return one, other


def heard_by(end, until=None):
    """All that comes until the connection ends, or until a message of the kind `until`."""
    heard = []
    try:
        while until is None or not heard or heard[-1]["kind"] != until:
            heard.append(end.receive())
    except WireError:
        pass
    return heard
