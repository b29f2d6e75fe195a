"""Internal. Translates the exceptions of Spark and Py4J to `StormError`s. No other module knows them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PySparkTypeError, PySparkValueError

from pystorm_spark.errors import StormError

# ConnectionError: a thread that has not yet called the JVM finds no JVM to connect to.
_SPARK_ERRORS = (Py4JError, PySparkException, ConnectionError)
_CAUSED_BY = "Caused by: "  # as Java prints a cause
_TRACEBACK = "Traceback (most recent"
# What the JVM says of a Python worker, or of the daemon that forks workers, that died under a task.
_LOST_WORKER = (
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "EOFException",
    "java.net.SocketException",
    "java.lang.NullPointerException",
)


class SparkError(StormError):
    """An exception of Spark or Py4J in one line, for callers that decide what to do. `__cause__` is the original."""

    @property
    def original(self) -> BaseException:
        assert self.__cause__ is not None
        return self.__cause__

    @property
    def story(self) -> str:
        """The whole text of the original, with the stacks of Java and Python."""
        return str(self.original)

    def has_traceback(self) -> bool:
        """Whether an exception of Python is part of the text."""
        return _TRACEBACK in self.story

    def is_of_python(self) -> bool:
        """Whether Python code raised it in a Spark worker, other than a `StormError` of ours."""
        return self.has_traceback() and not reason(self.original).startswith(StormError.__module__)

    def is_about_types(self) -> bool:
        """Whether Spark got the rows but cannot make a DataFrame of them."""
        if isinstance(self.original, (PySparkTypeError, PySparkValueError)):
            return True
        # The JVM raises a PickleException for a class it does not know.
        return self.is_of_python() or "PickleException" in self.story


def has_lost_worker(error: BaseException) -> bool:
    """Whether a Python worker of Spark died under the job that has raised `error`; what code in it raised does not."""
    original = error.__cause__ if isinstance(error, StormError) else error
    story = str(original)
    is_of_spark = isinstance(original, _SPARK_ERRORS)
    return is_of_spark and _TRACEBACK not in story and any(words in story for words in _LOST_WORKER)


@contextmanager
def translated(problem: str = "", kind: type[StormError] = StormError) -> Iterator[None]:
    """Raise an exception of Spark or Py4J as a `kind` with `problem` and the reason; the original is its cause.

    Pass `SparkError` as `kind` to examine the original afterwards. An outer `translated` also translates it.
    """
    try:
        yield
    except (SparkError, *_SPARK_ERRORS) as exc:
        original = exc.original if isinstance(exc, SparkError) else exc
        raise kind(f"{problem}: {reason(exc)}" if problem else reason(exc)) from original


def translation(error: BaseException) -> StormError | None:
    """The `StormError` that `translated` would raise for `error`; None if it is not from Spark or Py4J."""
    if not isinstance(error, _SPARK_ERRORS):
        return None
    told = StormError(reason(error))
    told.__cause__ = error
    return told


def spark_errors_ignored() -> suppress:
    """Ignore exceptions of Spark and Py4J, for calls after which the session or its JVM may have ended."""
    return suppress(*_SPARK_ERRORS)


def reason(exc: BaseException) -> str:
    """The one line of a long text that says what happened: the last one of a Python traceback, if there is one.

    Otherwise the Java exception, with its root cause if that differs.
    """
    lines = [line for line in str(exc).splitlines() if line.strip()]
    start = next((number for number, line in enumerate(lines) if _TRACEBACK in line), None)
    if start is None:
        found = next((line for line in lines if "Exception" in line), lines[0] if lines else type(exc).__name__)
        roots = [line.removeprefix(_CAUSED_BY) for line in lines if line.startswith(_CAUSED_BY)]
        return found.lstrip(": ") + (f"; caused by {roots[-1]}" if roots and roots[-1] not in found else "")
    return next((line for line in lines[start + 1 :] if not line.startswith(" ")), lines[start])
