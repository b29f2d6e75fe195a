"""Internal. Wiring: makes the tasks of one slot, and connects them to each other and to tasks of other slots."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import cloudpickle

from pystorm_spark.errors import StormError, in_words
from pystorm_spark.runtime.bolt_task import BoltTask
from pystorm_spark.runtime.components import load_component
from pystorm_spark.runtime.durable.committed_ids import CommittedIds
from pystorm_spark.runtime.durable.committed_rows import CommittedRows
from pystorm_spark.runtime.durable.uncommitted import UncommittedOutcomes
from pystorm_spark.runtime.frames import TupleBuffer
from pystorm_spark.runtime.plan import Plan
from pystorm_spark.runtime.router import Port, Route, Subscription
from pystorm_spark.runtime.slot_context import SlotContext
from pystorm_spark.runtime.spout_task import SpoutTask
from pystorm_spark.runtime.task import Task
from pystorm_spark.topology.component import Spout
from pystorm_spark.topology.context import TopologyContext
from pystorm_spark.topology.durable import BatchSpout
from pystorm_spark.topology.grouping import CustomGrouping
from pystorm_spark.topology.tuple import GlobalStreamId, Origin, Tuple


class Wiring:
    """Makes the tasks of one slot, and the routes and ports that connect them."""

    def __init__(self, plan: Plan, number: int, slot_context: SlotContext, rng: random.Random) -> None:
        self._plan = plan
        self._number = number
        self._slot_context = slot_context
        self._rng = rng
        self._packs_all: bool = plan.conf["topology.testing.always.try.serialize"]
        self._tasks: dict[int, Task] = {}
        self._local_ports: dict[int, Port] = {}  # by task
        self._keys: dict[tuple[GlobalStreamId, str], dict[Any, int]] = {}  # by source and subscriber, see Subscription
        self._committed_ids: dict[str, CommittedIds | CommittedRows] = {}  # by spout

    def make_tasks(self, components: Mapping[str, bytes]) -> dict[int, Task]:
        """Make the tasks of the slot, each with its own instance; {task id: task}."""
        for task_id in self._plan.tasks_in(self._number):
            self._tasks[task_id] = self._make_task(task_id, components)
        return self._tasks

    def connect(self, task: Task) -> None:
        """Give a task its context, and the routes of its streams."""
        self._slot_context.running = task  # groupings of the user's own are prepared for it
        task.context = self._context(task)
        task.connect(self._routes(task))

    def _make_task(self, task_id: int, components: Mapping[str, bytes]) -> Task:
        id_ = self._plan.component_of[task_id]
        component = load_component(id_, components[id_])
        conf = self._plan.confs[id_]
        if isinstance(component, Spout):
            return SpoutTask(
                task_id, id_, conf, self._slot_context, component, self._rng, self._uncommitted_outcomes(id_)
            )
        return BoltTask(task_id, id_, conf, self._slot_context, component)

    def _uncommitted_outcomes(self, spout_id: str) -> UncommittedOutcomes | None:
        if spout_id not in self._plan.committed_spouts:
            return None
        conf = self._plan.conf
        is_exactly_once = conf["topology.state.guarantee"] == "exactly-once"
        is_fed = isinstance(self._plan.specs[spout_id].component, BatchSpout)
        made = CommittedRows() if is_fed else CommittedIds(spout_id, self._slot_context.codec)
        ids = self._committed_ids.setdefault(spout_id, made)
        return UncommittedOutcomes(ids, is_exactly_once, conf["topology.max.replays"])

    def _context(self, task: Task) -> TopologyContext:
        plan = self._plan
        worker = (self._number, plan.tasks_in(self._number))
        return TopologyContext(
            plan.topology, task.conf, plan.storm_id, task.task_id, self._visible_tasks(task), worker, task
        )

    def _visible_tasks(self, task: Task) -> dict[str, list[int]]:
        tasks = self._plan.user_tasks
        system = task.component_id not in tasks
        return {**tasks, task.component_id: self._plan.tasks[task.component_id]} if system else tasks

    def _routes(self, task: Task) -> dict[str, Route]:
        java = self._plan.conf["topology.fields.grouping.hash"] == "java"
        routes = {}
        for stream_id, stream in self._plan.outputs_of(task.component_id).items():
            origin = Origin(task.component_id, task.task_id, stream_id, stream.fields)
            routes[stream_id] = Route(origin, self._subscriptions(task, origin), self._rng, java)
        return routes

    def _subscriptions(self, task: Task, origin: Origin) -> list[Subscription]:
        source = GlobalStreamId(origin.component, origin.stream)
        found = []
        for spec, grouping in self._plan.subscribers.get(source, ()):
            targets = self._plan.tasks[spec.id]
            ports = [self._port(target, origin) for target in targets]
            chooser = None
            if isinstance(grouping, CustomGrouping):
                chooser = _prepared(grouping.chooser, spec.id, task.context, source, targets)
            keys = self._keys.setdefault((source, spec.id), {})
            found.append(Subscription(spec.id, grouping, ports, keys, chooser))
        return found

    def _port(self, target: int, origin: Origin) -> Port:
        task = self._tasks.get(target)
        if task is None:
            return Port(target, buffer=TupleBuffer(target, origin.task, origin.stream))
        assert isinstance(task, BoltTask)
        port = self._local_ports.get(target)
        if port is None:  # shared by all sources: one for each pair of tasks would not fit into the cache
            append = task.inbox.append
            put = self._serializing(append, task) if self._packs_all else append
            port = Port(target, put, is_plain=not self._packs_all)
            self._local_ports[target] = port
        return port

    def _serializing(self, append: Callable[[Tuple], None], task: Task) -> Callable[[Tuple], None]:
        def append_copy(tup: Tuple) -> None:
            (tup.values,) = self._slot_context.codec.unpack_rows(task.packed(tup._origin, tup.values), 1)
            append(tup)

        return append_copy


def _prepared(chooser: Any, bolt_id: str, context: TopologyContext, source: GlobalStreamId, targets: list[int]) -> Any:
    """A prepared copy of a custom grouping, for one task that emits on `source`."""
    try:
        copied = cloudpickle.loads(cloudpickle.dumps(chooser))
        copied.prepare(context, source, list(targets))
    except BaseException as exc:  # SystemExit and the like of user code are failures, never an end
        raise StormError(
            f"prepare of the custom grouping {type(chooser).__name__} of bolt {bolt_id!r} on stream "
            f"{source.stream_id!r} of {source.component_id!r} raised {in_words(exc)}"
        ) from exc
    return copied
