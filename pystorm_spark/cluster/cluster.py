"""Cluster: what every engine can do with topologies."""

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

SUBMIT_TIMEOUT_SECS = 30.0  # how long a shutdown waits for submits that have not returned

C = TypeVar("C", bound="Cluster[Any]")
R = TypeVar("R", bound=RunningTopology)


@java_names(getters=["topology_info"], getTopologyInfoByName="topology_info", close="shutdown")
class Cluster(ABC, Generic[R]):
    """Runs topologies. Leaving its `with` block kills what still runs and calls `close` and `cleanup`.

    An engine says how a topology is started; what can be done with those that run is the same for all of them.
    """

    _numbers = itertools.count(1)

    def __init__(self) -> None:
        self._running: dict[str, R] = {}
        self._starting: set[str] = set()  # names that are taken by a submit that has not returned
        self._is_shut = False
        self._lock = threading.Condition()  # of the names, never held while user code runs

    @abstractmethod
    def _start(self, name: str, storm_id: str, conf: Mapping[str, Any], topology: Topology, active: bool) -> R:
        """Start `topology`; an error leaves nothing behind."""

    def _time(self) -> float:
        return time.time()

    def submit_topology(
        self, name: str, conf: Mapping[str, Any] | None, topology: Topology, active: bool = True
    ) -> TopologyHandle:
        """Start `topology` under `name`; with `active=False` nothing is opened until `activate`."""
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
        """Take the name for a submit, which a shutdown waits for."""
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
        """Count a topology among those that run; False if there shall be none any more."""
        with self._lock:
            if not self._is_shut:
                self._running[started.name] = started
            return not self._is_shut

    def activate(self, name: str) -> None:
        """Have the spouts emit."""
        self._find(name).activate()

    def deactivate(self, name: str) -> None:
        """Have the spouts rest; what is in flight goes on."""
        self._find(name).deactivate()

    def rebalance(self, name: str, num_workers: int | None = None, wait_secs: float = 0) -> None:
        """Rest for `wait_secs`, then start all tasks anew, on another number of workers if given.

        Until it returns, the topology accepts nothing but `kill_topology`. Interrupted while it rests, it goes on as
        before.
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
            if running.status != KILLED:  # its tasks are closed and do not open again: there is nothing left to run
                running.error = exc
                running.end()
            raise

    def kill_topology(self, name: str, wait_secs: float = 0) -> None:
        """Rest for `wait_secs`, then end the topology; returns when `close` and `cleanup` have run.

        Until then it accepts nothing but another kill, which may end it earlier, as an interrupt does.
        """
        running = self._find(name)
        check_wait(wait_secs)
        running.become(KILLED)
        try:
            if wait_secs:
                with suppress(NotAliveError):  # another kill may be faster
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
        """What the last commit holds of a stateful bolt: the value of `key`, None if it has none; or all, as a dict."""
        hash(key)  # here, where it is the caller's error and nobody else's
        found = self._find(name).read_state(component, key)
        return found if key is None else found.get(key)

    def shutdown(self) -> None:
        """Kill every topology and let go of everything; nothing can be submitted any more."""
        with self._lock:
            self._is_shut = True
        stuck: list[StormError] = []
        for running in self._all():
            try:
                self._end(running)
            except StormError as exc:
                stuck.append(exc)
        with self._lock:  # a submit ends by itself what it has started
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
        if running.ended.is_set():  # else its own code has killed it: it ends, and is buried, after that
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
        """Forget topologies that have ended by themselves."""
        for name in [name for name, running in self._running.items() if running.ended.is_set()]:
            del self._running[name]
