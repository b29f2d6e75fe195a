"""LocalCluster: runs topologies in this process."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

from pystorm_spark.checkpoint.lock import CheckpointLock, checkpoint_folder
from pystorm_spark.clock import Clock, SystemClock
from pystorm_spark.cluster.cluster import Cluster
from pystorm_spark.errors import StormError
from pystorm_spark.local.runner import LocalRunner, Runner, SimulatedClock, SimulatedRunner
from pystorm_spark.local.topology import LocalTopology
from pystorm_spark.naming import java_names
from pystorm_spark.runtime.plan import make_plan
from pystorm_spark.runtime.timers import exact
from pystorm_spark.topology.graph import Topology

SIMULATED_WORK = 50_000  # emits and executes at one moment of simulated time; limits spouts that never stop emitting
IDLE_WORK = 5_000_000  # emits and executes after which `wait_until_idle` gives up


@java_names(advanceClusterTime="advance_time", waitForIdle="wait_until_idle")
class LocalCluster(Cluster[LocalRunner]):
    """Runs topologies in this process, without a JVM. `print` and `pdb` work.

    Each topology has a thread of its own. With `simulated_time=True` there is no thread: topologies run only inside
    `advance_time` and `wait_until_idle`, and only `advance_time` moves the clock.

    States of stateful bolts are kept in memory, or in the folder `checkpoint`, from which a later cluster loads them.
    """

    def __init__(self, simulated_time: bool = False, checkpoint: Any = None) -> None:
        super().__init__()
        self._checkpoint = CheckpointLock(checkpoint_folder(checkpoint)) if checkpoint is not None else None
        self.simulated_time = simulated_time
        self._simulated = SimulatedClock() if simulated_time else None
        self._clock: Clock = self._simulated or SystemClock()

    def _start(
        self, name: str, storm_id: str, conf: Mapping[str, Any], topology: Topology, active: bool
    ) -> LocalRunner:
        if self._checkpoint is not None:
            self._checkpoint.check()
        plan = make_plan(topology, conf, storm_id, slots=1)
        submitted = LocalTopology(name, plan, self._clock, self._random(), self._checkpoint)
        submitted.validate()
        submitted.check_components()
        runner = SimulatedRunner(submitted, self.advance_time) if self._simulated else Runner(submitted)
        if active:
            try:
                runner.activate()
            except BaseException:
                runner.end()
                raise
        return runner

    def shutdown(self) -> None:
        try:
            super().shutdown()
        finally:
            if self._checkpoint is not None:
                self._checkpoint.release()

    def _time(self) -> float:
        return self._clock.time()

    # Simulated time.

    def advance_time(self, secs: float) -> None:
        """Move the simulated clock by `secs`. Timers fire in order, and topologies do all work that is due in between.

        If a topology never stops working, the clock moves on after about `SIMULATED_WORK` emits and executes.
        """
        clock = self._simulated_clock("advance_time")
        if not 0 <= secs < math.inf:
            raise StormError(f"advance_time takes a number of seconds, 0 or more, got {secs!r}")
        end = exact(clock.monotonic() + secs)
        self._work_at_most(SIMULATED_WORK)
        while True:
            due = min((due for runner in self._runners() if (due := runner.next_due()) <= end), default=None)
            clock.move_to(end if due is None else due)
            self._work_at_most(SIMULATED_WORK)
            if due is None:
                return

    def wait_until_idle(self) -> None:
        """Run until no spout has anything to emit and no tuple is queued. The clock does not move."""
        self._simulated_clock("wait_until_idle")
        if not self._work_at_most(IDLE_WORK):
            raise StormError(
                "wait_until_idle does not end: the spouts never stop emitting, or tuples go round in a cycle; use "
                "advance_time, deactivate the topology, or set topology.max.spout.pending"
            )

    def _work_at_most(self, work: int) -> bool:
        """Turn every topology until all are idle; False if that takes more than `work` emits and executes."""
        while work > 0:
            done_before = sum(runner.work_done() for runner in self._runners())
            busy = False
            for runner in self._runners():
                busy |= runner.turn()
            if not busy:
                return True
            # A restarted slot counts from 0 again, so count each turn as at least 1.
            work -= max(1, sum(runner.work_done() for runner in self._runners()) - done_before)
        return False

    def _runners(self) -> list[SimulatedRunner]:
        return [runner for runner in list(self._running.values()) if isinstance(runner, SimulatedRunner)]

    def _simulated_clock(self, method: str) -> SimulatedClock:
        if self._simulated is None:
            raise StormError(f"{method} needs simulated time: LocalCluster(simulated_time=True)")
        return self._simulated

    def _random(self) -> random.Random:
        return random.Random(0) if self._simulated else random.Random()
