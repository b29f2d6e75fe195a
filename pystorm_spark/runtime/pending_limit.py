"""Internal. PendingLimit: how many messages of one spout task may be pending at once."""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)

TIMED_OUT = "timed out"
QUEUED = "timed out in a queue that was longer than the message timeout"  # does not count as its failure
GROWTH = 8  # a narrowed limit grows by 1/8 each time as many messages as it allows were done in time


class PendingLimit:
    """The limit of `topology.max.spout.pending`. If it `adapts`, it narrows after timeouts.

    It adapts where the engine replays messages and gives up those that fail too often. Without that, a good message
    that waits behind too many others would time out at every replay.
    """

    def __init__(self, most: int, timeout_secs: float, adapts: bool) -> None:
        self.size = most
        self.adapts = adapts
        self._most = most
        self._timeout_secs = timeout_secs
        self._done_at = 0.0  # when a message was done last
        self._last_done = 0.0  # the latest emit time of a message done in time
        self._done = 0  # since the size was changed

    def note_done(self, count: int, emitted_at: float, now: float) -> None:
        """`count` messages were done in time; the last of them was emitted at `emitted_at`."""
        self._done_at = now
        self._last_done = max(self._last_done, emitted_at)
        if self.size < self._most:
            self._done += count
            if self._done >= self.size:
                self._done = 0
                self.size = min(self._most, self.size + max(1, self.size // GROWTH))

    def narrow(self, pending: int, task: str) -> None:
        """Some of `pending` messages timed out: halve the limit."""
        self._done = 0
        if self.size == 1 or pending == 1:
            return
        self.size = min(self.size, pending) // 2
        log.warning(
            "%s: some of %d pending messages timed out after %g s; limiting to %d until messages are done in time; "
            "lower topology.max.spout.pending or raise topology.message.timeout.secs",
            task,
            pending,
            self._timeout_secs,
            self.size,
        )

    def why_timed_out(self, emitted_at: float, now: float) -> str:
        """`QUEUED` if others were done recently, but none emitted later: the message waited behind them."""
        is_moving = now - self._done_at < self._timeout_secs / 2
        return QUEUED if is_moving and emitted_at >= self._last_done else TIMED_OUT
