"""The kinds of metrics that a component can register. A metric is read and reset once per time bucket."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from pystorm_spark.naming import java_names

M = TypeVar("M", bound="Metric")


@java_names()
class Metric:
    """A value that is read and reset at the end of every time bucket."""

    def get_value_and_reset(self) -> Any:
        """The value since the last call; None to report nothing."""
        raise NotImplementedError(f"{type(self).__name__} must define get_value_and_reset()")


@java_names()
class CountMetric(Metric):
    """Counts: `incr()`, `incr_by(n)`."""

    def __init__(self) -> None:
        self.value = 0

    def incr(self) -> None:
        self.value += 1

    def incr_by(self, amount: int) -> None:
        self.value += amount

    def get_value_and_reset(self) -> int:
        value, self.value = self.value, 0
        return value


@java_names()
class MeanMetric(Metric):
    """The mean of the values given to `update`; a bucket without updates reports nothing."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._count = 0

    def update(self, value: float) -> None:
        self._sum += value
        self._count += 1

    def get_value_and_reset(self) -> float | None:
        total, count = self._sum, self._count
        self._sum, self._count = 0.0, 0
        return total / count if count else None


@java_names()
class AssignableMetric(Metric):
    """The last value that was set; kept from bucket to bucket."""

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def set_value(self, value: Any) -> None:
        self.value = value

    def get_value_and_reset(self) -> Any:
        return self.value


@java_names()
class GaugeMetric(Metric):
    """The result of a function, called when the bucket ends."""

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read

    def get_value_and_reset(self) -> Any:
        return self._read()


@java_names()
class HistogramMetric(Metric):
    """Count, minimum, maximum, mean and percentiles of the values given to `update` within a bucket."""

    limit = 10_000  # values kept for the percentiles of one bucket

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._values: list[float] = []
        self._count = 0
        self._sum = 0.0
        self._min, self._max = math.inf, -math.inf

    def update(self, value: float) -> None:
        self._count += 1
        self._sum += value
        self._min, self._max = min(self._min, value), max(self._max, value)
        if len(self._values) < self.limit:
            self._values.append(value)
        else:
            self._values[self._count % self.limit] = value

    def get_value_and_reset(self) -> dict[str, float] | None:
        if not self._count:
            return None
        values = sorted(self._values)
        percentiles = {f"p{q}": values[math.ceil(q / 100 * len(values)) - 1] for q in (50, 95, 99)}
        whole = {"count": self._count, "mean": self._sum / self._count, "min": self._min, "max": self._max}
        self._start()
        return {**whole, **percentiles}


@java_names()
class TimerMetric(HistogramMetric):
    """A histogram of seconds: `with timer.time(): ...`, or `update(secs)`."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__()
        self._monotonic = monotonic

    @contextmanager
    def time(self) -> Iterator[None]:
        """Measure the block."""
        started = self._monotonic()
        try:
            yield
        finally:
            self.update(self._monotonic() - started)


@java_names()
class MeterMetric(CountMetric):
    """Counts events: `mark()`, `mark(n)`."""

    def mark(self, amount: int = 1) -> None:
        self.value += amount


@java_names()
class Reducer:
    """How a `ReducedMetric` folds: `init() -> state`, `reduce(state, value) -> state`, `extract_result(state)`."""

    def init(self) -> Any:
        """The state of an empty bucket."""
        raise NotImplementedError(f"{type(self).__name__} must define init()")

    def reduce(self, state: Any, value: Any) -> Any:
        """The state after `value`."""
        raise NotImplementedError(f"{type(self).__name__} must define reduce(state, value)")

    def extract_result(self, state: Any) -> Any:
        """The value that the bucket reports."""
        return state


@java_names()
class MeanReducer(Reducer):
    """The mean."""

    def init(self) -> Any:
        return (0.0, 0)

    def reduce(self, state: Any, value: Any) -> Any:
        return (state[0] + value, state[1] + 1)

    def extract_result(self, state: Any) -> Any:
        return state[0] / state[1] if state[1] else None


@java_names()
class ReducedMetric(Metric):
    """Folds the values given to `update` with a `Reducer`."""

    def __init__(self, reducer: Reducer) -> None:
        self._reducer = reducer
        self._state = reducer.init()

    def update(self, value: Any) -> None:
        self._state = self._reducer.reduce(self._state, value)

    def get_value_and_reset(self) -> Any:
        state, self._state = self._state, self._reducer.init()
        return self._reducer.extract_result(state)


@java_names()
class Combiner:
    """How a `CombinedMetric` adds up: `identity()`, `combine(one, other)`."""

    def identity(self) -> Any:
        """The value of an empty bucket."""
        raise NotImplementedError(f"{type(self).__name__} must define identity()")

    def combine(self, one: Any, other: Any) -> Any:
        """The combination of both values."""
        raise NotImplementedError(f"{type(self).__name__} must define combine(one, other)")


@java_names()
class CombinedMetric(Metric):
    """Combines the values given to `update` with a `Combiner`."""

    def __init__(self, combiner: Combiner) -> None:
        self._combiner = combiner
        self._value = combiner.identity()

    def update(self, value: Any) -> None:
        self._value = self._combiner.combine(self._value, value)

    def get_value_and_reset(self) -> Any:
        value, self._value = self._value, self._combiner.identity()
        return value


@java_names()
class MultiMetric(Metric, Generic[M]):
    """One metric for each name: `metric.scope("name").incr()`."""

    def __init__(self, make: Callable[[], M]) -> None:
        self._scopes: defaultdict[str, M] = defaultdict(make)

    def scope(self, name: str) -> M:
        return self._scopes[name]

    def get_value_and_reset(self) -> dict[str, Any] | None:
        values = {name: metric.get_value_and_reset() for name, metric in self._scopes.items()}
        return {name: value for name, value in values.items() if value is not None} or None


class MultiCountMetric(MultiMetric[CountMetric]):
    """A counter for each name."""

    def __init__(self) -> None:
        super().__init__(CountMetric)


class MultiReducedMetric(MultiMetric[ReducedMetric]):
    """A folded metric for each name."""

    def __init__(self, reducer: Reducer) -> None:
        super().__init__(lambda: ReducedMetric(reducer))
