"""Internal. SlotWatch: sends heartbeats to the driver, and decides when a slot process must end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pystorm_spark.clock import Clock
from pystorm_spark.spark.protocol.messages import Beat, Stats
from pystorm_spark.spark.slot.actor import SlotActor

BEAT_SECS = 0.5  # between two looks
LEASE_TIMEOUT_SECS = 8.0  # without a message from the driver, after which a slot ends itself


class Endings(Protocol):
    """How a slot process ends early; a simulator has its own."""

    def orphaned(self) -> None:
        """End: the driver or the executor is gone."""

    def hung(self, secs: float, thread: int) -> None:
        """End: user code has been running in `thread` for `secs` seconds, which is too long."""


class SlotWatch:
    """Watches over one slot. `longest_call` says which thread has been in user code for longest, and since when."""

    def __init__(
        self,
        actor: SlotActor,
        endings: Endings,
        clock: Clock,
        longest_call: Callable[[], tuple[int, float] | None],
    ) -> None:
        self._actor = actor
        self._endings = endings
        self._now = clock.monotonic
        self._longest_call = longest_call
        self._told: Stats | None = None
        self._heard_at = actor.heard_at
        self._silent_beats = 0

    # Each of these is called every `BEAT_SECS`.

    def look_for_driver(self) -> None:
        """End the slot if its driver has said nothing for too long; never waits for the driver."""
        # Counted in beats of this thread: if the whole process was stopped, the driver's messages wait unread.
        heard_at = self._actor.heard_at
        self._silent_beats = self._silent_beats + 1 if heard_at == self._heard_at else 0
        self._heard_at = heard_at
        if self._silent_beats * BEAT_SECS > LEASE_TIMEOUT_SECS:
            self._endings.orphaned()

    def beat(self) -> None:
        """End the slot if user code has run for too long; else tell what has changed, or only that it lives."""
        call = self._longest_call()
        if call is not None and self._now() - call[1] > self._actor.call_limit:
            self._endings.hung(self._now() - call[1], call[0])
        # A full inbox pauses spouts until the slot reports otherwise, even if nothing else has changed.
        has_told_full, self._actor.has_told_full = self._actor.has_told_full, False
        stats = self._actor.stats(asked=None) if self._actor.is_loaded else None
        if stats is not None and (has_told_full or stats != self._told):
            self._told = stats
            self._actor.tell(stats)
        else:
            self._actor.tell(Beat())
