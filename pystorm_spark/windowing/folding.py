"""Folds that slide: the aggregate of a window, at a constant cost for each value, however long the window is.

A window is cut into **panes** at the places where one may begin or end. A value is applied to the accumulator of its
pane; only panes enter and leave a window.

- `SlidingFold` keeps the panes of one window in two stacks: the back one has one accumulator of all that came since the
  last flip, the front one has for each older pane the accumulator of all from there up to the flip. To add a pane, to
  drop the oldest and to read the whole take one merge each (amortized), in the order of the panes.
- An aggregator with an inverse needs no stacks: what leaves is removed from the total.
- A value of event time may come late, to a pane that has entered. The back stack takes the addition. The front stack
  cannot: the addition goes into a `Treap`, whose root has the accumulator of all additions that are still in the
  window. That takes about log2(additions) merges.

Functions of an aggregator may change their first argument in place, and keep what the second one refers to. So each
gets accumulators that nothing else refers to: its own, or copies. Numbers, text and tuples of them are not copied.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import Any

from pystorm_spark.aggregators import CombinerAggregator, own_copy

EMPTY: Any = object()  # the accumulator of no panes: `init()` may be costly, and need not be merged
STALE: Any = object()  # an accumulator to be folded again, because the aggregator has raised


class Merging:
    """Merges accumulators of one aggregator, of which either may be `EMPTY`."""

    def __init__(self, aggregator: CombinerAggregator[Any, Any]) -> None:
        self.aggregator = aggregator

    def merged(self, acc: Any, other: Any) -> Any:
        """A new accumulator; both arguments stay as they are."""
        if other is EMPTY:
            return own_copy(acc)
        return own_copy(other) if acc is EMPTY else self.aggregator.merge(own_copy(acc), own_copy(other))

    def grown(self, total: Any, acc: Any) -> Any:
        """`total` with `acc` merged into it; the caller owns `total`, and loses it if the merge raises."""
        return own_copy(acc) if total is EMPTY else self.aggregator.merge(total, own_copy(acc))


class SlidingFold:
    """The accumulator of a row of panes: new ones are added behind, old ones dropped in front.

    A pane has a number. Numbers grow from one pane to the next and may leave gaps.
    """

    def __init__(self, merging: Merging) -> None:
        self._merging = merging
        self._front: list[tuple[int, Any]] = []  # [(pane, accumulator from there to the flip)], the oldest last
        self._back: deque[tuple[int, Any]] = deque()  # [(pane, its own accumulator)], the oldest first
        self._back_total: Any = EMPTY
        self._late: Treap | None = None  # additions to panes of the front

    def __bool__(self) -> bool:
        return bool(self._front or self._back or self._late)

    def add(self, pane: int, acc: Any) -> None:
        """Add a pane, or an accumulator to one; the fold owns `acc` from now on.

        Over event time any pane may come, otherwise none older than the last one.
        """
        if self._front and pane < self._front[0][0]:
            self._late = self._late or Treap(self._merging)
            self._late.add(pane, acc)
            return
        total, self._back_total = self._known_back_total(), STALE  # until it is known that the merge does not raise
        self._back_total = self._merging.grown(total, acc)
        _insert(self._back, pane, acc)

    def drop_before(self, pane: int) -> None:
        """Drop all panes with smaller numbers."""
        while self._front and self._front[-1][0] < pane:
            self._front.pop()
        if not self._front and self._back and self._back[0][0] < pane:
            self._back_total = STALE
            while self._back and self._back[0][0] < pane:
                self._back.popleft()
            self._flip()
        if self._late is not None:
            self._late.drop_before(pane)
            self._late = self._late if self._late else None

    def total(self) -> Any:
        """The accumulator of all panes, in order; `EMPTY` if there is none. The caller owns it."""
        front = self._front[-1][1] if self._front else EMPTY
        total = self._merging.merged(front, self._known_back_total())
        return total if self._late is None else self._merging.grown(total, self._late.total())

    def _flip(self) -> None:
        front: list[tuple[int, Any]] = []
        total: Any = EMPTY
        for pane, acc in reversed(self._back):
            total = self._merging.merged(acc, total)
            front.append((pane, total))
        self._front = front
        self._back.clear()
        self._back_total = EMPTY

    def _known_back_total(self) -> Any:
        if self._back_total is STALE:
            total: Any = EMPTY
            for _, acc in self._back:
                total = self._merging.grown(total, acc)
            self._back_total = total
        return self._back_total


class SubtractingFold:
    """The same for an aggregator with an inverse: one total, from which each pane is removed as it leaves."""

    def __init__(self, merging: Merging) -> None:
        self._merging = merging
        self._panes: deque[tuple[int, Any]] = deque()
        self._total: Any = EMPTY

    def __bool__(self) -> bool:
        return bool(self._panes)

    def add(self, pane: int, acc: Any) -> None:
        """Add a pane, or an accumulator to one; the fold owns `acc` from now on."""
        self._total = self._merging.merged(self._total, acc)
        _insert(self._panes, pane, acc)

    def drop_before(self, pane: int) -> None:
        """Drop all panes with smaller numbers."""
        inverse = self._merging.aggregator.inverse
        assert inverse is not None
        while self._panes and self._panes[0][0] < pane:
            if self._panes[-1][0] < pane:
                self._panes.clear()
                self._total = EMPTY
                return
            self._total = inverse(own_copy(self._total), own_copy(self._panes[0][1]))
            self._panes.popleft()

    def total(self) -> Any:
        """The accumulator of all panes; `EMPTY` if there is none. The caller owns it."""
        return self._total if self._total is EMPTY else own_copy(self._total)


Fold = SlidingFold | SubtractingFold


def new_fold(merging: Merging) -> Fold:
    """The fold that suits an aggregator."""
    return SlidingFold(merging) if merging.aggregator.inverse is None else SubtractingFold(merging)


class Treap:
    """Accumulators by pane that come in any order; the root has that of all, each node that of its subtree.

    A search tree by pane, and a heap by a number drawn from the pane: so its depth is about that of a balanced tree,
    and the same panes always give the same tree.
    """

    def __init__(self, merging: Merging) -> None:
        self._merging = merging
        self._root: _Node | None = None

    def __bool__(self) -> bool:
        return self._root is not None

    def add(self, pane: int, acc: Any) -> None:
        """Add an accumulator to a pane; the treap owns `acc` from now on."""
        older, rest = self._split(self._root, pane)
        same, newer = self._split(rest, pane + 1)
        if same is not None:
            acc = self._merging.grown(acc, same.acc)
        node = self._node(pane, acc, None, None)
        self._root = self._joined(self._joined(older, node), newer)

    def drop_before(self, pane: int) -> None:
        """Drop all panes with smaller numbers."""
        _, self._root = self._split(self._root, pane)

    def total(self) -> Any:
        """The accumulator of all panes; `EMPTY` if there is none."""
        return EMPTY if self._root is None else self._root.total

    # A node never changes, so an aggregator that raises leaves the tree as it was.

    def _split(self, node: _Node | None, pane: int) -> tuple[_Node | None, _Node | None]:
        """The nodes with smaller numbers, and the others."""
        if node is None:
            return None, None
        if node.pane < pane:
            older, newer = self._split(node.right, pane)
            return (node if newer is None else self._node(node.pane, node.acc, node.left, older)), newer
        older, newer = self._split(node.left, pane)
        return older, (node if older is None else self._node(node.pane, node.acc, newer, node.right))

    def _joined(self, older: _Node | None, newer: _Node | None) -> _Node | None:
        if older is None or newer is None:
            return older or newer
        if older.rank > newer.rank:
            return self._node(older.pane, older.acc, older.left, self._joined(older.right, newer))
        return self._node(newer.pane, newer.acc, self._joined(older, newer.left), newer.right)

    def _node(self, pane: int, acc: Any, left: _Node | None, right: _Node | None) -> _Node:
        total = self._merging.merged(EMPTY if left is None else left.total, acc)
        if right is not None:
            total = self._merging.grown(total, right.total)
        return _Node(pane, acc, total, left, right)


class _Node:
    __slots__ = ("acc", "left", "pane", "rank", "right", "total")

    def __init__(self, pane: int, acc: Any, total: Any, left: _Node | None, right: _Node | None) -> None:
        self.pane, self.acc, self.total = pane, acc, total
        self.left, self.right = left, right
        self.rank = _scrambled(pane)


def _scrambled(number: int) -> int:
    """A number that looks random and depends on `number` alone (the finalizer of SplitMix64)."""
    mixed = (number * 0x9E3779B97F4A7C15) & _64_BITS
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _64_BITS
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _64_BITS
    return mixed ^ (mixed >> 31)


_64_BITS = (1 << 64) - 1


def _insert(panes: deque[tuple[int, Any]], pane: int, acc: Any) -> None:
    if not panes or panes[-1][0] <= pane:
        panes.append((pane, acc))
    else:
        panes.insert(bisect_right(panes, pane, key=lambda entry: entry[0]), (pane, acc))
