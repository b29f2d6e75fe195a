"""The meter of the Spark engine: topologies on `SparkCluster` that are active in turns.

It measures wall-clock time, because the work is spread over many processes. So run these benchmarks alone on the
machine. Counts are those of `topology_info`, which are exact.
"""

import itertools
import os
import shutil
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.machine import ROOT, environment
from benchmarks.meter import SPOUT
from pystorm_spark import SparkCluster
from pystorm_spark.spark.exchange.chain import Chains
from pystorm_spark.spark.session.session import CONTEXT_SETTINGS, JVM_SETTINGS

CORES = 2
SLOTS = 2
PATIENCE_SECS = 60.0  # for tuples in flight to arrive
CONF = {
    "topology.workers": SLOTS,
    "topology.max.spout.pending": 60_000,
    "topology.message.timeout.secs": 600,
}


@contextmanager
def session(cores=CORES, jvm=None):
    """A session on as many cores as the figures are for, in a JVM of its own.

    It is like that of `SparkCluster(None)`, except for the given settings of the JVM.
    """
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Modules that the workers of Spark import.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with folder() as private:
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            "spark.sql.warehouse.dir": f"{private}/warehouse",
            "spark.python.unix.domain.socket.dir": private,
            **CONTEXT_SETTINGS,
            **(JVM_SETTINGS if jvm is None else jvm),
        }
        made = SparkSession.builder.master(f"local[{cores}]").config(map=settings).getOrCreate()
        try:
            yield made
        finally:
            made.stop()
            _end_jvm()


def _end_jvm():
    """Stop the JVM. Another session in it would have the wrong settings, and would already be warm."""
    from pyspark import SparkContext

    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


@contextmanager
def folder():
    """Make a folder for the files of components. Its path is short, because it also holds sockets."""
    made = tempfile.mkdtemp(prefix="bench-")
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def cluster(cores=CORES, jvm=None):
    with session(cores, jvm) as spark, SparkCluster(spark) as made:
        yield made


@contextmanager
def exchanges_noted():
    """Record [(order, exchanges, seconds)] of the jobs that drivers run meanwhile, as the driver sees them."""
    noted, run = [], Chains.run

    def run_and_note(chains, order, exchanges):
        began = time.monotonic()
        statuses = run(chains, order, exchanges)
        noted.append((order, exchanges, time.monotonic() - began))
        return statuses

    Chains.run = run_and_note
    try:
        yield noted
    finally:
        Chains.run = run


def finished_stages(sc):
    """Return the finished stages in Spark's status store, the last one first."""
    jvm = sc._jvm
    nothing = jvm.java.util.ArrayList()
    quantiles = sc._gateway.new_array(jvm.double, 0)
    kept = sc._jsc.sc().statusStore().stageList(nothing, False, False, quantiles, nothing)
    found = [kept.apply(at) for at in range(kept.size())]
    return [stage for stage in found if str(stage.status()) == "COMPLETE"]


def completed_stages(sc):
    """Return when these stages were completed, on the monotonic clock and in order."""
    behind = time.time() - time.monotonic()
    return sorted(stage.completionTime().get().getTime() / 1000 - behind for stage in finished_stages(sc))


def environment_with_spark(spark, **packages):
    """The environment that goes with the figures, with the versions of Spark and of its Java."""
    java = spark._jvm.java.lang.System.getProperty("java.version")
    return environment(pyspark=spark.version, Java=java, **packages)


@dataclass(frozen=True)
class Window:
    """The roots that were acked in some seconds."""

    roots: int
    secs: float

    @property
    def rate(self):
        return self.roots / self.secs


class SparkRig:
    """A topology on a Spark cluster that is active in turns."""

    _numbers = itertools.count()

    def __init__(self, cluster, topology, conf=None):
        self._cluster = cluster
        self.name = f"rig-{next(self._numbers)}"
        cluster.submit_topology(self.name, {**CONF, **(conf or {})}, topology, active=False)

    def activate(self):
        self._cluster.activate(self.name)

    def window(self, secs, roots=0):
        """Count for `secs`, and until `roots` have been acked, in the middle of the work."""
        began, before = self._acked()
        time.sleep(secs)
        ended, after = self._acked()
        while after - before < roots:
            if ended - began > secs + PATIENCE_SECS:
                raise RuntimeError(f"{self.name} has acked {after - before} of {roots} roots in {ended - began:.0f} s")
            time.sleep(0.1)
            ended, after = self._acked()
        return Window(after - before, ended - began)

    def saturated(self, warm_up_secs, secs):
        """Count after a warm-up. Both times are longer if the roots of the pending limit take longer.

        A shorter time would be that of a burst: what is emitted at once, until the spouts must wait.
        """
        self.activate()
        info = self.info()
        most_pending = info.conf["topology.max.spout.pending"] * info.components[SPOUT].tasks
        self.window(warm_up_secs, most_pending)
        return self.window(secs, most_pending)

    def _acked(self):
        asked = time.monotonic()
        acked = self.info().components[SPOUT].acked
        return statistics.mean((asked, time.monotonic())), acked

    def drain(self):
        """Deactivate the topology, and wait for what is in flight."""
        self._cluster.deactivate(self.name)
        deadline = time.monotonic() + PATIENCE_SECS
        while (info := self.info()).pending:
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"{self.name} has {info.pending} roots pending {PATIENCE_SECS:.0f} s after its deactivation"
                )
            time.sleep(0.02)
        return info

    def run(self, warm_up_secs, secs):
        """One round: activate, warm up, count, drain."""
        found = self.saturated(warm_up_secs, secs)
        self.drain()
        return found

    def info(self):
        info = self._cluster.topology_info(self.name)
        troubles = [error for component in info.components.values() for error in component.errors]
        if troubles or any(component.failed for component in info.components.values()):
            raise RuntimeError(f"the figures of {self.name} are invalid, because tuples have failed: {troubles[:1]}")
        return info

    def kill(self):
        self._cluster.kill_topology(self.name)
