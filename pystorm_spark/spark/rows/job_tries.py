"""Internal. JobTries: how often a Spark job that fails is tried."""

from __future__ import annotations

import time
from collections.abc import Callable

from pystorm_spark.spark.errors import has_lost_worker

WORKER_LOSS_SECS = 60.0  # in which the deaths of Python workers are no failures of the job


class JobTries:
    """Counts the failures of one job.

    Where the driver is the executor, Spark runs no task twice: each Python worker that dies takes a job along. That
    says nothing of the job, which is tried again until workers have been dying for `WORKER_LOSS_SECS`.
    """

    def __init__(self, most: int, now: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self._now = now
        self._failures = 0
        self._tried = 0
        self._losing_since: float | None = None

    def are_over(self, error: BaseException) -> bool:
        """Count `error`, which the job has raised; whether it was the last try."""
        self._tried += 1
        if has_lost_worker(error):
            self._losing_since = self._now() if self._losing_since is None else self._losing_since
            if self._now() - self._losing_since < WORKER_LOSS_SECS:
                return False
        self._failures += 1
        return self._failures >= self.most

    def told(self) -> str:
        """How often the job was tried."""
        return f"{self._tried} times"
