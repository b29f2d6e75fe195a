"""Internal. Relief: lets a slot go on while one of its bolts blocks in `execute`.

One thread turns a slot. When an `execute` takes long, that thread stays with its bolt, and a waiting thread turns the
slot with all other tasks from then on. A bolt that has been quick for a while rejoins the others. So two threads never
call one task at once, and a slot without slow bolts pays nothing.
"""

from __future__ import annotations

import gc
import logging
import sys
import threading
from collections.abc import Callable
from threading import get_ident
from typing import Any

from pystorm_spark.runtime.bolt_task import BoltTask
from pystorm_spark.runtime.slot import Slot

log = logging.getLogger(__name__)

RELIEF_POLL_SECS = 0.05
QUICK_SECS = 10.0  # without a slow `execute`, after which a bolt rejoins the others
IDLE_SECS = 0.25


class Relief:
    """Takes a slot over from threads that a bolt blocks for longer than `slow_secs`."""

    def __init__(self, slot: Slot, slow_secs: float) -> None:
        self._slot = slot
        self._slot_context = slot.slot_context
        self._slow_secs = slow_secs
        self._now = slot.clock.monotonic
        self._lock = threading.Lock()  # held while it is decided which thread turns the slot
        self._seen: tuple[BoltTask | None, int] = (None, 0)  # the batch that was being executed at the last look
        self._seen_since = 0.0
        self._has_warned = False
        self._has_work: dict[int, threading.Event] = {}  # by thread, until it serves its bolt

    def take_over(self) -> bool:
        """Make the calling thread turn the slot, if a bolt blocks the thread that does; whether it took over."""
        with self._lock:
            task, now = self._slot_context.executing, self._now()
            batch = (task, task.stats.executed if task is not None else 0)
            if batch != self._seen:
                self._seen, self._seen_since = batch, now
                return False
            if task is None or now - self._seen_since < self._slow_secs or not self._may_take_over(task):
                return False
            # First the change, then the look that counts: whatever only the slot's thread may do, the holder finds
            # from now on that it is another one; and if it is not at it now, it will not be.
            holder, self._slot_context.thread = self._slot_context.thread, get_ident()
            if self._slot_context.inside or self._slot_context.executing is not task:
                self._slot_context.thread = holder
                return False
            self._slot_context.executing = None
            self._seen = (None, 0)
            has_work = self._has_work[holder] = threading.Event()
            self._slot.set_aside(task, holder, has_work.set)
        gc.enable()  # the turn that is held up may have stopped it
        log.debug("%s:%d is executed by a thread of its own", task.component_id, task.task_id)
        return True

    def is_relieved(self) -> bool:
        """Whether another thread has taken the slot over; asked by a thread that was told it may have."""
        with self._lock:
            if self._slot_context.thread != get_ident():
                return True
            self._slot_context.executing = None  # the batch is done, and the slot is still this thread's
            return False

    def serve(self, task: BoltTask, goes_on: Callable[[], bool], tell: Callable[[float], None]) -> None:
        """Run the bolt that has blocked the calling thread, until it is quick again or `goes_on` returns False.

        `tell` is called with the time when an `execute` begins, and with 0 when it has ended.
        """
        task.is_apart = False  # what the thread was held up by is done
        slow_at = self._now()
        has_work = self._has_work.pop(get_ident())
        while goes_on():
            if task.inbox or task.backlog or task.calls:
                began = self._now()
                tell(began)
                task.run_aside(began)
                tell(0.0)
                self._slot.note_end_aside(task)
                ended = self._now()
                if ended - began >= self._slow_secs:
                    slow_at = ended
            else:
                has_work.wait(IDLE_SECS)
                has_work.clear()
            if self._now() - slow_at > QUICK_SECS:
                self._slot_context.post(lambda: self._slot.bring_back(task))
                return

    def _may_take_over(self, task: BoltTask) -> bool:
        """Whether other threads may call the slot's components: a commit or a component may forbid it."""
        if task.committed is not None or (self._slot.commits is not None and self._slot.commits.is_exactly_once):
            return False  # a commit must not find a state half changed, nor what is under way outlive a rollback
        bound = next((other for other in self._slot.tasks.values() if _is_bound(other.component())), None)
        if bound is None:
            return True
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "%s:%d takes long, and the other tasks of its slot wait for it: %r has a connection to SQLite, which "
                "only the thread that made it may use",
                task.component_id,
                task.task_id,
                bound.component_id,
            )
        return False


def _is_bound(component: Any) -> bool:
    """Whether a component can be called only by the thread that has prepared it, as far as one can see."""
    sqlite = sys.modules.get("sqlite3")
    if sqlite is None:
        return False
    bound = (sqlite.Connection, sqlite.Cursor)
    values = list(getattr(component, "__dict__", {}).values())  # at once: the bolt that is held up may add attributes
    return any(issubclass(type(value), bound) for value in values)  # `isinstance` may call code of the value's
