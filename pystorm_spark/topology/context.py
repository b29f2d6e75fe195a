"""TopologyContext: what a task can ask about itself and its topology."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Protocol

from pystorm_spark.errors import StormError, UnknownIdError, did_you_mean
from pystorm_spark.metrics.types import CountMetric, GaugeMetric, HistogramMetric, MeterMetric, Metric, TimerMetric
from pystorm_spark.naming import java_names
from pystorm_spark.topology.fields import DEFAULT_STREAM, Fields
from pystorm_spark.topology.graph import ComponentSpec, Topology
from pystorm_spark.topology.grouping import (
    CustomGrouping,
    FieldsGrouping,
    GlobalGrouping,
    Grouping,
    PartialKeyGrouping,
)
from pystorm_spark.topology.hooks import TaskHook
from pystorm_spark.topology.timers import TimerHandle, check_call
from pystorm_spark.topology.tuple import SYSTEM_COMPONENT, SYSTEM_TASK, GlobalStreamId


class TaskServices(Protocol):
    """The services that a task provides to its context."""

    def register_metric(self, name: str, metric: Any, bucket_secs: float) -> Any: ...
    def registered_metric(self, name: str) -> Any: ...
    def add_hook(self, hook: TaskHook) -> None: ...
    def hooks(self) -> list[TaskHook]: ...
    def monotonic(self) -> float: ...
    def time(self) -> float: ...
    def task_index(self, values: list[Any], tasks: int) -> int: ...
    def call_at(self, when: float, function: Callable[[], object], period: float | None) -> TimerHandle: ...
    def shared_executor(self) -> Executor: ...


@java_names(
    getters=[
        "component_id",
        "component_output_fields",
        "component_streams",
        "component_tasks",
        "sources",
        "targets",
        "this_output_fields",
    ],
    getRegisteredMetricByName="registered_metric",
    toJSONString="to_json_string",
)
class TopologyContext:
    """The view that one task has of its topology, without system components."""

    def __init__(
        self,
        topology: Topology,
        conf: Mapping[str, Any],
        storm_id: str,
        task_id: int,
        tasks: Mapping[str, list[int]],
        worker: tuple[int, list[int]],
        services: TaskServices,
    ) -> None:
        self._topology = topology
        self._conf = conf
        self._storm_id = storm_id
        self._task_id = task_id
        self._tasks = tasks
        self._worker, self._worker_tasks = worker
        self._services = services
        self._component_of = {task: component for component, ids in tasks.items() for task in ids}
        self._data: dict[str, Any] = {}
        self._executor_data: dict[str, Any] = {}

    @property
    def conf(self) -> Mapping[str, Any]:
        """The configuration of the topology, overridden by the component's own."""
        return self._conf

    @property
    def storm_id(self) -> str:
        """The id of this run of the topology: name, number and start time."""
        return self._storm_id

    @property
    def raw_topology(self) -> Topology:
        return self._topology

    @property
    def this_task_id(self) -> int:
        return self._task_id

    @property
    def this_task_index(self) -> int:
        """The position among the tasks of this component, from 0."""
        return self.component_tasks(self.this_component_id).index(self._task_id)

    @property
    def this_component_id(self) -> str:
        return self._component_of[self._task_id]

    @property
    def this_streams(self) -> set[str]:
        return self.component_streams(self.this_component_id)

    @property
    def this_sources(self) -> dict[GlobalStreamId, Grouping]:
        """{stream that this component subscribes to: by which grouping}."""
        return self.sources(self.this_component_id)

    @property
    def this_targets(self) -> dict[GlobalStreamId, dict[str, Grouping]]:
        """{stream of this component: {subscriber: by which grouping}}."""
        return self.targets(self.this_component_id)

    @property
    def this_input_fields(self) -> dict[str, dict[str, list[str]]]:
        """{source component: {stream: field names}} of what this component subscribes to."""
        found: dict[str, dict[str, list[str]]] = {}
        for component, stream in self.this_sources:
            found.setdefault(component, {})[stream] = self.component_output_fields(component, stream).to_list()
        return found

    @property
    def this_output_fields_for_streams(self) -> dict[str, list[str]]:
        return {stream: self.this_output_fields(stream).to_list() for stream in self.this_streams}

    @property
    def this_worker_tasks(self) -> list[int]:
        """The task ids in this process, ascending."""
        return list(self._worker_tasks)

    @property
    def this_worker_port(self) -> int:
        """The number of this slot; Storm's port has no other meaning here."""
        return self._worker

    @property
    def component_ids(self) -> list[str]:
        return sorted(self._topology.components)

    @property
    def task_to_component(self) -> dict[int, str]:
        return dict(self._component_of)

    @property
    def hooks(self) -> list[TaskHook]:
        return self._services.hooks()

    def this_output_fields(self, stream_id: str = DEFAULT_STREAM) -> Fields:
        return self.component_output_fields(self.this_component_id, stream_id)

    def component_tasks(self, component_id: str) -> list[int]:
        """The task ids of a component, ascending; empty for an unknown component."""
        return list(self._tasks.get(component_id, ()))

    def task_for(self, component_id: str, values: Sequence[Any]) -> int:
        """The task of a component that fields grouping by all of `values`, in this order, chooses."""
        self._spec(component_id)
        tasks = self._tasks[component_id]
        if not isinstance(values, (list, tuple)):
            raise StormError(f"task_for takes a list of values, got {values!r}")
        try:
            return tasks[self._services.task_index(list(values), len(tasks))]
        except TypeError as exc:
            raise StormError(f"task_for cannot group by {values!r}: {exc}") from exc

    def component_id(self, task_id: int) -> str:
        """The component of a task. An unknown id raises `UnknownIdError`."""
        if task_id == SYSTEM_TASK:
            return SYSTEM_COMPONENT
        if task_id not in self._component_of:
            known = reprlib.repr(sorted(self._component_of))
            raise UnknownIdError(f"task {task_id!r} does not exist; the tasks are {known}")
        return self._component_of[task_id]

    def component_streams(self, component_id: str) -> set[str]:
        """The streams that a component declares. An unknown component raises `UnknownIdError`, here and below."""
        return set(self._spec(component_id).outputs)

    def component_output_fields(self, component_id: str | GlobalStreamId, stream_id: str = DEFAULT_STREAM) -> Fields:
        """The fields of a stream, given by its two ids or by a `GlobalStreamId`. It raises `UnknownIdError`."""
        if isinstance(component_id, GlobalStreamId):
            component_id, stream_id = component_id
        outputs = self._spec(component_id).outputs
        if stream_id not in outputs:
            raise UnknownIdError(
                f"component {component_id!r} does not declare stream {stream_id!r}; {did_you_mean(stream_id, outputs)}"
            )
        return outputs[stream_id].fields

    def sources(self, component_id: str) -> dict[GlobalStreamId, Grouping]:
        return dict(self._spec(component_id).inputs)

    def targets(self, component_id: str) -> dict[GlobalStreamId, dict[str, Grouping]]:
        found: dict[GlobalStreamId, dict[str, Grouping]] = {}
        self._spec(component_id)
        for source, spec, grouping in self._topology.subscriptions():
            if source.component_id == component_id:
                found.setdefault(source, {})[spec.id] = grouping
        return found

    def _spec(self, component_id: str) -> ComponentSpec:
        components = self._topology.components
        if component_id not in components:
            raise UnknownIdError(f"component {component_id!r} does not exist; {did_you_mean(component_id, components)}")
        return components[component_id]

    def max_topology_message_timeout(self) -> float:
        timeout: float = self._conf["topology.message.timeout.secs"]
        return timeout

    # Time.

    def monotonic(self) -> float:
        """Seconds by the cluster's clock, which only grow; in simulated time those that `advance_time` has added."""
        return self._services.monotonic()

    def time(self) -> float:
        """Seconds since 1970 by the cluster's clock, simulated or not; nothing should be measured on it."""
        return self._services.time()

    def call_later(self, secs: float, function: Callable[[], object]) -> TimerHandle:
        """Have `function()` called in `secs`, between two calls of `execute` or `next_tuple`.

        What it raises is reported as an error of the component. A spout's timers rest while the topology is
        deactivated; one that is due meanwhile fires at the activation. All end with the task.
        """
        check_call("call_later", secs, function)
        return self._services.call_at(self.monotonic() + secs, function, None)

    def call_at(self, when: float, function: Callable[[], object]) -> TimerHandle:
        """The same when `monotonic()` comes to `when`; at once if it has."""
        check_call("call_at", when, function)
        return self._services.call_at(when, function, None)

    def call_every(self, secs: float, function: Callable[[], object]) -> TimerHandle:
        """The same every `secs` from now on. A task that was held up does not make up for the calls that it missed."""
        check_call("call_every", secs, function, is_period=True)
        return self._services.call_at(self.monotonic() + secs, function, secs)

    def set_task_data(self, name: str, value: Any) -> None:
        """Keep a value for this task, for example to share it with hooks."""
        self._data[name] = value

    def get_task_data(self, name: str) -> Any:
        return self._data.get(name)

    def set_executor_data(self, name: str, value: Any) -> None:
        """Like `set_task_data`, with separate names. Here every task is an executor of its own."""
        self._executor_data[name] = value

    def get_executor_data(self, name: str) -> Any:
        return self._executor_data.get(name)

    @property
    def shared_executor(self) -> Executor:
        """A pool of `topology.worker.shared.thread.pool.size` threads that all tasks of this process share."""
        return self._services.shared_executor()

    def add_task_hook(self, hook: TaskHook) -> None:
        """Call `hook` from now on when this task emits, executes, acks or fails. Calls its `prepare` first."""
        hook.prepare(self._conf, self)
        self._services.add_hook(hook)

    def register_metric(self, name: str, metric: Any, bucket_secs: float | None = None) -> Any:
        """Read `metric` at the end of every time bucket and pass it to the metrics consumers; return the metric.

        It may be called in `open` and `prepare` only, and once for each name in a task.
        """
        secs = self._conf["topology.builtin.metrics.bucket.size.secs"] if bucket_secs is None else bucket_secs
        return self._services.register_metric(name, metric, secs)

    def registered_metric(self, name: str) -> Any:
        """The metric registered under `name`, or None."""
        return self._services.registered_metric(name)

    def register_counter(self, name: str) -> CountMetric:
        counter: CountMetric = self.register_metric(name, CountMetric())
        return counter

    def register_meter(self, name: str) -> MeterMetric:
        meter: MeterMetric = self.register_metric(name, MeterMetric())
        return meter

    def register_gauge(self, name: str, read: Callable[[], Any]) -> Metric:
        gauge: Metric = self.register_metric(name, GaugeMetric(read))
        return gauge

    def register_histogram(self, name: str) -> HistogramMetric:
        histogram: HistogramMetric = self.register_metric(name, HistogramMetric())
        return histogram

    def register_timer(self, name: str) -> TimerMetric:
        timer: TimerMetric = self.register_metric(name, TimerMetric(self._services.monotonic))
        return timer

    def to_json_string(self) -> str:
        """The context as Storm's multilang protocol sends it to a child process."""
        me = self.this_component_id
        return json.dumps(
            {
                "task->component": {str(task): component for task, component in self._component_of.items()},
                "taskid": self._task_id,
                "componentid": me,
                "streams": sorted(self.this_streams),
                "stream->outputfields": self.this_output_fields_for_streams,
                "stream->target->grouping": {
                    source.stream_id: {target: _as_json(grouping) for target, grouping in by_target.items()}
                    for source, by_target in self.this_targets.items()
                },
                "source->stream->grouping": self._source_groupings(),
                "source->stream->fields": self.this_input_fields,
            }
        )

    def _source_groupings(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for (component, stream), grouping in self.this_sources.items():
            found.setdefault(component, {})[stream] = _as_json(grouping)
        return found


def _as_json(grouping: Grouping) -> dict[str, Any]:
    """A grouping as Storm writes it: global as fields without a field, and partial key as a custom grouping."""
    if isinstance(grouping, (FieldsGrouping, GlobalGrouping)):
        return {"type": "FIELDS", "fields": list(getattr(grouping, "fields", ()))}
    if isinstance(grouping, (PartialKeyGrouping, CustomGrouping)):
        return {"type": "CUSTOM_SERIALIZED"}
    return {"type": str(grouping).upper().replace(" ", "_")}
