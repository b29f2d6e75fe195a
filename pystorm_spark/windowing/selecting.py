"""Selectors: what of a tuple is its key, its value or its timestamp."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from typing import Any

from pystorm_spark.errors import InvalidTopologyError
from pystorm_spark.topology.fields import Fields
from pystorm_spark.topology.tuple import Tuple

Selector = Any  # a field name, a list of field names, a function of the tuple, or None
Reader = Callable[[Tuple], Any]

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MILLISECOND = timedelta(milliseconds=1)


def check_selector(selector: Selector, what: str, *, may_be_list: bool = True) -> Selector:
    """`selector`, if it says what to read of a tuple; a list of names as a tuple."""
    if selector is None or isinstance(selector, str) or callable(selector):
        return selector
    if may_be_list and isinstance(selector, (list, tuple, Fields)):
        names = tuple(selector)
        if names and all(isinstance(name, str) for name in names):
            return names
    kinds = "a field name, a list of field names or a function" if may_be_list else "a field name or a function"
    raise InvalidTopologyError(f"{what} must be {kinds} of the tuple, got {selector!r}")


def names_of(selector: Selector) -> Iterable[str]:
    """The fields that a selector names."""
    if isinstance(selector, str):
        return (selector,)
    return selector if isinstance(selector, tuple) else ()


def reader_of(selector: Selector) -> Reader | None:
    """The function that reads what a selector names; None for None."""
    if isinstance(selector, str):
        return _field_reader(selector)
    if isinstance(selector, tuple):
        return lambda tup: tuple(tup.select(selector))
    reader: Reader | None = selector
    return reader


def _field_reader(name: str) -> Reader:
    fields: Fields | None = None  # of the last tuple: mostly all come from one stream
    index = 0

    def read(tup: Tuple) -> Any:
        nonlocal fields, index
        if tup._origin.fields is not fields:
            index = tup._origin.fields.field_index(name)
            fields = tup._origin.fields
        return tup.values[index]

    return read


def extractor_of(source: Any) -> Reader:
    """The function that gives a tuple's timestamp: `source` itself, or its `extract_timestamp`."""
    for name in ("extract_timestamp", "extractTimestamp"):
        method = getattr(source, name, None)
        if callable(method) and not isinstance(source, type):
            found: Reader = method
            return found
    if callable(source) and not isinstance(source, type):
        function: Reader = source
        return function
    raise InvalidTopologyError(
        "a timestamp extractor must be a function of the tuple or an object with extract_timestamp(tup), got "
        f"{source!r}"
    )


def as_milliseconds(value: Any) -> int:
    """A timestamp in milliseconds since 1970."""
    if type(value) is int:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, datetime):
        if value.tzinfo is None or value.utcoffset() is None:
            raise TypeError(f"the timestamp {value!r} has no time zone; write datetime.now(timezone.utc)")
        return (value - EPOCH) // MILLISECOND
    raise TypeError(
        "a timestamp must be an int of milliseconds since 1970, or a datetime with a time zone, got "
        f"{value!r} of type {type(value).__name__}"
    )
