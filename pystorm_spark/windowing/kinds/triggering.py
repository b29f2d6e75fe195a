"""How kinds of windows ask the triggers of their windows."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, Protocol

from pystorm_spark.aggregators import CombinerAggregator
from pystorm_spark.windowing.entry import Entry, Firing
from pystorm_spark.windowing.trigger import CONTINUE, FIRE_AND_PURGE


class Triggers(Protocol):
    """Calls the triggers of a bolt; what they raise is reported, and means CONTINUE."""

    def new(self) -> Any:
        """A trigger for a window that begins."""

    def on_tuple(self, trigger: Any, entry: Entry, window: Firing) -> str:
        """What a trigger decides about an entry that has entered a window."""

    def on_time(self, trigger: Any, window: Firing) -> str:
        """What a trigger decides about a window as time passes."""


class Content:
    """What one window holds that fires as a whole, and not by panes: its entries and accumulators."""

    __slots__ = ("accs", "entries", "previous")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.accs: dict[Hashable, Any] = {}  # {group: accumulator}
        self.previous: list[Entry] = []  # of the firing before

    def add(self, entry: Entry, aggregator: CombinerAggregator[Any, Any] | None) -> None:
        """Add an entry. What the aggregator raises leaves everything as it was."""
        if aggregator is not None:
            acc = self.accs[entry.group] if entry.group in self.accs else aggregator.init()
            self.accs[entry.group] = aggregator.apply(acc, entry.value)
        self.entries.append(entry)

    def size(self) -> int:
        """The number of entries."""
        return len(self.entries)

    def folded(self) -> tuple[dict[Hashable, Any], int]:
        """The accumulators, and the number of entries. Who gives an accumulator away copies it."""
        return self.accs, len(self.entries)

    def has_fired(self, firing: Firing) -> None:
        """Remember what a firing has held."""
        if not firing.is_aggregated:
            self.previous = firing.entries

    def cleared(self) -> list[Entry]:
        """Let go of everything: the entries that were there."""
        entries, self.entries, self.accs = self.entries, [], {}
        return entries


def fire_early(content: Content, firing: Firing, decision: str, released: list[Entry]) -> Iterator[Firing]:
    """Fire a window if its trigger has decided so, and let go of what it holds if it is to be purged."""
    if decision == CONTINUE or not content.entries:
        return
    yield firing
    content.has_fired(firing)
    if firing.has_failed:
        content.cleared()
    elif decision == FIRE_AND_PURGE:
        released += content.cleared()
