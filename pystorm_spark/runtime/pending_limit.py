"""Internal. PendingLimit: how many messages of one spout task may be under way at once."""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)

TIMED_OUT = "timed out"
QUEUED = "timed out in a queue that was longer than the message timeout"  # which is no fault of the message
GROWTH = 8  # a limit that was narrowed grows by this part of it when as many messages as it holds were done in time


class PendingLimit:
    """The limit of `topology.max.spout.pending`; where it `adapts`, a narrower one after time-outs.

    It adapts where the engine itself plays messages again and gives up those that fail too often. One that waits behind
    too many others would time out again and again there, though nothing is wrong with it.
    """

    def __init__(self, most: int, timeout_secs: float, adapts: bool) -> None:
        self.size = most
        self.adapts = adapts
        self._most = most
        self._timeout_secs = timeout_secs
        self._done_at = 0.0  # when a message was done last
        self._last_done = 0.0  # when that one, or a later one, was emitted
        self._done = 0  # since the size was changed

    def note_done(self, count: int, emitted_at: float, now: float) -> None:
        """So many messages were done in time, the last of them one that was emitted then."""
        self._done_at = now
        self._last_done = max(self._last_done, emitted_at)
        if self.size < self._most:
            self._done += count
            if self._done >= self.size:
                self._done = 0
                self.size = min(self._most, self.size + max(1, self.size // GROWTH))

    def narrow(self, under_way: int, who: str) -> None:
        """Some of so many messages under way have timed out: let fewer in from now on."""
        self._done = 0
        if self.size == 1 or under_way == 1:
            return
        self.size = min(self.size, under_way) // 2
        log.warning(
            "%s: of %d messages under way some have timed out after %g s; at most %d are let in until they are done in "
            "time; set topology.max.spout.pending or topology.message.timeout.secs so that a queue takes less",
            who,
            under_way,
            self._timeout_secs,
            self.size,
        )

    def why_timed_out(self, emitted_at: float, now: float) -> str:
        """Whose fault it is: no later message was done, and others were a moment ago, so it has waited behind these."""
        is_moving = now - self._done_at < self._timeout_secs / 2
        return QUEUED if is_moving and emitted_at >= self._last_done else TIMED_OUT
