"""TaskClock: the time of a task in whole milliseconds."""

from __future__ import annotations

from collections.abc import Callable

from pystorm_spark.topology.context import TopologyContext

ROUNDING = 0.001  # of a millisecond: what sums of floats lose, and far less than a tick of any clock


class TaskClock:
    """Milliseconds since 1970 at the task's start, and from there on by the monotonic clock.

    So a wall clock that is set moves no window.
    """

    def __init__(self, context: TopologyContext) -> None:
        self._context = context
        self._began = context.monotonic()
        self.start = round(context.time() * 1000)

    def now(self) -> int:
        return self.start + int((self._context.monotonic() - self._began) * 1000 + ROUNDING)

    def call_at(self, moment: int, function: Callable[[], object]) -> None:
        """Have `function` called when `now()` comes to `moment`."""
        self._context.call_at(self._began + (moment - self.start) / 1000, function)

    def call_every(self, period: int, function: Callable[[], object]) -> None:
        """Have `function` called every `period` from now on."""
        self._context.call_every(period / 1000, function)
