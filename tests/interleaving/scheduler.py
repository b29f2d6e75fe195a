"""Scheduler: runs threads one at a time, with the hand-overs of a given schedule. The same schedule gives the same run.

Under the interpreter's lock another thread can run when a function is entered, after a call, and at a jump back. These
are the points where the scheduler may hand over, in the modules that it traces. A schedule is a list of hand-overs:
at which point, and to which thread. So Hypothesis can draw it, and shrink it to the shortest one that fails.

Locks, conditions and events of the code under test must be the scheduler's own: a thread that waits for one hands
over. Time stands still, and passes where every thread waits: as long as the shortest of their time-outs.
"""

from __future__ import annotations

import dis
import math
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

GIVE_UP_SECS = 60.0  # for a run that takes milliseconds
MOST_POINTS = 200_000  # of a run: one that has more does not end


class HandOver(NamedTuple):
    """After so many points the thread with this number goes on, or the next one that can."""

    point: int
    thread: int


class DeadlockError(AssertionError):
    """Every thread waits."""


class _Stopped(BaseException):
    """Told to a thread whose run has failed elsewhere."""


class _Thread:
    def __init__(self, name: str, run: Callable[[], Any]) -> None:
        self.name = name
        self.run = run
        self.may_run = threading.Semaphore(0)
        self.can_go_on: Callable[[], bool] = lambda: True
        self.until = math.inf  # when it goes on in any case
        self.is_done = False
        self.real: threading.Thread


class Scheduler:
    """Runs named functions, each in a thread of its own, by one schedule.

    If `time_passes`, a hand-over to a thread that waits with a time-out has this pass.
    """

    def __init__(
        self,
        schedule: Iterable[HandOver | tuple[int, int]] = (),
        modules: Sequence[Any] = (),
        time_passes: bool = False,
    ) -> None:
        self._schedule = dict(schedule)
        self._files = {str(Path(module.__file__).resolve()) for module in modules}
        self._threads: list[_Thread] = []
        self._current: _Thread | None = None
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._time_passes = time_passes
        self.now = 1000.0
        self.points = 0  # how many hand-overs were possible
        self.handed_over: list[str] = []  # from where to whom: what a failure shows

    def run(self, **functions: Callable[[], Any]) -> None:
        """Run the functions to their ends, the first one first; raises what the first of them to fail has raised."""
        for name, function in functions.items():
            self.start(_Thread(name, function))
        self._resume(self._threads[0])
        told = "a thread waits for what the scheduler does not know"
        assert self._ended.wait(GIVE_UP_SECS), f"{told}: {self.handed_over}"
        for thread in self._threads:
            thread.real.join(GIVE_UP_SECS)
        if self._error is not None:
            raise self._error

    def start(self, thread: _Thread) -> None:
        """Add a thread to the run; it goes on when somebody hands over to it."""
        self._threads.append(thread)
        thread.real = threading.Thread(target=self._work, args=(thread,), daemon=True)
        thread.real.start()

    def current(self) -> _Thread:
        """The thread that runs."""
        assert self._current is not None
        return self._current

    def monotonic(self) -> float:
        return self.now

    def waits(self, name: str) -> bool:
        """Whether a thread waits for others, and will not go on by itself."""
        (thread,) = (thread for thread in self._threads if thread.name == name)
        return not thread.can_go_on() and thread.until == math.inf

    def lock(self) -> Lock:
        return Lock(self)

    def rlock(self) -> RLock:
        return RLock(self)

    def condition(self) -> Condition:
        return Condition(self)

    def event(self) -> Event:
        return Event(self)

    def pause(self) -> None:
        """Let the others go on, if they can: a thread that polls calls it where it would sleep."""
        self._point("pause", is_pause=True)

    def wait_for(self, condition: Callable[[], bool], name: str = "wait", secs: float | None = None) -> bool:
        """Go on when `condition` holds, or `secs` have passed; until then the others run. Whether it holds."""
        thread = self._me()
        if thread is None:  # before or after the run, in the thread of the test
            assert condition() or secs is not None, f"{name} outside of a run would never end"
            return condition()
        thread.can_go_on, thread.until = condition, math.inf if secs is None else self.now + secs
        while not condition() and self.now < thread.until:
            self._switch(thread, self._next_after(thread), name)
        thread.can_go_on, thread.until = lambda: True, math.inf
        return condition()

    def _me(self) -> _Thread | None:
        return self._current if getattr(self._local, "thread", None) is self._current else None

    _local = threading.local()

    def _work(self, thread: _Thread) -> None:
        thread.may_run.acquire()
        self._local.thread = thread
        try:
            if self._error is None:
                sys.settrace(self._enter)
                thread.run()
        except _Stopped:
            pass
        except BaseException as exc:
            self._error = self._error or exc
        finally:
            sys.settrace(None)
            thread.is_done = True
            self._end(thread)

    def _end(self, thread: _Thread) -> None:
        left = [other for other in self._threads if not other.is_done]
        if not left:
            self._ended.set()
        elif self._error is not None:
            self._resume(left[0])  # which finds the error and ends
        else:
            try:
                ready = self._first_to_go_on(left)
            except DeadlockError as exc:
                self._error, ready = exc, left[0]
            self._resume(ready)

    def _resume(self, thread: _Thread) -> None:
        self._current = thread
        thread.may_run.release()

    def _ready(self, threads: list[_Thread]) -> _Thread | None:
        left = (thread for thread in threads if not thread.is_done)
        return next((thread for thread in left if self.now >= thread.until or thread.can_go_on()), None)

    def _first_to_go_on(self, threads: list[_Thread]) -> _Thread:
        """The first thread that can go on, now or when the shortest time-out has passed."""
        ready = self._ready(threads)
        if ready is None:
            first = min((thread for thread in threads if not thread.is_done), key=lambda thread: thread.until)
            if first.until == math.inf:
                raise DeadlockError(f"all threads wait: {self.handed_over}")
            self.now, ready = first.until, first
        return ready

    def _next_after(self, thread: _Thread, first: int | None = None) -> _Thread:
        at = self._threads.index(thread) + 1 if first is None else first
        return self._first_to_go_on(self._threads[at:] + self._threads[:at])

    def _switch(self, thread: _Thread, to: _Thread, where: str) -> None:
        if to is thread:
            return
        self.handed_over.append(f"{thread.name} at {where} (point {self.points}) to {to.name}")
        self._resume(to)
        thread.may_run.acquire()
        if self._error is not None:
            raise _Stopped

    def _point(self, where: str, is_pause: bool = False) -> None:
        thread = self._me()
        if thread is None:
            return
        self.points += 1
        if self.points > MOST_POINTS:
            raise AssertionError(f"the run does not end: {self.handed_over[-20:]}")
        chosen = self._schedule.get(self.points)
        if chosen is not None:
            until = self._threads[chosen % len(self._threads)].until
            if self._time_passes and until < math.inf:
                self.now = max(self.now, until)
            self._switch(thread, self._next_after(thread, chosen % len(self._threads)), where)
        elif is_pause:
            self._switch(thread, self._next_after(thread), where)

    # Tracing.

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in self._files:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self._point(f"{code.co_name}:{frame.f_lineno}")
        after_call = _after_switches(code)

        def trace(frame: FrameType, event: str, arg: Any) -> Any:
            if event == "opcode" and frame.f_lasti in after_call:
                self._point(f"{code.co_name}:{frame.f_lineno}")
            return trace

        return trace


_found: dict[CodeType, frozenset[int]] = {}


def _after_switches(code: CodeType) -> frozenset[int]:
    """The instructions of `code` before which the interpreter may hand its lock over."""
    if code not in _found:
        instructions = list(dis.get_instructions(code))
        after = {later.offset for op, later in pairwise(instructions) if _may_switch(op.opname)}
        after |= {op.argval for op in instructions if op.opname.startswith(("JUMP_BACKWARD", "JUMP_ABSOLUTE"))}
        _found[code] = frozenset(after)
    return _found[code]


def _may_switch(opname: str) -> bool:
    return opname.startswith(("CALL", "BEFORE_WITH", "WITH_EXCEPT")) and "INTRINSIC" not in opname


class Lock:
    """A lock of the scheduler's: who waits for it hands over."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_held = False

    def __enter__(self) -> None:
        self._scheduler.wait_for(lambda: not self._is_held, "lock")
        self._is_held = True

    def __exit__(self, *error: Any) -> None:
        self._is_held = False


class RLock:
    """A lock of the scheduler's that its holder may take again."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._holder: int | None = None
        self._depth = 0

    def __enter__(self) -> None:
        me = threading.get_ident()
        self._scheduler.wait_for(lambda: self._holder in (None, me), "lock")
        self._holder = me
        self._depth += 1

    def __exit__(self, *error: Any) -> None:
        assert self._holder == threading.get_ident()
        self._depth -= 1
        if not self._depth:
            self._holder = None


class Condition(RLock):
    """A condition of the scheduler's, and its lock. Whoever is notified goes on when the lock is free."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self._waiting: list[object] = []  # a token for each who waits

    def monotonic(self) -> float:
        return self._scheduler.now

    def notify(self, n: int = 1) -> None:
        assert self._holder == threading.get_ident()
        del self._waiting[:n]

    def notify_all(self) -> None:
        self.notify(len(self._waiting))

    def wait(self, timeout: float | None = None) -> bool:
        assert self._holder == threading.get_ident()
        holder, depth, token = self._holder, self._depth, object()
        self._waiting.append(token)
        self._holder, self._depth = None, 0
        try:
            return self._scheduler.wait_for(lambda: token not in self._waiting, "condition", timeout)
        finally:
            if token in self._waiting:
                self._waiting.remove(token)
            self._scheduler.wait_for(lambda: self._holder is None, "lock")
            self._holder, self._depth = holder, depth

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        until = math.inf if timeout is None else self._scheduler.now + timeout
        while not (result := predicate()) and self._scheduler.now < until:
            self.wait(None if timeout is None else until - self._scheduler.now)
        return result


class Event:
    """An event of the scheduler's: a wait with a time-out ends when it is set, or after the others had their turn."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is None:
            self._scheduler.wait_for(lambda: self._is_set, "event")
        elif not self._is_set:
            self._scheduler.pause()
        return self._is_set


class Threading:
    """What the code under test uses of the module `threading`, made of a scheduler."""

    get_ident = staticmethod(threading.get_ident)

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.Lock = scheduler.lock
        self.RLock = scheduler.rlock
        self.Condition = scheduler.condition
        self.Event = scheduler.event

    def Thread(
        self, target: Callable[..., Any], args: tuple[Any, ...] = (), name: str = "", daemon: bool = False
    ) -> Spawned:
        return Spawned(self._scheduler, _Thread(name or target.__name__, lambda: target(*args)))

    def current_thread(self) -> Spawned:
        return Spawned(self._scheduler, self._scheduler.current())


@dataclass(frozen=True)
class Spawned:
    """A thread that a scheduler runs once it is started."""

    _scheduler: Scheduler
    _thread: _Thread

    def start(self) -> None:
        self._scheduler.start(self._thread)

    def is_alive(self) -> bool:
        return not self._thread.is_done

    def join(self, timeout: float | None = None) -> None:
        self._scheduler.wait_for(lambda: self._thread.is_done, "join", timeout)
