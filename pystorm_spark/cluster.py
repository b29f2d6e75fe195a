"""Cluster: what every engine can do with topologies, and what it tells about them."""

from __future__ import annotations

import itertools
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Generic, TypeVar

from pystorm_spark.errors import (
    AlreadyAliveError,
    InvalidConfigError,
    InvalidTopologyError,
    NotAliveError,
    StormError,
    did_you_mean,
)
from pystorm_spark.metrics.stats import ERRORS_KEPT, ErrorInfo, TaskStats, mean_ms
from pystorm_spark.naming import java_names
from pystorm_spark.topology.config import resolve
from pystorm_spark.topology.graph import ComponentSpec, Topology

ACTIVE, INACTIVE, REBALANCING, KILLED = "ACTIVE", "INACTIVE", "REBALANCING", "KILLED"
LONGEST_WAIT_SECS = threading.TIMEOUT_MAX
SUBMIT_SECS = 30.0  # how long a shutdown waits for submits that have not returned

C = TypeVar("C", bound="Cluster[Any]")
R = TypeVar("R", bound="RunningTopology")


@java_names()
@dataclass(frozen=True)
class ComponentInfo:
    """Counts, mean latencies and errors of one component; counts are exact and of user streams only."""

    kind: str
    tasks: int
    emitted: int
    transferred: int
    executed: int
    acked: int
    failed: int
    complete_latency_ms: float
    execute_latency_ms: float
    process_latency_ms: float
    errors: list[ErrorInfo]

    @classmethod
    def of(cls, spec: ComponentSpec, tasks: int, stats: TaskStats, errors: Iterable[ErrorInfo]) -> ComponentInfo:
        """What is known of a component whose tasks have counted `stats`."""
        return cls(
            spec.kind,
            tasks,
            stats.emitted,
            stats.transferred,
            stats.executed,
            stats.acked,
            stats.failed,
            mean_ms(stats.complete_secs, stats.acked if spec.kind == "spout" else 0),
            mean_ms(stats.execute_secs, stats.executed),
            mean_ms(stats.process_secs, stats.process_count),
            list(errors),
        )


@java_names()
@dataclass(frozen=True)
class TopologyInfo:
    """The status of one running topology."""

    name: str
    id: str
    status: str
    uptime_secs: float
    workers: int
    conf: Mapping[str, Any]
    pending: int
    components: Mapping[str, ComponentInfo]


class Tally:
    """What the tasks of a topology have counted, by component."""

    def __init__(self, component_ids: Iterable[str]) -> None:
        self._stats = {id_: TaskStats() for id_ in component_ids}
        self._errors: dict[str, list[ErrorInfo]] = {id_: [] for id_ in self._stats}

    def add(self, component_id: str, stats: TaskStats, errors: Iterable[ErrorInfo]) -> None:
        """Count a task."""
        self._stats[component_id].add(stats)
        kept = self._errors[component_id]
        kept.extend(errors)
        kept.sort(key=lambda error: error.time)
        del kept[:-ERRORS_KEPT]

    def add_ended(self, component_id: str, stats: TaskStats, errors: Iterable[ErrorInfo]) -> None:
        """Count a task that has ended: nothing of it is pending any more."""
        self.add(component_id, replace(stats, pending=0), errors)

    def add_all(self, other: Tally) -> None:
        """Count all tasks that `other` has counted."""
        for id_, stats in other._stats.items():
            self.add(id_, stats, other._errors[id_])

    @property
    def pending(self) -> int:
        return sum(stats.pending for stats in self._stats.values())

    def components(self, topology: Topology, tasks: Mapping[str, list[int]]) -> dict[str, ComponentInfo]:
        """The components of `topology`, whose tasks are `tasks`."""
        return {
            id_: ComponentInfo.of(spec, len(tasks[id_]), self._stats[id_], self._errors[id_])
            for id_, spec in topology.components.items()
        }


@java_names()
class TopologyHandle(ABC):
    """A submitted topology."""

    name: str
    id: str

    @abstractmethod
    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the topology's end: True when it ended, False on time-out; raises the error that ended it."""


class RunningTopology(TopologyHandle):
    """A topology as its cluster drives it, from the submit to its end.

    Its status is what is wanted of it, and `apply_status` brings that about: so calls may overlap, or be interrupted.
    """

    def __init__(self, name: str, storm_id: str) -> None:
        self.name = name
        self.id = storm_id
        self.status = INACTIVE
        self.error: BaseException | None = None  # what has ended the topology, if it did not end as it was told
        self.ended = threading.Event()
        self._deciding = threading.Lock()  # on the status

    def await_termination(self, timeout: float | None = None) -> bool:
        ended = self.ended.wait(timeout)
        if ended and self.error is not None:
            raise self.error
        return ended

    def become(self, status: str) -> str:
        """Have `status` from now on; the one before. Who is being rebalanced or killed can only be killed."""
        with self._deciding:
            before = self.status
            if before == KILLED and status != KILLED:
                raise NotAliveError(f"topology {self.name!r} is being killed")
            if before == REBALANCING and status != KILLED:
                raise StormError(
                    f"topology {self.name!r} is being rebalanced: until that is done it can only be killed"
                )
            self.status = status
            return before

    def take_back(self, status: str, before: str) -> bool:
        """Have the status of `before` again; False if `status` is not there any more, for another one has come."""
        with self._deciding:
            if self.status != status:
                return False
            self.status = before
            return True

    def activate(self) -> None:
        """Have the spouts emit; the first time the components are opened."""
        before = self.become(ACTIVE)
        try:
            self.apply_status()
        except Exception:
            self.take_back(ACTIVE, before)
            raise

    def deactivate(self) -> None:
        """Have the spouts rest."""
        self.become(INACTIVE)
        self.apply_status()

    @property
    @abstractmethod
    def conf(self) -> Mapping[str, Any]:
        """The topology's configuration."""

    @abstractmethod
    def apply_status(self) -> None:
        """Have the spouts emit if the status is ACTIVE when it is their turn, else rest. Calls do not overlap."""

    @abstractmethod
    def rest(self, secs: float) -> None:
        """Let the topology go on for `secs`, or until it has ended."""

    @abstractmethod
    def start_anew(self, conf: Mapping[str, Any]) -> None:
        """Close all tasks and make them anew by `conf`, inactive; they are opened if they were open."""

    @abstractmethod
    def end(self) -> None:
        """Close all tasks and let go of everything; a topology that has ended stays as it is."""

    @abstractmethod
    def info(self) -> TopologyInfo:
        """The status, with the latest counts."""

    @abstractmethod
    def read_state(self, component: str, key: Any) -> dict[Any, Any]:
        """{key: value} as of the last commit, for one key, or for all if it is None."""


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
        resolved = {**resolve(conf), "topology.name": name}
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
        workers = {} if num_workers is None else {"topology.workers": num_workers}
        conf = resolve({**running.conf, **workers})
        before = running.become(REBALANCING)
        try:
            running.apply_status()
            running.rest(wait_secs)
            if running.status == KILLED:
                raise NotAliveError(f"topology {name!r} has ended before it was rebalanced")
        except BaseException:
            if running.take_back(REBALANCING, before):
                running.apply_status()
            raise
        try:
            running.start_anew(conf)
            if running.take_back(REBALANCING, before):
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
                running.rest(wait_secs)
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
            self._lock.wait_for(lambda: not self._starting, SUBMIT_SECS)
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
        finally:
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


def check_name(name: object) -> str:
    """`name`, if it can name a topology."""
    if not isinstance(name, str) or not re.fullmatch(r"[^/.:\\\0\ud800-\udfff]+", name):
        raise InvalidTopologyError(
            "a topology's name must be a non-empty string that a folder can have, without '/', '.', ':' and '\\', got "
            f"{name!r}"
        )
    return name


def check_wait(wait_secs: object) -> None:
    """Refuse what is no time to wait for."""
    if (
        isinstance(wait_secs, bool)
        or not isinstance(wait_secs, (int, float))
        or not 0 <= wait_secs <= LONGEST_WAIT_SECS
    ):
        raise InvalidConfigError(f"wait_secs must be a number of seconds, 0 or more, got {wait_secs!r}")


def check_stateful(component: str, stateful: Iterable[str]) -> None:
    """Refuse a component that has no state."""
    if component not in stateful:
        raise StormError(f"there is no stateful bolt {component!r}; {did_you_mean(component, stateful)}")


def state_not_open(component: str) -> StormError:
    """What is told of a state that is there, but that no task has yet."""
    return StormError(f"the state of {component!r} cannot be read before the topology is activated; load_state can")


def check_submission(topology: object, conf: object) -> None:
    """Refuse what is no topology or no configuration before anything is made of it."""
    if not isinstance(topology, Topology):
        raise InvalidTopologyError(
            f"a topology is what TopologyBuilder.create_topology() gives, got {type(topology).__name__} {topology!r}"
        )
    if conf is not None and not isinstance(conf, Mapping):
        raise InvalidConfigError(f"conf must be a Config, another mapping or None, got {conf!r}")
