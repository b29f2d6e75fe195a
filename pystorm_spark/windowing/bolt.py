"""WindowedBolt: a bolt that executes windows of tuples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn, TypeVar

from pystorm_spark.aggregators import CombinerAggregator
from pystorm_spark.errors import InvalidTopologyError
from pystorm_spark.naming import java_names
from pystorm_spark.topology.collector import OutputCollector
from pystorm_spark.topology.component import Bolt, Conf
from pystorm_spark.topology.context import TopologyContext
from pystorm_spark.windowing.executor import WindowedBoltExecutor
from pystorm_spark.windowing.selecting import check_selector, extractor_of
from pystorm_spark.windowing.settings import Aggregate, Settings
from pystorm_spark.windowing.trigger import Trigger
from pystorm_spark.windowing.units import Count, Duration, as_duration, as_extent
from pystorm_spark.windowing.window import TupleWindow

B = TypeVar("B", bound="WindowedBolt")


@java_names(getters=["timestamp_extractor"])
class WindowedBolt(Bolt):
    """A bolt whose `execute` gets windows. Each `with_…` method returns the bolt itself.

    A tuple is acked when no window to come can hold it, and until then `collector.emit(values)` inside `execute` is
    anchored to all tuples of the window.
    """

    _window_settings = Settings()  # until a method sets something: no `__init__` has to be called

    def prepare(self, conf: Conf, context: TopologyContext, collector: OutputCollector) -> None:
        """Called once in every task, before the first window."""

    def execute(self, window: TupleWindow) -> None:  # type: ignore[override]
        """Process one window. An exception fails its tuples and is reported; the task goes on with the next one."""

    # Which windows.

    def with_window(self: B, length: Any, slide: Any = None) -> B:
        """Windows of `length` every `slide`, each a `Count` or a `Duration`; without a slide every tuple fires."""
        length = as_extent(length, "the window length")
        slide = Count(1) if slide is None else as_extent(slide, "the slide")
        return self._with_settings(length=length, slide=slide)

    def with_tumbling_window(self: B, length: Any) -> B:
        """Windows of `length`, one behind the other."""
        length = as_extent(length, "the window length")
        return self._with_settings(length=length, slide=length)

    def with_session_window(self: B, gap: Any, key: Any = None) -> B:
        """Sessions of the tuples of a key whose times are at most `gap` apart."""
        return self._with_settings(gap=as_duration(gap, "the session gap"), key=check_selector(key, "the session key"))

    def with_offset(self: B, duration: Any) -> B:
        """Shift the ends of windows of event time, which are the multiples of the slide since 1970."""
        return self._with_settings(offset=as_duration(duration, "the offset", may_be_zero=True))

    # Event time.

    def with_timestamp_field(self: B, name: str) -> B:
        """Take the time of a tuple from one of its fields: an int of milliseconds, or a datetime with a time zone."""
        if not isinstance(name, str) or not name:
            raise InvalidTopologyError(f"the timestamp field must be the name of a field, got {name!r}")
        return self._with_timestamp(name)

    def with_timestamp_extractor(self: B, extractor: Any) -> B:
        """The same from a function of the tuple, or from an object with `extract_timestamp(tup)`."""
        return self._with_timestamp(extractor_of(extractor))

    def timestamp_extractor(self) -> Any:
        """Java's way to give an extractor: define `getTimestampExtractor`."""
        return None

    def with_lag(self: B, duration: Any) -> B:
        """How far the watermark stays behind the highest timestamp."""
        return self._with_settings(lag=as_duration(duration, "the lag", may_be_zero=True))

    def with_watermark_interval(self: B, duration: Any) -> B:
        """How often the watermark is computed."""
        return self._with_settings(watermark_interval=as_duration(duration, "the watermark interval"))

    def with_idle_timeout(self: B, duration: Any) -> B:
        """After how long an input stream without tuples does not hold up the watermark any more."""
        return self._with_settings(idle_timeout=as_duration(duration, "the idle timeout"))

    def with_allowed_lateness(self: B, duration: Any) -> B:
        """How long behind the watermark a tuple still joins its windows; those that have fired fire again."""
        return self._with_settings(lateness=as_duration(duration, "the allowed lateness", may_be_zero=True))

    def with_late_tuple_stream(self: B, stream_id: str) -> B:
        """Emit late tuples on a stream of their own, as a `DetachedTuple` in the field `late_tuple`."""
        if not isinstance(stream_id, str) or not stream_id:
            raise InvalidTopologyError(f"the late tuple stream must be the id of a stream, got {stream_id!r}")
        return self._with_settings(late_stream=stream_id)

    # What happens with them.

    def with_trigger(self: B, trigger: Trigger) -> B:
        """Have `trigger` fire windows before their ends; without a length, one window that has no end."""
        if not isinstance(trigger, Trigger):
            raise InvalidTopologyError(f"with_trigger takes an instance of Trigger, got {trigger!r}")
        if trigger.every is not None:
            as_duration(trigger.every, "every of the trigger")
        return self._with_settings(trigger=trigger)

    def with_aggregate(self: B, aggregator: CombinerAggregator[Any, Any], value: Any = None, key: Any = None) -> B:
        """Fold tuples as they come; `execute` reads `window.result`, or with a key `window.results`."""
        if not isinstance(aggregator, CombinerAggregator):
            hint = f"; give an instance: {aggregator.__name__}()" if isinstance(aggregator, type) else ""
            raise InvalidTopologyError(f"with_aggregate takes a CombinerAggregator, got {aggregator!r}{hint}")
        value = check_selector(value, "the value of the aggregate", may_be_list=False)
        return self._with_settings(
            aggregate=Aggregate(aggregator, value, check_selector(key, "the key of the aggregate"))
        )

    # Not there yet.

    def with_persistence(self: B) -> B:
        """Not there yet: an `InvalidTopologyError`."""
        _refuse("with_persistence")

    def with_max_events_in_memory(self: B, count: int) -> B:
        """Not there yet: an `InvalidTopologyError`."""
        _refuse("with_max_events_in_memory")

    def with_message_id_field(self: B, name: str) -> B:
        """Not there yet: an `InvalidTopologyError`."""
        _refuse("with_message_id_field")

    # For the builder.

    def as_bolt(self) -> Bolt:
        settings = self._window_settings
        extractor = self.timestamp_extractor()
        if extractor is not None:
            if settings.timestamp is not None:
                raise _second_timestamp(type(self).__name__)
            settings = replace(settings, timestamp=extractor_of(extractor))
        problems = [f"{type(self).__name__} {problem}" for problem in (*settings.problems(), *self._window_problems())]
        if problems:
            raise InvalidTopologyError("\n".join(problems))
        return WindowedBoltExecutor(self, settings)

    def _window_problems(self) -> list[str]:
        """What else speaks against this bolt, each as the end of a sentence that begins with its name."""
        return []

    def _with_timestamp(self: B, source: Any) -> B:
        if self._window_settings.timestamp is not None:
            raise _second_timestamp(type(self).__name__)
        return self._with_settings(timestamp=source)

    def _with_settings(self: B, **changes: Any) -> B:
        self._window_settings = replace(self._window_settings, **changes)
        return self


WindowedBolt.Count = Count  # type: ignore[attr-defined]  # Storm has them as inner classes
WindowedBolt.Duration = Duration  # type: ignore[attr-defined]
BaseWindowedBolt = IWindowedBolt = WindowedBolt


def _second_timestamp(name: str) -> InvalidTopologyError:
    return InvalidTopologyError(
        f"{name} has two timestamp sources; it can have one of with_timestamp_field, with_timestamp_extractor and "
        "getTimestampExtractor"
    )


def _refuse(method: str) -> NoReturn:
    raise InvalidTopologyError(
        f"{method} is not there yet: windows are kept in memory, and the spout replays what they hold after a crash"
    )
