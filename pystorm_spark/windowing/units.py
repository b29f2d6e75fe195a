"""Count and Duration: what lengths, slides and gaps are given in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pystorm_spark.errors import InvalidTopologyError
from pystorm_spark.naming import java_names

MILLISECOND = timedelta(milliseconds=1)


@java_names()
@dataclass(frozen=True, slots=True)
class Count:
    """A number of tuples, from 1 on."""

    value: int

    def __post_init__(self) -> None:
        _check_whole("Count", self.value, "tuples")
        if self.value < 1:
            raise InvalidTopologyError(f"a Count must be at least 1 tuple, got {self.value}")

    @classmethod
    def of(cls, value: int) -> Count:
        return cls(value)


@java_names()
@dataclass(frozen=True, slots=True)
class Duration:
    """A time in whole milliseconds."""

    value: int

    def __post_init__(self) -> None:
        _check_whole("Duration", self.value, "milliseconds")

    @classmethod
    def of(cls, milliseconds: int) -> Duration:
        return cls(milliseconds)

    @classmethod
    def seconds(cls, count: int) -> Duration:
        return _times(cls, "seconds", count, 1000)

    @classmethod
    def minutes(cls, count: int) -> Duration:
        return _times(cls, "minutes", count, 60_000)

    @classmethod
    def hours(cls, count: int) -> Duration:
        return _times(cls, "hours", count, 3_600_000)

    @classmethod
    def days(cls, count: int) -> Duration:
        return _times(cls, "days", count, 86_400_000)


def as_duration(value: Any, what: str, *, may_be_zero: bool = False) -> Duration:
    """`value`, a Duration or a timedelta of whole milliseconds, as a Duration that is not negative."""
    if isinstance(value, timedelta):
        count, rest = divmod(value, MILLISECOND)
        if rest:
            raise InvalidTopologyError(f"{what} must be a whole number of milliseconds, got {value!r}")
        value = Duration(count)
    if not isinstance(value, Duration):
        hint = "; a Count is a number of tuples and no time" if isinstance(value, Count) else ""
        raise InvalidTopologyError(f"{what} must be a Duration or a timedelta, got {value!r}{hint}")
    if value.value < 0 or (value.value == 0 and not may_be_zero):
        least = "not be negative" if may_be_zero else "be positive"
        raise InvalidTopologyError(f"{what} must {least}, got {value.value} ms")
    return value


def as_extent(value: Any, what: str) -> Count | Duration:
    """`value` as a positive Count or Duration."""
    if isinstance(value, Count):
        return value
    if not isinstance(value, (Duration, timedelta)):
        raise InvalidTopologyError(
            f"{what} must be a Count, a Duration or a timedelta, got {value!r}: write Count({value!r}) for tuples, "
            f"Duration({value!r}) for milliseconds"
            if isinstance(value, int)
            else f"{what} must be a Count, a Duration or a timedelta, got {value!r}"
        )
    return as_duration(value, what)


def _times(cls: type[Duration], unit: str, count: int, milliseconds: int) -> Duration:
    _check_whole(f"Duration.{unit}", count, unit)
    return cls(count * milliseconds)


def _check_whole(what: str, value: Any, unit: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidTopologyError(
            f"{what} takes a whole number of {unit}, got {value!r} of type {type(value).__name__}"
        )
