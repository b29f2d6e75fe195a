"""DelegatingCollector: the base of a bolt's collector that is made around another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystorm_spark.naming import java_names
from pystorm_spark.topology.collector import Anchors, OutputCollector, bolt_emit


@java_names()
class DelegatingCollector(OutputCollector):
    """A collector around another. Every form of emit arrives at `emit_to`, every ack at `ack`, every fail at `fail`.

    >>> class Shouting(DelegatingCollector):
    ...     def emit_to(self, stream, anchors, values, task):
    ...         return super().emit_to(stream, anchors, [value.upper() for value in values], task)
    """

    def emit_to(self, stream: str, anchors: Anchors, values: Any, task: int | None) -> list[int]:
        """Emit `values`, to one `task` where it is an `emit_direct`; the tasks that get a copy."""
        if task is None:
            return self._delegate.emit(stream, anchors, values)
        self._delegate.emit_direct(task, stream, anchors, values)
        return [task]

    def emit(self, *args: Any, **kwargs: Any) -> list[int]:
        return self.emit_to(*bolt_emit("emit", args, **kwargs), None)

    def emit_direct(self, task_id: int, *args: Any, **kwargs: Any) -> None:
        self.emit_to(*bolt_emit("emit_direct", args, **kwargs), task_id)

    def run(self, function: Callable[[Any], object]) -> None:
        self._delegate.run(lambda _: function(self))
