"""The metrics that every task has without registering them, under Storm's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from pystorm_spark.metrics.stats import TaskStats, mean_ms
from pystorm_spark.metrics.types import Metric

SHARED = {"__ack-count": "acked", "__fail-count": "failed"}
OF_BOLTS = {"__execute-count": "executed"}
# {name: (summed seconds, count)}
LATENCIES_OF_SPOUTS = {"__complete-latency": ("complete_secs", "acked")}
LATENCIES_OF_BOLTS = {
    "__execute-latency": ("execute_secs", "executed"),
    "__process-latency": ("process_secs", "process_count"),
}


class CountSince(Metric):
    """The growth of a count within a bucket, by stream if there is a count for each."""

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read
        self._before = read()

    def get_value_and_reset(self) -> Any:
        before, self._before = self._before, self._read()
        if isinstance(before, Mapping):
            grown = {name: count - before[name] for name, count in self._before.items()}
            return {name: count for name, count in grown.items() if count} or None
        return self._before - before or None


class MeanSince(Metric):
    """The mean latency in the bucket, in milliseconds."""

    def __init__(self, read: Callable[[], tuple[float, int]]) -> None:
        self._read = read
        self._before = read()

    def get_value_and_reset(self) -> float | None:
        (secs_before, before), self._before = self._before, self._read()
        secs, count = self._before
        return mean_ms(secs - secs_before, count - before) if count > before else None


def builtin_metrics(
    is_spout: bool,
    stats: Callable[[], TaskStats],
    emitted: Callable[[], dict[str, int]],
    transferred: Callable[[], dict[str, int]],
) -> dict[str, Metric]:
    """{name: metric} of a task. Emits and transfers are counted by stream, the rest over all streams."""
    metrics: dict[str, Metric] = {"__emit-count": CountSince(emitted), "__transfer-count": CountSince(transferred)}
    for name, field in {**SHARED, **({} if is_spout else OF_BOLTS)}.items():
        metrics[name] = CountSince(_reader(stats, attrgetter(field)))
    for name, fields in (LATENCIES_OF_SPOUTS if is_spout else LATENCIES_OF_BOLTS).items():
        metrics[name] = MeanSince(_reader(stats, attrgetter(*fields)))
    return metrics


def _reader(stats: Callable[[], TaskStats], part: Callable[[TaskStats], Any]) -> Callable[[], Any]:
    return lambda: part(stats())
