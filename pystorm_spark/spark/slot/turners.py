"""Internal. Turners: the threads that turn a slot, one at a time, beside threads that serve blocking bolts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from threading import get_ident

from pystorm_spark.runtime.bolt_task import BoltTask, Relieved
from pystorm_spark.spark.slot.relief import RELIEF_POLL_SECS, Relief


class Turners:
    """Makes one step after the other until it is stopped.

    `step` returns whether there was work. `idle` is called with the number of steps in a row that had none, and `crash`
    with an exception that a step has raised; it ends the process.
    """

    def __init__(
        self, step: Callable[[], bool], idle: Callable[[int], None], crash: Callable[[BaseException], None]
    ) -> None:
        self._step, self._idle, self._crash = step, idle, crash
        self._stopping = threading.Event()
        self._took_over: list[threading.Thread] = []  # those that live
        self._calls_began: dict[int, float] = {}  # {thread: when it called user code} until it has returned

    def stop(self) -> None:
        """Have all threads end after what they are at."""
        self._stopping.set()

    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def run(self, relief: Relief | None) -> None:
        """Turn the slot in this thread, and with `relief` in others when a bolt holds this one up, until the stop."""
        if relief is not None:
            self._look_out(relief)
        self._work(relief)
        self._stopping.wait()
        while threads := list(self._took_over):
            for thread in threads:
                thread.join()

    def note_call(self, began: float) -> None:
        """The calling thread is about to call user code, or has returned from it, which is 0."""
        if began:
            self._calls_began[get_ident()] = began
        else:
            self._calls_began.pop(get_ident(), None)

    def longest_call(self) -> tuple[int, float] | None:
        """The thread that has been in user code for the longest time, and since when."""
        calls = [(began, thread) for thread, began in list(self._calls_began.items())]
        if not calls:
            return None
        began, thread = min(calls)
        return thread, began

    def _look_out(self, relief: Relief) -> None:
        threading.Thread(target=self._relieve, args=(relief,), daemon=True).start()

    def _relieve(self, relief: Relief) -> None:
        """Wait until a bolt blocks the thread that turns the slot, and turn it in its place."""
        try:
            while not relief.take_over():
                if self._stopping.wait(RELIEF_POLL_SECS):
                    return
            self._took_over.append(threading.current_thread())
            try:
                self._look_out(relief)
                self._turn(relief)
            finally:
                self._took_over.remove(threading.current_thread())
        except BaseException as exc:  # also where no thread can be started: nobody would turn the slot any more
            self._crash(exc)

    def _work(self, relief: Relief | None) -> None:
        try:
            self._turn(relief)
        except BaseException as exc:
            self._crash(exc)

    def _make_step(self) -> tuple[BoltTask | None, bool]:
        """Make a step; returns the bolt that may have blocked it, and whether there was work.

        The caller serves the bolt, outside of the `except`: else errors of user code would show `Relieved` as context.
        """
        try:
            return None, self._step()
        except Relieved as relieved:
            return relieved.task, True

    def _turn(self, relief: Relief | None) -> None:
        idle_turns = 0
        while not self.is_stopping():
            task, busy = self._make_step()
            if task is not None and relief is not None and relief.is_relieved():
                relief.serve(task, lambda: not self.is_stopping(), self.note_call)
                return
            if busy:
                idle_turns = 0
            else:
                idle_turns += 1
                self._idle(idle_turns)
