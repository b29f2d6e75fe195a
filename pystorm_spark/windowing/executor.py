"""WindowedBoltExecutor: runs a windowed bolt. The bolt that the engine sees."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pystorm_spark.errors import InvalidConfigError, InvalidTopologyError
from pystorm_spark.topology.collector import OutputCollector
from pystorm_spark.topology.component import Conf, WrappingBolt
from pystorm_spark.topology.context import TopologyContext
from pystorm_spark.topology.declarer import OutputFieldsDeclarer
from pystorm_spark.topology.tuple import Tuple, is_tick
from pystorm_spark.topology.view import ComponentView
from pystorm_spark.windowing.collector import WindowCollector
from pystorm_spark.windowing.detached import DetachedTuple
from pystorm_spark.windowing.entry import Entry
from pystorm_spark.windowing.execution import Execution
from pystorm_spark.windowing.plan import LATE_STREAM, plan_of
from pystorm_spark.windowing.selecting import reader_of
from pystorm_spark.windowing.settings import Settings
from pystorm_spark.windowing.task_clock import TaskClock
from pystorm_spark.windowing.timing import new_timing
from pystorm_spark.windowing.units import as_duration

if TYPE_CHECKING:
    from pystorm_spark.windowing.bolt import WindowedBolt

log = logging.getLogger(__name__)

LATE_FIELD = "late_tuple"


class WindowedBoltExecutor(WrappingBolt):
    """Puts tuples into windows, has these executed when they are due, and acks what they let go of."""

    wrapped: WindowedBolt

    def __init__(self, bolt: WindowedBolt, settings: Settings) -> None:
        super().__init__(bolt)
        self._settings = settings
        self._own_conf: Mapping[str, Any] = {}

    # In the driver.

    def _configured(self, conf: Conf) -> None:
        self._own_conf = conf
        late_stream = conf.get(LATE_STREAM)
        if late_stream is not None and not self._settings.has_timestamps:
            raise InvalidTopologyError(
                f"{type(self.wrapped).__name__} has {LATE_STREAM} = {late_stream!r} and no timestamps, which it needs "
                "for that"
            )

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        super().declare_output_fields(declarer)
        late_stream = self._settings.late_stream or self._own_conf.get(LATE_STREAM)
        if late_stream is None:
            return
        if late_stream in declarer.streams:
            raise InvalidTopologyError(
                f"the late tuple stream {late_stream!r} is also declared by {type(self.wrapped).__name__}; it is "
                f"declared with the field {LATE_FIELD!r} by itself"
            )
        declarer.declare_stream(late_stream, [LATE_FIELD])

    def validate(self, conf: Conf, view: ComponentView) -> None:
        plan = plan_of(view.id, self._settings, self._own_conf, conf)
        plan.check(view.id, conf, view.inputs)
        late_stream = plan.settings.late_stream
        if late_stream is not None and late_stream not in view.outputs:
            raise InvalidConfigError(
                f"{LATE_STREAM} is {late_stream!r}, which bolt {view.id!r} does not declare; call "
                f"with_late_tuple_stream({late_stream!r})"
            )
        super().validate(conf, view)

    # In a task.

    def prepare(self, conf: Conf, context: TopologyContext, collector: OutputCollector) -> None:
        plan = plan_of(context.this_component_id, self._settings, self._own_conf, conf)
        settings = plan.settings
        self._number = 0  # of tuples
        self._late_stream, self._has_warned = settings.late_stream, False
        self._component = context.this_component_id
        self._read_key = reader_of(settings.key)
        aggregate = settings.aggregate
        self._read_group = reader_of(aggregate.key) if aggregate is not None else None
        self._read_value = (reader_of(aggregate.value) or _first_value) if aggregate is not None else None
        self._collector = WindowCollector(collector)
        clock = TaskClock(context)
        restarts = conf["topology.bolt.on.error"] == "restart"
        self._execution = Execution(self.wrapped.execute, self._collector, settings, restarts=restarts)
        triggers = self._execution if settings.trigger is not None else None
        self._kind = self._execution.kind = plan.new_kind(triggers, clock.start)
        self._timing = new_timing(self._kind, clock, self._execution.run, plan, context)
        self._clock = clock
        self._register_metrics(context)
        self._timing.begin()
        if settings.trigger is not None and settings.trigger.every is not None:
            clock.call_every(as_duration(settings.trigger.every, "every of the trigger").value, self._ask_triggers)
        self.wrapped.prepare(conf, context, self._collector)

    def _register_metrics(self, context: TopologyContext) -> None:
        self._late = context.register_counter("late-tuples")
        context.register_gauge("watermark-ms", lambda: self._timing.watermark)
        context.register_gauge("held-tuples", lambda: len(self._collector.held))

    def execute(self, tup: Tuple) -> None:
        if is_tick(tup):
            self._collector.ack(tup)
            return
        self._timing.catch_up()
        try:
            entry = self._entry(tup)
        except BaseException as exc:  # SystemExit and the like of user code are failures, never an end
            self._refuse(tup, exc)
            return
        if self._timing.has_come(tup, entry.at):
            self._take(entry)
            self._timing.has_taken()
        else:
            self._leave_out(tup)

    def _entry(self, tup: Tuple) -> Entry:
        at = self._timing.time_of(tup)
        key = group = None
        if self._read_key is not None:
            hash(key := self._read_key(tup))
        if self._read_group is not None:
            hash(group := self._read_group(tup))
        value = None if self._read_value is None else self._read_value(tup)
        self._number += 1
        return Entry(tup, at, self._number, key, group, value)

    def _take(self, entry: Entry) -> None:
        self._collector.held.add(entry.tup)
        self._execution.take(entry)

    def _refuse(self, tup: Tuple, exc: BaseException) -> None:
        """Fail a tuple that can be in no window."""
        self._collector._report_failure(exc, tup)
        self._collector.fail(tup)

    def _leave_out(self, tup: Tuple) -> None:
        """Do with a late tuple what is to be done with it."""
        self._late.incr()
        if self._late_stream is not None:
            self._collector.emit([DetachedTuple(tup)], anchors=tup, stream=self._late_stream)
        elif not self._has_warned:
            self._has_warned = True
            log.warning(
                "%s: %r is late, and is acked and in no window, and so will be others; with_late_tuple_stream shows "
                "them, with_lag and with_allowed_lateness wait for them",
                self._component,
                tup,
            )
        self._collector.ack(tup)

    def _ask_triggers(self) -> None:
        self._timing.catch_up()
        self._execution.run(self._kind.on_time(self._clock.now()))


def _first_value(tup: Tuple) -> Any:
    return tup.values[0]
