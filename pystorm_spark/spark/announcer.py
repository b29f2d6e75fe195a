"""Internal. Announcer: tells the driver what a slot is about to do; should that end the process, nobody else could."""

from __future__ import annotations

from collections.abc import Callable

from pystorm_spark.runtime.task import Task
from pystorm_spark.topology.tuple import Tuple


class Announcer:
    """Announces calls of user code: those of a start, and all where a slot `is_careful`, for it has died before."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self.is_careful = False
        self._tell = tell
        self._said = ""

    def announce(self, task: Task, tup: Tuple | None) -> None:
        """A component is about to be called, with a tuple or without."""
        doing = f"{task.component_id}:{task.task_id}" + (f" on {tup!r}" if tup is not None else "")
        if doing != self._said:
            self.say(doing)

    def say(self, doing: str) -> None:
        """What is being done now; nothing that could end the process if it is empty."""
        self._said = doing
        self._tell("doing", what=doing)
