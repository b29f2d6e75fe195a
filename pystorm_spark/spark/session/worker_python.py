"""Internal. The Python that Spark's workers run: this one where it is for us to say, else which one it is."""

from __future__ import annotations

import logging
import os
import platform
import sys
from importlib import import_module
from operator import attrgetter

from pyspark import SparkContext
from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

ENVIRON, SETTING = "PYSPARK_PYTHON", "spark.pyspark.python"
RENEWED = "PYSTORM_SPARK_WORKERS"  # how often, in the environment of the workers
WHAT_TO_SET = (
    f"set {ENVIRON} before the session is made, on spark-submit also {SETTING}, to a Python that has pystorm-spark "
    "wherever slots run"
)


def use_this_python(session: SparkSession) -> None:
    """Have Spark's workers on this machine run this Python, unless the user has named one.

    PySpark would take the first `python3` on the PATH, which is another one where an environment is not activated.
    """
    context = session.sparkContext
    is_named = os.environ.get(ENVIRON) or context.getConf().get(SETTING)
    if str(context.master).startswith("local") and sys.executable and not is_named:
        log.debug("Spark's workers run %s, and not %s", sys.executable, context.pythonExec)
        context.pythonExec = sys.executable


def renew_workers(context: SparkContext, story: str) -> None:
    """Have Spark start other Python workers if `story`, the text of an error, says that the present ones are useless.

    With Unix sockets, a task that is cancelled while it starts the workers' daemon leaves a daemon without an address.
    From then on every task raises a NullPointerException. Spark has one daemon for each environment.
    """
    if "java.lang.NullPointerException" in story:
        context.environment[RENEWED] = str(int(context.environment.get(RENEWED, "0")) + 1)


def told_python(context: SparkContext) -> str:
    """Which Python Spark's workers run, as they tell, and what to set if it shall be another one."""
    try:
        # All that the job is made of is in every Python.
        asked = context.parallelize(["sys"], 1).map(import_module).map(attrgetter("executable", "version"))
        path, version = asked.collect()[0]
        workers = f"{path} (Python {version.split()[0]})"
    except Exception:  # it was asked because a job has failed, so this one may fail, too
        workers = context.pythonExec
    return (
        f"Spark's workers run {workers}; this is {sys.executable} (Python {platform.python_version()}): {WHAT_TO_SET}"
    )
