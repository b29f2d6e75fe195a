"""LocalCluster: topologies in this process, each one slot turned by one thread, or by hand in simulated time."""

from __future__ import annotations

import itertools
import logging
import math
import random
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from pystorm_spark.clock import Clock, SystemClock
from pystorm_spark.cluster import (
    ACTIVE,
    INACTIVE,
    KILLED,
    REBALANCING,
    Cluster,
    Tally,
    TopologyHandle,
    TopologyInfo,
    check_name,
    check_submission,
)
from pystorm_spark.errors import AlreadyAliveError, NotAliveError, StormError, did_you_mean
from pystorm_spark.naming import java_names
from pystorm_spark.runtime.bolt_task import SlotCrash
from pystorm_spark.runtime.plan import Plan, make_plan
from pystorm_spark.runtime.slot import Slot, pickle_components
from pystorm_spark.topology.config import resolve
from pystorm_spark.topology.graph import Topology

log = logging.getLogger(__name__)

STUCK_SECS = 30.0  # how long the end of a topology waits for user code that does not return
LONGEST_REST_SECS = 0.008  # between two looks at spouts that had nothing
SIMULATED_WORK = 50_000  # emits and executes at one moment of simulated time, for spouts that never stop emitting
IDLE_WORK = 5_000_000  # emits and executes after which waiting for idleness is given up


class SimulatedClock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    time = monotonic

    def move_to(self, now: float) -> None:
        self._now = max(self._now, now)


class LocalTopology(TopologyHandle):
    """One topology of a `LocalCluster`: its slot, its status, and what its earlier slots have counted."""

    def __init__(self, name: str, plan: Plan, clock: Clock, rng: random.Random) -> None:
        self.name = name
        self.id = plan.storm_id
        self.status = INACTIVE
        self.plan = plan
        self.clock = clock
        self.ended = threading.Event()
        self.error: BaseException | None = None
        self.slot: Slot | None = None
        self._rng = rng
        self._components = pickle_components(plan)
        self._started_at = clock.monotonic()
        self._past = Tally(plan.specs)  # of slots that are gone
        self._deaths = 0  # in a row, without an ack in between
        self.on_wake: Callable[[], None] = lambda: None

    def await_termination(self, timeout: float | None = None) -> bool:
        ended = self.ended.wait(timeout)
        if ended and self.error is not None:
            raise self.error
        return ended

    # All of these are called in the thread that turns the slot.

    def check_components(self) -> None:
        """Build the slot without opening anything, so that what cannot be loaded is known at once."""
        self.slot = Slot(self.plan, 0, self._components, self.clock, self._rng)

    def activate(self) -> None:
        if self.ended.is_set():
            raise NotAliveError(f"topology {self.name!r} has ended")
        if self.slot is None or not self.slot.is_open:
            self._open()
        self._slot.active = True
        self.status = ACTIVE

    def deactivate(self) -> None:
        if self.slot is not None:
            self.slot.active = False
        self.status = INACTIVE

    def _open(self) -> None:
        slot = self.slot or Slot(self.plan, 0, self._components, self.clock, self._rng)
        self.slot = None  # one that could not be opened is not tried again
        slot.on_wake(self.on_wake)
        slot.open()
        self.slot = slot

    @property
    def _slot(self) -> Slot:
        assert self.slot is not None
        return self.slot

    def turn(self) -> bool:
        """One turn of the slot; a slot that user code has crashed is replaced. Whether there was anything to do."""
        if self.slot is None or not self.slot.is_open:
            return False
        try:
            return self.slot.turn()
        except SlotCrash as crash:
            self._restart(crash)
            return True

    def _restart(self, crash: SlotCrash) -> None:
        lost = self._slot
        progressed = any(task.counted().acked for task in lost.tasks.values())
        self._deaths = 0 if progressed else self._deaths + 1
        self._keep_counts(lost)
        self.slot = None
        if self._deaths > self.plan.conf["topology.slot.max.restarts"]:
            raise crash.as_error() from crash.cause
        log.error("topology %s: the slot is started anew: %s", self.name, crash)
        self._open()
        self._slot.active = self.status == ACTIVE

    def replace(self, plan: Plan) -> None:
        """Close all tasks and open them anew, by another plan."""
        was_open = self.close()
        self.plan = plan
        self.slot = None
        if was_open:
            self._open()

    def close(self) -> bool:
        """Close what is open; whether anything was."""
        slot = self.slot
        if slot is None or not slot.is_open:
            return False
        slot.active = False
        slot.close()
        self._keep_counts(slot)
        self.slot = None
        return True

    def _keep_counts(self, slot: Slot) -> None:
        for task in slot.tasks.values():
            self._past.add_ended(task.component_id, task.counted(), task.errors)

    def info(self) -> TopologyInfo:
        plan, slot, tally = self.plan, self.slot, self._past.copy()
        for task in slot.tasks.values() if slot is not None else ():
            tally.add(task.component_id, task.counted(), list(task.errors))
        uptime = self.clock.monotonic() - self._started_at
        components = tally.components(plan.topology, plan.tasks)
        return TopologyInfo(self.name, self.id, self.status, uptime, 1, dict(plan.conf), tally.pending, components)


class Runner:
    """Makes calls on a topology, and turns it, in a thread of its own."""

    def __init__(self, topology: LocalTopology) -> None:
        self._topology = topology
        self._calls: deque[tuple[Callable[[], None], threading.Event, list[BaseException]]] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._idle_turns = 0
        topology.on_wake = self._wake.set
        self._thread = threading.Thread(target=self._run, name=f"pystorm-{topology.name}", daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], None]) -> None:
        """Have `function` called between two turns, and wait for it; raises what it raises."""
        if threading.current_thread() is self._thread:
            function()
            return
        done, errors = threading.Event(), list[BaseException]()
        self._calls.append((function, done, errors))
        self._wake.set()
        for waited in itertools.count(1):
            if done.wait(1):
                break
            if not self._thread.is_alive():
                raise StormError(f"topology {self._topology.name!r} has ended")
            if waited % STUCK_SECS == 0:
                log.warning("topology %s: still waiting for user code to return", self._topology.name)
        if errors:
            raise errors[0]

    def rest(self, secs: float) -> None:
        """Let the topology go on for `secs`."""
        self._topology.ended.wait(secs)

    def stop(self) -> None:
        """End the thread after its current turn."""
        self._stopping = True
        self._wake.set()
        if threading.current_thread() is self._thread:
            return
        self._thread.join(STUCK_SECS)
        if self._thread.is_alive():
            raise StormError(
                f"topology {self._topology.name!r} does not end: user code has not returned for {STUCK_SECS:g} s"
            )

    def _run(self) -> None:
        topology = self._topology
        try:
            while not self._stopping:
                self._make_calls()
                if topology.turn():
                    self._idle_turns = 0
                else:
                    self._rest()
        except BaseException as exc:
            log.error("topology %s ended: %s", topology.name, exc)
            topology.error = exc
        finally:
            topology.close()
            topology.status = KILLED
            topology.ended.set()
            self._make_calls()

    def _make_calls(self) -> None:
        while self._calls:
            function, done, errors = self._calls.popleft()
            try:
                function()
            except BaseException as exc:
                errors.append(exc)
            done.set()

    def _rest(self) -> None:
        """Wait until there may be something to do; the longer there was nothing, the longer."""
        self._idle_turns += 1
        slot = self._topology.slot
        secs = 0.1
        if slot is not None and slot.is_open:
            wait_ms = self._topology.plan.conf["topology.sleep.spout.wait.strategy.time.ms"]
            if slot.active and slot.spouts:
                secs = min(wait_ms / 1000 * 2 ** min(self._idle_turns // 64, 3), max(LONGEST_REST_SECS, wait_ms / 1000))
            secs = min(secs, max(0.0, slot.next_due() - self._topology.clock.monotonic()))
        if self._wake.wait(secs):
            self._wake.clear()


class SimulatedRunner:
    """Makes calls on a topology at once; it is turned by `LocalCluster.advance_time` and `wait_until_idle` only."""

    def __init__(self, topology: LocalTopology, advance: Callable[[float], None]) -> None:
        self._topology = topology
        self._advance = advance

    def call(self, function: Callable[[], None]) -> None:
        function()

    def rest(self, secs: float) -> None:
        self._advance(secs)

    def stop(self) -> None:
        self._topology.close()
        self._topology.status = KILLED
        self._topology.ended.set()

    def next_due(self) -> float:
        """When the topology has something to do by the clock."""
        slot = self._topology.slot
        return slot.next_due() if slot is not None and slot.is_open else math.inf

    def work_done(self) -> int:
        """How much the topology's slot has emitted and executed."""
        slot = self._topology.slot
        return slot.work_done() if slot is not None else 0

    def turn(self) -> bool:
        """One turn; an error that ends the topology is kept for `await_termination`."""
        try:
            return self._topology.turn()
        except BaseException as exc:
            log.error("topology %s ended: %s", self._topology.name, exc)
            self._topology.error = exc
            self.stop()
            return False


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
