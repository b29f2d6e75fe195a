"""MetricRegistry: the metrics of one task, each with its time bucket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pystorm_spark.errors import StormError
from pystorm_spark.metrics.consumer import DataPoint
from pystorm_spark.metrics.types import CombinedMetric, Combiner, Metric, ReducedMetric, Reducer


@dataclass(slots=True)
class Registration:
    """One metric with the length of its time bucket."""

    metric: Metric
    bucket_secs: float
    due: float

    def close_bucket(self, now: float) -> None:
        """Begin the bucket that contains `now`. A late collection does not shift the buckets."""
        missed = (now - self.due) // self.bucket_secs
        self.due += self.bucket_secs * (missed + 1)


class MetricRegistry:
    """The metrics that one task has registered, by name."""

    def __init__(self) -> None:
        self._registrations: dict[str, Registration] = {}

    def register(self, name: str, metric: Any, bucket_secs: float, now: float) -> Any:
        """Register `metric`, to be read every `bucket_secs`; wrap a `Reducer` or `Combiner`. Return the metric."""
        if name in self._registrations:
            raise StormError(f"metric {name!r} is already registered in this task; choose another name")
        if isinstance(metric, Reducer):
            metric = ReducedMetric(metric)
        if isinstance(metric, Combiner):
            metric = CombinedMetric(metric)
        if isinstance(metric, type) or not callable(getattr(metric, "get_value_and_reset", None)):
            raise StormError(f"metric {name!r} must be an object with get_value_and_reset(), got {metric!r}")
        if not isinstance(bucket_secs, (int, float)) or not bucket_secs > 0:
            raise StormError(f"metric {name!r} needs a time bucket of more than 0 seconds, got {bucket_secs!r}")
        self._registrations[name] = Registration(metric, bucket_secs, now + bucket_secs)
        return metric

    def get(self, name: str) -> Any:
        """The metric registered under `name`, or None."""
        found = self._registrations.get(name)
        return found.metric if found else None

    def bucket_lengths(self) -> set[float]:
        """The periods with which `collect` must be called."""
        return {registration.bucket_secs for registration in self._registrations.values()}

    def collect(self, now: float, report: Callable[[str, BaseException], None]) -> dict[float, list[DataPoint]]:
        """{bucket length: points} of the metrics that are due, and reset them; call `report` if one raises."""
        points: dict[float, list[DataPoint]] = {}
        for name, registration in self._registrations.items():
            if registration.due > now:
                continue
            registration.close_bucket(now)
            try:
                value = registration.metric.get_value_and_reset()
            except BaseException as exc:  # a metric is user code; its failure must not stop the others
                report(name, exc)
                continue
            if value is not None:
                points.setdefault(registration.bucket_secs, []).append(DataPoint(name, value))
        return points
