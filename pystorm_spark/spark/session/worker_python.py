"""Internal. The Python that Spark's workers run: chooses this one where possible, and reports which one it is."""

from __future__ import annotations

import logging
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from operator import attrgetter

from pyspark import SparkContext
from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

ENVIRON, SETTING = "PYSPARK_PYTHON", "spark.pyspark.python"
RENEWED = "PYSTORM_SPARK_WORKERS"  # counts the renewals, in the environment of the workers
WHAT_TO_SET = (
    f"set {ENVIRON} before the session is made, on spark-submit also {SETTING}, to a Python that has pystorm-spark "
    "wherever slots run"
)


def use_this_python(session: SparkSession) -> None:
    """Make Spark's workers on this machine run this Python, unless the user has named one.

    PySpark would take the first `python3` on PATH, which is another one if a virtual environment is not activated.
    """
    context = session.sparkContext
    is_named = os.environ.get(ENVIRON) or context.getConf().get(SETTING)
    if str(context.master).startswith("local") and sys.executable and not is_named:
        log.debug("Spark's workers run %s instead of %s", sys.executable, context.pythonExec)
        context.pythonExec = sys.executable


def renew_workers(context: SparkContext, story: str) -> None:
    """Make Spark start new Python workers if `story`, the text of an error, shows that the old ones are broken.

    With Unix sockets, a task that is cancelled while it starts the workers' daemon leaves a daemon without an address.
    Then every later task raises a NullPointerException. Spark starts another daemon for a changed environment.
    """
    if "java.lang.NullPointerException" in story:
        context.environment[RENEWED] = str(int(context.environment.get(RENEWED, "0")) + 1)


@contextmanager
def renewing_workers(context: SparkContext) -> Iterator[None]:
    """Call `renew_workers` with what is raised."""
    try:
        yield
    except BaseException as exc:
        renew_workers(context, str(exc))
        raise


def told_python(context: SparkContext) -> str:
    """A text that says which Python Spark's workers run, and how to choose another one."""
    try:
        # The functions of this job are from the standard library, so any Python can run it.
        asked = context.parallelize(["sys"], 1).map(import_module).map(attrgetter("executable", "version"))
        path, version = asked.collect()[0]
        workers = f"{path} (Python {version.split()[0]})"
    except Exception:  # the caller asks because a job has failed, so this one may fail, too
        workers = context.pythonExec
    return (
        f"Spark's workers run {workers}; this is {sys.executable} (Python {platform.python_version()}): {WHAT_TO_SET}"
    )
