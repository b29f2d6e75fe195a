"""The counts that the engine keeps for each task, and the errors of its user code."""

from __future__ import annotations

from dataclasses import dataclass, fields

from pystorm_spark.naming import java_names

ERRORS_KEPT = 50  # of one component


@java_names()
@dataclass(frozen=True)
class ErrorInfo:
    """An error of user code. `input` is the tuple being executed, as text, or an empty string."""

    time: float
    task: int
    exception: str
    traceback: str
    input: str


@dataclass(slots=True)
class TaskStats:
    """Counts and summed latencies of one task, or of several added together; user streams only."""

    emitted: int = 0
    transferred: int = 0
    executed: int = 0
    acked: int = 0
    failed: int = 0
    complete_secs: float = 0.0
    execute_secs: float = 0.0
    process_secs: float = 0.0
    process_count: int = 0
    pending: int = 0

    def add(self, other: TaskStats) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


def mean_ms(total_secs: float, count: int) -> float:
    """The mean in milliseconds; 0 without any count."""
    return 1000.0 * total_secs / count if count else 0.0
