"""Rows that come from Spark as Arrow batches: the values that PySpark would give, of every kind that is plain."""

from array import array
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystorm_spark.errors import SerializationError
from pystorm_spark.spark.arrow_rows import ArrowRows, _texts, row_count

# Three rows, ("a", 1), ("é", null), (null, 3), as Spark writes them.
MESSAGE = bytes.fromhex(
    "ffffffffc800000014000000000000000c0016000e001500100004000c0000004000000000000000000004001000000000030a00"
    "18000c00080004000a00000014000000680000000300000000000000000000000500000000000000000000000100000000000000"
    "08000000000000001000000000000000180000000000000003000000000000002000000000000000010000000000000028000000"
    "00000000180000000000000000000000020000000300000000000000010000000000000003000000000000000100000000000000"
    "03000000000000000000000001000000030000000300000061c3a900000000000500000000000000010000000000000000000000"
    "000000000300000000000000"
)


def rows_of(message, kinds):
    rows = ArrowRows(message, kinds)
    return rows.between(0, len(rows))


def test_a_message_knows_how_many_rows_it_holds():
    assert row_count(MESSAGE) == 3


def test_rows_are_lists_of_values_and_nulls():
    assert rows_of(MESSAGE, "sq") == [["a", 1], ["é", None], [None, 3]]


def test_what_is_cut_off_is_an_error():
    with pytest.raises(SerializationError, match="an Arrow batch of columns 'sq' cannot be read"):
        rows_of(MESSAGE[:-24], "sq")


def test_a_single_column_that_is_cut_off_is_an_error():
    rows = ArrowRows(MESSAGE, "sq")
    rows._columns = [lambda first, last: [1, 2]]
    with pytest.raises(SerializationError, match="there are 2 rows from 0 to 3"):
        rows.between(0, 3)


def test_rows_are_read_piece_by_piece():
    rows = ArrowRows(MESSAGE, "sq")
    assert [rows.between(number, number + 1) for number in range(3)] == [[row] for row in rows_of(MESSAGE, "sq")]
    assert rows.between(1, 3) == rows_of(MESSAGE, "sq")[1:]
    assert rows.between(1, 1) == []


@given(st.lists(st.one_of(st.text(), st.text("abc"), st.just("\ud800"))), st.sampled_from("iq"))
def test_both_cores_read_the_same_texts(texts, width):
    pieces = [text.encode("utf-8", "surrogatepass") for text in texts]
    ends = array(width, [0, *accumulate(map(len, pieces))])
    args = memoryview(ends), b"".join(pieces)
    assert _texts(*args) == getattr(_texts, "__wrapped__", _texts)(*args)


@pytest.mark.parametrize("ends", [[], [0], [3, 1], [-2, 2], [0, 9], [5, 9]])
def test_both_cores_read_the_same_where_ends_are_wrong(ends):
    args = memoryview(array("i", ends)), b"text"
    assert _texts(*args) == getattr(_texts, "__wrapped__", _texts)(*args)


@pytest.mark.spark
@pytest.mark.parametrize("wide", ["false", "true"], ids=["narrow", "wide"])
def test_values_are_those_that_pyspark_gives(spark, wide):
    from pystorm_spark.spark.row_batches import column_kinds, row_batches

    columns = [
        "id",
        "CAST(id % 100 AS tinyint)",
        "CAST(-id AS smallint)",
        "CAST(id AS int)",
        "id / 3",
        "CAST(id / 3 AS float)",
        "id % 3 = 0",
        "concat('line ', id)",
        "concat('größer ', id)",
        "CAST(concat('raw ', id) AS binary)",
    ]
    gaps = [f"IF(id % 7 = {number % 7}, null, {column})" for number, column in enumerate(columns)]
    df = spark.range(-400, 803, 1, 2).selectExpr(*columns, *gaps, "CAST(null AS string)")
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", wide)
    try:
        batches = row_batches(df, 500).collect()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")

    assert [row_count(batch) for batch in batches] == [500, 101, 500, 102]
    rows = [row for batch in batches for row in rows_of(batch, column_kinds(df))]
    wanted = [list(row) for row in df.collect()]
    assert rows == wanted
    assert [list(map(type, row)) for row in rows] == [list(map(type, row)) for row in wanted]


@pytest.mark.spark
def test_the_session_is_left_as_it_was(spark):
    from pystorm_spark.spark.row_batches import SIZE_KEY, row_batches

    before = spark.conf.get(SIZE_KEY)
    row_batches(spark.range(10), 5)

    assert spark.conf.get(SIZE_KEY) == before


@pytest.mark.spark
@pytest.mark.parametrize("column", ["CAST(id AS decimal(5,2))", "current_timestamp()", "array(id)"])
def test_what_is_not_plain_comes_another_way(spark, column):
    from pystorm_spark.spark.row_batches import column_kinds

    assert column_kinds(spark.range(10).selectExpr("id", f"{column} AS other")) == ""


@pytest.mark.spark
def test_compressed_batches_are_not_asked_for(spark):
    from pystorm_spark.spark.row_batches import CODEC_KEY, column_kinds

    spark.conf.set(CODEC_KEY, "zstd")
    try:
        assert column_kinds(spark.range(10)) == ""
    finally:
        spark.conf.unset(CODEC_KEY)
