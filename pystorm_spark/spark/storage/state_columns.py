"""Internal. Keys and values of a state as columns: a column has the common type of its values, or holds JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime
from typing import Any

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    StringType,
    TimestampType,
)

from pystorm_spark.runtime.keys.hashing import unwrapped

Kind = type | None

_COLUMN_TYPES: dict[type, DataType] = {
    str: StringType(),
    bool: BooleanType(),
    int: LongType(),
    float: DoubleType(),
    bytes: BinaryType(),
    date: DateType(),
    datetime: TimestampType(),
}
_LONG = range(-(1 << 63), 1 << 63)
_YEARS = range(2, 9999)  # in every time zone within the years of Python's datetime, which PySpark converts back to
_JSON_ATOMS = (str, bool, int, float, type(None))


def kind_of(value: Any) -> Kind:
    """The kind of `value`: its type if a column can have that type, None for None, `object` for anything else."""
    if value is None:
        return None
    kind = type(value)
    if kind is int:
        return kind if value in _LONG else object
    if kind is str:
        return kind if value.isascii() or _is_text(value) else object
    if kind is datetime:
        return kind if value.year in _YEARS else object
    return kind if kind in _COLUMN_TYPES else object


def _is_text(value: str) -> bool:
    """Whether `value` has no lone surrogate, which Spark would replace by another character."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def column_of(kinds: Collection[Kind]) -> tuple[DataType, Callable[[Any], Any]]:
    """The type of a column with values of these kinds, and a function that converts a value to it."""
    plain = {kind for kind in kinds if kind is not None}
    if not plain:
        return StringType(), _as_it_is
    column = _COLUMN_TYPES.get(plain.pop()) if len(plain) == 1 else None
    return (column, _as_it_is) if column is not None else (StringType(), _as_json)


def _as_it_is(value: Any) -> Any:
    return value


def _as_json(value: Any) -> str | None:
    return None if value is None else json.dumps(_jsonable(value))


def _jsonable(value: Any) -> Any:
    value = unwrapped(value)
    if isinstance(value, Mapping):
        return _jsonable_mapping(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_jsonable(each) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _jsonable(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value if isinstance(value, _JSON_ATOMS) else str(value)


def _jsonable_mapping(value: Mapping[Any, Any]) -> Any:
    """A JSON object. If two keys would have the same name, as 1 and "1", a list of pairs, so that none is lost."""
    names = [key if isinstance(key, str) else json.dumps(_jsonable(key)) for key in value]
    if len(set(names)) == len(names):
        return dict(zip(names, map(_jsonable, value.values()), strict=True))
    return [[_jsonable(key), _jsonable(each)] for key, each in value.items()]
