"""Internal. Starters: which component has started a thread of the user's own; shown with what the thread prints."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any

STARTER = "_pystorm_starter"  # an attribute of threads


def note_starters(where: Callable[[], str]) -> None:
    """From now on note with each thread, timer and call of a pool `where` it was started."""
    start = threading.Thread.start
    submit: Any = ThreadPoolExecutor.submit

    @wraps(start)
    def noting_start(self: threading.Thread) -> None:
        setattr(self, STARTER, where())
        start(self)

    @wraps(submit)
    def noting_submit(self: ThreadPoolExecutor, call: Callable[..., Any], /, *args: Any, **how: Any) -> Any:
        return submit(self, _run_for, where(), call, *args, **how)

    threading.Thread.start = noting_start  # type: ignore[method-assign]  # to know who starts a thread
    ThreadPoolExecutor.submit = noting_submit  # type: ignore[method-assign, assignment]  # the same


def starter() -> str | None:
    """Where the calling thread was started, or what it is running; None if that is unknown."""
    return getattr(threading.current_thread(), STARTER, None)


def _run_for(where: str, call: Callable[..., Any], /, *args: Any, **how: Any) -> Any:
    setattr(threading.current_thread(), STARTER, where)
    return call(*args, **how)
