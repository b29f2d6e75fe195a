"""Internal. The rows of a DataFrame as their values, without the `Row` that PySpark makes of each: that takes longest.

What Spark sends to Python is pickled rows. The pickle names the function that makes a row of its values; where all of
these are plain, so that nothing has to be converted, another function takes its place.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

from pyspark import RDD
from pyspark.serializers import BatchedSerializer, CPickleSerializer
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)

PLAIN = (BinaryType, BooleanType, ByteType, DoubleType, FloatType, IntegerType, LongType, ShortType, StringType)
ROW_MAKER = ("pyspark.sql.types", "_create_row_inbound_converter")


def is_plain(schema: StructType) -> bool:
    """Whether all values are numbers, text or bytes."""
    return all(isinstance(field.dataType, PLAIN) for field in schema)


def row_values(df: DataFrame) -> RDD[Any]:
    """The values of the rows of `df`, each row a tuple."""
    if not is_plain(df.schema):
        return df.rdd.map(tuple)
    return RDD(df._jdf.javaToPython(), df.sparkSession.sparkContext, BatchedSerializer(ValuesSerializer()))


class ValuesSerializer(CPickleSerializer):
    """Reads pickled rows."""

    def loads(self, obj: bytes, encoding: str = "bytes") -> Any:
        return ValuesUnpickler(io.BytesIO(obj), encoding=encoding).load()


class ValuesUnpickler(pickle.Unpickler):
    """Makes tuples where the pickle says rows."""

    def find_class(self, module: str, name: str) -> Any:
        return _maker if (module, name) == ROW_MAKER else super().find_class(module, name)


def _maker(schema: StructType) -> Callable[..., tuple[Any, ...]]:
    return _values


def _values(*values: Any) -> tuple[Any, ...]:
    return values
