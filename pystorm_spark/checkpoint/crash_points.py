"""Internal. Crash points: names for all durable steps. Tests end a process right after one of them.

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
    """Where this process is to end, and how often each point was reached."""

    def __init__(self, points: str, marks: str) -> None:
        self._points = [_named(point) for point in points.split(",") if point]
        self._marks = marks
        self.reached: Counter[str] = Counter()

    def reach(self, name: str) -> None:
        """End the process if it is to end here."""
        self.reached[name] += 1
        for number, point in enumerate(self._points):
            if not self._is_marked(number):
                if point == (name, self.reached[name]) and self._mark(number):
                    os._exit(EXIT_CODE)
                return

    def _is_marked(self, number: int) -> bool:
        return bool(self._marks) and os.path.exists(f"{self._marks}.{number}")

    def _mark(self, number: int) -> bool:
        """Whether this process is the one to crash, of several that come to the point at once."""
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
        raise ValueError(f"there is no crash point {name!r}; there are {', '.join(POINTS)}")
    return name, int(hit or 1)


_armed: Crashes | None = None
_of_environ = lru_cache(maxsize=1)(Crashes)  # it counts as long as the environment stays the same


def crash_point(name: str) -> None:
    """Call this right after the durable step `name`: it ends the process if a test asked for a crash here."""
    points = os.environ.get("PYSTORM_SPARK_CRASH_AT")
    if _armed is not None:
        _armed.reach(name)
    elif points:
        _of_environ(points, os.environ.get("PYSTORM_SPARK_CRASH_MARKS", "")).reach(name)


def arm(crashes: Crashes | None) -> None:
    """Let `crashes` decide where this process ends, in place of the environment; None undoes that."""
    global _armed
    _armed = crashes
