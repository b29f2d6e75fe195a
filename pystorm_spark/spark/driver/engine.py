"""Internal. What the driver needs from outside: Spark, a clock with a lock, and limits. A simulator has its own."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import Protocol

from pystorm_spark.spark.exchange.visit import Order

START_SECS = 120.0  # for all slots to open, by their own clocks


class Running(Protocol):
    """A chain of exchanges that runs; a `Future` is one."""

    def done(self) -> bool: ...

    def result(self) -> dict[int, str]:
        """{slot: "ok", "missed", "refused" or "lost"}, or raises what went wrong."""


class Engine(Protocol):
    """What the driver needs from Spark."""

    def place(self, slots: list[int]) -> None:
        """Start the processes of `slots`; they report by themselves."""

    def has_lost(self, slots: list[int]) -> bool:
        """Whether the process that was started last for one of `slots` is known to be gone."""

    def exchange(self, order: Order, exchanges: int) -> Running:
        """Begin a chain of exchanges; its end wakes the driver by `Slots.nudge`."""


class Changes(threading.Condition):
    """The lock on what the driver's threads share, how they wait for one another, and their clock."""

    monotonic = staticmethod(time.monotonic)


@dataclass(frozen=True)
class Limits:
    """What the driver bears before it kills a slot, or ends the topology."""

    max_restarts: int  # of a slot in a row
    silence_secs: float  # without a word of a slot; a call of user code may take as long
    start_secs: float = START_SECS  # for a slot to open, by its own clock
    drain_secs: float = math.inf  # for what is in flight to be done, or to time out
    poison_deaths: int = 0  # by one tuple, after which it is not executed again; 0 for no limit
    suspicion_secs: float = math.inf  # after which a suspect that has not come again is forgotten
