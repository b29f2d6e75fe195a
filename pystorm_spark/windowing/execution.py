"""Execution: windows that are due are executed, and what they let go of is acked."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pystorm_spark.aggregators import own_copy
from pystorm_spark.errors import FailedException, ReportedFailedException, StormError, in_words
from pystorm_spark.windowing.collector import WindowCollector
from pystorm_spark.windowing.entry import Entry, Firing
from pystorm_spark.windowing.kinds.kind import Kind
from pystorm_spark.windowing.settings import Settings
from pystorm_spark.windowing.trigger import CONTINUE, Trigger, decision
from pystorm_spark.windowing.window import TupleWindow, bounds


class Execution:
    """Executes the windows of one task."""

    kind: Kind  # set when there is one: its triggers are asked here

    def __init__(
        self, execute: Callable[[TupleWindow], Any], collector: WindowCollector, settings: Settings, *, restarts: bool
    ) -> None:
        self._execute = execute
        self._collector = collector
        self._trigger = settings.trigger
        self._aggregate = settings.aggregate
        self._restarts = restarts

    def take(self, entry: Entry) -> None:
        """Put an entry into the windows."""
        kind = self.kind
        firings: Iterable[Firing] = ()
        try:
            firings = kind.add(entry)
        except BaseException as exc:  # SystemExit and the like of user code are failures, never an end
            kind.failed.append((entry, exc))
        if firings or kind.released or kind.failed:
            self.run(iter(firings), entry)

    def run(self, firings: Iterator[Firing], entry: Entry | None = None) -> None:
        """Execute what is due, one window after the other; what the aggregator raises fails the new `entry`."""
        while True:
            try:
                firing = next(firings, None)
            except BaseException as exc:
                if entry is None:
                    raise
                self.kind.failed.append((entry, exc))
                firing = None
            self._settle()
            if firing is None:
                return
            self._run(firing)

    def _run(self, firing: Firing) -> None:
        self._collector.begin(firing)
        try:
            if firing.is_aggregated:
                _ = firing.totals  # of each window, whether or not the bolt reads it
            self._execute(self.window(firing))
        except BaseException as exc:
            firing.has_failed = True
            self._has_failed(firing, exc)
        finally:
            self._collector.end()

    def _has_failed(self, firing: Firing, exc: BaseException) -> None:
        is_quiet = isinstance(exc, FailedException) and not isinstance(exc, ReportedFailedException)
        if is_quiet:
            self._collector.fail_held(firing.entries)
            return
        error = StormError(f"execute of the window {bounds(firing)} raised {in_words(exc)}")
        error.__cause__ = exc
        if self._restarts:
            self._collector._crash(error)
            raise error
        self._collector.report_error(error)
        self._collector.fail_held(firing.entries)

    def _settle(self) -> None:
        """Ack what no window needs any more, and fail what the aggregator has not taken."""
        kind = self.kind
        if kind.released:
            released, kind.released = kind.released, []
            self._collector.ack_held(released)
        if kind.failed:
            failed, kind.failed = kind.failed, []
            for entry, exc in failed:
                try:
                    raise exc  # so that the spout is told it as the reason
                except BaseException:
                    self._collector._report_failure(exc, entry.tup)
                    self._collector.fail_held([entry])

    def window(self, firing: Firing) -> TupleWindow:
        """What the bolt, or a trigger, sees of a firing."""
        if self._aggregate is None:
            return TupleWindow(firing)
        return TupleWindow(firing, self._result_of, has_keys=self._aggregate.key is not None)

    def _result_of(self, acc: Any) -> Any:
        assert self._aggregate is not None
        return self._aggregate.aggregator.result(own_copy(acc))

    # Triggers: see `Triggers`.

    def new(self) -> Trigger:
        return copy.deepcopy(self._trigger)  # type: ignore[return-value]  # asked only where there is one

    def on_tuple(self, trigger: Trigger, entry: Entry, window: Firing) -> str:
        return self._asked(lambda: trigger.on_tuple(entry.tup, self.window(window)))

    def on_time(self, trigger: Trigger, window: Firing) -> str:
        return self._asked(lambda: trigger.on_time(self.window(window)))

    def _asked(self, ask: Callable[[], Any]) -> str:
        try:
            return decision(ask())
        except BaseException as exc:
            self._collector.report_error(exc)
            return CONTINUE
