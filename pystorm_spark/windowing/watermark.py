"""Watermarks: how far event time has come in one task, by what its input streams have brought."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable


class Watermarks:
    """The highest timestamp of each input stream, and when the stream last brought a tuple.

    Times are milliseconds: `at` in event time, `now` by the clock.
    """

    def __init__(self, streams: Iterable[Hashable], lag: int, idle_after: int | None, now: int) -> None:
        self._highest: dict[Hashable, int | None] = dict.fromkeys(streams)
        self._heard: dict[Hashable, int] = dict.fromkeys(self._highest, now)
        self._lag = lag
        self._idle_after = idle_after
        self.watermark: int | None = None

    def note(self, stream: Hashable, at: int, now: int) -> None:
        """A tuple of `stream` has come."""
        highest = self._highest.get(stream)
        self._highest[stream] = at if highest is None else max(highest, at)
        self._heard[stream] = now

    def computed(self, now: int, last_end: Callable[[], int | None]) -> int | None:
        """The watermark as of now; it never goes back. None as long as a stream is waited for.

        If all streams are idle it moves to `last_end()`, if that is not None: what is held shall fire.
        """
        awaited = [stream for stream in self._highest if not self._is_idle(stream, now)]
        if awaited:
            highest = [self._highest[stream] for stream in awaited]
            found = None if None in highest else min(at for at in highest if at is not None) - self._lag
        else:
            found = last_end()
        if found is not None and (self.watermark is None or found > self.watermark):
            self.watermark = found
        return self.watermark

    def _is_idle(self, stream: Hashable, now: int) -> bool:
        return self._idle_after is not None and now - self._heard[stream] >= self._idle_after
