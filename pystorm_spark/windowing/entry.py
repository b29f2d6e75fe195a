"""Entry and Firing: a tuple as windows keep it, and a window that is due."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

ON_TIME, EARLY, LATE = "on-time", "early", "late"


class Entry:
    """One tuple in the windows of a task."""

    __slots__ = ("at", "group", "key", "number", "tup", "value")

    def __init__(self, tup: Any, at: int, number: int, key: Any = None, group: Any = None, value: Any = None) -> None:
        self.tup = tup
        self.at = at  # its time in milliseconds: when the task received it, or its timestamp
        self.number = number  # in order of arrival
        self.key = key  # of its session
        self.group = group  # its key in the aggregate
        self.value = value  # to be aggregated

    def __repr__(self) -> str:
        return f"Entry({self.tup!r}, at={self.at}, number={self.number})"


Totals = Mapping[Any, Any]  # {group: accumulator}


class Firing:
    """A window that is due, while it is executed.

    Who executes it sets `has_failed` if that raises, and the window's tuples leave all windows. Where there is an
    aggregate, who executes it reads `totals`, which may raise what the aggregator raises.
    """

    __slots__ = (
        "_collect",
        "_count",
        "_entries",
        "_fold",
        "_folded",
        "end",
        "has_failed",
        "key",
        "previous",
        "start",
        "timing",
    )

    def __init__(
        self,
        start: int | None,
        end: int | None,
        timing: str,
        collect: Callable[[], list[Entry]],
        previous: list[Entry],
        fold: Callable[[], tuple[Totals, int]] | None = None,
        key: Any = None,
        count: Callable[[], int] | None = None,
    ) -> None:
        self.start, self.end, self.timing = start, end, timing
        self.previous = previous  # the entries of the firing before it; empty where there is an aggregate
        self.key = key  # of a session
        self.has_failed = False
        self._collect = collect
        self._entries: list[Entry] | None = None
        self._count = count  # gives the number of entries without collecting them: triggers may ask at each tuple
        self._fold = fold  # gives the accumulators, and the number of entries
        self._folded: tuple[Totals, int] | None = None

    @property
    def entries(self) -> list[Entry]:
        """The entries of the window in order of arrival; read first while the window is executed."""
        if self._entries is None:
            self._entries = self._collect()
        return self._entries

    @property
    def is_aggregated(self) -> bool:
        return self._fold is not None

    @property
    def totals(self) -> Totals:
        """The accumulator of each group, where there is an aggregate; read first while the window is executed."""
        assert self._fold is not None
        if self._folded is None:
            self._folded = self._fold()
        return self._folded[0]

    @property
    def size(self) -> int:
        """The number of entries."""
        if self._fold is None:
            return len(self.entries) if self._count is None or self._entries is not None else self._count()
        if self._folded is None:
            self._folded = self._fold()
        return self._folded[1]


def by_number(entry: Entry) -> int:
    """The order of arrival, to sort by."""
    return entry.number
