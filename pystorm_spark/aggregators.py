"""Aggregators: how values are folded into one, a value or a group of values at a time.

An aggregator describes a monoid. `init` gives the empty accumulator, `apply` adds a value, `merge` joins two
accumulators, `result` reads one. Windows, streams and Trident fold with them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pystorm_spark.errors import InvalidTopologyError
from pystorm_spark.naming import java_names

__all__ = ["CombinerAggregator", "Count", "LongSum", "Max", "Mean", "Min", "Sum"]

A = TypeVar("A")  # the accumulator
V = TypeVar("V")  # a value

IMMUTABLE = (type(None), bool, int, float, complex, str, bytes, frozenset)


@java_names()
class CombinerAggregator(Generic[A, V]):
    """Folds values into an accumulator.

    `merge` must be associative, `init()` must be neutral to it, and over event time `merge` must be commutative. A
    subclass may define `inverse(acc, other)`, which removes `other` from `acc`: sliding windows then subtract what
    leaves them. Define it only where it is exact.
    """

    inverse: Callable[[A, A], A] | None = None

    def init(self) -> A:
        """Return the accumulator of no values; each call returns one of its own."""
        raise NotImplementedError(f"{type(self).__name__} must define init()")

    def apply(self, acc: A, value: V) -> A:
        """Return `acc` with `value` added."""
        raise NotImplementedError(f"{type(self).__name__} must define apply(acc, value)")

    def merge(self, acc: A, other: A) -> A:
        """Return the accumulator of the values of `acc`, followed by those of `other`."""
        raise NotImplementedError(f"{type(self).__name__} must define merge(acc, other)")

    def result(self, acc: A) -> Any:
        """Return what `acc` stands for; the accumulator itself by default."""
        return acc

    @staticmethod
    def of(
        initial: Any,
        apply: Callable[[Any, Any], Any],
        merge: Callable[[Any, Any], Any],
        inverse: Callable[[Any, Any], Any] | None = None,
    ) -> CombinerAggregator[Any, Any]:
        """Make an aggregator of functions; every fold begins with a copy of `initial`."""
        return _FunctionAggregator(initial, apply, merge, inverse)


class _FunctionAggregator(CombinerAggregator[Any, Any]):
    def __init__(self, initial: Any, apply: Any, merge: Any, inverse: Any) -> None:
        for name, function in (("apply", apply), ("merge", merge)):
            if not callable(function):
                raise InvalidTopologyError(
                    f"{name} of an aggregator must be a function of two values, got {function!r}"
                )
        if inverse is not None and not callable(inverse):
            raise InvalidTopologyError(f"inverse of an aggregator must be a function or None, got {inverse!r}")
        self._initial = initial
        self._apply, self._merge = apply, merge
        self.inverse = inverse

    def init(self) -> Any:
        return own_copy(self._initial)

    def apply(self, acc: Any, value: Any) -> Any:
        return self._apply(acc, value)

    def merge(self, acc: Any, other: Any) -> Any:
        return self._merge(acc, other)


class Count(CombinerAggregator[int, Any]):
    """Counts values."""

    def init(self) -> int:
        return 0

    def apply(self, acc: int, value: Any) -> int:
        return acc + 1

    def merge(self, acc: int, other: int) -> int:
        return acc + other

    def inverse(self, acc: int, other: int) -> int:
        return acc - other


class Sum(CombinerAggregator[Any, Any]):
    """Adds numbers of any type.

    It has no inverse: to subtract floats again would leave rounding errors behind, and after an infinity NaN.
    """

    def init(self) -> Any:
        return 0

    def apply(self, acc: Any, value: Any) -> Any:
        return acc + value

    def merge(self, acc: Any, other: Any) -> Any:
        return acc + other


class LongSum(CombinerAggregator[int, int]):
    """Adds whole numbers, of any size; a value of another type is a TypeError."""

    def init(self) -> int:
        return 0

    def apply(self, acc: int, value: int) -> int:
        if not isinstance(value, int):
            raise TypeError(f"LongSum adds whole numbers, got {value!r} of type {type(value).__name__}; use Sum")
        return acc + value

    def merge(self, acc: int, other: int) -> int:
        return acc + other

    def inverse(self, acc: int, other: int) -> int:
        return acc - other


class _Extreme(CombinerAggregator[Any, Any]):
    """Keeps one of the values; an accumulator is `()` or `(value,)`, so None is a value like any other."""

    def init(self) -> Any:
        return ()

    def apply(self, acc: Any, value: Any) -> Any:
        return self.merge(acc, (value,))

    def merge(self, acc: Any, other: Any) -> Any:
        if not acc or not other:
            return acc or other
        return other if self._is_beyond(other[0], acc[0]) else acc

    def result(self, acc: Any) -> Any:
        return acc[0] if acc else None

    def _is_beyond(self, value: Any, kept: Any) -> bool:
        raise NotImplementedError


class Min(_Extreme):
    """Keeps the smallest value, of equal ones the first; None if there is none."""

    def _is_beyond(self, value: Any, kept: Any) -> bool:
        return bool(value < kept)


class Max(_Extreme):
    """Keeps the largest value, of equal ones the first; None if there is none."""

    def _is_beyond(self, value: Any, kept: Any) -> bool:
        return bool(value > kept)


class Mean(CombinerAggregator[Any, Any]):
    """The arithmetic mean; None if there is no value."""

    def init(self) -> Any:
        return (0, 0)

    def apply(self, acc: Any, value: Any) -> Any:
        return (acc[0] + value, acc[1] + 1)

    def merge(self, acc: Any, other: Any) -> Any:
        return (acc[0] + other[0], acc[1] + other[1])

    def result(self, acc: Any) -> Any:
        total, count = acc
        return total / count if count else None


def own_copy(acc: Any) -> Any:
    """A copy of an accumulator that a function may change, or the accumulator itself if nobody can change it."""
    return acc if is_immutable(acc) else copy.deepcopy(acc)


def is_immutable(acc: Any) -> bool:
    """Whether `acc` is a value that no function can change in place."""
    if type(acc) is tuple:
        return all(map(is_immutable, acc))
    return type(acc) in IMMUTABLE
