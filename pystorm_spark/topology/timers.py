"""TimerHandle: a call that a task has asked for at a later time, and can cancel."""

from __future__ import annotations

import sys
from typing import Any

from pystorm_spark.errors import StormError
from pystorm_spark.naming import java_names

SHORTEST_PERIOD_SECS = 1e-9  # times that are equal to a nanosecond are equal


@java_names()
class TimerHandle:
    """What `TopologyContext.call_later`, `call_at` and `call_every` give."""

    __slots__ = ("is_cancelled",)

    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        """Never make the call again; any thread may cancel, and more than once."""
        self.is_cancelled = True


def check_call(call: str, secs: Any, function: Any, is_period: bool = False) -> None:
    """Refuse a time that is no time, or what cannot be called."""
    is_number = isinstance(secs, (int, float)) and not isinstance(secs, bool) and abs(secs) <= sys.float_info.max
    if not is_number or (is_period and secs < SHORTEST_PERIOD_SECS):
        kind = f"{SHORTEST_PERIOD_SECS:g} seconds or more" if is_period else "a finite number of seconds"
        raise StormError(f"{call} takes {kind}, got {secs!r}")
    if not callable(function):
        raise StormError(f"{call} takes a function without arguments, got {function!r}")
