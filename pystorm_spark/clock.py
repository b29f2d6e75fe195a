"""Clocks: the only module that asks the operating system for the time."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The source of time for the runtime."""

    def monotonic(self) -> float:
        """Seconds that only grow; timeouts, ticks and latencies are measured on it."""

    def time(self) -> float:
        """Seconds since 1970, for people to read; nothing is measured on it."""


class SystemClock:
    """The machine's own clock."""

    monotonic = staticmethod(time.monotonic)
    time = staticmethod(time.time)
