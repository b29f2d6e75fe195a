"""Internal. FullDisk: what a disk without room has refused is tried again until there is room."""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable
from typing import TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")

# What passes when somebody makes room. An error of the hardware (EIO) does not.
PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
WORDS = (*map(os.strerror, PASSING), "QuotaExceededException")  # the JVM tells the system's words, HDFS its own
FIRST_BACKOFF_SECS, LONGEST_BACKOFF_SECS = 0.5, 5.0  # between two tries
WARNING_INTERVAL_SECS = 30.0  # between two warnings
BACKOFF_RESET_SECS = 2 * LONGEST_BACKOFF_SECS  # after which the next refusal is another one


def is_full(error: BaseException) -> bool:
    """Whether a disk has no room, or cannot be written for now: nothing is lost by waiting."""
    return getattr(error, "errno", None) in PASSING or any(words in str(error) for words in WORDS)


class FullDisk:
    """Lets some time pass after each refusal of a disk, and warns of it now and then.

    `what` is tried again; `pause` lets seconds pass, and gives False if the topology ends.
    """

    def __init__(self, what: str, pause: Callable[[float], bool], now: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._pause = pause
        self._now = now
        self._secs = FIRST_BACKOFF_SECS
        self._refused_at = self._told_at = float("-inf")

    def makes_wait(self, error: BaseException) -> bool:
        """Wait if `error` comes from a disk without room; False if it does not, or if the topology ends."""
        if not is_full(error):
            return False
        now = self._now()
        if now - self._refused_at > BACKOFF_RESET_SECS:
            self._secs = FIRST_BACKOFF_SECS
        if now - self._told_at > WARNING_INTERVAL_SECS:
            self._told_at = now
            log.warning("%s: a disk is full; it is tried again until there is room: %s", self._what, error)
        goes_on = self._pause(self._secs)
        self._secs = min(2 * self._secs, LONGEST_BACKOFF_SECS)
        self._refused_at = self._now()
        return goes_on

    def outwaited(self, act: Callable[[], T]) -> T:
        """What `act` gives, once there is room for it; raises what it has raised if the topology ends before."""
        while True:
            try:
                return act()
            except Exception as exc:
                if not self.makes_wait(exc):
                    raise
