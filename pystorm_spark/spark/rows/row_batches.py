"""Internal. The rows of a DataFrame as Arrow batches, if `arrow_rows` can read the types of all columns."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

from pyspark import RDD
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
)

from pystorm_spark.runtime.codec.arrow_rows import BITS, BYTES, STRING_KIND

KINDS: dict[type[DataType], str] = {
    BinaryType: BYTES,
    BooleanType: BITS,
    ByteType: "b",
    DoubleType: "d",
    FloatType: "f",
    IntegerType: "i",
    LongType: "q",
    ShortType: "h",
    StringType: STRING_KIND,
}
SIZE_KEY = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES_KEY = "spark.sql.execution.pyspark.binaryAsBytes"  # if false, binary values are bytearrays
CODEC_KEY = "spark.sql.execution.arrow.compression.codec"
_setting = Lock()  # inputs of one run share a session, and must not restore each other's settings


def column_kinds(df: DataFrame) -> str:
    """The kinds of all columns of `df`; empty if its rows cannot be read from Arrow batches."""
    kinds = [KINDS.get(type(field.dataType), "") for field in df.schema]
    conf = df.sparkSession.conf
    is_plain = conf.get(CODEC_KEY, "none") == "none" and (BYTES not in kinds or conf.get(BYTES_KEY, "true") == "true")
    return "".join(kinds) if all(kinds) and is_plain else ""


def selected(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    """These columns of `df`, in this order. Names may have special characters."""
    return df.select(["`" + column.replace("`", "``") + "`" for column in columns])


def first_row_bytes(df: DataFrame) -> int:
    """The approximate size of the first row of `df`, 0 if there is none. Only that row is read, in the JVM."""
    found = row_batches(df, 1)._jrdd.take(1)
    return len(found[0]) if len(found) else 0


def row_batches(df: DataFrame, most: int) -> RDD[Any]:
    """The rows of `df` as Arrow batches of at most `most` rows."""
    conf = df.sparkSession.conf
    with _setting:
        is_set = df.sparkSession._jsparkSession.sessionState().conf().contains(SIZE_KEY)
        before = conf.get(SIZE_KEY) or ""
        conf.set(SIZE_KEY, most)
        try:
            batches = df._jdf.toArrowBatchRdd().toJavaRDD()
        finally:
            if is_set:
                conf.set(SIZE_KEY, before)
            else:
                conf.unset(SIZE_KEY)
    return RDD(batches, df.sparkSession.sparkContext, NoOpSerializer())
