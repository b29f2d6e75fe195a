"""Runners: turn a topology, in a thread of its own, or in the caller's thread in simulated time."""

from __future__ import annotations

import itertools
import logging
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from pystorm_spark.cluster.info import TopologyInfo
from pystorm_spark.cluster.running import ACTIVE, KILLED, RunningTopology
from pystorm_spark.errors import NotAliveError, StormError
from pystorm_spark.local.topology import LocalTopology
from pystorm_spark.runtime.plan import make_plan
from pystorm_spark.runtime.task import IDLE_CALL_SECS

log = logging.getLogger(__name__)

END_TIMEOUT_SECS = 30.0  # how long the end of a topology waits for user code to return
LONGEST_SPOUT_IDLE_SECS = 0.008  # the longest wait before spouts that had nothing are polled again


class SimulatedClock:
    """A clock that only `move_to` moves."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    time = monotonic

    def move_to(self, now: float) -> None:
        self._now = max(self._now, now)


class LocalRunner(RunningTopology):
    """Calls a topology's methods, one at a time and never during a turn."""

    def __init__(self, topology: LocalTopology) -> None:
        super().__init__(topology.name, topology.id)
        self._topology = topology

    @abstractmethod
    def call(self, function: Callable[[], None]) -> None:
        """Have `function` called between two turns, and wait for it. Raises what it raises."""

    @property
    def conf(self) -> Mapping[str, Any]:
        return self._topology.plan.conf

    def apply_status(self) -> None:
        self.call(self._apply_status)

    def _apply_status(self) -> None:
        if self.ended.is_set():
            raise NotAliveError(f"topology {self.name!r} has ended")
        if self.status == ACTIVE:
            self._topology.activate()
        else:
            self._topology.deactivate()

    def start_anew(self, conf: Mapping[str, Any]) -> None:
        plan = make_plan(self._topology.plan.topology, conf, self.id, slots=1)
        self.call(lambda: self._topology.replace(plan))

    def info(self) -> TopologyInfo:
        return self._topology.info(self.status)

    def read_state(self, component: str, key: Any) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        self.call(lambda: found.update(self._topology.read_state(component, key)))
        return found


class Runner(LocalRunner):
    """Turns a topology and calls its methods in a thread of its own."""

    def __init__(self, topology: LocalTopology) -> None:
        super().__init__(topology)
        self._calls: deque[tuple[Callable[[], None], threading.Event, list[BaseException]]] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._idle_turns = 0
        topology.on_wake, topology.idle = self._wake.set, self._idle
        self._thread = threading.Thread(target=self._run, name=f"pystorm-{topology.name}", daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], None]) -> None:
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
                raise NotAliveError(f"topology {self._topology.name!r} has ended")
            if waited % END_TIMEOUT_SECS == 0:
                log.warning("topology %s: still waiting for user code to return", self._topology.name)
        if errors:
            raise errors[0]

    def wait(self, secs: float) -> None:
        self.ended.wait(secs)

    def end(self) -> None:
        self._stopping = True  # the thread sees it after its current turn
        self._wake.set()
        if threading.current_thread() is self._thread:
            return
        self._thread.join(END_TIMEOUT_SECS)
        if self._thread.is_alive():
            raise StormError(
                f"topology {self._topology.name!r} does not end: user code has not returned for {END_TIMEOUT_SECS:g} s"
            )

    def _run(self) -> None:
        topology = self._topology
        try:
            while not self._stopping:
                self._make_calls()
                if topology.turn():
                    self._idle_turns = 0
                else:
                    self._idle()
        except BaseException as exc:
            log.error("topology %s ended: %s", topology.name, exc)
            self.error = exc
        finally:
            topology.end()
            self.status = KILLED
            self.ended.set()
            self._make_calls()

    def _make_calls(self) -> None:
        while self._calls:
            function, done, errors = self._calls.popleft()
            try:
                function()
            except BaseException as exc:
                errors.append(exc)
            done.set()

    def _idle(self) -> None:
        """Wait until there may be something to do. The wait grows with the number of idle turns."""
        self._idle_turns += 1
        slot = self._topology.slot
        secs = 0.1
        if slot is not None and slot.is_open:
            wait_ms = self._topology.plan.conf["topology.sleep.spout.wait.strategy.time.ms"]
            if slot.active and slot.spouts:
                secs = min(
                    wait_ms / 1000 * 2 ** min(self._idle_turns // 64, 3), max(LONGEST_SPOUT_IDLE_SECS, wait_ms / 1000)
                )
            if slot.is_idling():
                secs = min(secs, IDLE_CALL_SECS * 2 ** min(self._idle_turns // 64, 3))
            secs = min(secs, max(0.0, self._topology.next_due() - self._topology.clock.monotonic()))
        if self._wake.wait(secs):
            self._wake.clear()


class SimulatedRunner(LocalRunner):
    """Calls a topology's methods at once. Only `LocalCluster.advance_time` and `wait_until_idle` turn it."""

    def __init__(self, topology: LocalTopology, advance: Callable[[float], None]) -> None:
        super().__init__(topology)
        self._advance = advance

    def call(self, function: Callable[[], None]) -> None:
        function()

    def wait(self, secs: float) -> None:
        self._advance(secs)

    def end(self) -> None:
        self._topology.end()
        self.status = KILLED
        self.ended.set()

    def next_due(self) -> float:
        """When the next timer of the topology is due."""
        return self._topology.next_due()

    def work_done(self) -> int:
        """How many emits and executes the topology's slot has done."""
        slot = self._topology.slot
        return slot.work_done() if slot is not None else 0

    def turn(self) -> bool:
        """One turn. An error ends the topology, and `await_termination` raises it."""
        try:
            return self._topology.turn()
        except BaseException as exc:
            log.error("topology %s ended: %s", self.name, exc)
            self.error = exc
            self.end()
            return False
