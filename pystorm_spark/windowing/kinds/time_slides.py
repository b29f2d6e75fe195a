"""TimeSlides: windows of a time whose ends are a slide apart.

Ends are the multiples of the slide, shifted by an offset; they are numbered. A window is `(end - length, end]`. The
time between two ends is cut where a window begins, so each window is made of whole **panes**: with
`q, r = divmod(length, slide)`, end `i` closes the panes `2i - 1`, up to `r` before it, and `2i`. Without a remainder
there is only `2i`.

By the clock nothing differs. An entry that the task receives at `t` has the time `t + 1`, because it comes after the
firing at `t`; and the clock is the watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

from pystorm_spark.aggregators import CombinerAggregator, own_copy
from pystorm_spark.windowing.entry import LATE, ON_TIME, Entry, Firing, by_number
from pystorm_spark.windowing.kinds.kind import Kind
from pystorm_spark.windowing.kinds.sorted_row import SortedRow
from pystorm_spark.windowing.totals import Totals


class TimeSlides(Kind):
    """Fires at each end that the watermark passes, if the window holds anything."""

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
        self._lateness = lateness
        self._whole, self._remainder = divmod(length, slide)
        self._panes: dict[int, list[Entry]] = {}
        self._order: SortedRow[int] = SortedRow()  # the numbers of the panes
        self._passed: int | None = None  # the last end that the watermark has passed
        self._previous: list[Entry] = []
        self._aggregate = _Aggregate(aggregator, is_kept=lateness is not None) if aggregator is not None else None

    # Numbers of ends and panes.

    def _time_of(self, end: int) -> int:
        return end * self._slide + self._offset

    def pane_of(self, at: int) -> int:
        """The pane of a time."""
        end = -((self._offset - at) // self._slide)  # rounded up
        is_first = bool(self._remainder) and at <= self._time_of(end) - self._remainder
        return 2 * end - is_first

    def _first_end(self, pane: int) -> int:
        return (pane + 1) // 2

    def _last_end(self, pane: int) -> int:
        return pane // 2 + self._whole - (not self._remainder)

    def _first_pane(self, end: int) -> int:
        return 2 * (end - self._whole + (not self._remainder))

    # Entries.

    def is_late(self, at: int) -> bool:
        """Whether a time is so far behind the watermark that no window takes it."""
        if self.watermark is None:
            return False
        if self._lateness is not None:
            return at < self.watermark - self._lateness
        if at != self.watermark:
            return at < self.watermark
        pane = self.pane_of(at)
        is_in_windows = self._first_end(pane) <= self._last_end(pane)
        return is_in_windows and self._has_passed(self._last_end(pane))

    def add(self, entry: Entry) -> Iterable[Firing]:
        """Take in an entry that is not late. Windows that have fired, and are kept, fire again."""
        pane = self.pane_of(entry.at)
        if not self._whole and self._first_end(pane) > self._last_end(pane):  # between two windows
            self.released.append(entry)
            return ()
        if self._aggregate is not None:
            self._aggregate.add(pane, entry)
        entries = self._panes.get(pane)
        if entries is None:
            entries = self._panes[pane] = []
            self._order.add(pane)
        entries.append(entry)
        return () if self._lateness is None or self._passed is None else self._fire_again(pane, entry)

    def _fire_again(self, pane: int, entry: Entry) -> Iterator[Firing]:
        assert self._passed is not None
        for end in range(self._first_end(pane), min(self._last_end(pane), self._passed) + 1):
            if pane in self._panes:  # unless the entry has failed in a window before it
                yield from self._fire(end, LATE, entry)

    def _has_passed(self, end: int) -> bool:
        return self._passed is not None and end <= self._passed

    # Time.

    def next_end(self) -> int | None:
        """The time of the next end that holds something."""
        end = self._next()
        return None if end is None else self._time_of(end)

    def last_end(self) -> int | None:
        """The time of the last end that holds something."""
        return self._time_of(self._last_end(self._order[-1])) if self._order else None

    def _next(self) -> int | None:
        if self._passed is None:
            return self._first_end(self._order[0]) if self._order else None
        at = self._order.find(self._first_pane(self._passed + 1))
        return max(self._first_end(self._order[at]), self._passed + 1) if at < len(self._order) else None

    def advance(self, watermark: int) -> Iterator[Firing]:
        """Move the watermark, which never goes back, and fire in order what it passes."""
        if self.watermark is not None and watermark <= self.watermark:
            return
        self.watermark = watermark
        while (end := self._next()) is not None and self._time_of(end) <= watermark:
            self._passed = end
            yield from self._fire(end, ON_TIME)
            self._release()
        self._passed = (watermark - self._offset) // self._slide
        self._release()

    def _fire(self, end: int, timing: str, late: Entry | None = None) -> Iterator[Firing]:
        time = self._time_of(end)
        firing = Firing(
            time - self._length,
            time,
            timing,
            lambda: self._entries(self._panes_of(end)),
            self._previous,
            (lambda: self._folded(end, firing, late)) if self._aggregate is not None else None,
        )
        if self._aggregate is None:
            self._previous = firing.entries
        yield firing
        if firing.has_failed:
            self._drop(self._panes_of(end))
            if self._aggregate is not None:
                self._aggregate.forget(end)

    def _folded(self, end: int, firing: Firing, late: Entry | None) -> tuple[Mapping[Hashable, Any], int]:
        assert self._aggregate is not None
        if late is not None:
            return self._aggregate.of_late_window(end, firing.entries, late), len(firing.entries)
        entered = self._aggregate.entered
        panes = self._panes_of(end) if entered is None else self._panes_between(entered + 1, 2 * end)
        return self._aggregate.of_window(end, panes, self._first_pane(end))

    def _panes_of(self, end: int) -> list[int]:
        return self._panes_between(self._first_pane(end), 2 * end)

    def _panes_between(self, first: int, last: int) -> list[int]:
        return self._order.between(self._order.find(first), self._order.find(last + 1))

    def _entries(self, panes: list[int]) -> list[Entry]:
        return sorted((entry for pane in panes for entry in self._panes[pane]), key=by_number)

    def _release(self) -> None:
        """Let go of the panes that no window needs any more."""
        count = 0
        while count < len(self._order) and self._is_done(self._last_end(self._order[count])):
            count += 1
        if count:
            done = self._order.between(0, count)
            self.released += self._entries(done)
            self._drop(done)
        if self._aggregate is not None and self._lateness is not None:
            self._aggregate.release(self._is_done)

    def _is_done(self, end: int) -> bool:
        """Whether a window has fired for the last time."""
        assert self.watermark is not None
        is_kept = self._lateness is not None and self._time_of(end) >= self.watermark - self._lateness
        return self._has_passed(end) and not is_kept

    def _drop(self, panes: list[int]) -> None:
        """Drop panes that are neighbours."""
        for pane in panes:
            del self._panes[pane]
            if self._aggregate is not None:
                self._aggregate.drop_open(pane)
        if panes:
            at = self._order.find(panes[0])
            self._order.remove(at, at + len(panes))


class _Aggregate:
    """The accumulators of the windows: of panes, until these enter the fold; of windows that may fire again."""

    def __init__(self, aggregator: CombinerAggregator[Any, Any], *, is_kept: bool) -> None:
        self._aggregator = aggregator
        self._totals = Totals(aggregator)
        self.entered: int | None = None  # the last pane that a window that has fired held
        self._kept: dict[int, dict[Hashable, Any]] | None = {} if is_kept else None

    def add(self, pane: int, entry: Entry) -> None:
        has_entered = self.entered is not None and pane <= self.entered
        self._totals.add(pane, entry.group, entry.value, has_entered=has_entered)

    def of_window(self, end: int, new_panes: list[int], first_pane: int) -> tuple[Mapping[Hashable, Any], int]:
        """The accumulators of a window and the number of its entries, when it fires for the first time."""
        self.entered = 2 * end
        for pane in new_panes:
            if pane >= first_pane:
                self._totals.enter(pane)
        self._totals.drop_before(first_pane)
        totals = self._totals.totals()
        if self._kept is not None:
            self._kept[end] = totals
        return totals, self._totals.size

    def drop_open(self, pane: int) -> None:
        """A pane is gone, which may not have entered."""
        self._totals.forget(pane)

    def of_late_window(self, end: int, entries: list[Entry], late: Entry) -> Mapping[Hashable, Any]:
        """A window that has fired, with one more entry."""
        assert self._kept is not None
        is_known = end in self._kept
        kept = self._kept.setdefault(end, {})
        for entry in [late] if is_known else entries:
            acc = own_copy(kept[entry.group]) if entry.group in kept else self._aggregator.init()
            kept[entry.group] = self._aggregator.apply(acc, entry.value)
        return kept

    def forget(self, end: int) -> None:
        """The entries of a window have left all windows."""
        self._totals.drop_before(2 * end + 1)
        if self._kept is not None:
            self._kept.clear()  # windows share entries: those that fire again are folded anew

    def release(self, is_done: Callable[[int], bool]) -> None:
        for end in [each for each in self._kept or () if is_done(each)]:
            assert self._kept is not None
            del self._kept[end]
