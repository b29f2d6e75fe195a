"""Internal. FullDisk: retries operations that fail because a disk is full, until there is space."""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable
from typing import TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")

# Errors that end when somebody frees space. A hardware error (EIO) does not.
PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
WORDS = (*map(os.strerror, PASSING), "QuotaExceededException")  # in errors of the JVM, and of HDFS
FIRST_BACKOFF_SECS, LONGEST_BACKOFF_SECS = 0.5, 5.0  # between two tries
WARNING_INTERVAL_SECS = 30.0  # between two warnings
BACKOFF_RESET_SECS = 2 * LONGEST_BACKOFF_SECS  # without an error, after which the backoff starts again


def is_full(error: BaseException) -> bool:
    """Whether `error` says that a disk is full, or not writable for now, so that a retry may succeed."""
    return getattr(error, "errno", None) in PASSING or any(words in str(error) for words in WORDS)


class FullDisk:
    """Waits after each error of a full disk, with exponential backoff, and logs a warning now and then.

    `what` names the operation for the log. `pause(secs)` waits, and returns False if the topology ends.
    """

    def __init__(self, what: str, pause: Callable[[float], bool], now: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._pause = pause
        self._now = now
        self._secs = FIRST_BACKOFF_SECS
        self._refused_at = self._told_at = float("-inf")

    def makes_wait(self, error: BaseException) -> bool:
        """Wait and return True if `error` is that of a full disk; False for other errors, or if the topology ends."""
        if not is_full(error):
            return False
        now = self._now()
        if now - self._refused_at > BACKOFF_RESET_SECS:
            self._secs = FIRST_BACKOFF_SECS
        if now - self._told_at > WARNING_INTERVAL_SECS:
            self._told_at = now
            log.warning("%s: a disk is full; retrying until there is space: %s", self._what, error)
        goes_on = self._pause(self._secs)
        self._secs = min(2 * self._secs, LONGEST_BACKOFF_SECS)
        self._refused_at = self._now()
        return goes_on

    def outwaited(self, act: Callable[[], T]) -> T:
        """The result of `act`, with retries while a disk is full. Raises its error if the topology ends meanwhile."""
        while True:
            try:
                return act()
            except Exception as exc:
                if not self.makes_wait(exc):
                    raise
