"""Fitting: the values that the columns of a sink can store."""

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
    VariantVal,
)

from pystorm_spark import StormError
from pystorm_spark.spark.rows.fitting import row_check

FAR_WEST = timezone(timedelta(hours=-12))
PRICE = DecimalType(5, 2)
PAIR = StructType([StructField("name", StringType()), StructField("price", PRICE)])


class Name(str):
    """Spark does not know this class, so it cannot store its instances."""


class Item:
    def __init__(self, name, price):
        self.name, self.price = name, price


def check(kind: DataType, value, nullable=True):
    row_check(StructType([StructField("number", LongType()), StructField("it", kind, nullable)]))([1, value])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (StringType(), "a"),
        (StringType(), None),
        (StringType(), 5),
        (StringType(), "\U0001f4a5"),
        (PRICE, Decimal("-999.994")),
        (DecimalType(38, 0), Decimal("9" * 38)),
        (DayTimeIntervalType(), timedelta(days=-100_000)),
        (VariantType(), VariantVal(b"\x00", b"\x01\x00\x00")),
        (ArrayType(LongType()), [1, None]),
        (ArrayType(StringType()), ("a", None)),
        (MapType(StringType(), PRICE), {"a": Decimal(1), "b": None}),
        (PAIR, ("a", Decimal(1))),
        (PAIR, Row(name="a", price=None)),
        (PAIR, {"name": "a"}),
        (PAIR, Item("a", Decimal(1))),
        (TimestampType(), datetime(2024, 2, 29, tzinfo=FAR_WEST)),
        (TimestampType(), None),
        (ArrayType(TimestampType()), [None]),
    ],
)
def test_values_that_spark_can_store_fit(kind, value):
    check(kind, value)


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        (LongType(), 1 << 63, "between -9223372036854775808 and 9223372036854775807"),
        (LongType(), "a", "can not accept object 'a'"),
        (StringType(), UUID(int=5), "expected a string, got UUID"),
        (StringType(), datetime(2024, 2, 29), "expected a string, got datetime.datetime"),
        (StringType(), Name("a"), "expected a string, got 'a' of .*Name"),
        (StringType(), "a\ud800", "lone surrogate at 1"),
        (PAIR, ("\udfff", None), "lone surrogate at 0"),
        (PRICE, Decimal("1000"), "1000 has too many digits"),
        (PRICE, Decimal("-999.995"), "-999.995 has too many digits"),
        (DecimalType(38, 0), Decimal("1e38"), "too many digits"),
        (PRICE, Decimal("NaN"), "NaN is not finite"),
        (DayTimeIntervalType(), timedelta.max, "is too long"),
        (VariantType(), 1, "expected a VariantVal"),
        (TimestampType(), datetime.max.replace(tzinfo=FAR_WEST), "out of range"),
        (ArrayType(TimestampType()), [datetime.max.replace(tzinfo=FAR_WEST)], "out of range"),
        (ArrayType(StringType()), ["a", b"b"], "expected a string, got b'b'"),
        (MapType(StringType(), PRICE), {"a": Decimal(1000)}, "1000 has too many digits"),
        (MapType(StringType(), LongType()), {b"a": 1}, "expected a string, got b'a'"),
        (PAIR, ("a", Decimal(1000)), "1000 has too many digits"),
        (PAIR, {"name": "a", "price": Decimal(1000)}, "1000 has too many digits"),
        (PAIR, Item("a", Decimal(1000)), "1000 has too many digits"),
    ],
)
def test_values_that_spark_cannot_store_are_refused_with_their_field(kind, value, why):
    with pytest.raises(StormError, match=rf"(?s)field 'it' does not fit its column of type .*: .*{why}"):
        check(kind, value)


def test_none_is_refused_where_a_column_has_no_nulls():
    with pytest.raises(StormError, match=r"field 'it' does not fit its column of type string not null: .*not nullable"):
        check(StringType(), None, nullable=False)
