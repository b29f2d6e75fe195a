"""Internal. Plan: the tasks of a topology, their ids, slots and subscriptions. `make_plan` is a pure function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pystorm_spark.errors import InvalidConfigError
from pystorm_spark.runtime.metrics_bolt import METRICS_FIELDS, METRICS_STREAM, metrics_components
from pystorm_spark.topology.config import component_conf
from pystorm_spark.topology.durable import DurableBolt, DurableSpout, TaskKey, committed_of
from pystorm_spark.topology.fields import Stream
from pystorm_spark.topology.graph import ComponentSpec, Topology
from pystorm_spark.topology.grouping import FieldsGrouping, Grouping
from pystorm_spark.topology.tuple import GlobalStreamId

ACKER = "__acker"
GUARANTEE_KEY = "topology.state.guarantee"
NO_GUARANTEE = "none"  # of a spout whose trees take no part in commits


@dataclass(frozen=True)
class Plan:
    """The tasks of a topology, the slot of each task, and the subscribers of each stream."""

    storm_id: str
    topology: Topology
    conf: Mapping[str, Any]
    slots: int
    specs: Mapping[str, ComponentSpec]  # the user's components and the system's
    tasks: Mapping[str, list[int]]  # {component: task ids}; ackers have ids, but the spout tasks do their work
    confs: Mapping[str, Mapping[str, Any]]  # {component: its configuration}

    @cached_property
    def component_of(self) -> dict[int, str]:
        return {task: component for component, ids in self.tasks.items() for task in ids}

    @cached_property
    def slot_of(self) -> dict[int, int]:
        """Tasks of a component are dealt round-robin over the slots."""
        return {task: index % self.slots for id_ in self.specs for index, task in enumerate(self.tasks[id_])}

    @cached_property
    def user_tasks(self) -> dict[str, list[int]]:
        return {id_: self.tasks[id_] for id_ in self.topology.components}

    @cached_property
    def subscribers(self) -> dict[GlobalStreamId, list[tuple[ComponentSpec, Grouping]]]:
        """{stream: [(subscriber, grouping)]}."""
        found: dict[GlobalStreamId, list[tuple[ComponentSpec, Grouping]]] = {}
        for spec in self.specs.values():
            for source, grouping in spec.inputs.items():
                found.setdefault(source, []).append((spec, grouping))
        return found

    @cached_property
    def committed_bolts(self) -> list[str]:
        """The bolts that take part in commits."""
        return [id_ for id_, spec in self.specs.items() if committed_of(spec.component) is not None]

    @cached_property
    def durable_bolts(self) -> list[str]:
        """The committed bolts that have state."""
        specs = self.specs
        return [id_ for id_ in self.committed_bolts if isinstance(committed_of(specs[id_].component), DurableBolt)]

    @cached_property
    def durable_spouts(self) -> list[str]:
        """The spouts whose positions are part of commits."""
        return [id_ for id_, spec in self.specs.items() if isinstance(spec.component, DurableSpout)]

    @property
    def has_commits(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self.committed_bolts or self.durable_spouts)

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """{component with state: what a checkpoint keeps of it for its `validate`}, of those that have any."""
        found = {}
        for id_ in self.durable_bolts:
            bolt = committed_of(self.specs[id_].component)
            assert isinstance(bolt, DurableBolt)
            if bolt.checkpoint_metadata is not None:
                found[id_] = bolt.checkpoint_metadata
        return found

    @cached_property
    def keyed_bolts(self) -> dict[str, int]:
        """{durable bolt: number of fields}, if all its inputs are grouped on the same number of fields."""
        found = {}
        for id_ in self.durable_bolts:
            groupings = self.specs[id_].inputs.values()
            counts = {len(each.fields) if isinstance(each, FieldsGrouping) else 0 for each in groupings}
            if len(counts) == 1 and (count := counts.pop()):
                found[id_] = count
        return found

    @cached_property
    def committed_spouts(self) -> set[str]:
        """The spouts whose tuples may reach a committed bolt: their acks wait for commits."""
        reached, found = set(self.committed_bolts), list(self.committed_bolts)
        while found:
            sources = {source.component_id for source in self.specs[found.pop()].inputs} - reached
            reached |= sources
            found += sources
        taking_part = {id_ for id_ in reached if self.confs[id_][GUARANTEE_KEY] != NO_GUARANTEE}
        return {id_ for id_ in taking_part if self.specs[id_].kind == "spout"}.union(self.durable_spouts)

    @cached_property
    def reached(self) -> dict[str, frozenset[str]]:
        """{spout: the components that its tuples may reach}. It includes the spout itself, which gets the acks.

        Metrics consumers are left out: timers emit their tuples, not spouts.
        """
        listeners: dict[str, set[str]] = {id_: set() for id_ in self.specs}
        for source, subscribers in self.subscribers.items():
            if source.stream_id != METRICS_STREAM:
                listeners[source.component_id].update(spec.id for spec, _ in subscribers)
        found = {}
        for id_, spec in self.specs.items():
            if spec.kind == "spout":
                reached, new = {id_}, {id_}
                while new:
                    new = set().union(*(listeners[each] for each in new)) - reached
                    reached |= new
                found[id_] = frozenset(reached)
        return found

    def durable_tasks(self, slot: int) -> list[TaskKey]:
        """The tasks of a slot that have state."""
        return [
            TaskKey(id_, index)
            for id_ in (*self.durable_bolts, *self.durable_spouts)
            for index, task in enumerate(self.tasks[id_])
            if self.slot_of[task] == slot
        ]

    def tasks_in(self, slot: int) -> list[int]:
        """The task ids of a slot, ascending."""
        return sorted(task for task, home in self.slot_of.items() if home == slot)

    def outputs_of(self, component_id: str) -> dict[str, Stream]:
        """The streams of a component, including system streams."""
        outputs = dict(self.specs[component_id].outputs)
        if GlobalStreamId(component_id, METRICS_STREAM) in self.subscribers:
            outputs[METRICS_STREAM] = Stream(METRICS_FIELDS)
        return outputs


def make_plan(topology: Topology, conf: Mapping[str, Any], storm_id: str, slots: int) -> Plan:
    """Give every task its id: from 1 over the component ids in byte order, system components included, as in Storm."""
    consumers = metrics_components(topology, conf)
    specs = {**topology.components, **consumers}
    counts = {id_: _task_count(spec, conf) for id_, spec in topology.components.items()}
    counts.update((id_, spec.parallelism) for id_, spec in consumers.items())
    ackers = conf["topology.acker.executors"]
    counts[ACKER] = (conf["topology.workers"] or slots) if ackers is None else ackers
    tasks: dict[str, list[int]] = {}
    first = 1
    for id_ in sorted(counts, key=lambda id_: id_.encode("utf-8", "surrogatepass")):
        tasks[id_] = list(range(first, first + counts[id_]))
        first += counts[id_]
    confs = {id_: _component_conf(conf, spec) for id_, spec in specs.items()}
    return Plan(storm_id, topology, conf, slots, specs, tasks, confs)


def _component_conf(conf: Mapping[str, Any], spec: ComponentSpec) -> Mapping[str, Any]:
    """The configuration of a component. A spout, and nothing else, may say that it takes no part in commits."""
    if spec.kind != "spout" or spec.conf.get(GUARANTEE_KEY) != NO_GUARANTEE:
        return component_conf(conf, spec.conf, spec.id)
    if isinstance(spec.component, DurableSpout):
        raise InvalidConfigError(
            f"{spec.id!r}: {GUARANTEE_KEY} is {NO_GUARANTEE!r}, but the position of a DurableSpout is part of commits"
        )
    own = {key: value for key, value in spec.conf.items() if key != GUARANTEE_KEY}
    return {**component_conf(conf, own, spec.id), GUARANTEE_KEY: NO_GUARANTEE}


def _task_count(spec: ComponentSpec, conf: Mapping[str, Any]) -> int:
    both = {**conf, **spec.conf}
    wanted: int = both["topology.tasks"] or spec.parallelism
    limit: int | None = both["topology.max.task.parallelism"]
    return wanted if limit is None else min(wanted, limit)
