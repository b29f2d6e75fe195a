"""Internal. Sessions: what a SparkSession must be like to run topologies, and one that is made for them."""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from pystorm_spark.errors import StormError
from pystorm_spark.spark.process import kill_children
from pystorm_spark.spark.signals import Patience

log = logging.getLogger(__name__)

FAST_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
# Settings of a session can be changed while it runs; they are set only where the user has not set them.
SESSION_SETTINGS = {
    "spark.sql.streaming.checkpointFileManagerClass": FAST_CHECKPOINTS,
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    "spark.sql.adaptive.enabled": "false",
}
# Settings of a context are fixed when it starts. See docs/architecture.md for what each one gains.
CONTEXT_SETTINGS = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.locality.wait": "0s",
}
LONGEST_SOCKET_FOLDER = 60
FORK_SECS = 1.0  # from the fork of a process to its own command line
# For a JVM that does little but exchanges: a better compiler would take more time than it saves in the first minutes.
JVM_SETTINGS = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
IDLE_TIMEOUT = "spark.dynamicAllocation.cachedExecutorIdleTimeout"


def own_session(folder: Path) -> SparkSession:
    """A session on all cores of this machine, set up for topologies; an active one is used instead.

    Its Python sockets are private to `folder`, and what the JVM says goes to a file there: what matters in it comes
    back as an exception anyway.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.master": "local[*]",
        "spark.app.name": "pystorm-spark",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **CONTEXT_SETTINGS,
        **JVM_SETTINGS,
        "spark.python.unix.domain.socket.dir": str(folder),
    }
    if len(str(folder)) > LONGEST_SOCKET_FOLDER:  # Spark refuses it; with TCP sockets it is slower, but works
        settings["spark.python.unix.domain.socket.enabled"] = "false"
        del settings["spark.python.unix.domain.socket.dir"]
    conf = SparkConf().setAll(list(settings.items()))
    # An interrupt that arrives while a process is forked is lost, and one during a call of the JVM leaves its answer
    # for the next call to read: so they are put off, which takes seconds.
    gateway = SparkContext._gateway
    hurry = partial(_kill_jvm, folder, is_ours=gateway is None)
    if gateway is None:
        with open(folder / "spark.log", "ab") as output, Patience(hurry, hurry_at_once=True):
            gateway = launch_gateway(conf, {"stdout": output, "stderr": output})
    with Patience(hurry):
        context = SparkContext(conf=conf, gateway=gateway)
    with Patience(hurry):  # anew: PySpark has put a handler of its own in the place of the last one
        return SparkSession(context)


def _kill_jvm(folder: Path, is_ours: bool) -> None:
    if not is_ours:
        return
    until = time.monotonic() + FORK_SECS  # until then it has our own command line
    while not kill_children(str(folder)) and time.monotonic() < until:
        time.sleep(0.02)
    SparkContext._gateway = SparkContext._jvm = None  # the next session needs a new one


def prepare_session(session: Any) -> None:
    """Check a session, set what the user has not set, and say so."""
    if not hasattr(session, "_jsparkSession"):
        raise StormError(
            f"pystorm-spark needs a classic SparkSession, got {type(session).__module__}.{type(session).__name__}: "
            "Spark Connect has no RDDs; make the session without .remote()"
        )
    context = session.sparkContext
    conf = context.getConf()
    if conf.get("spark.speculation", "false") == "true":
        raise StormError("spark.speculation is true: a second copy of a task could disturb a slot; set it to false")
    if conf.get("spark.dynamicAllocation.enabled", "false") == "true" and conf.contains(IDLE_TIMEOUT):
        log.warning("%s is set: executors may be removed with their slots while no tuples move; unset it", IDLE_TIMEOUT)
    for key, value in SESSION_SETTINGS.items():
        if session.conf.get(key, None) in (None, _default(session, key)):
            session.conf.set(key, value)
            log.info("set %s=%s", key, value)
    slower = [key for key in CONTEXT_SETTINGS if conf.get(key) is None]
    if slower:
        wanted = " ".join(f"--conf {key}={CONTEXT_SETTINGS[key]}" for key in slower)
        log.info("exchanges are faster with these settings of the Spark context: %s", wanted)


def is_local(session: SparkSession) -> bool:
    """Whether all executors are on this machine, so that Unix sockets reach everywhere."""
    return str(session.sparkContext.master).startswith("local")


def driver_hosts(session: SparkSession) -> tuple[str, str]:
    """The driver's address in the network of the cluster: the one to listen at, and the one it is known by."""
    conf = session.sparkContext.getConf()
    known_as = conf.get("spark.driver.host") or socket.gethostname()
    listen_at = conf.get("spark.driver.bindAddress") or known_as
    at_every_address = listen_at in ("0.0.0.0", "::")  # noqa: S104 (which is never listened at)
    return known_as if at_every_address else listen_at, known_as


def _default(session: SparkSession, key: str) -> str | None:
    defaults = {"spark.sql.adaptive.enabled": "true", "spark.sql.streaming.numRecentProgressUpdates": "100"}
    return defaults.get(key)
