"""Internal. SlotContext: shared by the tasks of one slot. It also queues the calls that other threads post."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from threading import Lock, get_ident
from typing import TYPE_CHECKING

from pystorm_spark.clock import Clock
from pystorm_spark.core import laid_out
from pystorm_spark.errors import StormError
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.runtime.frames import Outbox
from pystorm_spark.runtime.task_timers import TaskTimers
from pystorm_spark.topology.tuple import Tuple

if TYPE_CHECKING:
    from pystorm_spark.runtime.bolt_task import BoltTask
    from pystorm_spark.runtime.task import Task


HAS_LOCK: bool = getattr(sys, "_is_gil_enabled", lambda: True)()  # the short way needs the interpreter's lock
LATER = "later"  # a `before` callback returns it to put a tuple off


class UserCall(partial[object]):
    """A posted call into user code, which is not made in the middle of another one."""


@laid_out
class SlotContext:
    """Shared by the tasks of one slot: clock, outbox, codec, and the calls that other threads have posted."""

    __slots__ = (
        "_beginnings",
        "_makes_posted",
        "_pool",
        "_posted",
        "before",
        "clock",
        "codec",
        "deferring",
        "executing",
        "inside",
        "lock",
        "now",
        "outbox",
        "put_off",
        "quiescing",
        "rollbacks",
        "running",
        "thread",
        "timers",
        "wake",
        "with_transactions",
        "write_letter",
    )

    def __init__(self, clock: Clock, outbox: Outbox, codec: ValueCodec) -> None:
        self.clock = clock
        self.outbox = outbox
        self.codec = codec
        self.thread = get_ident()  # the thread that turns the slot
        self.inside = 0  # calls in progress that only that thread may make
        self.executing: BoltTask | None = None  # the bolt whose batch is being executed
        self.running: Task | None = None  # whose component is being called
        self.now = 0.0  # the last reading of the clock between two bolts
        self.wake: Callable[[], None] = lambda: None
        self.before: Callable[[Task, Tuple | None], str | None] | None = None  # see `Slot.before_calls`
        self.timers = TaskTimers()  # of user code
        self.with_transactions: frozenset[int] = frozenset()  # tasks, of all slots, of bolts with state
        self.write_letter: Callable[[str, str], None] = _no_letters  # a line of a component, durably
        self.put_off: list[tuple[BoltTask, Tuple]] = []  # tuples put off, see `Slot.before_calls`
        self.lock = Lock()  # held by other threads while they route and post
        self.quiescing = False  # until a commit: no tree begins
        self.deferring = False  # until a commit: timers and ticks of bolts with state wait
        self.rollbacks = 0  # with exactly-once: how often uncommitted work was rolled back
        self._posted: deque[Callable[[], object]] = deque()
        self._beginnings: deque[Callable[[], object]] = deque()  # posted calls that begin trees
        self._makes_posted = False  # one of them is being made
        self._pool: Executor | None = None

    def enter(self) -> bool:
        """Whether this is the slot's own thread. If so, no other thread takes the slot over until `leave`."""
        self.inside += 1  # before the check: after it another thread must not take over
        if get_ident() == self.thread:
            return True
        self.inside -= 1
        return False

    def leave(self) -> None:
        """End what `enter` began."""
        self.inside -= 1

    def shared_executor(self, threads: int) -> Executor:
        """The pool of the slot, made when user code first asks for it."""
        with self.lock:
            self._pool = self._pool or ThreadPoolExecutor(threads, thread_name_prefix="pystorm-shared")
        return self._pool

    def close(self) -> None:
        """Shut the pool down: calls that run are completed, queued calls are cancelled, and its threads end."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self.abandon()

    def abandon(self) -> None:
        """Drop all posted calls from now on: the slot is not turned any more, but user threads may go on posting."""
        self._posted, self._beginnings = deque(maxlen=0), deque(maxlen=0)

    def post(self, call: Callable[[], object]) -> None:
        """Have the slot's own thread make `call`, in the order posted."""
        self._posted.append(call)
        self.wake()

    def post_first(self, calls: Sequence[Callable[[], object]]) -> None:
        """Have the slot's own thread make `calls`, in this order, before those that are posted already."""
        self._posted.extendleft(reversed(calls))
        self.wake()

    def post_beginning(self, call: Callable[[], None]) -> None:
        """Post a call that begins a tree; it waits while the slot is quiescing."""
        self._beginnings.append(call)
        self.wake()

    def has_posted(self) -> bool:
        return bool(self._posted or self._beginnings)

    def run_posted(self) -> bool:
        """Make the posted calls; return whether there were any."""
        before, self._makes_posted = self._makes_posted, True
        try:
            ran = _run_all(self._posted)
            if not self.quiescing:
                ran |= _run_all(self._beginnings)
        finally:
            self._makes_posted = before
        return ran

    def run_earlier(self) -> None:
        """Make what was posted before an emit or ack of this thread, up to the first call into user code.

        Within a posted call that is nothing: all others were posted later.
        """
        if self._makes_posted:
            return
        for _ in range(len(self._posted)):
            if isinstance(self._posted[0], UserCall):
                return
            self._posted.popleft()()


def _no_letters(component: str, line: str) -> None:
    raise StormError(f"{component!r} writes a dead letter, and there is no place for it")


def _run_all(calls: deque[Callable[[], object]]) -> bool:
    """Make the calls queued now. Calls posted meanwhile wait, so that threads cannot keep the slot busy for ever."""
    waiting = len(calls)
    for _ in range(waiting):
        if calls:  # a call may itself run the queue
            calls.popleft()()
    return waiting > 0
