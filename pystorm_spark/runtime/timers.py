"""Internal. Timers: calls that a slot makes periodically, by a clock that is passed in.

Due times are computed from the first one, and never added up: the twentieth of 0.05 s is at 1 s exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable

DIGITS = 9  # of seconds: times that are equal to a nanosecond are equal


class Timer:
    """A call to make every `period` seconds."""

    __slots__ = ("_began", "_times", "due", "fire", "period")

    def __init__(self, period: float, now: float, fire: Callable[[], object]) -> None:
        self.period = period
        self.fire = fire
        self.restart(now)

    def restart(self, now: float) -> None:
        """Count from `now` on: it is due after a whole period."""
        self._began = now
        self._times = 1
        self.due = exact(now + self.period)

    def advance(self, now: float) -> None:
        """Be due for the first time after `now`."""
        self._times = max(self._times + 1, int((now - self._began) / self.period))
        while (due := exact(self._began + self._times * self.period)) <= now:
            self._times += 1
        self.due = due


class Timers:
    """The timers of one slot; `next_due` is cheap to look at."""

    def __init__(self) -> None:
        self.next_due = math.inf
        self._timers: list[Timer] = []

    def every(self, period: float, now: float, fire: Callable[[], object]) -> Timer:
        """Have `fire` called every `period` seconds from `now` on."""
        timer = Timer(period, now, fire)
        self._timers.append(timer)
        self.next_due = min(self.next_due, timer.due)
        return timer

    def run(self, now: float) -> None:
        """Fire the timers that are due, each once: periods that a slow slot missed are skipped."""
        for timer in self._timers:
            if timer.due <= now:
                timer.advance(now)
                timer.fire()
        self.next_due = min((timer.due for timer in self._timers), default=math.inf)


def exact(when: float) -> float:
    """`when` to the nanosecond: sums and products that mean the same time are the same number."""
    return round(when, DIGITS)
