"""Internal. Metrics consumers as bolts: tasks emit data points on a system stream, consumers subscribe to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pystorm_spark.metrics.consumer import MetricsConsumer
from pystorm_spark.topology.collector import OutputCollector
from pystorm_spark.topology.component import Bolt
from pystorm_spark.topology.config import load_class
from pystorm_spark.topology.context import TopologyContext
from pystorm_spark.topology.fields import Fields
from pystorm_spark.topology.graph import ComponentSpec, Topology
from pystorm_spark.topology.grouping import ShuffleGrouping
from pystorm_spark.topology.tuple import GlobalStreamId, Tuple

METRICS_STREAM = "__metrics"
METRICS_FIELDS = Fields("task-info", "data-points")


class MetricsConsumerBolt(Bolt):
    """Runs one metrics consumer."""

    def __init__(self, class_name: str, argument: Any) -> None:
        self._class_name = class_name
        self._argument = argument

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self._consumer: MetricsConsumer = load_class(self._class_name)()
        self._consumer.prepare(conf, self._argument, context, collector.report_error)
        self._collector = collector

    def execute(self, tup: Tuple) -> None:
        self._consumer.handle_data_points(tup[0], tup[1])
        self._collector.ack(tup)

    def cleanup(self) -> None:
        self._consumer.cleanup()


def metrics_components(topology: Topology, conf: Mapping[str, Any]) -> dict[str, ComponentSpec]:
    """A system component for each registered consumer, named as Storm names them: `__metrics_<class>[#n]`."""
    found: dict[str, ComponentSpec] = {}
    inputs = {GlobalStreamId(id_, METRICS_STREAM): ShuffleGrouping() for id_ in topology.components}
    for entry in conf["topology.metrics.consumer.register"] or ():
        name = f"__metrics_{entry['class']}"
        number = sum(id_.split("#")[0] == name for id_ in found)
        id_ = f"{name}#{number + 1}" if number else name
        bolt = MetricsConsumerBolt(entry["class"], entry.get("argument"))
        found[id_] = ComponentSpec(id_, bolt, entry.get("parallelism.hint", 1), {}, {}, dict(inputs))
    return found
