"""Internal. Crash points: a name for each durable step. Tests end a process right after one of them.

`PYSTORM_SPARK_CRASH_AT=part-renamed` ends the process at the first `part-renamed`, `part-renamed:3` at the third.
A list of points, `part-renamed:3,file-removed`, ends one process at each point, in this order. All processes of a test
share the files `PYSTORM_SPARK_CRASH_MARKS` + `.0`, `.1`, …: each crash creates one, and activates the next point.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import lru_cache

POINTS = ("part-written", "part-renamed", "manifest-written", "manifest-renamed", "merge-written", "file-removed")
EXIT_CODE = 137  # what a shell shows for `kill -9`


class Crashes:
    """Counts how often this process reaches each crash point, and ends it at the chosen ones."""

    def __init__(self, points: str, marks: str) -> None:
        self._points = [_named(point) for point in points.split(",") if point]
        self._marks = marks
        self.reached: Counter[str] = Counter()

    def reach(self, name: str) -> None:
        """Count the crash point `name`; end the process if the next crash is due here."""
        self.reached[name] += 1
        for number, point in enumerate(self._points):
            if not self._is_marked(number):
                if point == (name, self.reached[name]) and self._mark(number):
                    os._exit(EXIT_CODE)
                return

    def _is_marked(self, number: int) -> bool:
        return bool(self._marks) and os.path.exists(f"{self._marks}.{number}")

    def _mark(self, number: int) -> bool:
        """Create the mark of a crash; False if another process has created it first, and crashes instead."""
        if not self._marks:
            return True
        try:
            os.close(os.open(f"{self._marks}.{number}", os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
        return True


def _named(point: str) -> tuple[str, int]:
    name, _, hit = point.partition(":")
    if name not in POINTS:
        raise ValueError(f"unknown crash point {name!r}; the crash points are {', '.join(POINTS)}")
    return name, int(hit or 1)


_armed: Crashes | None = None
_of_environ = lru_cache(maxsize=1)(Crashes)  # keeps its counts until the environment changes


def crash_point(name: str) -> None:
    """Mark the end of the durable step `name`. Ends the process if a test asked for a crash here."""
    points = os.environ.get("PYSTORM_SPARK_CRASH_AT")
    if _armed is not None:
        _armed.reach(name)
    elif points:
        _of_environ(points, os.environ.get("PYSTORM_SPARK_CRASH_MARKS", "")).reach(name)


def arm(crashes: Crashes | None) -> None:
    """Use `crashes` instead of the environment; None undoes that."""
    global _armed
    _armed = crashes
