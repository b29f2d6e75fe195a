"""TopologyInfo: what a cluster tells of a topology; Tally: how it is counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pystorm_spark.cluster.table import counted, millis, span, table
from pystorm_spark.metrics.stats import ERRORS_KEPT, ErrorInfo, TaskStats, mean_ms
from pystorm_spark.naming import java_names
from pystorm_spark.topology.graph import ComponentSpec, Topology

# The latency is a spout's until the tree is complete, and a bolt's of one `execute`.
COLUMNS = ("kind", "tasks", "emitted", "executed", "acked", "failed", "latency ms", "errors")


@java_names()
@dataclass(frozen=True)
class ComponentInfo:
    """Counts, mean latencies and errors of one component; counts are exact and of user streams only.

    It prints as a table of one row.
    """

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
    errors: list[ErrorInfo] = field(repr=False)

    def __str__(self) -> str:
        return "\n".join(table(COLUMNS, [self._cells()], texts=1))

    def _cells(self) -> list[str]:
        """What stands in `COLUMNS`; nothing where a component of this kind counts nothing."""
        is_spout = self.kind == "spout"
        executed = "" if is_spout else f"{self.executed:,}"
        latency = self.complete_latency_ms if is_spout else self.execute_latency_ms
        told = millis(latency) if (self.acked if is_spout else self.executed) else ""
        counts = [f"{count:,}" for count in (self.acked, self.failed)]
        more = "+" if len(self.errors) == ERRORS_KEPT else ""
        tasks, emitted = f"{self.tasks:,}", f"{self.emitted:,}"
        return [self.kind, tasks, emitted, executed, *counts, told, f"{len(self.errors)}{more}"]

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
    """The status of one running topology. It prints as a table with a row for each component."""

    name: str
    id: str
    status: str
    uptime_secs: float
    workers: int
    conf: Mapping[str, Any] = field(repr=False)
    pending: int
    components: Mapping[str, ComponentInfo] = field(repr=False)

    def __str__(self) -> str:
        workers = counted(self.workers, "worker")
        title = f"{self.name}: {self.status}, up {span(self.uptime_secs)}, {workers}, {self.pending:,} pending"
        rows = [[id_, *info._cells()] for id_, info in self.components.items()]
        return "\n".join([title, *table(("component", *COLUMNS), rows, texts=2)])


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
