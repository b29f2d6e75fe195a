"""Internal. Signals: how Ctrl-C and SIGTERM end a script that runs topologies.

The first signal interrupts the script, and the shutdown closes all components. A second signal during the shutdown
does not interrupt it, because that would leave components half closed. It kills the slots instead.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, NoReturn

NUMBERS = (signal.SIGINT, signal.SIGTERM)
PY4J_INTERRUPTED = "KeyboardInterrupt while sending command."


class Terminated(SystemExit):
    """The script was ended by SIGTERM, after a clean shutdown."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)


class Interrupts:
    """Makes SIGTERM interrupt the script as Ctrl-C does, until `release`. Handlers of the user stay."""

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._terminated = False
        logging.getLogger().addFilter(self._is_news)
        if _in_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._before[signal.SIGTERM] = signal.signal(signal.SIGTERM, self._interrupt)

    def replace_sparks(self) -> None:
        """Replace PySpark's handler of Ctrl-C, which cancels all jobs over a connection that may be in use."""
        before = signal.getsignal(signal.SIGINT)
        if _in_main_thread() and getattr(before, "__module__", "").startswith("pyspark."):
            self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._interrupt)

    def _is_news(self, record: logging.LogRecord) -> bool:
        """False for Py4J's traceback of an interrupt, which it logs before it raises the interrupt again."""
        return record.msg != PY4J_INTERRUPTED

    def _interrupt(self, number: int, frame: FrameType | None) -> NoReturn:
        self._terminated = number == signal.SIGTERM
        raise KeyboardInterrupt

    def release(self, error: BaseException | None) -> None:
        """Restore the previous handlers. If `error` is the interrupt of a SIGTERM, raise `Terminated` instead."""
        logging.getLogger().removeFilter(self._is_news)
        if _in_main_thread():
            while self._before:
                signal.signal(*self._before.popitem())
        if self._terminated and isinstance(error, KeyboardInterrupt):
            raise Terminated from None


class Patience:
    """Delays signals until the end of its `with` block. The second signal calls `hurry`.

    With `hurry_at_once` the first signal calls `hurry` and interrupts the block. It is raised once more at the end, in
    case code in the block has swallowed the exception.
    """

    def __init__(self, hurry: Callable[[], None], hurry_at_once: bool = False) -> None:
        self._hurry = hurry
        self._hurry_at_once = hurry_at_once
        self._before: dict[signal.Signals, Any] = {}
        self._noted: list[int] = []
        self._is_ending = isinstance(sys.exc_info()[1], (KeyboardInterrupt, SystemExit))

    def __enter__(self) -> None:
        if _in_main_thread():
            for number in NUMBERS:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted.append(number)
        if self._is_ending or self._hurry_at_once or len(self._noted) > 1:
            self._hurry()
        if self._hurry_at_once:
            raise KeyboardInterrupt

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._noted and not self._is_ending:
            signal.raise_signal(self._noted[0])


def _in_main_thread() -> bool:
    """Whether this thread may set signal handlers."""
    return threading.current_thread() is threading.main_thread()
