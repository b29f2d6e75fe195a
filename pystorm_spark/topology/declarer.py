"""Declarers: what a component says of its output streams, and what the builder's fluent calls collect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pystorm_spark.errors import InvalidTopologyError
from pystorm_spark.naming import java_names
from pystorm_spark.topology.fields import DEFAULT_STREAM, Fields, FieldsLike, Stream, as_fields
from pystorm_spark.topology.grouping import (
    AllGrouping,
    CustomGrouping,
    DirectGrouping,
    FieldsGrouping,
    GlobalGrouping,
    Grouping,
    LocalOrShuffleGrouping,
    NoneGrouping,
    PartialKeyGrouping,
    ShuffleGrouping,
)
from pystorm_spark.topology.tuple import GlobalStreamId

D = TypeVar("D", bound="ComponentDeclarer")
B = TypeVar("B", bound="BoltDeclarer")


@java_names()
class OutputFieldsDeclarer:
    """Collects the output streams of one component."""

    def __init__(self) -> None:
        self.streams: dict[str, Stream] = {}

    def declare(self, *args: Any) -> None:
        """`declare(fields)` or `declare(direct, fields)`: the default stream."""
        self.declare_stream(DEFAULT_STREAM, *args)

    def declare_stream(self, stream_id: str, *args: Any) -> None:
        """`declare_stream(id, fields)` or `declare_stream(id, direct, fields)`."""
        if not isinstance(stream_id, str) or not stream_id:
            raise InvalidTopologyError(f"a stream id must be a non-empty string, got {stream_id!r}")
        given = args if len(args) == 2 else (False, *args)
        if len(given) != 2 or not isinstance(given[0], bool):
            raise InvalidTopologyError(
                f"stream {stream_id!r} is declared with ({', '.join(map(repr, args))}); it takes (fields) or "
                "(direct, fields), and several field names are a list or Fields(...)"
            )
        if stream_id in self.streams:
            raise InvalidTopologyError(f"fields for stream {stream_id!r} are already set to {self.streams[stream_id]}")
        direct, fields = given
        self.streams[stream_id] = Stream(fields, direct)


@java_names(
    getters=["component_configuration"],
    setCPULoad="set_cpu_load",
)
class ComponentDeclarer:
    """What `set_spout` and `set_bolt` return: configures one component, call after call."""

    def __init__(self) -> None:
        self.conf: dict[str, Any] = {}
        self.resources: dict[str, float] = {}
        self.problems: list[str] = []  # told by `create_topology`

    def add_configuration(self: D, key: str, value: Any) -> D:
        self.conf[key] = value
        return self

    def add_configurations(self: D, conf: Mapping[str, Any] | None) -> D:
        self.conf.update(conf or {})
        return self

    def set_num_tasks(self: D, count: int) -> D:
        """How many instances run, whatever the parallelism hint; fixed for the topology's life."""
        return self.add_configuration("topology.tasks", count)

    def set_max_task_parallelism(self: D, count: int) -> D:
        return self.add_configuration("topology.max.task.parallelism", count)

    def set_max_spout_pending(self: D, count: int) -> D:
        return self.add_configuration("topology.max.spout.pending", count)

    def set_debug(self: D, debug: bool) -> D:
        return self.add_configuration("topology.debug", debug)

    def set_cpu_load(self: D, percent: float) -> D:
        """A hint for Storm's resource-aware scheduler; kept, without effect on Spark."""
        return self.add_resource("cpu.pcore.percent", percent)

    def set_memory_load(self: D, on_heap: float, off_heap: float = 0.0) -> D:
        """A hint for Storm's resource-aware scheduler; kept, without effect on Spark."""
        self.add_resource("onheap.memory.mb", on_heap)
        return self.add_resource("offheap.memory.mb", off_heap)

    def add_resource(self: D, name: str, value: float) -> D:
        self.resources[name] = value
        return self

    def add_resources(self: D, resources: Mapping[str, float]) -> D:
        self.resources.update(resources)
        return self

    def component_configuration(self) -> dict[str, Any]:
        """What has been configured so far."""
        return dict(self.conf)


class SpoutDeclarer(ComponentDeclarer):
    """Configures one spout."""


@java_names()
class BoltDeclarer(ComponentDeclarer):
    """Configures one bolt and subscribes it to streams.

    Every grouping takes `(component_id, [fields or grouping], stream_id="default")`, or Java's order with the stream
    id in the middle. A second subscription to one stream replaces the first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.inputs: dict[GlobalStreamId, Grouping] = {}

    def grouping(self: B, stream: GlobalStreamId, grouping: Grouping) -> B:
        """Subscribe to `stream` with any grouping value."""
        parts = (stream,) if isinstance(stream, str) else stream
        try:
            self.inputs[GlobalStreamId(*parts)] = grouping
        except TypeError:
            self.problems.append(f"subscribes to {stream!r}; that takes the id of a component and the id of a stream")
        return self

    def shuffle_grouping(self: B, component_id: str, stream_id: str = DEFAULT_STREAM) -> B:
        """Spread tuples evenly over the tasks that are equally near."""
        return self.grouping(GlobalStreamId(component_id, stream_id), ShuffleGrouping())

    def local_or_shuffle_grouping(self: B, component_id: str, stream_id: str = DEFAULT_STREAM) -> B:
        """Spread tuples over the tasks in the sender's own process if there are any, else over all."""
        return self.grouping(GlobalStreamId(component_id, stream_id), LocalOrShuffleGrouping())

    def fields_grouping(self: B, component_id: str, fields: Any, stream_id: Any = DEFAULT_STREAM) -> B:
        """Send tuples with equal values in `fields` to the same task."""
        chosen, stream = _in_python_order(fields, stream_id)
        names = self._fields(component_id, chosen)
        return self.grouping(
            GlobalStreamId(component_id, stream), FieldsGrouping(names) if len(names) else GlobalGrouping()
        )

    def partial_key_grouping(self: B, component_id: str, fields: Any = (), stream_id: Any = DEFAULT_STREAM) -> B:
        """Send tuples with equal values in `fields` to one of two tasks, the one this sender has used less."""
        chosen, stream = _in_python_order(fields, stream_id)
        return self.grouping(
            GlobalStreamId(component_id, stream), PartialKeyGrouping(self._fields(component_id, chosen))
        )

    def all_grouping(self: B, component_id: str, stream_id: str = DEFAULT_STREAM) -> B:
        """Send a copy to every task."""
        return self.grouping(GlobalStreamId(component_id, stream_id), AllGrouping())

    def global_grouping(self: B, component_id: str, stream_id: str = DEFAULT_STREAM) -> B:
        """Send everything to the task with the lowest id."""
        return self.grouping(GlobalStreamId(component_id, stream_id), GlobalGrouping())

    def none_grouping(self: B, component_id: str, stream_id: str = DEFAULT_STREAM) -> B:
        """Send each tuple to a task drawn at random."""
        return self.grouping(GlobalStreamId(component_id, stream_id), NoneGrouping())

    def direct_grouping(self: B, component_id: str, stream_id: str = DEFAULT_STREAM) -> B:
        """Let the sender choose the task, by `emit_direct`."""
        return self.grouping(GlobalStreamId(component_id, stream_id), DirectGrouping())

    def custom_grouping(self: B, component_id: str, grouping: Any, stream_id: Any = DEFAULT_STREAM) -> B:
        """Let a `CustomStreamGrouping` choose the tasks."""
        chosen, stream = (stream_id, grouping) if isinstance(grouping, str) else (grouping, stream_id)
        return self.grouping(GlobalStreamId(component_id, stream), CustomGrouping(chosen))

    def _fields(self, component_id: str, names: FieldsLike) -> Fields:
        try:
            return as_fields(names)
        except InvalidTopologyError as exc:
            self.problems.append(f"groups {component_id!r} on fields, but {exc}")
            return Fields()


def _in_python_order(fields: Any, stream_id: Any) -> tuple[FieldsLike, str]:
    """Tell `(fields, stream_id)` from Java's `(stream_id, fields)`."""
    java_order = isinstance(fields, str) and (isinstance(stream_id, Fields) or not isinstance(stream_id, str))
    return (stream_id, fields) if java_order else (fields, stream_id)
