"""How many bytes does a pending root take, with a million of them pending?"""

import gc
import os
import time
import tracemalloc
from multiprocessing import get_context
from pathlib import Path

import pystorm_spark
from benchmarks import meter, report
from benchmarks.components import ForgetfulBolt, HoardingBolt, RecordSpout
from pystorm_spark import LocalCluster, TopologyBuilder

ROOTS = 1_000_000
TRACED = ROOTS // 4  # tracing is slow; a quarter of the roots loads the engine's dict to the same degree
BAR = 600  # bytes per root in all
CONF = {"topology.message.timeout.secs": 3600}
ENGINE = str(Path(pystorm_spark.__file__).parent)
BOLTS = {"the bolt drops the tuple": ForgetfulBolt, "the bolt keeps the tuple": HoardingBolt}
METHOD = (
    f"{ROOTS:,} roots, each with a string of 15 characters and an int as message id, and a bolt that never acks; each "
    "figure in a new process. *Resident* is the growth of the process; the bar applies to it. *Engine* and *values* "
    f"are the memory that `tracemalloc` attributes to the package, and to the spout and the bolt, with {TRACED:,} "
    "roots on the pure core: it would count objects that the compiled core makes as the caller's."
)


def measure():
    found = {}
    for label, bolt in BOLTS.items():
        found[label] = {**_alone(_resident, bolt, ROOTS), **traced(bolt, TRACED)}
    columns = ["bytes a root", "resident", "bar", "engine", "values"]
    table = report.Table(columns, [_row(label, figures) for label, figures in found.items()])
    return report.Result("pending_memory", report.first_line(__doc__), METHOD, [table], found)


def _row(label, figures):
    resident = figures["resident"]
    judged = report.verdict(resident < BAR, f"< {BAR}")
    return [label, f"{resident:.0f}", judged, f"{figures['engine']:.0f}", f"{figures['values']:.0f}"]


def traced(bolt, roots):
    """Measure the bytes per root that the engine and the user's code have allocated.

    On the pure core: `tracemalloc` attributes objects that the compiled one makes to the spout that calls it.
    """
    return _alone(_traced, bolt, roots, PYSTORM_SPARK_PURE="1")


def _alone(function, bolt, roots, **variables):
    """Call `function` in a new process with these environment variables: its heap has no free blocks yet."""
    before = os.environ.copy()
    os.environ.update(variables)
    try:
        with get_context("spawn").Pool(1) as pool:
            return pool.apply(function, (bolt, roots))
    finally:
        os.environ.clear()
        os.environ.update(before)


def _resident(bolt, roots):
    with LocalCluster() as cluster:
        before = _resident_bytes()
        _fill(cluster, bolt, roots)
        return {"resident": (_resident_bytes() - before) / roots}


def _traced(bolt, roots):
    with LocalCluster() as cluster:
        tracemalloc.start()
        _fill(cluster, bolt, roots)
        found = tracemalloc.take_snapshot().statistics("filename")
        tracemalloc.stop()
    engine = sum(each.size for each in found if each.traceback[0].filename.startswith(ENGINE))
    return {"engine": engine / roots, "values": (sum(each.size for each in found) - engine) / roots}


def _fill(cluster, bolt, roots):
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, RecordSpout(limit=roots))
    builder.set_bolt("bolt", bolt()).shuffle_grouping(meter.SPOUT)
    cluster.submit_topology("pending", CONF, builder.create_topology())
    while cluster.topology_info("pending").components["bolt"].executed < roots:
        time.sleep(0.05)
    assert cluster.topology_info("pending").pending == roots
    gc.collect()


def _resident_bytes():
    pages = Path("/proc/self/statm")
    if not pages.exists():
        raise OSError("the resident memory of a process is read from /proc, which this system does not have")
    return int(pages.read_text().split()[1]) * 4096


if __name__ == "__main__":
    report.answer(measure)
