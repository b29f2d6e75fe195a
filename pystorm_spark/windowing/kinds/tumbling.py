"""Tumbling: tumbling windows of a time that a trigger may fire before their ends."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from typing import Any

from pystorm_spark.aggregators import CombinerAggregator
from pystorm_spark.windowing.entry import EARLY, LATE, ON_TIME, Entry, Firing
from pystorm_spark.windowing.kinds.kind import Kind
from pystorm_spark.windowing.kinds.triggering import Content, Triggers, fire_early


class Tumbling(Kind):
    """Fires each window at its end, if it holds anything then, and before that when its trigger says so.

    Times and ends are those of `TimeSlides`.
    """

    def __init__(
        self,
        length: int,
        triggers: Triggers,
        offset: int = 0,
        lateness: int | None = None,
        aggregator: CombinerAggregator[Any, Any] | None = None,
    ) -> None:
        super().__init__()
        self._length, self._offset = length, offset
        self._triggers = triggers
        self._lateness = lateness
        self._aggregator = aggregator
        self._windows: dict[int, tuple[Content, Any]] = {}  # {end: (what it holds, its trigger)}
        self._ends: list[int] = []  # sorted
        self._previous: list[Entry] = []

    def is_late(self, at: int) -> bool:
        """Whether a time is so far behind the watermark that no window takes it."""
        if self.watermark is None:
            return False
        if self._lateness is not None:
            return at < self.watermark - self._lateness
        return at < self.watermark or self._end_of(at) <= self.watermark

    def _end_of(self, at: int) -> int:
        return -((self._offset - at) // self._length) * self._length + self._offset  # rounded up

    def add(self, entry: Entry) -> Iterator[Firing]:
        """Take in an entry that is not late. A window that has fired, and is kept, fires again."""
        end = self._end_of(entry.at)
        window = self._windows.get(end) or (Content(), self._triggers.new())
        content, trigger = window
        content.add(entry, self._aggregator)
        if end not in self._windows:
            self._windows[end] = window
            insort(self._ends, end)
        if self.watermark is not None and end <= self.watermark:
            yield from self._fire(end, LATE)
            return
        firing = self._firing(end, EARLY)
        yield from self._early(content, firing, self._triggers.on_tuple(trigger, entry, firing))

    def next_end(self) -> int | None:
        """The time of the next end that holds something."""
        at = 0 if self.watermark is None else bisect_right(self._ends, self.watermark)
        return self._ends[at] if at < len(self._ends) else None

    def last_end(self) -> int | None:
        """The time of the last end that holds something."""
        return next((end for end in reversed(self._ends) if self._windows[end][0].entries), None)

    def advance(self, watermark: int) -> Iterator[Firing]:
        """Move the watermark, which never goes back, and fire in order what it passes."""
        if self.watermark is not None and watermark <= self.watermark:
            return
        due = self._ends[: bisect_right(self._ends, watermark)]
        before, self.watermark = self.watermark, watermark
        for end in due:
            if (before is None or end > before) and self._windows[end][0].entries:
                yield from self._fire(end, ON_TIME)
            if self._lateness is None or end < watermark - self._lateness:
                self.released += self._windows.pop(end)[0].cleared()
                self._ends.remove(end)

    def on_time(self, now: int) -> Iterator[Firing]:
        """Ask the triggers of all windows that have not ended and hold something, in order."""
        for end in self._ends[0 if self.watermark is None else bisect_right(self._ends, self.watermark) :]:
            content, trigger = self._windows[end]
            if content.entries:
                firing = self._firing(end, EARLY)
                yield from self._early(content, firing, self._triggers.on_time(trigger, firing))

    def _early(self, content: Content, firing: Firing, decision: str) -> Iterator[Firing]:
        for fired in fire_early(content, firing, decision, self.released):
            yield fired
            self._has_fired(fired)

    def _fire(self, end: int, timing: str) -> Iterator[Firing]:
        firing = self._firing(end, timing)
        self._has_fired(firing)
        yield firing
        if firing.has_failed:
            self._windows[end][0].cleared()

    def _has_fired(self, firing: Firing) -> None:
        if not firing.is_aggregated:
            self._previous = firing.entries

    def _firing(self, end: int, timing: str) -> Firing:
        content = self._windows[end][0]
        return Firing(
            end - self._length,
            end,
            timing,
            lambda: list(content.entries),
            self._previous,
            content.folded if self._aggregator is not None else None,
            count=content.size,
        )
