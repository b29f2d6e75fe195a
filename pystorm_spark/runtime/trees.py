"""Internal. The kinds of `Tree`: the subtree of a tuple tree that lives in one slot.

Inside a slot the tuples of a tree are counted (`unsettled`), which needs no random id and no lookup. Only tuples that
leave the slot get edge ids. A subtree keeps the XOR of the ids of its incoming and outgoing edges, and sends that one
value home to the root's ledger when it has drained.

    Root        a tree that began here: a spout task of this slot emitted its root
    Branch      a subtree that came in frames
    Joint       tuples anchored to several trees at once; counts as one tuple in each of them
    Tick        a tick tuple, which belongs to no tree and is not counted
    RolledBack  tuples that a bolt held across a rollback

Several threads may change the count. A tuple is counted before any other thread can see it, and an emit counts as one
more until all its targets are served. So the count reaches zero only when every tuple is settled. Only the slot's own
thread calls `drained`, maybe later: by then a frame may have brought more tuples of a `Branch`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pystorm_spark.core import laid_out
from pystorm_spark.topology.tuple import NoTree, Tree, Tuple

if TYPE_CHECKING:
    from pystorm_spark.runtime.bolt_collector import BoltCollector
    from pystorm_spark.runtime.frames import Outbox
    from pystorm_spark.runtime.spout_task import SpoutTask

laid_out(Tuple)
laid_out(Tree)
UNTRACKED = NoTree()


@laid_out
class Travelling(Tree):
    """A subtree that may send tuples to other slots, or came from one."""

    __slots__ = ("edge", "root_id")

    edge: int  # XOR of the edge ids in and out
    root_id: int  # 0 as long as nothing of the tree has left its slot

    def home(self) -> int:
        """The task that emitted the root; its slot keeps the ledger."""
        raise NotImplementedError

    def leave(self, edge: int) -> int:
        """Count a tuple that goes to another slot along `edge`; return the id of the root."""
        self.edge ^= edge
        return self.root_id

    def members(self) -> tuple[Tree, ...]:
        return (self,)

    def edges(self) -> dict[int, int]:
        return {self.root_id: 0}


@laid_out
class Root(Travelling):
    """A tuple tree that began in this slot, from the emit to its ack or fail."""

    __slots__ = ("bucket", "emitted_at", "message_id", "task", "why")

    task: SpoutTask
    message_id: Any
    emitted_at: float
    bucket: dict[Root, None] | None  # where it is pending; None once it is acked or failed
    why: str  # the reason, once it has failed

    def home(self) -> int:
        return self.task.task_id

    def leave(self, edge: int) -> int:
        if not self.root_id:
            self.task.track(self)
        self.edge ^= edge
        return self.root_id

    def drained(self) -> None:
        if self.unsettled:
            return
        if self.root_id:
            self.task.subtree_acked(self.root_id, self.edge)
        elif self.bucket is not None:
            del self.bucket[self]
            self.bucket = None
            self.task.acked.append(self)

    def fail(self) -> None:
        self.task.settle(self, acked=False, why=self.task.slot_context.outbox.why)

    def reset_timeout(self) -> None:
        self.task.renew(self)

    def edges(self) -> dict[int, int]:
        if not self.root_id:
            self.task.track(self)
        return {self.root_id: 0}


def new_root(task: SpoutTask, message_id: Any, emitted_at: float, bucket: dict[Root, None]) -> Root:
    """A root that counts its emit as unsettled; its `edge` is set when the first tuple leaves the slot."""
    root = Root()
    root.unsettled = 1
    root.root_id = 0
    root.task = task
    root.message_id = message_id
    root.emitted_at = emitted_at
    root.bucket = bucket
    return root


@laid_out
class Branch(Travelling):
    """The subtree of the tuples of one tree that came from other slots, and of their descendants here."""

    __slots__ = ("failed", "home_task", "outbox")

    def __init__(self, root_id: int, home_task: int, outbox: Outbox) -> None:
        self.unsettled = 0
        self.edge = 0
        self.root_id = root_id
        self.home_task = home_task
        self.outbox = outbox
        self.failed = False

    def home(self) -> int:
        return self.home_task

    def drained(self) -> None:
        if not self.unsettled:  # else a frame has brought more since this call was posted
            self.outbox.close(self)

    def fail(self) -> None:
        if not self.failed:
            self.failed = True
            self.outbox.fail(self)

    def reset_timeout(self) -> None:
        self.outbox.reset(self)


class Joint(Tree):
    """Tuples anchored to several trees: it counts as one tuple in each of them until all are acked.

    The parents must not be drained when it is made: the caller has counted its emit in each of them.
    """

    __slots__ = ("parents",)

    def __init__(self, parents: tuple[Tree, ...]) -> None:
        self.unsettled = 0
        self.parents = parents
        for parent in parents:
            parent.unsettled += 1

    def drained(self) -> None:
        release(self.parents)

    def fail(self) -> None:
        for parent in self.parents:
            parent.fail()

    def reset_timeout(self) -> None:
        for parent in self.parents:
            parent.reset_timeout()

    def members(self) -> tuple[Tree, ...]:
        return self.parents

    def edges(self) -> dict[int, int]:
        return {root: edge for parent in self.parents for root, edge in parent.edges().items()}


class Tick(Tree):
    """The tree of one tick. `ack` counts it; `drained` takes it out again, as only user streams are counted."""

    __slots__ = ("collector",)

    def __init__(self, collector: BoltCollector) -> None:
        self.unsettled = 1
        self.collector = collector

    def drained(self) -> None:
        self.collector.acked -= 1


@laid_out
class RolledBack(NoTree):
    """The tree of tuples that a bolt still holds after a rollback; emits anchored to them are dropped."""

    __slots__ = ()


ROLLED_BACK = RolledBack()


def release(trees: Iterable[Tree]) -> None:
    """Count one tuple less in each of `trees`. Only the slot's own thread may call it, because they may drain."""
    for tree in trees:
        tree.unsettled -= 1
        if not tree.unsettled:
            tree.drained()


def join(trees: list[Tree]) -> Tree:
    """The tree of a tuple anchored to tuples of `trees`: their common tree, or else a joint."""
    members = tuple(dict.fromkeys(member for tree in trees for member in tree.members()))
    if not members:
        return UNTRACKED
    if len(members) == 1:
        return members[0]
    return Joint(members)
