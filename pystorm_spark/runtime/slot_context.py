"""Internal. SlotContext: what the tasks of one slot share, and the calls that other threads have posted to it."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
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


HAS_LOCK: bool = getattr(sys, "_is_gil_enabled", lambda: True)()  # of the interpreter: the short way relies on it
LATER = "later"  # why a tuple is not executed now


@laid_out
class SlotContext:
    """What the tasks of one slot share: clock, outbox, codec, and the calls that other threads have posted."""

    __slots__ = (
        "_beginnings",
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
        self.inside = 0  # how many calls that only that thread may make are being made
        self.executing: BoltTask | None = None  # the bolt whose batch is being executed
        self.running: Task | None = None  # whose component is being called
        self.now = 0.0  # when the last look at the clock was taken between two bolts
        self.wake: Callable[[], None] = lambda: None
        self.before: Callable[[Task, Tuple | None], str | None] | None = None  # see `Slot.before_calls`
        self.timers = TaskTimers()  # of user code
        self.with_transactions: frozenset[int] = frozenset()  # tasks, of all slots, of bolts with state
        self.write_letter: Callable[[str, str], None] = _no_letters  # a line of a component, durably
        self.put_off: list[tuple[BoltTask, Tuple]] = []  # queued tuples that wait, see `Slot.before_calls`
        self.lock = Lock()  # held by other threads while they route and post
        self.quiescing = False  # until a commit: nothing new shall begin
        self.deferring = False  # until a commit: timers and ticks of bolts with state wait
        self.rollbacks = 0  # how often all that was not committed was undone, with exactly-once
        self._posted: deque[Callable[[], None]] = deque()
        self._beginnings: deque[Callable[[], None]] = deque()  # posted, too, and kept while the slot rests
        self._pool: Executor | None = None

    def enter(self) -> bool:
        """Whether this is the slot's own thread; until it leaves again no other one takes the slot over."""
        self.inside += 1  # first, so that nobody comes between the look and what relies on it
        if get_ident() == self.thread:
            return True
        self.inside -= 1
        return False

    def leave(self) -> None:
        """What was entered is done."""
        self.inside -= 1

    def shared_executor(self, threads: int) -> Executor:
        """The pool of the slot, made when user code first asks for it."""
        with self.lock:
            self._pool = self._pool or ThreadPoolExecutor(threads, thread_name_prefix="pystorm-shared")
        return self._pool

    def close(self) -> None:
        """End the pool: what it has begun it ends, what waits in it is dropped, and no thread of it is left."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self.abandon()

    def abandon(self) -> None:
        """Drop what is posted from now on: nobody turns the slot any more, and threads may go on for ever."""
        self._posted, self._beginnings = deque(maxlen=0), deque(maxlen=0)

    def post(self, call: Callable[[], None]) -> None:
        """Have the slot's own thread make `call`, in the order posted."""
        self._posted.append(call)
        self.wake()

    def post_beginning(self, call: Callable[[], None]) -> None:
        """The same for a call that begins a tree, which waits while the slot rests."""
        self._beginnings.append(call)
        self.wake()

    def has_posted(self) -> bool:
        return bool(self._posted or self._beginnings)

    def run_posted(self) -> bool:
        """Make the posted calls; whether there were any."""
        ran = _run_all(self._posted)
        if not self.quiescing:
            ran |= _run_all(self._beginnings)
        return ran


def _no_letters(component: str, line: str) -> None:
    raise StormError(f"{component!r} writes a dead letter, and there is no place for it")


def _run_all(calls: deque[Callable[[], None]]) -> bool:
    """Make the calls that are there now: threads that post without a pause must not keep the slot for ever."""
    waiting = len(calls)
    for _ in range(waiting):
        if calls:  # one of them may have made the others
            calls.popleft()()
    return waiting > 0
