"""Topology: components, their streams and their subscriptions; frozen and valid."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pystorm_spark.naming import java_names
from pystorm_spark.topology.component import Bolt, Spout
from pystorm_spark.topology.fields import Stream
from pystorm_spark.topology.grouping import Grouping
from pystorm_spark.topology.hooks import WorkerHook
from pystorm_spark.topology.tuple import GlobalStreamId


@dataclass(frozen=True)
class ComponentSpec:
    """One component as it was declared."""

    id: str
    component: Spout | Bolt
    parallelism: int
    conf: Mapping[str, Any]
    outputs: Mapping[str, Stream]
    inputs: Mapping[GlobalStreamId, Grouping] = field(default_factory=dict)
    resources: Mapping[str, float] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return "spout" if isinstance(self.component, Spout) else "bolt"


@java_names()
@dataclass(frozen=True)
class Topology:
    """A checked topology: `TopologyBuilder.create_topology` makes it, and a cluster runs it."""

    components: Mapping[str, ComponentSpec]
    worker_hooks: tuple[WorkerHook, ...] = ()
    conf: Mapping[str, Any] = field(default_factory=dict)  # that it brings along

    @property
    def spouts(self) -> dict[str, ComponentSpec]:
        return {id_: spec for id_, spec in self.components.items() if spec.kind == "spout"}

    @property
    def bolts(self) -> dict[str, ComponentSpec]:
        return {id_: spec for id_, spec in self.components.items() if spec.kind == "bolt"}

    def subscriptions(self) -> Iterator[tuple[GlobalStreamId, ComponentSpec, Grouping]]:
        """Every (source stream, subscriber, grouping)."""
        for spec in self.components.values():
            for source, grouping in spec.inputs.items():
                yield source, spec, grouping

    def in_order(self, ids: Collection[str]) -> list[str]:
        """Those components, each behind the ones that it reads, directly or through others; in a cycle as they come."""
        found: dict[str, None] = {}
        entered: set[str] = set()
        left = [(id_, False) for id_ in reversed(list(self.components))]
        while left:
            id_, is_read = left.pop()
            if is_read:
                found[id_] = None
            elif id_ not in entered:
                entered.add(id_)
                left.append((id_, True))
                left += [(source.component_id, False) for source in self.components[id_].inputs]
        return [id_ for id_ in found if id_ in ids]

    def describe(self) -> str:
        """The topology as text: a line for each component, its outputs and its inputs below."""
        lines = []
        for spec in self.components.values():
            lines.append(f"{spec.kind} {spec.id} ({_class_name(spec.component)}) x{spec.parallelism}")
            for stream_id, stream in spec.outputs.items():
                direct = " direct" if stream.direct else ""
                lines.append(f"  emits {stream_id}: {', '.join(stream.fields)}{direct}")
            for source, grouping in spec.inputs.items():
                lines.append(f"  reads {source.component_id}/{source.stream_id} by {grouping}")
        return "\n".join(lines)

    def to_mermaid(self) -> str:
        """The topology as a Mermaid flow chart."""
        nodes = {id_: f"n{number}" for number, id_ in enumerate(self.components)}
        lines = ["flowchart LR"]
        for spec in self.components.values():
            left, right = ("([", "])") if spec.kind == "spout" else ("[", "]")
            lines.append(f'    {nodes[spec.id]}{left}"{_quoted(spec.id)} x{spec.parallelism}"{right}')
        for source, spec, grouping in self.subscriptions():
            stream = "" if source.stream_id == "default" else f"{source.stream_id}: "
            label = _quoted(f"{stream}{grouping}")
            lines.append(f'    {nodes[source.component_id]} -->|"{label}"| {nodes[spec.id]}')
        return "\n".join(lines)


def _class_name(component: Spout | Bolt) -> str:
    return type(getattr(component, "wrapped", component)).__name__


def _quoted(text: str) -> str:
    return text.replace('"', "#quot;")
