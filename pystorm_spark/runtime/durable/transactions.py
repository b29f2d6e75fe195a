"""Internal. Transactions: the tuples that a stateful bolt emits by timers and ticks, until other bolts executed them.

No spout replays these tuples. A commit with the bolt's own changes, but without their effects elsewhere, would lose
the effects. So each timer call and each tick of a stateful bolt begins a tree, and a commit waits for these trees.
Under exactly-once a failed tree rolls back everything that is not committed.
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING

from pystorm_spark.runtime.acker import AckLedger, Outcome
from pystorm_spark.runtime.rotating import RotatingMap
from pystorm_spark.runtime.trees import Travelling

if TYPE_CHECKING:
    from pystorm_spark.runtime.slot_context import SlotContext


class TransactionTree(Travelling):
    """What one timer or tick has emitted: it is pending from the call to the last ack, or the first fail."""

    __slots__ = ("owner",)

    def __init__(self, owner: Transactions) -> None:
        self.unsettled = 1  # the place of the call
        self.edge = 0
        self.root_id = 0
        self.owner = owner

    def home(self) -> int:
        return self.owner.task_id

    def leave(self, edge: int) -> int:
        if not self.root_id:
            self.owner.track(self)
        self.edge ^= edge
        return self.root_id

    def drained(self) -> None:
        if self.unsettled:
            return
        if self.root_id:
            self.owner.subtree_acked(self.root_id, self.edge)
        else:
            self.owner.end(self, acked=True)

    def fail(self) -> None:
        self.owner.end(self, acked=False)

    def reset_timeout(self) -> None:
        self.owner.renew(self)

    def edges(self) -> dict[int, int]:
        if not self.root_id:
            self.owner.track(self)
        return {self.root_id: 0}


class Transactions:
    """The pending trees of one task of a bolt with state."""

    def __init__(self, task_id: int, slot_context: SlotContext) -> None:
        self.task_id = task_id
        self.is_broken = False  # a tree has failed
        self._slot_context = slot_context
        self._pending: RotatingMap[TransactionTree, bool] = RotatingMap(2)
        self._left: dict[int, TransactionTree] = {}  # {root id: tree that has left the slot}
        self._ledger = AckLedger()

    def __len__(self) -> int:
        return len(self._pending)

    def begin(self) -> TransactionTree:
        """A new tree, with a place that the caller holds."""
        tree = TransactionTree(self)
        self._pending.newest[tree] = True
        return tree

    def track(self, tree: TransactionTree) -> None:
        """Give `tree` its id: a tuple of it leaves the slot. As of a `Root`, any thread may ask for it."""
        outbox = self._slot_context.outbox
        root_id, here = outbox.edge_id(), outbox.edge_id()  # the second stands for all that is still in this slot
        if tree.root_id:  # another thread was first
            return
        tree.root_id, tree.edge = root_id, here
        self._left[root_id] = tree
        if get_ident() == self._slot_context.thread:
            self._settle(self._ledger.init(root_id, here, self.task_id))
        else:
            self._slot_context.post(lambda: self._settle(self._ledger.init(root_id, here, self.task_id)))

    def subtree_acked(self, root_id: int, edges: int) -> None:
        """A subtree has drained, here or elsewhere."""
        if root_id in self._left:
            self._settle(self._ledger.ack(root_id, edges))

    def subtree_failed(self, root_id: int, why: str = "") -> None:
        if root_id in self._left:
            self._settle(self._ledger.fail(root_id))

    def reset_root(self, root_id: int) -> None:
        if root_id in self._left:
            self.renew(self._left[root_id])

    def _settle(self, outcome: Outcome | None) -> None:
        tree = self._left.get(outcome.root) if outcome is not None else None
        if outcome is not None and tree is not None:
            self.end(tree, outcome.acked)

    def end(self, tree: TransactionTree, acked: bool) -> None:
        """`tree` is complete, or has failed; the first word counts."""
        if self._pending.get(tree):
            self._pending.pop(tree)
            self._forget(tree)
            self.is_broken |= not acked

    def _forget(self, tree: TransactionTree) -> None:
        if tree.root_id:
            self._left.pop(tree.root_id, None)
            self._ledger.forget(tree.root_id)

    def renew(self, tree: TransactionTree) -> None:
        """Give `tree` a whole message timeout from now on."""
        if self._pending.get(tree):
            self._pending.put(tree, True)
            if tree.root_id:
                self._ledger.reset_timeout(tree.root_id)

    def rotate(self) -> None:
        """A message timeout has passed: what was pending before the last one fails."""
        for tree in self._pending.rotate():
            self._forget(tree)
            self.is_broken = True
        self._ledger.rotate()

    def clear(self) -> None:
        """Nothing that is pending counts any more."""
        self._pending, self._left, self._ledger = RotatingMap(2), {}, AckLedger()
        self.is_broken = False
