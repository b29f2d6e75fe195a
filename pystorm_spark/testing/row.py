"""Checks of rows: the values of one tuple, before it is emitted."""

from __future__ import annotations

from reprlib import repr as short
from typing import Any

from pystorm_spark.errors import EmitError
from pystorm_spark.topology.fields import Fields


def checked_row(what: str, values: Any, fields: Fields) -> list[Any]:
    """`values` as a new list. Raises an `EmitError` that begins with `what` if they do not match `fields`."""
    if not isinstance(values, (list, tuple)):
        raise EmitError(
            f"{what} {short(values)} of type {type(values).__name__}; values must be a list or a tuple, "
            "for example [value]"
        )
    if len(values) != len(fields):
        raise EmitError(f"{what} {len(values)} values for {len(fields)} fields {fields.to_list()}: {short(values)}")
    return list(values)
