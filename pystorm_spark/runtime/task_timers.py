"""Internal. TaskTimers: the calls that the tasks of one slot have asked for at a later time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from pystorm_spark.runtime.timers import Timer, exact
from pystorm_spark.topology.timers import TimerHandle

if TYPE_CHECKING:
    from pystorm_spark.runtime.task import Task

FEWEST_CANCELLED = 64  # among those that wait, before they are taken out


class TaskTimer(TimerHandle):
    """One call of a task, or one every so many seconds."""

    __slots__ = ("_queue", "call", "due", "every", "is_handed_over", "task")

    def __init__(
        self, queue: TimerQueue, task: Task, due: float, call: Callable[[], object], every: Timer | None
    ) -> None:
        super().__init__()
        self.task = task
        self.call = call
        self.due = exact(due)
        self.every = every
        self.is_handed_over = False  # to the task, which has not made the call yet
        self._queue = queue

    def cancel(self) -> None:
        if not self.is_cancelled:
            super().cancel()
            self._queue.cancelled += 1

    def fire(self) -> None:
        """Make the call, unless it was cancelled after it had been due."""
        self.is_handed_over = False
        if not self.is_cancelled:
            self.call()


class TimerQueue:
    """Timers in the order in which they are due; of equal ones the first that was set is the first."""

    def __init__(self) -> None:
        self.cancelled = 0  # of those that wait, about: a timer may be cancelled when it has fired
        self._heap: list[tuple[float, int, TaskTimer]] = []
        self._numbers = itertools.count()

    def next_due(self) -> float:
        heap = self._heap
        while heap and heap[0][2].is_cancelled:
            heappop(heap)
        return heap[0][0] if heap else math.inf

    def add(self, timer: TaskTimer) -> None:
        heappush(self._heap, (timer.due, next(self._numbers), timer))

    def take_due(self, now: float) -> list[TaskTimer]:
        """Those that are due, and not those that are set while these are called."""
        found = []
        while self.next_due() <= now:
            timer = heappop(self._heap)[2]
            found.append(timer)
            if timer.every is not None:
                timer.every.advance(now)
                timer.due = timer.every.due
                self.add(timer)
        if self.cancelled > max(FEWEST_CANCELLED, len(self._heap) // 2):
            self._heap = [entry for entry in self._heap if not entry[2].is_cancelled]
            heapify(self._heap)
            self.cancelled = 0
        return found


class TaskTimers:
    """The timers of all tasks of a slot. Those of spouts are not due while the topology is deactivated."""

    def __init__(self) -> None:
        self.of_bolts = TimerQueue()
        self.of_spouts = TimerQueue()

    def next_due(self, active: bool) -> float:
        due = self.of_bolts.next_due()
        return min(due, self.of_spouts.next_due()) if active else due

    def set(self, task: Task, due: float, call: Callable[[], object], every: Timer | None = None) -> TaskTimer:
        """Have `task` make `call` when it is `due`; and then as `every` says, if it is given."""
        queue = self.of_spouts if task.is_spout else self.of_bolts
        timer = TaskTimer(queue, task, due, call, every)
        context = task.slot_context
        if context.enter():
            try:
                queue.add(timer)
            finally:
                context.leave()
        else:
            context.post(lambda: queue.add(timer))
        return timer

    def clear(self) -> None:
        """No timer fires any more."""
        self.of_bolts, self.of_spouts = TimerQueue(), TimerQueue()
