"""Internal. The errors of Spark and Py4J: which they are, and what they say."""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

# ConnectionError: a thread that has not yet called the JVM finds no JVM to connect to.
SPARK_ERRORS = (Py4JError, PySparkException, ConnectionError)
CAUSED_BY = "Caused by: "  # as Java prints a cause


def reason(exc: BaseException) -> str:
    """The line of a long story that says what happened: the last one of Python's traceback, if there is one.

    Else it is what Java has raised, and what was at the root of that, where it says more.
    """
    lines = [line for line in str(exc).splitlines() if line.strip()]
    start = next((number for number, line in enumerate(lines) if "Traceback (most recent" in line), None)
    if start is None:
        told = next((line for line in lines if "Exception" in line), lines[0] if lines else type(exc).__name__)
        roots = [line.removeprefix(CAUSED_BY) for line in lines if line.startswith(CAUSED_BY)]
        return told.lstrip(": ") + (f"; caused by {roots[-1]}" if roots and roots[-1] not in told else "")
    return next((line for line in lines[start + 1 :] if not line.startswith(" ")), lines[start])
