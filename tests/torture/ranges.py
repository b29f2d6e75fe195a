"""Sets of numbers that have few gaps, as sorted lists of [first, last]: small enough for a value of a state."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

Ranges = list[list[int]]


def add(ranges: Ranges, number: int) -> bool:
    """Add a number; False if it is there already."""
    at = bisect_right(ranges, [number, number])
    if at < len(ranges) and ranges[at][0] <= number:
        return False
    if at and ranges[at - 1][1] >= number:
        return False
    joins_left = at > 0 and ranges[at - 1][1] == number - 1
    joins_right = at < len(ranges) and ranges[at][0] == number + 1
    if joins_left and joins_right:
        ranges[at - 1][1] = ranges.pop(at)[1]
    elif joins_left:
        ranges[at - 1][1] = number
    elif joins_right:
        ranges[at][0] = number
    else:
        ranges.insert(at, [number, number])
    return True


def missing(ranges: Iterable[Iterable[int]], count: int) -> Iterator[int]:
    """The numbers below `count` that are not there."""
    begin = 0
    for first, last in ranges:
        yield from range(begin, min(first, count))
        begin = last + 1
    yield from range(begin, count)
