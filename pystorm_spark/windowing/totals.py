"""Totals: what the aggregates of a window that slides are made of, for each key a fold of panes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from pystorm_spark.aggregators import CombinerAggregator, Count
from pystorm_spark.windowing.folding import EMPTY, Fold, Merging, SubtractingFold, new_fold


class Totals:
    """The accumulators of a window, by key, pane by pane.

    A pane is **open** until the first window that holds it fires: a value costs it one `apply`. Then it enters the fold
    of each of its keys.
    """

    def __init__(self, aggregator: CombinerAggregator[Any, Any]) -> None:
        self._aggregator = aggregator
        self._merging = Merging(aggregator)
        self._open: dict[int, dict[Hashable, Any]] = {}  # {pane: {key: accumulator}}
        self._folds: dict[Hashable, Fold] = {}
        self._open_sizes: dict[int, int] = {}  # {pane: number of values}
        self._sizes = SubtractingFold(Merging(Count()))  # of the panes that have entered

    def add(self, pane: int, key: Hashable, value: Any, *, has_entered: bool = False) -> None:
        """Add a value to a pane. What the aggregator raises leaves everything as it was."""
        if has_entered:
            fold = self._folds.get(key)
            acc = self._aggregator.apply(self._aggregator.init(), value)
            if fold is None:
                fold = new_fold(self._merging)
                fold.add(pane, acc)
                self._folds[key] = fold
            else:
                fold.add(pane, acc)
            self._sizes.add(pane, 1)
            return
        accs = self._open.setdefault(pane, {})
        acc = accs[key] if key in accs else self._aggregator.init()
        accs[key] = self._aggregator.apply(acc, value)
        self._open_sizes[pane] = self._open_sizes.get(pane, 0) + 1

    def enter(self, pane: int) -> None:
        """Have a pane enter the folds, if it has any values."""
        for key, acc in self._open.pop(pane, {}).items():
            if key not in self._folds:
                self._folds[key] = new_fold(self._merging)
            self._folds[key].add(pane, acc)
        size = self._open_sizes.pop(pane, 0)
        if size:
            self._sizes.add(pane, size)

    def enter_all(self) -> None:
        """Have all open panes enter the folds."""
        for pane in sorted(self._open):
            self.enter(pane)

    def clear(self) -> None:
        """Drop everything."""
        self.__init__(self._aggregator)  # type: ignore[misc]  # the state of a new one

    def drop_before(self, pane: int) -> None:
        """Drop the panes with smaller numbers from the folds."""
        for key, fold in list(self._folds.items()):
            fold.drop_before(pane)
            if not fold:
                del self._folds[key]
        self._sizes.drop_before(pane)

    def forget(self, pane: int) -> None:
        """Drop a pane that has not entered."""
        self._open.pop(pane, None)
        self._open_sizes.pop(pane, None)

    @property
    def size(self) -> int:
        """The number of values in the panes that have entered."""
        return self._sizes.total() if self._sizes else 0

    def totals(self) -> dict[Hashable, Any]:
        """The accumulator of each key over all panes that have entered."""
        totals = ((key, fold.total()) for key, fold in self._folds.items())
        return {key: total for key, total in totals if total is not EMPTY}
