"""WindowCollector: the collector of a windowed bolt, which anchors to the window being executed."""

from __future__ import annotations

from threading import get_ident
from typing import Any

from pystorm_spark.naming import java_names
from pystorm_spark.topology.collector import Anchors, OutputCollector
from pystorm_spark.topology.delegating import DelegatingCollector
from pystorm_spark.topology.tuple import Tuple
from pystorm_spark.windowing.entry import Entry, Firing


@java_names()
class WindowCollector(DelegatingCollector):
    """Emits without anchors are anchored to the window's tuples, if `execute` makes them; others are not.

    It knows which tuples windows hold, for a bolt may ack or fail single ones of a window itself.
    """

    def __init__(self, delegate: OutputCollector) -> None:
        super().__init__(delegate)
        self.held: set[Tuple] = set()  # in windows, and neither acked nor failed
        self._firing: Firing | None = None
        self._anchors: list[Tuple] | None = None  # of the firing, as far as they are known
        self._thread = 0

    def begin(self, firing: Firing) -> None:
        """What this thread emits from now on belongs to `firing`."""
        self._firing, self._anchors, self._thread = firing, None, get_ident()

    def end(self) -> None:
        """The window has been executed."""
        self._firing = self._anchors = None

    def emit_to(self, stream: str, anchors: Anchors, values: Any, task: int | None) -> list[int]:
        if anchors is None and self._firing is not None and get_ident() == self._thread:
            anchors = self._window_anchors(self._firing)
        return super().emit_to(stream, anchors, values, task)

    def _window_anchors(self, firing: Firing) -> list[Tuple]:
        if self._anchors is None:
            self._anchors = [entry.tup for entry in firing.entries if entry.tup in self.held]
        return self._anchors

    def ack(self, tup: Tuple) -> None:
        self._forget(tup)
        super().ack(tup)

    def fail(self, tup: Tuple) -> None:
        self._forget(tup)
        super().fail(tup)

    def _report_failure(self, error: BaseException, tup: Tuple) -> None:
        self._delegate._report_failure(error, tup)

    def _crash(self, error: BaseException) -> None:
        self._delegate._crash(error)

    def _forget(self, tup: Tuple) -> None:
        try:
            self.held.discard(tup)
        except TypeError:  # it is no tuple, which the collector behind says
            return
        self._anchors = None

    def ack_held(self, entries: list[Entry]) -> None:
        """Ack what windows let go of, unless the bolt has settled it itself."""
        held, ack = self.held, self._delegate.ack
        for entry in entries:
            tup = entry.tup
            if tup in held:
                held.discard(tup)
                ack(tup)

    def fail_held(self, entries: list[Entry]) -> None:
        """Fail the tuples of a window, unless the bolt has settled them itself."""
        for entry in entries:
            if entry.tup in self.held:
                self.fail(entry.tup)
