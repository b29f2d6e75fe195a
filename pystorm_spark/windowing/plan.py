"""Plan: the windows of one bolt, from its methods, its declarer's configuration and the topology's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pystorm_spark.errors import InvalidConfigError, InvalidTopologyError, did_you_mean
from pystorm_spark.topology.fields import Fields
from pystorm_spark.topology.tuple import GlobalStreamId
from pystorm_spark.windowing.kinds.count_slides import CountSlides
from pystorm_spark.windowing.kinds.endless import Endless
from pystorm_spark.windowing.kinds.kind import Kind
from pystorm_spark.windowing.kinds.last_ones import LastOnes
from pystorm_spark.windowing.kinds.sessions import Sessions
from pystorm_spark.windowing.kinds.time_slides import TimeSlides
from pystorm_spark.windowing.kinds.triggering import Triggers
from pystorm_spark.windowing.kinds.tumbling import Tumbling
from pystorm_spark.windowing.selecting import names_of
from pystorm_spark.windowing.settings import Extent, Settings
from pystorm_spark.windowing.units import Count, Duration

Conf = Mapping[str, Any]

LENGTH_KEYS = ("topology.bolts.window.length.count", "topology.bolts.window.length.duration.ms")
SLIDE_KEYS = ("topology.bolts.window.sliding.interval.count", "topology.bolts.window.sliding.interval.duration.ms")
LAG = "topology.bolts.tuple.timestamp.max.lag.ms"
INTERVAL = "topology.bolts.watermark.event.interval.ms"
LATE_STREAM = "topology.bolts.late.tuple.stream"


@dataclass(frozen=True, slots=True)
class Plan:
    """Settings with nothing left open."""

    settings: Settings
    lag: int  # milliseconds, as below
    interval: int  # between watermarks

    @property
    def in_event_time(self) -> bool:
        return self.settings.has_timestamps

    @property
    def is_endless(self) -> bool:
        return self.settings.length is None and self.settings.gap is None

    def new_kind(self, triggers: Triggers | None, offset: int) -> Kind:
        """The windows of one task, which begin at `offset` by the clock."""
        settings = self.settings
        aggregator = settings.aggregate.aggregator if settings.aggregate is not None else None
        lateness = _milliseconds(settings.lateness)
        if settings.gap is not None:
            return Sessions(settings.gap.value, lateness, aggregator, triggers)
        length, slide = settings.length, settings.slide
        if length is None:
            assert triggers is not None
            return Endless(triggers, in_event_time=self.in_event_time, aggregator=aggregator)
        if isinstance(slide, Count):
            return CountSlides(length, slide.value, in_event_time=self.in_event_time, aggregator=aggregator)
        assert slide is not None
        offset = (_milliseconds(settings.offset) or 0) if self.in_event_time else offset
        if isinstance(length, Count):
            return LastOnes(length.value, slide.value, offset, aggregator=aggregator)
        if triggers is not None:
            return Tumbling(length.value, triggers, offset, lateness, aggregator)
        return TimeSlides(length.value, slide.value, offset, lateness, aggregator)

    # What is checked at submit.

    def check(self, component: str, conf: Conf, inputs: Mapping[GlobalStreamId, Fields]) -> None:
        """Refuse what does not go together with the configuration and the inputs."""
        if conf["topology.state.guarantee"] == "exactly-once":
            raise InvalidTopologyError(
                f"bolt {component!r} keeps tuples in windows, and topology.state.guarantee is 'exactly-once': it would "
                "hold tuple trees open for which each commit waits"
            )
        self._check_sums(component, conf)
        problems = [f"bolt {component!r} {problem}" for problem in self._field_problems(inputs)]
        if problems:
            raise InvalidTopologyError("\n".join(problems))

    def _check_sums(self, component: str, conf: Conf) -> None:
        extents = (self.settings.length, self.settings.slide) if self.settings.gap is None else ()
        timeout, pending = conf["topology.message.timeout.secs"], conf["topology.max.spout.pending"]
        millis = sum(each.value for each in extents if isinstance(each, Duration))
        if conf["topology.enable.message.timeouts"] and millis > timeout * 1000:
            raise InvalidConfigError(
                f"the window length and slide of bolt {component!r} are together {millis} ms, and must be at most "
                f"topology.message.timeout.secs, {timeout} s: tuples are held unacked so long"
            )
        count = sum(each.value for each in extents if isinstance(each, Count))
        if pending is not None and count > pending:
            raise InvalidConfigError(
                f"the window length and slide of bolt {component!r} are together {count} tuples, and must be at most "
                f"topology.max.spout.pending, {pending}: tuples are held unacked so long"
            )

    def _field_problems(self, inputs: Mapping[GlobalStreamId, Fields]) -> Iterator[str]:
        settings = self.settings
        named = {"timestamp": settings.timestamp, "session key": settings.key}
        if settings.aggregate is not None:
            named |= {"value": settings.aggregate.value, "key": settings.aggregate.key}
        for source, fields in inputs.items():
            for what, selector in named.items():
                for name in names_of(selector):
                    if name not in fields:
                        yield (
                            f"reads its {what} from field {name!r}, but stream {source.stream_id!r} of "
                            f"{source.component_id!r} declares {fields.to_list()}; {did_you_mean(name, fields)}"
                        )


def plan_of(component: str, settings: Settings, own_conf: Conf, conf: Conf) -> Plan:
    """The plan of a bolt: its `settings` go before `own_conf`, which its declarer has, and that before `conf`."""
    settings = with_lengths(component, settings, own_conf, conf)
    problems = list(settings.problems())
    if problems:
        raise InvalidTopologyError("\n".join(f"bolt {component!r} {problem}" for problem in problems))
    is_endless = settings.trigger is not None and settings.gap is None
    if settings.length is None and settings.gap is None and not is_endless:
        raise InvalidConfigError(
            f"bolt {component!r} has no window length: call with_window, with_tumbling_window or with_session_window, "
            f"or set {LENGTH_KEYS[0]} or {LENGTH_KEYS[1]}"
        )
    lag = settings.lag.value if settings.lag is not None else conf[LAG]
    interval = settings.watermark_interval.value if settings.watermark_interval is not None else conf[INTERVAL]
    if settings.late_stream is None and settings.has_timestamps:
        settings = replace(settings, late_stream=own_conf.get(LATE_STREAM) or conf[LATE_STREAM])
    return Plan(settings, lag, interval)


def with_lengths(component: str, settings: Settings, own_conf: Conf, conf: Conf) -> Settings:
    """The same settings with the length and the slide that count."""
    if settings.gap is not None:
        return settings
    length, slide = settings.length, settings.slide
    for level in (own_conf, conf):
        length = length or _extent(component, level, LENGTH_KEYS)
        slide = slide or _extent(component, level, SLIDE_KEYS)
    return replace(settings, length=length, slide=None if length is None else slide or Count(1))


def _extent(component: str, conf: Conf, keys: tuple[str, str]) -> Extent | None:
    count, millis = (conf.get(key) for key in keys)
    if count is not None and millis is not None:
        raise InvalidConfigError(
            f"bolt {component!r} has {keys[0]} = {count} and {keys[1]} = {millis}; set one of them"
        )
    if count is not None:
        return Count(count)
    return None if millis is None else Duration(millis)


def _milliseconds(duration: Duration | None) -> int | None:
    return None if duration is None else duration.value
