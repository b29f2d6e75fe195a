"""SortedRow: a sorted list whose first items leave at a constant cost, however long it is."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any, Generic, TypeVar

T = TypeVar("T")

FEWEST_GONE = 500  # items that have left, before the list is shortened


class SortedRow(Generic[T]):
    """Items in order; those that are added mostly come last, those that are removed mostly first.

    To delete the first items of a list moves all others. Here they only leave a gap, until it is half of the list.
    """

    __slots__ = ("_first", "_items")

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._first = 0  # how many items in front are gone

    def __len__(self) -> int:
        return len(self._items) - self._first

    def __getitem__(self, at: int) -> T:
        item: T = self._items[self._first + at if at >= 0 else at]
        return item

    def add(self, item: T) -> None:
        items = self._items
        if len(items) == self._first or items[-1] <= item:
            items.append(item)
        else:
            insort(items, item, lo=self._first)

    def find(self, item: Any) -> int:
        """The place of the first item that is not less than `item`."""
        return bisect_left(self._items, item, lo=self._first) - self._first

    def between(self, start: int, end: int) -> list[T]:
        """The items from one place up to another."""
        return self._items[self._first + start : self._first + end]

    def remove(self, start: int, end: int) -> None:
        """Remove the items from one place up to another."""
        first = self._first
        if start > 0:
            del self._items[first + start : first + end]
            return
        self._items[first : first + end] = [None] * end  # nothing refers to what is gone
        self._first = first = first + end
        if first > FEWEST_GONE and 2 * first > len(self._items):
            del self._items[:first]
            self._first = 0
