"""LastOnes: windows of the last n tuples that fire at ends a slide apart."""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Iterator
from heapq import heappop, heappush
from typing import Any

from pystorm_spark.aggregators import CombinerAggregator
from pystorm_spark.windowing.entry import ON_TIME, Entry, Firing
from pystorm_spark.windowing.kinds.kind import Kind
from pystorm_spark.windowing.totals import Totals


class LastOnes(Kind):
    """Fires at each end from the first entry's on, whether or not an entry is new.

    A window holds the last `length` entries in order of arrival. Times and ends are those of `TimeSlides`.
    """

    def __init__(
        self,
        length: int,
        slide: int,
        offset: int = 0,
        lateness: int | None = None,
        aggregator: CombinerAggregator[Any, Any] | None = None,
    ) -> None:
        super().__init__()
        self._length, self._slide, self._offset = length, slide, offset
        self._lateness = lateness or 0
        self._waiting: list[tuple[int, int, Entry]] = []  # a heap by time
        self._last: list[tuple[int, Entry]] = []  # the last ones by number, of those that an end has reached
        self._passed: int | None = None  # the last end that the watermark has passed
        self._previous: list[Entry] = []
        self._totals = Totals(aggregator) if aggregator is not None else None
        self._reached: list[int] = []  # numbers that the totals do not hold yet

    def is_late(self, at: int) -> bool:
        """Whether a time is so far behind the watermark that no window takes it."""
        return self.watermark is not None and at < self.watermark - self._lateness

    def add(self, entry: Entry) -> Iterator[Firing]:
        """Take in an entry that is not late; nothing fires."""
        if self._totals is not None:
            self._totals.add(entry.number, entry.group, entry.value)
        heappush(self._waiting, (entry.at, entry.number, entry))
        return iter(())

    def next_end(self) -> int | None:
        """The time of the next end that holds something."""
        end = self._next()
        return None if end is None else end * self._slide + self._offset

    def last_end(self) -> int | None:
        """The time of the end that has reached all entries."""
        if not self._waiting:
            return None
        return self._end_of(max(at for at, _, _ in self._waiting)) * self._slide + self._offset

    def _end_of(self, at: int) -> int:
        return -((self._offset - at) // self._slide)  # rounded up

    def _next(self) -> int | None:
        if self._last:
            assert self._passed is not None
            return self._passed + 1
        if not self._waiting:
            return None
        first = self._end_of(self._waiting[0][0])
        return first if self._passed is None else max(first, self._passed + 1)

    def advance(self, watermark: int) -> Iterator[Firing]:
        """Move the watermark, which never goes back, and fire in order at the ends that it passes."""
        if self.watermark is not None and watermark <= self.watermark:
            return
        self.watermark = watermark
        while (end := self._next()) is not None and end * self._slide + self._offset <= watermark:
            self._passed = end
            self._reach(end * self._slide + self._offset)
            yield from self._fire(end * self._slide + self._offset)
        self._passed = (watermark - self._offset) // self._slide

    def _reach(self, time: int) -> None:
        while self._waiting and self._waiting[0][0] <= time:
            _, number, entry = heappop(self._waiting)
            insort(self._last, (number, entry))
            if self._totals is not None:
                self._reached.append(number)
        surplus = len(self._last) - self._length
        if surplus > 0:
            self.released += [entry for _, entry in self._last[:surplus]]
            del self._last[:surplus]

    def _fire(self, time: int) -> Iterator[Firing]:
        firing = Firing(
            None,
            time,
            ON_TIME,
            lambda: [entry for _, entry in self._last],
            self._previous,
            self._folded if self._totals is not None else None,
        )
        if self._totals is None:
            self._previous = firing.entries
        yield firing
        if firing.has_failed:
            if self._totals is not None:
                self._totals.drop_before(self._last[-1][0] + 1)
                self._forget_reached()
            self._last = []

    def _folded(self) -> tuple[dict[Hashable, Any], int]:
        assert self._totals is not None
        first = self._last[0][0]
        for number in self._reached:
            if number >= first:
                self._totals.enter(number)
        self._forget_reached()
        self._totals.drop_before(first)
        return self._totals.totals(), len(self._last)

    def _forget_reached(self) -> None:
        assert self._totals is not None
        for number in self._reached:
            self._totals.forget(number)
        self._reached.clear()
