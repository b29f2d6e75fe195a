"""Cluster: what every engine can do with topologies, and what it tells about them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, TypeVar

from pystorm_spark.errors import InvalidConfigError, InvalidTopologyError
from pystorm_spark.metrics.stats import ERRORS_KEPT, ErrorInfo, TaskStats, mean_ms
from pystorm_spark.naming import java_names
from pystorm_spark.topology.graph import ComponentSpec, Topology

ACTIVE, INACTIVE, REBALANCING, KILLED = "ACTIVE", "INACTIVE", "REBALANCING", "KILLED"

C = TypeVar("C", bound="Cluster")


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

    def copy(self) -> Tally:
        tally = Tally(self._stats)
        for id_, stats in self._stats.items():
            tally.add(id_, stats, self._errors[id_])
        return tally

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


@java_names(getters=["topology_info"], getTopologyInfoByName="topology_info", close="shutdown")
class Cluster(ABC):
    """Runs topologies. Leaving its `with` block kills what still runs and calls `close` and `cleanup`."""

    @abstractmethod
    def submit_topology(
        self, name: str, conf: Mapping[str, Any] | None, topology: Topology, active: bool = True
    ) -> TopologyHandle:
        """Start `topology` under `name`; with `active=False` nothing is opened until `activate`."""

    @abstractmethod
    def activate(self, name: str) -> None:
        """Have the spouts emit."""

    @abstractmethod
    def deactivate(self, name: str) -> None:
        """Have the spouts rest; what is in flight goes on."""

    @abstractmethod
    def rebalance(self, name: str, num_workers: int | None = None, wait_secs: float = 0) -> None:
        """Rest for `wait_secs`, then start all tasks anew, on another number of workers if given."""

    @abstractmethod
    def kill_topology(self, name: str, wait_secs: float = 0) -> None:
        """Rest for `wait_secs`, then end the topology; returns when `close` and `cleanup` have run."""

    @abstractmethod
    def topology_info(self, name: str) -> TopologyInfo:
        """The status of a running topology."""

    @abstractmethod
    def list_topologies(self) -> list[TopologyInfo]:
        """The status of every running topology."""

    @abstractmethod
    def shutdown(self) -> None:
        """Kill every topology and let go of everything."""

    def __enter__(self: C) -> C:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()


def check_name(name: object) -> str:
    """`name`, if it can name a topology."""
    if not isinstance(name, str) or not re.fullmatch(r"[^/.:\\]+", name):
        raise InvalidTopologyError(
            f"a topology's name must be a non-empty string without '/', '.', ':' and '\\', got {name!r}"
        )
    return name


def check_submission(topology: object, conf: object) -> None:
    """Refuse what is no topology or no configuration before anything is made of it."""
    if not isinstance(topology, Topology):
        raise InvalidTopologyError(
            f"a topology is what TopologyBuilder.create_topology() gives, got {type(topology).__name__} {topology!r}"
        )
    if conf is not None and not isinstance(conf, Mapping):
        raise InvalidConfigError(f"conf must be a Config, another mapping or None, got {conf!r}")
