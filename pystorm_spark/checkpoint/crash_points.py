"""Internal. Every durable step by name, so that tests can end the process right after it.

`PYSTORM_SPARK_CRASH_AT=part-renamed` ends a process at the first `part-renamed`, `part-renamed:3` at the third. Of
several points, `part-renamed:3,file-removed`, the next one counts when the one before has ended a process: that is
known by the files `PYSTORM_SPARK_CRASH_MARKS` + `.0`, `.1`, …, one for each crash, which all processes of a test share.
"""

from __future__ import annotations

import os
from collections import Counter

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


_crashes: Crashes | None = None
if os.environ.get("PYSTORM_SPARK_CRASH_AT"):
    _crashes = Crashes(os.environ["PYSTORM_SPARK_CRASH_AT"], os.environ.get("PYSTORM_SPARK_CRASH_MARKS", ""))


def crash_point(name: str) -> None:
    """The durable step `name` has just been made."""
    if _crashes is not None:
        _crashes.reach(name)


def arm(crashes: Crashes | None) -> None:
    """Crash this process as `crashes` says, whatever its environment said."""
    global _crashes
    _crashes = crashes
