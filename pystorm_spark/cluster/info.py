"""TopologyInfo: the status of a topology; Tally: sums up the counts of its tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pystorm_spark.cluster.table import counted, millis, printable, span, table
from pystorm_spark.metrics.stats import ERRORS_KEPT, ErrorInfo, TaskStats, mean_ms
from pystorm_spark.naming import java_names
from pystorm_spark.topology.graph import ComponentSpec, Topology

# The latency of a spout is the complete latency, that of a bolt the latency of one `execute`.
COLUMNS = ("kind", "tasks", "emitted", "executed", "acked", "failed", "latency ms", "errors")


@java_names()
@dataclass(frozen=True)
class ComponentInfo:
    """Counts, mean latencies and errors of one component. Counts are exact, and cover user streams only.

    It prints as a table with one row.
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
        """The cells for `COLUMNS`; empty where this kind of component has no such count."""
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
        """The info of a component whose tasks have counted `stats`."""
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
        title = (
            f"{printable(self.name)}: {self.status}, up {span(self.uptime_secs)}, {workers}, {self.pending:,} pending"
        )
        rows = [[id_, *info._cells()] for id_, info in self.components.items()]
        return "\n".join([title, *table(("component", *COLUMNS), rows, texts=2)])


class Tally:
    """Sums of the counts of a topology's tasks, by component."""

    def __init__(self, component_ids: Iterable[str]) -> None:
        self._stats = {id_: TaskStats() for id_ in component_ids}
        self._errors: dict[str, list[ErrorInfo]] = {id_: [] for id_ in self._stats}

    def add(self, component_id: str, stats: TaskStats, errors: Iterable[ErrorInfo]) -> None:
        """Add the counts of a task."""
        self._stats[component_id].add(stats)
        kept = self._errors[component_id]
        kept.extend(errors)
        kept.sort(key=lambda error: error.time)
        del kept[:-ERRORS_KEPT]

    def add_ended(self, component_id: str, stats: TaskStats, errors: Iterable[ErrorInfo]) -> None:
        """Add the counts of a task that has ended; its pending count is dropped."""
        self.add(component_id, replace(stats, pending=0), errors)

    def add_all(self, other: Tally) -> None:
        """Add the counts of another tally."""
        for id_, stats in other._stats.items():
            self.add(id_, stats, other._errors[id_])

    @property
    def pending(self) -> int:
        return sum(stats.pending for stats in self._stats.values())

    def components(self, topology: Topology, tasks: Mapping[str, list[int]]) -> dict[str, ComponentInfo]:
        """{component: its info} of `topology`; `tasks` are the task ids of each component."""
        return {
            id_: ComponentInfo.of(spec, len(tasks[id_]), self._stats[id_], self._errors[id_])
            for id_, spec in topology.components.items()
        }
