"""Internal. WorkerHooks: starts and shuts down the worker hooks of one slot."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from pystorm_spark.errors import StormError, in_words
from pystorm_spark.topology.hooks import WorkerHook

log = logging.getLogger(__name__)


class WorkerHooks:
    """The worker hooks that one slot has started."""

    def __init__(self) -> None:
        self._started: list[WorkerHook] = []

    def start(self, hooks: Iterable[WorkerHook], conf: Mapping[str, Any]) -> None:
        """Call each hook's `start`; the first exception stops it and becomes a `StormError`."""
        for hook in hooks:
            try:
                hook.start(conf)
            except BaseException as exc:  # SystemExit and the like of user code are failures, never an end
                raise StormError(f"start of the worker hook {type(hook).__name__} raised {in_words(exc)}") from exc
            self._started.append(hook)

    def shut_down(self) -> None:
        """Call `shutdown` of the hooks that were started; exceptions are logged."""
        for hook in self._started:
            try:
                hook.shutdown()
            except BaseException:  # SystemExit and the like of user code are failures, never an end
                log.exception("shutdown of the worker hook %s", type(hook).__name__)
        self._started.clear()
