"""Cluster: the operations on topologies that every engine has."""

from __future__ import annotations

import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Generic, TypeVar

from pystorm_spark.cluster.checks import check_name, check_submission, check_wait
from pystorm_spark.cluster.info import TopologyInfo
from pystorm_spark.cluster.running import KILLED, REBALANCING, RunningTopology, TopologyHandle
from pystorm_spark.errors import AlreadyAliveError, NotAliveError, StormError, did_you_mean
from pystorm_spark.naming import java_names
from pystorm_spark.topology.config import resolve
from pystorm_spark.topology.graph import Topology

SUBMIT_TIMEOUT_SECS = 30.0  # how long a shutdown waits for submits in progress

C = TypeVar("C", bound="Cluster[Any]")
R = TypeVar("R", bound=RunningTopology)


@java_names(getters=["topology_info"], getTopologyInfoByName="topology_info", close="shutdown")
class Cluster(ABC, Generic[R]):
    """Runs topologies. At the end of its `with` block it kills those that still run, which calls `close` and `cleanup`.

    An engine implements how a topology starts. The operations on running topologies are the same on all engines.
    """

    _numbers = itertools.count(1)

    def __init__(self) -> None:
        self._running: dict[str, R] = {}
        self._starting: set[str] = set()  # names of submits in progress
        self._is_shut = False
        self._lock = threading.Condition()  # guards the names; never held while user code runs

    @abstractmethod
    def _start(self, name: str, storm_id: str, conf: Mapping[str, Any], topology: Topology, active: bool) -> R:
        """Start `topology`. If it raises, nothing is left running."""

    def _time(self) -> float:
        return time.time()

    def submit_topology(
        self, name: str, conf: Mapping[str, Any] | None, topology: Topology, active: bool = True
    ) -> TopologyHandle:
        """Start `topology` under `name`. With `active=False` its components are opened at `activate`."""
        check_name(name)
        check_submission(topology, conf)
        resolved = {**resolve({**topology.conf, **(conf or {})}), "topology.name": name}
        storm_id = f"{name}-{next(self._numbers)}-{int(self._time())}"
        with self._taking(name):
            started = self._start(name, storm_id, resolved, topology, active)
            if not self._register(started):
                started.end()
                raise StormError(f"the cluster was shut down while topology {name!r} was submitted")
        return started

    @contextmanager
    def _taking(self, name: str) -> Iterator[None]:
        """Reserve `name` during a submit. A shutdown waits for it."""
        with self._lock:
            if self._is_shut:
                raise StormError("the cluster has been shut down; make a new one")
            self._bury()
            if name in self._running or name in self._starting:
                raise AlreadyAliveError(
                    f"a topology named {name!r} is already running; kill it first, or choose another name"
                )
            self._starting.add(name)
        try:
            yield
        finally:
            with self._lock:
                self._starting.discard(name)
                self._lock.notify_all()

    def _register(self, started: R) -> bool:
        """Add a topology to those that run; False if the cluster was shut down."""
        with self._lock:
            if not self._is_shut:
                self._running[started.name] = started
            return not self._is_shut

    def activate(self, name: str) -> None:
        """Resume the spouts of a topology."""
        self._find(name).activate()

    def deactivate(self, name: str) -> None:
        """Pause the spouts of a topology. Bolts continue with what is in flight."""
        self._find(name).deactivate()

    def rebalance(self, name: str, num_workers: int | None = None, wait_secs: float = 0) -> None:
        """Pause the spouts for `wait_secs`, then restart all tasks, on `num_workers` workers if given.

        Until it returns, the topology accepts only `kill_topology`. If an interrupt ends the wait, the topology
        continues as before.
        """
        running = self._find(name)
        check_wait(wait_secs)
        running.refuse_own_thread("rebalanced")
        workers = {} if num_workers is None else {"topology.workers": num_workers}
        conf = resolve({**running.conf, **workers})
        before = running.become(REBALANCING)
        try:
            running.apply_status()
            running.wait(wait_secs)
            if running.status == KILLED:
                raise NotAliveError(f"topology {name!r} has ended before it was rebalanced")
        except BaseException:
            if running.restore_status(REBALANCING, before):
                running.apply_status()
            raise
        try:
            running.start_anew(conf)
            if running.restore_status(REBALANCING, before):
                running.apply_status()
        except BaseException as exc:
            if running.status != KILLED:  # its tasks are closed and cannot be opened again, so nothing is left to run
                running.error = exc
                running.end()
            raise

    def kill_topology(self, name: str, wait_secs: float = 0) -> None:
        """Pause the spouts for `wait_secs`, then end the topology. Returns after `close` and `cleanup`.

        Until then the topology accepts only another kill. Another kill or an interrupt may end the wait early.
        """
        running = self._find(name)
        check_wait(wait_secs)
        running.become(KILLED)
        try:
            if wait_secs:
                with suppress(NotAliveError):  # another kill may have ended it
                    running.apply_status()
                running.wait(wait_secs)
        finally:
            self._end(running)

    def topology_info(self, name: str) -> TopologyInfo:
        """The status of a running topology."""
        return self._find(name).info()

    def list_topologies(self) -> list[TopologyInfo]:
        """The status of every running topology."""
        return [running.info() for running in self._all()]

    def read_state(self, name: str, component: str, key: Any = None) -> Any:
        """The state of a stateful bolt in the last commit: the value of `key` (None if missing), or all as a dict."""
        hash(key)  # raises in the caller, rather than in the thread of the topology
        found = self._find(name).read_state(component, key)
        return found if key is None else found.get(key)

    def shutdown(self) -> None:
        """Kill every topology and release all resources. Later submits raise a `StormError`."""
        with self._lock:
            self._is_shut = True
        stuck: list[StormError] = []
        for running in self._all():
            try:
                self._end(running)
            except StormError as exc:
                stuck.append(exc)
        with self._lock:  # a submit that returns now ends its own topology
            self._lock.wait_for(lambda: not self._starting, SUBMIT_TIMEOUT_SECS)
        if stuck:
            raise stuck[0]

    def __enter__(self: C) -> C:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()

    def _end(self, running: R) -> None:
        running.become(KILLED)
        try:
            running.end()
        except BaseException:
            self._forget(running)
            raise
        if running.ended.is_set():  # otherwise its own code called this, and it ends when that code returns
            self._forget(running)

    def _forget(self, running: R) -> None:
        with self._lock:
            if self._running.get(running.name) is running:
                del self._running[running.name]

    def _all(self) -> list[R]:
        with self._lock:
            self._bury()
            return list(self._running.values())

    def _find(self, name: str) -> R:
        with self._lock:
            self._bury()
            found = self._running.get(name)
            if found is None:
                raise NotAliveError(f"no topology named {name!r} is running; {did_you_mean(name, self._running)}")
            return found

    def _bury(self) -> None:
        """Remove topologies that ended without a kill."""
        for name in [name for name, running in self._running.items() if running.ended.is_set()]:
            del self._running[name]
