"""The exceptions of Spark and Py4J: one module knows them, and says in one line what happened."""

import ast
import builtins
from pathlib import Path

import py4j.protocol
import pyspark.errors
import pytest

from pystorm_spark.errors import CheckpointError, StormError
from pystorm_spark.spark.errors import (
    SparkError,
    has_lost_worker,
    reason,
    spark_errors_ignored,
    translated,
    translation,
)

ROOT = Path(__file__).resolve().parents[2] / "pystorm_spark"
SEAM = Path("spark", "errors.py")

FAILED_JOB = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times
{}
\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)
"""
IN_PYTHON = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
ModuleNotFoundError: No module named 'pystorm_spark'
"""

READ_IN_VAIN = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.runJob.
: org.apache.spark.SparkException: a.csv cannot be read
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(QueryExecutionErrors.scala:1)
Caused by: org.apache.spark.SparkException: records are malformed
\t... 1 more
Caused by: java.io.IOException: bad line
\t... 2 more
"""


@pytest.mark.parametrize(
    ("story", "told"),
    [
        (FAILED_JOB.format(IN_PYTHON), "ModuleNotFoundError: No module named 'pystorm_spark'"),
        (
            FAILED_JOB.format(""),
            "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times",
        ),
        (
            READ_IN_VAIN,
            "org.apache.spark.SparkException: a.csv cannot be read; caused by java.io.IOException: bad line",
        ),
        (": java.io.IOException: bad line\nCaused by: java.io.IOException: bad line", "java.io.IOException: bad line"),
        ("gone", "gone"),
    ],
)
def test_reason_is_the_decisive_line_of_a_long_text(story, told):
    assert reason(RuntimeError(story)) == told


RAISED = [
    py4j.protocol.Py4JError("an error occurred"),
    pyspark.errors.AnalysisException("no such column"),
    ConnectionRefusedError("no JVM"),
]


@pytest.mark.parametrize("raised", RAISED, ids=lambda each: type(each).__name__)
def test_spark_and_py4j_exceptions_are_translated_with_the_original_as_cause(raised):
    with pytest.raises(CheckpointError) as caught, translated("it cannot be read", CheckpointError):
        raise raised

    assert str(caught.value) == f"it cannot be read: {reason(raised)}"
    assert caught.value.__cause__ is raised


@pytest.mark.parametrize("raised", [StormError("ours"), ValueError("the user's"), KeyboardInterrupt()], ids=repr)
def test_other_exceptions_are_not_translated(raised):
    with pytest.raises(type(raised)) as caught, translated("it cannot be read", CheckpointError):
        raise raised

    assert caught.value is raised


def test_an_outer_translation_takes_over_the_original_of_an_inner_one():
    with pytest.raises(StormError) as caught, translated("the batch failed"), translated(kind=SparkError):
        raise RAISED[0]

    assert type(caught.value) is StormError
    assert str(caught.value) == "the batch failed: an error occurred"
    assert caught.value.__cause__ is RAISED[0]


@pytest.mark.parametrize(
    ("original", "is_about_types"),
    [
        (pyspark.errors.PySparkTypeError("not a string"), True),
        (pyspark.errors.PySparkRuntimeError(FAILED_JOB.format(IN_PYTHON)), True),
        (pyspark.errors.PySparkRuntimeError("net.razorvine.pickle.PickleException: no class"), True),
        (pyspark.errors.PySparkRuntimeError(FAILED_JOB.format("")), False),
        (
            pyspark.errors.PySparkRuntimeError(
                "Traceback (most recent call last):\n  File\npystorm_spark.errors.StormError: the rows are gone"
            ),
            False,
        ),
    ],
)
def test_type_errors_are_distinguished_from_lost_rows(original, is_about_types):
    with pytest.raises(SparkError) as caught, translated("it cannot be read", SparkError):
        raise original

    assert caught.value.is_about_types() is is_about_types


@pytest.mark.parametrize(
    ("why", "is_lost"),
    [
        ("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", True),
        ("EOFException occurred while reading the port number from pyspark.daemon's stdout", True),
        (IN_PYTHON + "Caused by: java.io.EOFException", False),
        ("org.apache.spark.SparkException: a.csv cannot be read", False),
    ],
)
def test_a_python_worker_that_died_is_told_from_what_code_in_it_raised(why, is_lost):
    assert has_lost_worker(py4j.protocol.Py4JError(FAILED_JOB.format(why))) is is_lost
    assert not has_lost_worker(OSError(why))


def test_spark_errors_ignored_suppresses_only_exceptions_of_spark_and_py4j():
    with spark_errors_ignored():
        raise RAISED[0]
    with pytest.raises(ValueError, match="the user's"), spark_errors_ignored():
        raise ValueError("the user's")


def test_only_what_spark_and_py4j_raise_has_a_translation():
    told = translation(RAISED[0])

    assert type(told) is StormError
    assert told.__cause__ is RAISED[0]
    assert translation(StormError("ours")) is None


def exceptions_of(module):
    return {name for name, each in vars(module).items() if isinstance(each, type) and issubclass(each, BaseException)}


FOREIGN = (exceptions_of(py4j.protocol) | exceptions_of(pyspark.errors)) - vars(builtins).keys()


def names(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def seen_in(source):
    return FOREIGN.intersection(names(source))


def test_no_other_module_names_an_exception_of_spark_or_py4j():
    modules = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py")}
    assert {path for path, source in modules.items() if seen_in(source)} == {SEAM}


@pytest.mark.parametrize(
    "source",
    [
        "from py4j.protocol import Py4JJavaError",
        "import pyspark\ntry: ...\nexcept pyspark.errors.PySparkTypeError: ...",
    ],
)
def test_an_exception_of_spark_or_py4j_is_seen(source):
    assert seen_in(source)
