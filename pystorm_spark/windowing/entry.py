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


class Firing:
    """A window that is due, while it is executed.

    Who executes it sets `has_failed` if that raises, and the window's tuples leave all windows.
    """

    __slots__ = ("_collect", "_entries", "end", "has_failed", "key", "previous", "size", "start", "timing", "totals")

    def __init__(
        self,
        start: int | None,
        end: int | None,
        timing: str,
        size: int,
        collect: Callable[[], list[Entry]],
        previous: list[Entry] | None = None,
        totals: Mapping[Any, Any] | None = None,
        key: Any = None,
    ) -> None:
        self.start, self.end, self.timing = start, end, timing
        self.size = size
        self.previous = previous or []  # the entries of the firing before it
        self.key = key  # of a session
        self.has_failed = False
        self.totals = totals  # the accumulator of each group, where there is an aggregate
        self._collect = collect
        self._entries: list[Entry] | None = None

    @property
    def entries(self) -> list[Entry]:
        """The entries of the window in order of arrival; read first while the window is executed."""
        if self._entries is None:
            self._entries = self._collect()
        return self._entries


def by_number(entry: Entry) -> int:
    """The order of arrival, to sort by."""
    return entry.number
