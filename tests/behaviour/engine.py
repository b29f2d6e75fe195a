"""The engines of the behaviour tests: makes a cluster of each, and lets it work.

The local engine simulates time. Spark works in real time and in other processes, so the tests wait until nothing
changes any more.
"""

import contextlib
import time

from pystorm_spark import LocalCluster, SparkCluster, StormError, TopologyBuilder
from tests.behaviour.probes import all_taken

LOOK_SECS = 0.02
EQUAL_LOOKS = 3  # in a row; after these the topologies count as idle
LONGEST_ADVANCE_SECS = 5
PATIENCE_SECS = 60


# Why a test runs on the local engine only.
STANDING_TIME = "asserts that something has not happened yet, or how often it has: time must stand still for that"
LONG_TIME = "takes minutes unless time is simulated"
ONE_PROCESS = "is about tasks in one process"
NEVER_IDLE = "never becomes idle, so only simulated time can end it"

# Why all cases of a test run on Spark.
OTHER_FRAMES = "the cases send different frames between slots"
OTHER_ORDERS = "the cases differ in what the driver asks of the slots"
OTHER_NAMES = "Spark, file systems and slots get the names"


class ScatteringSparkCluster(SparkCluster):
    """Has two slots by default, and puts neighbouring tasks in different slots, so that most tuples change slots.

    There is one acker, as on one worker, so task ids are the same on all engines.
    """

    def _plan(self, topology, storm_id, conf):
        workers, ackers = conf["topology.workers"] or 2, conf["topology.acker.executors"]
        conf = {**conf, "topology.workers": workers, "topology.acker.executors": 1 if ackers is None else ackers}
        plan = super()._plan(topology, storm_id, conf)
        tasks = sorted(task for id_ in plan.specs for task in plan.tasks[id_])
        vars(plan)["slot_of"] = {task: index % plan.slots for index, task in enumerate(tasks)}
        return plan


ENGINES = {
    "local": lambda request: LocalCluster(simulated_time=True),
    "spark": lambda request: ScatteringSparkCluster(request.getfixturevalue("spark")),
}


def run_until_idle(cluster):
    """Return when no spout has anything to emit and no tuple is in flight."""
    if isinstance(cluster, LocalCluster):
        cluster.wait_until_idle()
    else:
        _wait_until_quiet(cluster)


def advance(cluster, secs):
    """Let the topologies run for `secs`."""
    if isinstance(cluster, LocalCluster):
        cluster.advance_time(secs)
    else:
        assert secs <= LONGEST_ADVANCE_SECS, "too long to wait for: choose a shorter time, or mark the test local_only"
        time.sleep(secs)
        _wait_until_quiet(cluster)


def _wait_until_quiet(cluster):
    """Wait until nothing is in flight and nothing changes any more."""
    deadline = time.monotonic() + PATIENCE_SECS
    before, looks = None, 0
    while looks < EQUAL_LOOKS:
        _let_every_slot_turn(cluster)
        seen = _look(cluster)
        looks = looks + 1 if seen == before and all_taken() and not _is_moving(cluster) else 0
        before = seen
        assert time.monotonic() < deadline, f"the topologies do not become idle: {seen}"
        time.sleep(LOOK_SECS)


def _let_every_slot_turn(cluster):
    """Repeat the last activate or deactivate: a topology answers when every slot has ended its turn."""
    for info in cluster.list_topologies():
        with contextlib.suppress(StormError):  # the topology has ended meanwhile
            (cluster.activate if info.status == "ACTIVE" else cluster.deactivate)(info.name)


def _look(cluster):
    """Return everything that changes as long as a topology works."""
    infos = cluster.list_topologies()
    components = [component for info in infos for component in info.components.values()]
    counts = [(c.emitted, c.transferred, c.executed, c.acked, c.failed, len(c.errors)) for c in components]
    return counts, [info.pending for info in infos], [running.run.jobs for running in cluster._all()]


def _is_moving(cluster):
    return any(running.run.is_moving() for running in cluster._all())


def run(cluster, topology, conf=None, name="topology"):
    """Submit `topology` and let it work until it is idle."""
    handle = cluster.submit_topology(name, conf, topology)
    run_until_idle(cluster)
    return handle


def component(cluster, component_id, name="topology"):
    """Return the counts and errors of one component."""
    return cluster.topology_info(name).components[component_id]


def chain(spout, *bolts):
    """Build a chain of the spout "spout" and the bolts "a", "b", "c", with shuffle groupings."""
    builder = TopologyBuilder()
    builder.set_spout("spout", spout)
    source = "spout"
    for bolt_id, bolt in zip("abc", bolts, strict=False):
        builder.set_bolt(bolt_id, bolt).shuffle_grouping(source)
        source = bolt_id
    return builder.create_topology()
