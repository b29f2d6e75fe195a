"""Rows that come from Spark as Arrow batches: values of all supported types are those that PySpark gives."""

import pytest

from pystorm_spark.runtime.codec.arrow_rows import ArrowRows, row_count


def rows_of(message, kinds):
    rows = ArrowRows(message, kinds)
    return rows.between(0, len(rows))


@pytest.mark.spark
@pytest.mark.parametrize("wide", ["false", "true"], ids=["narrow", "wide"])
def test_values_are_those_that_pyspark_gives(spark, wide):
    from pystorm_spark.spark.rows.row_batches import column_kinds, row_batches

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
    from pystorm_spark.spark.rows.row_batches import SIZE_KEY, row_batches

    before = spark.conf.get(SIZE_KEY)
    row_batches(spark.range(10), 5)

    assert spark.conf.get(SIZE_KEY) == before
    assert not spark._jsparkSession.sessionState().conf().contains(SIZE_KEY)


@pytest.mark.spark
@pytest.mark.parametrize("column", ["CAST(id AS decimal(5,2))", "current_timestamp()", "array(id)"])
def test_columns_of_other_types_do_not_come_as_arrow(spark, column):
    from pystorm_spark.spark.rows.row_batches import column_kinds

    assert column_kinds(spark.range(10).selectExpr("id", f"{column} AS other")) == ""


@pytest.mark.spark
def test_bytes_do_not_come_as_arrow_if_pyspark_gives_bytearrays(spark):
    from pystorm_spark.spark.rows.row_batches import BYTES_KEY, column_kinds

    df = spark.range(10).selectExpr("id", "CAST('a' AS binary) AS data")
    assert column_kinds(df) == "qy"
    spark.conf.set(BYTES_KEY, "false")
    try:
        assert column_kinds(df) == ""
        assert column_kinds(spark.range(10)) == "q"
    finally:
        spark.conf.unset(BYTES_KEY)


@pytest.mark.spark
def test_batches_do_not_come_as_arrow_if_spark_compresses_them(spark):
    from pystorm_spark.spark.rows.row_batches import CODEC_KEY, column_kinds

    spark.conf.set(CODEC_KEY, "zstd")
    try:
        assert column_kinds(spark.range(10)) == ""
    finally:
        spark.conf.unset(CODEC_KEY)
