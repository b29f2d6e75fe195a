"""Settings: what the methods of a windowed bolt have set, and what of it does not go together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pystorm_spark.aggregators import CombinerAggregator
from pystorm_spark.windowing.selecting import Selector
from pystorm_spark.windowing.trigger import Trigger
from pystorm_spark.windowing.units import Count, Duration

Extent = Count | Duration


@dataclass(frozen=True, slots=True)
class Aggregate:
    """How the tuples of a window are folded."""

    aggregator: CombinerAggregator[Any, Any]
    value: Selector
    key: Selector


@dataclass(frozen=True, slots=True)
class Settings:
    """What one bolt's methods have set; None is not set."""

    length: Extent | None = None
    slide: Extent | None = None
    gap: Duration | None = None
    key: Selector = None  # of sessions
    offset: Duration | None = None
    timestamp: Any = None  # the name of a field, or an extractor
    lag: Duration | None = None
    watermark_interval: Duration | None = None
    idle_timeout: Duration | None = None
    lateness: Duration | None = None
    late_stream: str | None = None
    trigger: Trigger | None = None
    aggregate: Aggregate | None = None

    @property
    def has_timestamps(self) -> bool:
        return self.timestamp is not None

    def problems(self) -> Iterator[str]:
        """What does not go together, each as the end of a sentence that begins with the bolt."""
        if self.gap is not None and self.length is not None:
            yield "has a session gap and a window length; it can have one of them"
        if self.gap is None and self.length is not None:
            yield from self._length_problems()
        if not self.has_timestamps:
            for what, value in self._of_event_time().items():
                if value is not None:
                    yield (
                        f"has {what} and no timestamps, which it needs for that: call with_timestamp_field or "
                        "with_timestamp_extractor"
                    )

    def _of_event_time(self) -> dict[str, Any]:
        return {
            "a late tuple stream": self.late_stream,
            "a lag": self.lag,
            "an allowed lateness": self.lateness,
            "an idle timeout": self.idle_timeout,
            "an offset": self.offset,
        }

    def _length_problems(self) -> Iterator[str]:
        is_of_time = isinstance(self.length, Duration) and isinstance(self.slide, Duration)
        if self.trigger is not None and not (is_of_time and self.length == self.slide):
            yield (
                f"has a trigger and windows of {self.length} every {self.slide}; triggers are for tumbling windows "
                "of a Duration, for sessions, and for one window without a length"
            )
        if self.lateness is not None and not is_of_time:
            yield (
                f"has an allowed lateness and windows of {self.length} every {self.slide}; it is for a length and a "
                "slide in time, and for sessions"
            )
        if self.offset is not None and not isinstance(self.slide, Duration):
            yield f"has an offset and a slide of {self.slide}; an offset is for slides in time"
