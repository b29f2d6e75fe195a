"""Metrics consumers: they get the metrics of all tasks, once per time bucket."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pystorm_spark.naming import java_names

log = logging.getLogger(__name__)


@java_names()
@dataclass(frozen=True)
class TaskInfo:
    """The task that data points come from."""

    component_id: str
    task_id: int
    slot: int
    timestamp: float
    update_interval_secs: float


@java_names()
@dataclass(frozen=True)
class DataPoint:
    """One metric's value of one time bucket."""

    name: str
    value: Any


@java_names()
class MetricsConsumer:
    """Subclass this and register it with `Config.register_metrics_consumer`; it runs as a bolt of the topology."""

    def prepare(
        self, conf: Mapping[str, Any], argument: Any, context: Any, report_error: Callable[[BaseException], None]
    ) -> None:
        """Called once, with the argument given at registration."""

    def handle_data_points(self, task_info: TaskInfo, data_points: Sequence[DataPoint]) -> None:
        """Called once per task and time bucket."""

    def cleanup(self) -> None:
        """Called when the topology ends; not guaranteed when its process dies."""


class LoggingMetricsConsumer(MetricsConsumer):
    """Writes every data point to the log."""

    def handle_data_points(self, task_info: TaskInfo, data_points: Sequence[DataPoint]) -> None:
        for point in data_points:
            log.info("%s:%d %s %s", task_info.component_id, task_info.task_id, point.name, point.value)
