"""ManualClock: a clock that a test moves."""

from __future__ import annotations

from pystorm_spark.errors import StormError


class ManualClock:
    """A clock that only `advance` moves.

    >>> clock = ManualClock(start=100.0)
    >>> clock.advance(0.5)
    >>> clock.monotonic(), clock.time()
    (100.5, 100.5)
    """

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def advance(self, secs: float) -> None:
        """Move the clock forward by `secs`."""
        if not secs >= 0:  # refuses NaN, too
            raise StormError(f"a clock only moves forward, got advance({secs!r})")
        self._now += secs

    def monotonic(self) -> float:
        return self._now

    def time(self) -> float:
        return self._now
