"""Endless: one window without an end, which fires by its trigger alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pystorm_spark.aggregators import CombinerAggregator
from pystorm_spark.windowing.entry import EARLY, Entry, Firing
from pystorm_spark.windowing.kinds.kind import Kind
from pystorm_spark.windowing.kinds.triggering import Content, Triggers, fire_early


class Endless(Kind):
    """Holds every entry until its trigger purges it. Nothing is late, and no watermark counts."""

    def __init__(
        self,
        triggers: Triggers,
        *,
        in_event_time: bool = False,
        aggregator: CombinerAggregator[Any, Any] | None = None,
    ) -> None:
        super().__init__()
        self._triggers = triggers
        self._in_event_time = in_event_time
        self._aggregator = aggregator
        self._trigger = triggers.new()
        self._content = Content()
        self._highest: int | None = None  # time of the entries

    def is_late(self, at: int) -> bool:
        return False

    def add(self, entry: Entry) -> Iterator[Firing]:
        """Take in an entry."""
        self._content.add(entry, self._aggregator)
        self._highest = entry.at if self._highest is None else max(self._highest, entry.at)
        firing = self._firing(self._highest)
        decision = self._triggers.on_tuple(self._trigger, entry, firing)
        yield from fire_early(self._content, firing, decision, self.released)

    def advance(self, watermark: int) -> Iterator[Firing]:
        return iter(())

    def on_time(self, now: int) -> Iterator[Firing]:
        """Ask the trigger, if there is anything; `now` is the end of the firing by the clock."""
        if self._content.entries:
            firing = self._firing(self._highest if self._in_event_time else now)
            decision = self._triggers.on_time(self._trigger, firing)
            yield from fire_early(self._content, firing, decision, self.released)

    def _firing(self, end: int | None) -> Firing:
        content = self._content
        return Firing(
            None,
            end,
            EARLY,
            lambda: list(content.entries),
            content.previous,
            content.folded if self._aggregator is not None else None,
            count=content.size,
        )
