"""Metrics: the kinds a component can register, the consumers they go to, and what the engine counts."""

from pystorm_spark.metrics.consumer import DataPoint, LoggingMetricsConsumer, MetricsConsumer, TaskInfo
from pystorm_spark.metrics.stats import ErrorInfo
from pystorm_spark.metrics.types import (
    AssignableMetric,
    CombinedMetric,
    Combiner,
    CountMetric,
    GaugeMetric,
    HistogramMetric,
    MeanMetric,
    MeanReducer,
    MeterMetric,
    Metric,
    MultiCountMetric,
    MultiReducedMetric,
    ReducedMetric,
    Reducer,
    TimerMetric,
)

__all__ = [
    "AssignableMetric",
    "CombinedMetric",
    "Combiner",
    "CountMetric",
    "DataPoint",
    "ErrorInfo",
    "GaugeMetric",
    "HistogramMetric",
    "LoggingMetricsConsumer",
    "MeanMetric",
    "MeanReducer",
    "MeterMetric",
    "Metric",
    "MetricsConsumer",
    "MultiCountMetric",
    "MultiReducedMetric",
    "ReducedMetric",
    "Reducer",
    "TaskInfo",
    "TimerMetric",
]
