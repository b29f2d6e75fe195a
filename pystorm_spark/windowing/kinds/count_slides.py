"""CountSlides: windows that fire at every n-th tuple."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from heapq import heappop, heappush
from math import gcd
from typing import Any

from pystorm_spark.aggregators import CombinerAggregator
from pystorm_spark.windowing.entry import ON_TIME, Entry, Firing, by_number
from pystorm_spark.windowing.kinds.kind import Kind
from pystorm_spark.windowing.kinds.sorted_row import SortedRow
from pystorm_spark.windowing.totals import Totals
from pystorm_spark.windowing.units import Count, Duration


class CountSlides(Kind):
    """Fires at every `slide`-th entry: the last `length` entries, or those of the last `length` milliseconds.

    By the clock an entry counts when it comes. In event time it waits until the watermark has reached it, and those
    that a watermark has reached count in order of arrival.
    """

    def __init__(
        self,
        length: Count | Duration,
        slide: int,
        *,
        in_event_time: bool = False,
        lateness: int | None = None,
        aggregator: CombinerAggregator[Any, Any] | None = None,
    ) -> None:
        super().__init__()
        self._length = length.value
        self._count = length.value if isinstance(length, Count) else None
        self._span = None if isinstance(length, Count) else length.value
        self._slide = slide
        self._pane_size = gcd(length.value, slide)  # entries that enter and leave windows together
        self._in_event_time = in_event_time
        self._lateness = lateness or 0
        self._waiting: list[tuple[int, int, Entry]] = []  # a heap by time
        # (place, number, entry) of what a window may still hold. A place is a count, or a time.
        self._counted: SortedRow[tuple[int, int, Entry]] = SortedRow()
        self._number = 0  # entries that have counted
        self._since = 0  # of them since the last firing
        self._highest: int | None = None  # time that has counted
        self._previous: list[Entry] = []
        self._totals = Totals(aggregator) if aggregator is not None else None

    def is_late(self, at: int) -> bool:
        """Whether a time is so far behind the watermark that no window takes it."""
        return self.watermark is not None and at < self.watermark - self._lateness

    def add(self, entry: Entry) -> Iterable[Firing]:
        """Take in an entry that is not late."""
        if self._in_event_time and (self.watermark is None or entry.at > self.watermark):
            heappush(self._waiting, (entry.at, entry.number, entry))
            return ()
        return self._fire() if self._take(entry) else ()

    def next_end(self) -> int | None:
        """The time at which `advance` has something to do by the clock: the oldest entry leaves all windows."""
        if self._in_event_time or self._span is None or not self._counted:
            return None
        return self._counted[0][0] + self._span

    def last_end(self) -> int | None:
        """The watermark that has all entries count."""
        return max(at for at, _, _ in self._waiting) if self._waiting else None

    def advance(self, watermark: int) -> Iterator[Firing]:
        """Move the watermark, or the clock: what it reaches counts, in order of arrival."""
        if self.watermark is not None and watermark <= self.watermark:
            return
        self.watermark = watermark
        reached = []
        while self._waiting and self._waiting[0][0] <= watermark:
            reached.append(heappop(self._waiting)[2])
        for entry in sorted(reached, key=by_number):
            if self._take(entry):
                yield from self._fire()
        if not self._in_event_time and self._span is not None:
            self._release_before(watermark - self._span + 1)  # what comes next is no older than now

    def _take(self, entry: Entry) -> bool:
        """Count an entry; whether a window is due."""
        place = entry.at if self._count is None else self._number + 1
        try:
            self._aggregate(place, entry)
        except BaseException as exc:  # whatever a user's aggregator raises
            self.failed.append((entry, exc))
            return False
        self._number += 1
        self._since += 1
        self._highest = entry.at if self._highest is None else max(self._highest, entry.at)
        self._counted.add((place, entry.number, entry))
        if self._since == self._slide:
            return True
        if self._count is None or self._count < self._slide:  # others are released when a window has fired
            self._release()
        return False

    def _aggregate(self, place: int, entry: Entry) -> None:
        if self._totals is None:
            return
        if self._count is None:
            self._totals.add(place, entry.group, entry.value, has_entered=True)
        else:
            self._totals.add((place - 1) // self._pane_size, entry.group, entry.value)

    def _fire(self) -> Iterator[Firing]:
        assert self._highest is not None
        self._since = 0
        first = self._number - self._count + 1 if self._count is not None else self._highest - self._length + 1
        at = self._counted.find((first,))
        if at == len(self._counted):  # the entry with the highest time has failed, and those after it are too old
            self._release()
            return
        firing = Firing(
            None if self._span is None else self._highest - self._span,
            self._highest,
            ON_TIME,
            lambda: self._entries(at, len(self._counted)),
            self._previous,
            (lambda: self._folded(first, len(self._counted) - at)) if self._totals is not None else None,
        )
        if self._totals is None:
            self._previous = firing.entries
        yield firing
        if firing.has_failed:
            self._counted.remove(at, len(self._counted))
            if self._totals is not None:
                self._totals.clear()
        self._release()

    def _folded(self, first: int, size: int) -> tuple[dict[Hashable, Any], int]:
        assert self._totals is not None
        if self._count is None:
            self._totals.drop_before(first)
        else:
            self._totals.enter_all()
            self._totals.drop_before((first - 1) // self._pane_size)
        return self._totals.totals(), size

    def _release(self) -> None:
        """Let go of the entries that are in none of the windows to come."""
        if self._count is not None:
            self._release_before(self._number - self._since + self._slide - self._count + 1)
        else:
            assert self._highest is not None
            self._release_before(self._highest - self._length + 1)

    def _release_before(self, place: int) -> None:
        at = self._counted.find((place,))
        if at:
            self.released += self._entries(0, at)
            self._counted.remove(0, at)

    def _entries(self, start: int, end: int) -> list[Entry]:
        return sorted((entry for _, _, entry in self._counted.between(start, end)), key=by_number)
