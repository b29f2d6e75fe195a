"""LocalCluster: runs topologies in this process."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Mapping
from typing import Any

from pystorm_spark.clock import Clock, SystemClock
from pystorm_spark.cluster import (
    ACTIVE,
    KILLED,
    REBALANCING,
    Cluster,
    TopologyHandle,
    TopologyInfo,
    check_name,
    check_submission,
)
from pystorm_spark.errors import AlreadyAliveError, NotAliveError, StormError, did_you_mean
from pystorm_spark.local.runner import Runner, SimulatedClock, SimulatedRunner
from pystorm_spark.local.topology import LocalTopology
from pystorm_spark.naming import java_names
from pystorm_spark.runtime.plan import make_plan
from pystorm_spark.topology.config import resolve
from pystorm_spark.topology.graph import Topology

SIMULATED_WORK = 50_000  # emits and executes at one moment of simulated time, for spouts that never stop emitting
IDLE_WORK = 5_000_000  # emits and executes after which waiting for idleness is given up


@java_names(advanceClusterTime="advance_time", waitForIdle="wait_until_idle")
class LocalCluster(Cluster):
    """Runs topologies in this process: no JVM, `print` and `pdb` work.

    Each topology has a thread of its own. With `simulated_time=True` there is none: everything happens inside
    `advance_time` and `wait_until_idle`, and the clock moves by `advance_time` only.
    """

    _numbers = itertools.count(1)

    def __init__(self, simulated_time: bool = False) -> None:
        self.simulated_time = simulated_time
        self._simulated = SimulatedClock() if simulated_time else None
        self._clock: Clock = self._simulated or SystemClock()
        self._running: dict[str, tuple[LocalTopology, Runner | SimulatedRunner]] = {}
        self._lock = threading.RLock()

    def submit_topology(
        self, name: str, conf: Mapping[str, Any] | None, topology: Topology, active: bool = True
    ) -> TopologyHandle:
        check_name(name)
        check_submission(topology, conf)
        with self._lock:
            self._bury()
            if name in self._running:
                raise AlreadyAliveError(
                    f"a topology named {name!r} is already running; kill it first, or choose another name"
                )
            storm_id = f"{name}-{next(self._numbers)}-{int(self._clock.time())}"
            plan = make_plan(topology, {**resolve(conf), "topology.name": name}, storm_id, slots=1)
            submitted = LocalTopology(name, plan, self._clock, self._random())
            submitted.check_components()
            runner = SimulatedRunner(submitted, self.advance_time) if self._simulated else Runner(submitted)
            if active:
                try:
                    runner.call(submitted.activate)
                except BaseException:
                    runner.stop()
                    raise
            self._running[name] = (submitted, runner)
            return submitted

    def activate(self, name: str) -> None:
        topology, runner = self._find(name)
        runner.call(topology.activate)

    def deactivate(self, name: str) -> None:
        topology, runner = self._find(name)
        runner.call(topology.deactivate)

    def rebalance(self, name: str, num_workers: int | None = None, wait_secs: float = 0) -> None:
        topology, runner = self._find(name)
        status = topology.status
        conf = {**topology.plan.conf, **({"topology.workers": num_workers} if num_workers is not None else {})}
        plan = make_plan(topology.plan.topology, resolve(conf), topology.id, slots=1)
        runner.call(topology.deactivate)
        topology.status = REBALANCING
        runner.rest(wait_secs)
        try:
            runner.call(lambda: topology.replace(plan))
        except BaseException as exc:  # its tasks are closed and do not open again: there is nothing left to run
            topology.error = exc
            runner.stop()
            raise
        if status == ACTIVE:
            runner.call(topology.activate)
        topology.status = status

    def kill_topology(self, name: str, wait_secs: float = 0) -> None:
        topology, runner = self._find(name)
        if wait_secs:
            runner.call(topology.deactivate)
            topology.status = KILLED
            runner.rest(wait_secs)
        topology.status = KILLED
        try:
            runner.stop()
        finally:
            with self._lock:
                self._running.pop(name, None)

    def topology_info(self, name: str) -> TopologyInfo:
        return self._find(name)[0].info()

    def list_topologies(self) -> list[TopologyInfo]:
        with self._lock:
            self._bury()
            return [topology.info() for topology, _ in self._running.values()]

    def shutdown(self) -> None:
        with self._lock:
            names = list(self._running)
        stuck: list[StormError] = []
        for name in names:
            if name in self._running:
                try:
                    self._running[name][1].stop()
                except StormError as exc:
                    stuck.append(exc)
                self._running.pop(name, None)
        if stuck:
            raise stuck[0]

    # Simulated time.

    def advance_time(self, secs: float) -> None:
        """Move the simulated clock by `secs`; timers fire in their order, and what they cause happens in between.

        A topology that never stops working does about `SIMULATED_WORK` before the clock moves on.
        """
        clock = self._simulated_clock("advance_time")
        end = clock.monotonic() + secs
        self._work_at_most(SIMULATED_WORK)
        while True:
            due = min((due for runner in self._runners() if (due := runner.next_due()) <= end), default=None)
            clock.move_to(end if due is None else due)
            self._work_at_most(SIMULATED_WORK)
            if due is None:
                return

    def wait_until_idle(self) -> None:
        """Turn until no spout has anything to emit and no tuple is queued; the clock stands still."""
        self._simulated_clock("wait_until_idle")
        if not self._work_at_most(IDLE_WORK):
            raise StormError(
                "wait_until_idle does not end: the spouts never stop emitting, or tuples go round in a cycle; use "
                "advance_time, deactivate the topology, or set topology.max.spout.pending"
            )

    def _work_at_most(self, work: int) -> bool:
        """Turn every topology until none has anything to do; False when that takes more than `work`."""
        while work > 0:
            done_before = sum(runner.work_done() for runner in self._runners())
            busy = False
            for runner in self._runners():
                busy |= runner.turn()
            if not busy:
                return True
            # A slot that was started anew begins to count anew: a turn is always something.
            work -= max(1, sum(runner.work_done() for runner in self._runners()) - done_before)
        return False

    def _runners(self) -> list[SimulatedRunner]:
        return [runner for _, runner in list(self._running.values()) if isinstance(runner, SimulatedRunner)]

    def _simulated_clock(self, method: str) -> SimulatedClock:
        if self._simulated is None:
            raise StormError(f"{method} needs simulated time: LocalCluster(simulated_time=True)")
        return self._simulated

    def _random(self) -> random.Random:
        return random.Random(0) if self._simulated else random.Random()

    # Names.

    def _find(self, name: str) -> tuple[LocalTopology, Runner | SimulatedRunner]:
        with self._lock:
            self._bury()
            try:
                return self._running[name]
            except KeyError:
                raise NotAliveError(
                    f"no topology named {name!r} is running; {did_you_mean(name, self._running)}"
                ) from None

    def _bury(self) -> None:
        """Forget topologies that have ended by themselves."""
        for name in [name for name, (topology, _) in self._running.items() if topology.ended.is_set()]:
            del self._running[name]
