"""Internal. Timers: calls that a slot makes periodically, by a clock that is passed in."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Timer:
    """A call to make every `period` seconds."""

    due: float
    period: float
    fire: Callable[[], None]


class Timers:
    """The timers of one slot; `next_due` is cheap to look at."""

    def __init__(self) -> None:
        self.next_due = math.inf
        self._timers: list[Timer] = []

    def every(self, period: float, now: float, fire: Callable[[], None]) -> Timer:
        """Have `fire` called every `period` seconds from `now` on."""
        timer = Timer(now + period, period, fire)
        self._timers.append(timer)
        self.next_due = min(self.next_due, timer.due)
        return timer

    def run(self, now: float) -> None:
        """Fire the timers that are due, each once: periods that a slow slot missed are skipped."""
        for timer in self._timers:
            if timer.due <= now:
                missed = (now - timer.due) // timer.period
                timer.due += timer.period * (missed + 1)
                timer.fire()
        self.next_due = min((timer.due for timer in self._timers), default=math.inf)
