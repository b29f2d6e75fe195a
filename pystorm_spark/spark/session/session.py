"""Internal. Sessions: checks of a SparkSession that runs topologies, and a new one with the right settings."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import Any

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from pystorm_spark.errors import StormError
from pystorm_spark.spark.errors import spark_errors_ignored, translation
from pystorm_spark.spark.protocol.process import kill_children
from pystorm_spark.spark.protocol.wire import private_folder
from pystorm_spark.spark.session.signals import Patience

log = logging.getLogger(__name__)

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
# On a local disk it writes a log file in less than half the time of Spark's default. The second name is Spark 4.0's.
LOCAL_FILE_MANAGERS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
    "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager",
)
# Adaptive execution may put the rows of a batch into other partitions on a second read, and slows small batches down.
ADAPTIVE = "spark.sql.adaptive.enabled"
PROGRESS_KEPT = "spark.sql.streaming.numRecentProgressUpdates"
_setting = Lock()  # concurrent submits must not restore each other's settings instead of the user's
# Settings of a context are fixed when it starts. docs/deploying.md says what each one gains.
CONTEXT_SETTINGS = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.locality.wait": "0s",
}
LONGEST_SOCKET_FOLDER = 60  # bytes, of spark.python.unix.domain.socket.dir
SESSION_POLL_SECS = 2  # between two checks whether a session was stopped
FORK_TIMEOUT_SECS = 1.0  # until a forked process has its own command line
# The JVM's optimizing compiler (C2) is slow. It pays off for code that runs millions of times, such as reading rows,
# which takes twice as long without it. For the many methods of an exchange it takes more time in the first minute than
# it saves. So a method must be called ten times as often as by default before C2 compiles it.
JVM_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UseSerialGC",
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
JVM_SETTINGS = {"spark.driver.extraJavaOptions": " ".join(JVM_OPTIONS)}
SESSION_SETTINGS = {
    "spark.app.name": "pystorm-spark",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
IDLE_TIMEOUT = "spark.dynamicAllocation.cachedExecutorIdleTimeout"


def session_folder(made: ExitStack, spark: Any = None) -> Path:
    """A private folder for the user of `spark`, or of the `own_session` if that is None.

    Closing `made` removes the folder, and stops a session that `own_session` has created.
    """
    folder = private_folder()
    made.callback(shutil.rmtree, folder, ignore_errors=True)
    if spark is None and SparkSession.getActiveSession() is None:
        made.callback(_stop_spark, _jvm_folder())
    return folder


def own_session(folder: Path) -> SparkSession:
    """The active session, or a new one on all cores of this machine with settings for topologies.

    The tables of a new one are in `folder`. Its Python sockets and the output of its JVM are in a private folder of the
    JVM; important messages also arrive as exceptions.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # An interrupt during a fork would be lost. An interrupt during a call of the JVM would leave the answer for the
    # next call to read. So signals are delayed here, for some seconds.
    gateway = SparkContext._gateway
    hurry = partial(_kill_jvm, is_ours=gateway is None)
    if gateway is None:
        with open(_jvm_folder() / "spark.log", "ab") as output, Patience(hurry, hurry_at_once=True):
            launch: Any = launch_gateway  # pyspark gives it no types
            gateway = launch(SparkConf().setAll(_jvm_settings()), {"stdout": output, "stderr": output})
    with Patience(hurry):
        _remove_with_jvm(_jvm_folder(), gateway)
        _remove_with_jvm(folder, gateway)  # where this process is killed while no slot lives, nobody else does
        conf = SparkConf().setAll([*_jvm_settings(), *SESSION_SETTINGS.items()])
        conf.set("spark.sql.warehouse.dir", str(folder / "warehouse"))
        context = SparkContext(conf=conf, gateway=gateway)
    with Patience(hurry):  # again, because PySpark has replaced the handler
        return SparkSession(context)


def _jvm_settings() -> list[tuple[str, str]]:
    """The settings of a JVM that is started here. Later sessions of the user in the same JVM have them, too."""
    sockets = {"spark.python.unix.domain.socket.dir": str(_jvm_folder())}
    return list({"spark.master": "local[*]", **CONTEXT_SETTINGS, **JVM_SETTINGS, **sockets}.items())


@cache
def _jvm_folder() -> Path:
    """The folder of this process's one JVM. All sessions keep their sockets there."""
    folder = private_folder(longest=LONGEST_SOCKET_FOLDER)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _remove_with_jvm(folder: Path, gateway: JavaGateway) -> None:
    """Make the JVM remove `folder` when it ends, so that it is removed even if this process is killed."""
    jvm: Any = gateway.jvm
    jvm.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(jvm.java.io.File(str(folder)))


def _kill_jvm(is_ours: bool) -> None:
    if not is_ours:
        return
    until = time.monotonic() + FORK_TIMEOUT_SECS  # until then the JVM may still have our own command line
    while not kill_children(str(_jvm_folder())) and time.monotonic() < until:
        time.sleep(0.02)
    SparkContext._gateway = SparkContext._jvm = None  # the next session needs a new JVM


def _stop_spark(jvm_folder: Path) -> None:
    """Stop the session of `own_session`, even if an interrupt left it incomplete."""
    session, context = SparkSession._instantiatedSession, SparkContext._active_spark_context
    if session is not None:
        with spark_errors_ignored():
            session.stop()
    elif context is not None:
        context.stop()
    elif SparkContext._gateway is None:
        kill_children(str(jvm_folder))  # a JVM without any connection would not end by itself


def check_session(session: Any) -> None:
    """Refuse a session that cannot run topologies; log settings that would make it faster."""
    if not hasattr(session, "_jsparkSession"):
        is_connect = type(session).__module__.startswith("pyspark.sql.connect")
        hint = "Spark Connect has no RDDs; make the session without .remote()" if is_connect else "give one"
        got = f"{type(session).__module__}.{type(session).__name__}"
        raise StormError(f"pystorm-spark needs a classic SparkSession, got {got}: {hint}")
    context = session.sparkContext
    conf = context.getConf()
    if conf.get("spark.speculation", "false") == "true":
        raise StormError("spark.speculation is true: a second copy of a task could disturb slots; set it to false")
    if conf.get("spark.dynamicAllocation.enabled", "false") == "true" and conf.contains(IDLE_TIMEOUT):
        log.warning("%s is set: executors may be removed with their slots while no tuples move; unset it", IDLE_TIMEOUT)
    slower = [key for key in CONTEXT_SETTINGS if conf.get(key) is None]
    if slower:
        wanted = " ".join(f"--conf {key}={CONTEXT_SETTINGS[key]}" for key in slower)
        log.info("exchanges are faster with these settings of the Spark context: %s", wanted)


def trigger_session(session: SparkSession) -> SparkSession:
    """A new session for the query that drives a topology. The query's log is temporary and on a local disk.

    It does not copy the user's settings, which may be for an object store and wrong for a local disk.
    """
    beside = session.newSession()
    beside.conf.set(ADAPTIVE, "false")
    beside.conf.set(PROGRESS_KEPT, "5")
    set_file_manager(beside, "file:")
    return beside


@contextmanager
def query_settings(session: SparkSession) -> Iterator[None]:
    """Set up `session` for the start of a query, which copies all settings; then restore the user's settings."""
    with _setting:
        before = session.conf.get(ADAPTIVE, None)
        session.conf.set(ADAPTIVE, "false")
        try:
            yield
        finally:
            if before is None:
                session.conf.unset(ADAPTIVE)
            else:
                session.conf.set(ADAPTIVE, before)


def set_file_manager(session: SparkSession, checkpoint: str) -> bool:
    """Choose how Spark writes the logs of sources into the checkpoint with this URI; True if this sets a manager.

    The fastest manager is safe only on a local disk. Elsewhere Spark or the user chooses.
    """
    named = session.conf.get(FILE_MANAGER, None)
    if named not in (None, *LOCAL_FILE_MANAGERS):
        return False
    if checkpoint.startswith("file:"):
        manager = next((manager for manager in LOCAL_FILE_MANAGERS if _has_class(session, manager)), None)
        if named is None and manager is not None:
            session.conf.set(FILE_MANAGER, manager)
            return True
    elif named is not None:  # another cluster has set it
        session.conf.unset(FILE_MANAGER)
    return False


def reset_file_manager(session: SparkSession) -> None:
    """Undo `set_file_manager`, because later queries may have their logs on other file systems."""
    with spark_errors_ignored():
        session.conf.unset(FILE_MANAGER)


def _has_class(session: SparkSession, name: str) -> bool:
    jvm: Any = session._jvm
    with spark_errors_ignored():
        jvm.java.lang.Class.forName(name)
        return True
    return False


def is_local(session: SparkSession) -> bool:
    """Whether all executors are on this machine, so that Unix sockets reach them."""
    return str(session.sparkContext.master).startswith("local")


def is_stopped(session: SparkSession) -> bool:
    """Whether the context of `session` is stopped or stopping, or its JVM has ended."""
    context: Any = session.sparkContext._jsc
    with spark_errors_ignored():
        return context is None or bool(context.sc().isStopped())
    return True


def await_end(query: StreamingQuery, session: SparkSession) -> None:
    """Wait for the end of `query` or of its session. A query does not notice the latter while its batch runs."""
    while not query.awaitTermination(SESSION_POLL_SECS) and not is_stopped(session):
        pass


def told(error: BaseException, session: SparkSession) -> BaseException:
    """The error that ends a topology on `session`: translate exceptions of Spark and Py4J, return others unchanged."""
    if not is_stopped(session):
        return translation(error) or error
    ended = StormError("the SparkSession was stopped while the topology ran; kill the topology first")
    ended.__cause__ = error
    return ended


def driver_hosts(session: SparkSession) -> tuple[str, str]:
    """The driver's addresses in the cluster's network: (the one to listen at, the one for slots to connect to)."""
    conf = session.sparkContext.getConf()
    known_as = conf.get("spark.driver.host") or socket.gethostname()
    listen_at = conf.get("spark.driver.bindAddress") or known_as
    at_every_address = listen_at in ("0.0.0.0", "::")  # noqa: S104 (never used to listen)
    return known_as if at_every_address else listen_at, known_as
