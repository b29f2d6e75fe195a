"""Internal. Arrivals: takes in frames from other slots: tuples go into queues, acks to spout tasks."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, repeat
from typing import Any

from pystorm_spark.core import compiled
from pystorm_spark.errors import SerializationError
from pystorm_spark.runtime.bolt_task import BoltTask
from pystorm_spark.runtime.codec.codec import AckFrame, TupleFrame, ValueCodec, decode, is_acks
from pystorm_spark.runtime.durable.transactions import Transactions
from pystorm_spark.runtime.frames import Frame, Outbox
from pystorm_spark.runtime.plan import Plan
from pystorm_spark.runtime.rotating import RotatingMap
from pystorm_spark.runtime.spout_task import SpoutTask
from pystorm_spark.runtime.task import Task
from pystorm_spark.runtime.trees import join
from pystorm_spark.topology.tuple import Origin, Tree, Tuple, new_tuple

Anchors = tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]  # roots, homes, edges, rows of each

BACKLOG = 4096  # queued tuples of a task, above which no more frames are unpacked for it
BACKLOG_BYTES = 8 << 20  # the same limit in bytes, shared by all tasks


class Lane:
    """The backlog of one bolt task: frames wait packed, in a tenth of the memory, while its queue is full."""

    __slots__ = ("_most", "_most_bytes", "frames", "task")

    def __init__(self, task: BoltTask, most_bytes: float) -> None:
        self.task = task
        self.frames: deque[Frame] = deque()
        self._most: float = BACKLOG
        self._most_bytes = most_bytes

    def takes_more(self) -> bool:
        return self.task.waiting() < self._most

    def note_size(self, payload: int, rows: int) -> None:
        """Fit the limit to the size of the tuples in the last frame."""
        self._most = min(BACKLOG, self._most_bytes * max(1, rows) / payload)


class Arrivals:
    """The frames delivered to a slot, from delivery until they are unpacked."""

    def __init__(self, plan: Plan, codec: ValueCodec, tasks: Mapping[int, Task], outbox: Outbox) -> None:
        self._plan = plan
        self._codec = codec
        self._tasks = tasks
        self._outbox = outbox
        self._delivered: deque[Frame] = deque()
        self._came = dict.fromkeys(tasks, 0)  # {task: bytes delivered}, counted by the delivering thread
        self._taken = dict.fromkeys(tasks, 0)  # {task: bytes taken in}, counted by the slot's thread
        bolts = [task for task in tasks.values() if isinstance(task, BoltTask)]
        self._lanes = {task.task_id: Lane(task, BACKLOG_BYTES / len(bolts)) for task in bolts}
        self._backlogged: list[Lane] = []  # the lanes that have frames
        self._origins: dict[tuple[int, str], Origin] = {}

    def deliver(self, frames: Iterable[Frame]) -> None:
        """Queue frames for `take_in`. Any thread may call it, but one at a time."""
        for frame in frames:
            if frame.target in self._came:
                self._came[frame.target] += len(frame.payload)
            self._delivered.append(frame)

    def is_waiting(self) -> bool:
        """Whether frames were delivered after the last `take_in`; they go before new tuples of the spouts."""
        return bool(self._delivered)

    def backlogged(self) -> set[str]:
        """The bolts that have a backlog: frames wait because a queue is full."""
        return {lane.task.component_id for lane in self._backlogged}

    def has_backlog_for(self, task: BoltTask) -> bool:
        """Whether frames wait for `task`."""
        return bool(self._lanes[task.task_id].frames)

    def waiting_bytes(self) -> int:
        """The size of the frames not yet taken in."""
        return sum(self._came.values()) - sum(self._taken.values())

    def full(self, limit: int) -> list[str]:
        """The components with more than an even share of the waiting bytes; none up to `limit` bytes in all."""
        sizes: Counter[str] = Counter()
        for task, came in self._came.items():
            sizes[self._plan.component_of[task]] += came - self._taken[task]
        waiting = +sizes
        if waiting.total() <= limit:
            return []
        return sorted(component for component, size in waiting.items() if size > limit / len(waiting))

    def clear(self) -> None:
        """Drop all frames and all branches."""
        while self._delivered:
            self._count(self._delivered.popleft())
        for lane in self._backlogged:
            while lane.frames:
                self._count(lane.frames.popleft())
        self._backlogged = []
        self._outbox.branches = RotatingMap(2)

    def _count(self, frame: Frame) -> Frame:
        """Count `frame` as taken in, and return it."""
        if frame.target in self._taken:
            self._taken[frame.target] += len(frame.payload)
        return frame

    def rotate(self) -> None:
        """A message timeout has passed."""
        self._outbox.branches.rotate()

    def take_in(self) -> bool:
        """Take in all acks, and the tuples of every task whose queue is not full; return whether there was anything.

        A full queue delays neither other tasks nor acks.
        """
        if not self._delivered and not self._backlogged:
            return False
        took = self._sort()
        for lane in self._backlogged:
            while lane.frames and lane.takes_more():
                self._unpack(lane)
                took = True
        self._backlogged = [lane for lane in self._backlogged if lane.frames]
        return took

    def _sort(self) -> bool:
        """Take in the acks, and put the tuples into the lanes of their tasks."""
        came = bool(self._delivered)
        while self._delivered:
            frame = self._delivered.popleft()
            lane = self._lanes.get(frame.target)
            if lane is None or (lane.task.transactions is not None and is_acks(frame.payload)):
                self._take_acks(frame)
                continue
            if not lane.frames:
                self._backlogged.append(lane)
            lane.frames.append(frame)
        return came

    def _take_acks(self, sent: Frame) -> None:
        frame, task = decode(self._count(sent).payload, self._codec), self._tasks.get(sent.target)
        home = task.transactions if isinstance(task, BoltTask) else task
        if not isinstance(frame, AckFrame) or not isinstance(home, (SpoutTask, Transactions)):
            raise _misdirected(sent)
        _tell_acks(frame, home)

    def _unpack(self, lane: Lane) -> None:
        sent = self._count(lane.frames.popleft())
        frame = decode(sent.payload, self._codec)
        if not isinstance(frame, TupleFrame):
            raise _misdirected(sent)
        lane.note_size(len(sent.payload), len(frame.rows))
        self._take_tuples(frame, lane.task)

    def _take_tuples(self, frame: TupleFrame, task: BoltTask) -> None:
        if frame.in_runs and not frame.refused:
            self._take_runs(frame, task)
            return
        origin = self._origin(frame.source, frame.stream)
        trees = self._trees(frame)
        for tree in trees:
            tree.unsettled += 1
        for number, (values, tree) in enumerate(zip(frame.rows, trees, strict=True)):
            tup = new_tuple(values, origin, tree)
            if number in frame.refused:
                task.refuse(tup, frame.refused[number])
            else:
                task.inbox.append(tup)

    def _trees(self, frame: TupleFrame) -> list[Tree]:
        """The tree of each row of `frame`."""
        anchors = map(self._outbox.enter, frame.roots, frame.homes, frame.edges)
        if frame.in_runs:
            return [branch for branch, count in zip(anchors, frame.counts, strict=True) for _ in range(count)]
        return [join(list(islice(anchors, count))) for count in frame.counts]

    def _take_runs(self, frame: TupleFrame, task: BoltTask) -> None:
        """Take in a frame of the common kind: every tuple belongs to one tree, and all of them can be unpacked."""
        origin = self._origin(frame.source, frame.stream)
        anchors = (frame.roots, frame.homes, frame.edges, frame.counts)
        _fill(task.inbox, origin, frame.rows, anchors, self._outbox)

    def _origin(self, source: int, stream: str) -> Origin:
        origin = self._origins.get((source, stream))
        if origin is None:
            component = self._plan.component_of[source]
            fields = self._plan.outputs_of(component)[stream].fields
            origin = self._origins[source, stream] = Origin(component, source, stream, fields)
        return origin


@compiled
def _fill(
    inbox: list[Tuple],
    origin: Origin,
    rows: list[list[Any]],
    anchors: Anchors,
    outbox: Outbox,
) -> None:
    """Make tuples of the rows, count them in the branches that the anchors name, and queue them."""
    left, newest = iter(rows), outbox.branches.newest
    for root_id, home, edge, count in zip(*anchors, strict=True):
        branch = newest.get(root_id)
        if branch is None:
            branch = outbox.enter(root_id, home, edge)
        else:
            branch.edge ^= edge
        branch.unsettled += count
        for values in islice(left, count):
            tup = Tuple()  # `new_tuple`, without the call
            tup.values = values
            tup._origin = origin
            tup._tree = branch
            inbox.append(tup)


def _misdirected(sent: Frame) -> SerializationError:
    return SerializationError(f"a frame came for task {sent.target}, which is not in this slot")


def _tell_acks(frame: AckFrame, task: SpoutTask | Transactions) -> None:
    for root, edges in zip(frame.acked_roots, frame.acked_edges, strict=True):
        task.subtree_acked(root, edges)
    for root, why in zip(frame.failed_roots, frame.whys or repeat("")):  # noqa: B905 - or for ever
        task.subtree_failed(root, why)
    for root in frame.reset_roots:
        task.reset_root(root)
