"""Internal. Fitting: checks whether the values of a tuple fit the columns of a DataFrame.

PySpark's own verifier accepts some values that Spark later silently changes, or fails on, too late to fail one tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Context, Decimal
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
    VariantVal,
    _make_type_verifier,
)

from pystorm_spark.errors import StormError

Check = Callable[[Any], None]

_WRITTEN_AS_TEXT = frozenset({str, bool, int, float, Decimal})  # types that Spark converts to strings as expected
_LONGEST_INTERVAL = timedelta(microseconds=(1 << 63) - 1)


def row_check(columns: StructType) -> Callable[[Sequence[Any]], None]:
    """A function that raises a `StormError` for values that do not fit `columns`. The error names the column."""
    checks = [(field, _checks(field)) for field in columns]

    def check(values: Sequence[Any]) -> None:
        for (field, each), value in zip(checks, values, strict=True):
            try:
                for verify in each:
                    verify(value)
            except Exception as exc:
                raise StormError(f"field {field.name!r} does not fit its column of type {_told(field)}: {exc}") from exc

    return check


@dataclass(frozen=True)
class Fitting:
    """The function of a Spark job: passes on rows that fit `columns`, raises a `TypeError` for the first misfit."""

    columns: StructType

    def __call__(self, rows: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
        check = row_check(self.columns)
        for row in rows:
            try:
                check(row)
            except StormError as exc:
                raise TypeError(str(exc)) from None  # Spark shows the first error of a chain
            yield row


def _checks(field: StructField) -> list[Check]:
    kind = field.dataType
    own = _own_check(kind)
    # The conversion to Spark's internal form must succeed, too: a time may be out of range.
    return [
        _make_type_verifier(kind, field.nullable),
        *([own] if own is not None else []),
        *([kind.toInternal] if kind.needConversion() else []),
    ]


def _told(field: StructField) -> str:
    return field.dataType.simpleString() + ("" if field.nullable else " not null")


def _own_check(kind: DataType) -> Check | None:
    """A check of what PySpark does not check in values of this type; None if PySpark's own check is enough."""
    make = _OWN_CHECKS.get(type(kind))
    check = make(kind) if make is not None else None
    return None if check is None else lambda value: None if value is None else check(value)


def _check_of_text(kind: StringType) -> Check:
    def check(value: Any) -> None:
        if type(value) not in _WRITTEN_AS_TEXT:
            raise TypeError(f"expected a string, got {value!r} of {type(value)}")
        if type(value) is str and not value.isascii():
            _refuse_surrogates(value)

    return check


def _refuse_surrogates(text: str) -> None:
    """Refuse lone surrogates, which Spark would replace by another character."""
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise ValueError(f"{text!r} has a lone surrogate at {exc.start}") from exc


def _check_of_decimal(kind: DecimalType) -> Check:
    exact = Context(prec=kind.precision + 2)
    most = exact.subtract(Decimal(1).scaleb(kind.precision - kind.scale), Decimal(5).scaleb(-kind.scale - 1))

    def check(value: Decimal) -> None:
        if not value.is_finite() or value.copy_abs() >= most:
            raise ValueError(f"{value} has too many digits" if value.is_finite() else f"{value} is not finite")

    return check


def _check_of_interval(kind: DayTimeIntervalType) -> Check:
    def check(value: timedelta) -> None:
        if abs(value) > _LONGEST_INTERVAL:
            raise ValueError(f"{value} is too long")

    return check


def _check_of_variant(kind: VariantType) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, VariantVal):
            raise TypeError(f"expected a VariantVal, as VariantVal.parseJson returns, got {value!r} of {type(value)}")

    return check


def _check_of_array(kind: ArrayType) -> Check | None:
    check_each = _own_check(kind.elementType)
    if check_each is None:
        return None

    def check(values: Any) -> None:
        for value in values:
            check_each(value)

    return check


def _check_of_map(kind: MapType) -> Check | None:
    checks = (_own_check(kind.keyType), dict.keys), (_own_check(kind.valueType), dict.values)
    own = [(check_each, part) for check_each, part in checks if check_each is not None]
    if not own:
        return None

    def check(values: Any) -> None:
        for check_each, part in own:
            for value in part(values):
                check_each(value)

    return check


def _check_of_struct(kind: StructType) -> Check | None:
    own = [(number, field.name, each) for number, field in enumerate(kind) if (each := _own_check(field.dataType))]
    if not own:
        return None

    def check(values: Any) -> None:
        by_name = values if isinstance(values, dict) else None if isinstance(values, (list, tuple)) else vars(values)
        for number, name, check_each in own:
            check_each(values[number] if by_name is None else by_name.get(name))

    return check


_OWN_CHECKS: dict[type[DataType], Callable[[Any], Check | None]] = {
    StringType: _check_of_text,
    DecimalType: _check_of_decimal,
    DayTimeIntervalType: _check_of_interval,
    VariantType: _check_of_variant,
    ArrayType: _check_of_array,
    MapType: _check_of_map,
    StructType: _check_of_struct,
}
