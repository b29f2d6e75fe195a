"""Timing: how time comes to the windows of a task, by the clock or by timestamps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pystorm_spark.topology.context import TopologyContext
from pystorm_spark.topology.tuple import Tuple
from pystorm_spark.windowing.entry import Firing
from pystorm_spark.windowing.kinds.count_slides import CountSlides
from pystorm_spark.windowing.kinds.endless import Endless
from pystorm_spark.windowing.kinds.kind import Kind
from pystorm_spark.windowing.plan import Plan
from pystorm_spark.windowing.selecting import Reader, as_milliseconds, extractor_of, reader_of
from pystorm_spark.windowing.task_clock import TaskClock
from pystorm_spark.windowing.watermark import Watermarks

Execute = Callable[[Iterator[Firing]], None]


class ByTheClock:
    """A tuple's time is when the task receives it."""

    def __init__(self, kind: Kind, clock: TaskClock, execute: Execute) -> None:
        self._kind, self._clock, self._execute = kind, clock, execute
        # What comes at the moment of an end belongs to what follows: see `TimeSlides`.
        self._is_after_end = not isinstance(kind, (CountSlides, Endless))
        self._now = clock.start  # when the last tuple came
        self._due: int | None = None  # the moment of the next end
        self._is_set = False  # the timer

    watermark: int | None = None

    def begin(self) -> None:
        """The task starts."""

    def catch_up(self) -> None:
        """Fire what is due before a tuple is taken in."""
        self._now = self._clock.now()
        if self._due is not None and self._now >= self._due:
            self._execute(self._kind.advance(self._watermark_of(self._now)))
            self._due = self._next_moment()

    def _watermark_of(self, now: int) -> int:
        return now

    def time_of(self, tup: Tuple) -> int:
        """A tuple's time; what is wrong with its timestamp is raised."""
        return self._now + self._is_after_end

    def has_come(self, tup: Tuple, at: int) -> bool:
        """Note a tuple; whether it may enter a window."""
        return True

    def has_taken(self) -> None:
        """A tuple has been taken in: set the timer for the next end. Later tuples never have an earlier end."""
        if self._due is None:
            self._due = self._next_moment()
        if not self._is_set and self._due is not None:
            self._is_set = True
            self._clock.call_at(self._due, self._fire)

    def _next_moment(self) -> int | None:
        return self._kind.next_end()

    def _fire(self) -> None:
        self._is_set = False
        self.catch_up()
        self.has_taken()


class SessionsByTheClock(ByTheClock):
    """Sessions end at the first multiple of the watermark interval since the task's start at or after their ends."""

    def __init__(self, kind: Kind, clock: TaskClock, execute: Execute, interval: int) -> None:
        super().__init__(kind, clock, execute)
        self._is_after_end = False
        self._interval = interval

    def _watermark_of(self, now: int) -> int:
        start = self._clock.start
        multiple = (now - start) // self._interval * self._interval
        return start + multiple + 1  # sessions fire when the watermark is greater than their end

    def _next_moment(self) -> int | None:
        end = self._kind.next_end()
        if end is None:
            return None
        start = self._clock.start
        return start - (start - end) // self._interval * self._interval  # rounded up


class ByTimestamps:
    """A tuple's time is its timestamp, and the watermark says how far time has come."""

    def __init__(self, kind: Kind, clock: TaskClock, execute: Execute, plan: Plan, context: TopologyContext) -> None:
        self._kind, self._clock, self._execute = kind, clock, execute
        self._interval = plan.interval
        self._read = _timestamp_reader(plan.settings.timestamp)
        idle = plan.settings.idle_timeout
        idle_after = None if idle is None else idle.value
        self._watermarks = Watermarks(context.this_sources, plan.lag, idle_after, clock.start)

    @property
    def watermark(self) -> int | None:
        return self._watermarks.watermark

    def begin(self) -> None:
        self._clock.call_every(self._interval, self._compute)

    def catch_up(self) -> None:
        pass

    def time_of(self, tup: Tuple) -> int:
        return as_milliseconds(self._read(tup))

    def has_come(self, tup: Tuple, at: int) -> bool:
        self._watermarks.note(tup.source_global_stream_id, at, self._clock.now())
        return not self._kind.is_late(at)

    def has_taken(self) -> None:
        pass

    def _compute(self) -> None:
        watermark = self._watermarks.computed(self._clock.now(), self._kind.last_end)
        if watermark is not None:
            self._execute(self._kind.advance(watermark))


Timing = ByTheClock | ByTimestamps


def new_timing(kind: Kind, clock: TaskClock, execute: Execute, plan: Plan, context: TopologyContext) -> Timing:
    """How time comes to the windows of a plan."""
    if plan.in_event_time:
        return ByTimestamps(kind, clock, execute, plan, context)
    if plan.settings.gap is not None:
        return SessionsByTheClock(kind, clock, execute, plan.interval)
    return ByTheClock(kind, clock, execute)


def _timestamp_reader(source: Any) -> Reader:
    reader = reader_of(source) if isinstance(source, str) else extractor_of(source)
    assert reader is not None
    return reader
