"""Emissions: what the components of one run have emitted, and which rows of its spouts have been acked or failed.

Everything is seen by a hook in every task, so the topology keeps its tasks and groupings, and emits to chosen tasks are
seen like all others. The hook finds its `Emissions` by an address in the configuration; here an object in this process.
An engine with tasks in other processes needs an address that they can reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pystorm_spark.testing.shared import Shared, shared_at
from pystorm_spark.topology.config import class_name, resolve
from pystorm_spark.topology.context import TopologyContext
from pystorm_spark.topology.graph import Topology
from pystorm_spark.topology.hooks import EmitInfo, SpoutAckInfo, SpoutFailInfo, TaskHook

HOOKS = "topology.auto.task.hooks"
ADDRESS = "pystorm.testing.emissions"


class Emissions(Shared):
    """What was emitted on every declared stream of a topology, and the ids of the rows that came back."""

    owner = "complete_topology"

    def __init__(self, topology: Topology) -> None:
        super().__init__()
        components = topology.components.items()
        self.rows: dict[str, dict[str, list[list[Any]]]] = {
            id_: {stream: [] for stream in spec.outputs} for id_, spec in components
        }
        self.settled: dict[str, set[Any]] = {id_: set() for id_ in topology.components}  # message ids, acked or failed

    def watching(self, conf: Mapping[str, Any] | None) -> dict[str, Any]:
        """`conf`, with a hook in every task that tells what it does."""
        hooks: Any = resolve(conf)[HOOKS] or ()
        return {**(conf or {}), HOOKS: [*hooks, class_name(EmissionsHook)], ADDRESS: self.address}


class EmissionsHook(TaskHook):
    """Tells an `Emissions` what one task does."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        emissions: Emissions = shared_at(conf[ADDRESS], Emissions.owner)
        # The system's own components are not part of the result.
        self._rows = emissions.rows.get(context.this_component_id, {})
        self._settled = emissions.settled.get(context.this_component_id, set())

    def emit(self, info: EmitInfo) -> None:
        self._rows[info.stream].append(list(info.values))

    def spout_ack(self, info: SpoutAckInfo) -> None:
        self._settled.add(info.message_id)

    def spout_fail(self, info: SpoutFailInfo) -> None:
        self._settled.add(info.message_id)
