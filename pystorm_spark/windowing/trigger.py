"""Triggers: when a window fires before its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pystorm_spark.errors import InvalidTopologyError
from pystorm_spark.naming import java_names
from pystorm_spark.windowing.units import Duration, as_duration

if TYPE_CHECKING:
    from pystorm_spark.topology.tuple import Tuple
    from pystorm_spark.windowing.window import TupleWindow

CONTINUE, FIRE, FIRE_AND_PURGE = "continue", "fire", "fire-and-purge"


@java_names()
class Trigger:
    """Decides when a window fires early. Each window has a copy of it, which may count in its attributes.

    Both methods return `CONTINUE` (or None, or False), `FIRE` (or True), which keeps the tuples, or `FIRE_AND_PURGE`,
    which lets them go.
    """

    every: Duration | None = None  # how often `on_time` is called, since the start of the task

    def on_tuple(self, tup: Tuple, window: TupleWindow) -> Any:
        """Called when `tup` has entered `window`."""
        return CONTINUE

    def on_time(self, window: TupleWindow) -> Any:
        """Called every `every` while `window` holds anything."""
        return CONTINUE


class EveryCount(Trigger):
    """Fires a window at every n-th tuple of it."""

    def __init__(self, count: int) -> None:
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InvalidTopologyError(f"EveryCount takes a whole number of tuples from 1 on, got {count!r}")
        self.count = count
        self._since = 0

    def on_tuple(self, tup: Tuple, window: TupleWindow) -> Any:
        self._since += 1
        if self._since < self.count:
            return CONTINUE
        self._since = 0
        return FIRE


class EveryDuration(Trigger):
    """Fires a window every so often while it holds anything."""

    def __init__(self, every: Any) -> None:
        self.every = as_duration(every, "the duration of EveryDuration")

    def on_time(self, window: TupleWindow) -> Any:
        return FIRE


def decision(answer: Any) -> str:
    """What the answer of a trigger means; a `TypeError` if it means nothing."""
    if answer is None or answer is False or answer == CONTINUE:
        return CONTINUE
    if answer is True or answer == FIRE:
        return FIRE
    if answer == FIRE_AND_PURGE:
        return FIRE_AND_PURGE
    raise TypeError(f"a trigger must return CONTINUE, FIRE or FIRE_AND_PURGE, got {answer!r}")
