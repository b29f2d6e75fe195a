"""Hooks: the user's own code called when tasks emit, ack and fail, and when a slot starts and ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pystorm_spark.naming import java_names
from pystorm_spark.topology.tuple import Tuple

if TYPE_CHECKING:
    from pystorm_spark.topology.context import TopologyContext


@java_names()
@dataclass(frozen=True)
class EmitInfo:
    """One emit on a user stream."""

    values: list[Any]
    stream: str
    task_id: int
    out_tasks: list[int]


@java_names()
@dataclass(frozen=True)
class SpoutAckInfo:
    """A tree that completed; the latency is that of the whole tree."""

    spout_task_id: int
    message_id: Any
    complete_latency_ms: float


@java_names()
@dataclass(frozen=True)
class SpoutFailInfo:
    """A tree that failed or timed out."""

    spout_task_id: int
    message_id: Any
    fail_latency_ms: float


@java_names()
@dataclass(frozen=True)
class BoltExecuteInfo:
    """A tuple that a bolt executed."""

    tuple: Tuple
    executing_task_id: int
    execute_latency_ms: float


@java_names()
@dataclass(frozen=True)
class BoltAckInfo:
    """A tuple that a bolt acked."""

    tuple: Tuple
    acking_task_id: int


@java_names()
@dataclass(frozen=True)
class BoltFailInfo:
    """A tuple that a bolt failed."""

    tuple: Tuple
    failing_task_id: int


@java_names()
class TaskHook:
    """Subclass this and add it with `context.add_task_hook`, or name it in `topology.auto.task.hooks`.

    The engine calls it for user streams only, in the thread that runs the task; for emits and acks of user threads, in
    the thread that turns the slot. An exception is reported and has no other effect.
    """

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        """Called when the hook is added."""

    def cleanup(self) -> None:
        """Called before the task closes."""

    def emit(self, info: EmitInfo) -> None: ...
    def spout_ack(self, info: SpoutAckInfo) -> None: ...
    def spout_fail(self, info: SpoutFailInfo) -> None: ...
    def bolt_execute(self, info: BoltExecuteInfo) -> None: ...
    def bolt_ack(self, info: BoltAckInfo) -> None: ...
    def bolt_fail(self, info: BoltFailInfo) -> None: ...


class WorkerHook:
    """Subclass this and give it to `builder.add_worker_hook`. Each slot calls `start` and `shutdown` once."""

    def start(self, conf: Mapping[str, Any]) -> None:
        """Called before the first component of the slot is opened. An exception keeps the slot from starting."""

    def shutdown(self) -> None:
        """Called after the last component of the slot is closed. An exception is logged."""
