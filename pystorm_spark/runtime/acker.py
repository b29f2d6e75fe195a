"""Internal. AckLedger: Storm's acker. One 64-bit XOR per root, whatever the size of its tree.

Every edge of a tree has a random id. The ledger XORs each id twice into the root's value: when the edge is made and
when the tuple that travelled along it is acked. When the value is zero the tree is complete. `init`, `ack`, `fail`
and `reset_timeout` may arrive in any order; an outcome needs the `init`, which names the spout task that gets it.

An edge inside one process needs no id: its two halves would cancel before they leave. Such edges are counted
(`trees`), and each process sends one net value when its subtree has drained.
"""

from __future__ import annotations

from typing import NamedTuple

from pystorm_spark.core import laid_out
from pystorm_spark.runtime.rotating import RotatingMap

BUCKETS = 3  # one more than the spout's own, so that the spout and not the acker times a tuple out


class Outcome(NamedTuple):
    """The end of a root's tree: every tuple acked, or one failed."""

    root: int
    spout_task: int
    acked: bool


@laid_out
class AckEntry:
    """The state of one root: its XOR, its spout task, and whether it failed."""

    __slots__ = ("edges", "failed", "spout_task")

    def __init__(self) -> None:
        self.edges = 0
        self.spout_task: int | None = None
        self.failed = False


@laid_out
class AckLedger:
    """The roots whose trees have left their process and are not complete."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: RotatingMap[int, AckEntry] = RotatingMap(BUCKETS)

    def init(self, root: int, edges: int, spout_task: int) -> Outcome | None:
        """The spout task emitted `root` along edges whose ids XOR to `edges`."""
        entry = self._entry(root)
        entry.edges ^= edges
        entry.spout_task = spout_task
        return None if entry.edges and not entry.failed else self._settle(root, entry)

    def ack(self, root: int, edges: int) -> Outcome | None:
        """Tuples were acked: the XOR of the edges they came along and of those they were sent on along."""
        entry = self._entries.newest.get(root) or self._entry(root)
        entry.edges ^= edges
        return None if entry.edges else self._settle(root, entry)

    def fail(self, root: int) -> Outcome | None:
        """A tuple of the tree failed."""
        entry = self._entry(root)
        entry.failed = True
        return self._settle(root, entry)

    def reset_timeout(self, root: int) -> None:
        """Give the root a whole timeout from now on."""
        self._entries.put(root, self._entry(root))

    def rotate(self) -> None:
        """Drop stale entries: late acks, and roots that their spout has timed out."""
        self._entries.rotate()

    def forget(self, root: int) -> None:
        self._entries.pop(root)

    def __len__(self) -> int:
        return len(self._entries)

    def _entry(self, root: int) -> AckEntry:
        entry = self._entries.get(root)
        if entry is None:
            entry = self._entries.newest[root] = AckEntry()
        return entry

    def _settle(self, root: int, entry: AckEntry) -> Outcome | None:
        if entry.spout_task is None or (entry.edges and not entry.failed):
            return None
        self._entries.pop(root)
        # Zero wins over failed, as in Storm: nothing of the tree is left to do.
        return Outcome(root, entry.spout_task, acked=not entry.edges)
