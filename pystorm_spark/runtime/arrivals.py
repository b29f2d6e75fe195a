"""Internal. Arrivals: frames from other slots, until they are tuples in a queue or news for a spout."""

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

BACKLOG = 4096  # queued tuples of a task above which no more are taken in for it
BACKLOG_BYTES = 8 << 20  # the same for large ones: of all tasks, each has its share


class Lane:
    """The frames for one bolt task that wait until its queue has room: packed they take a tenth of the memory."""

    __slots__ = ("_most", "_most_bytes", "frames", "task")

    def __init__(self, task: BoltTask, most_bytes: float) -> None:
        self.task = task
        self.frames: deque[Frame] = deque()
        self._most: float = BACKLOG
        self._most_bytes = most_bytes

    def has_room(self) -> bool:
        return self.task.waiting() < self._most

    def note_size(self, payload: int, rows: int) -> None:
        """The last frame has shown how large tuples are."""
        self._most = min(BACKLOG, self._most_bytes * max(1, rows) / payload)


class Arrivals:
    """What was delivered to a slot, and the parts of trees that came with it."""

    def __init__(self, plan: Plan, codec: ValueCodec, tasks: Mapping[int, Task], outbox: Outbox) -> None:
        self._plan = plan
        self._codec = codec
        self._tasks = tasks
        self._outbox = outbox
        self._delivered: deque[Frame] = deque()
        self._came = dict.fromkeys(tasks, 0)  # {task: bytes that came for it}, counted by the thread that delivers
        self._taken = dict.fromkeys(tasks, 0)  # the same for what was taken in, by the thread that turns the slot
        bolts = [task for task in tasks.values() if isinstance(task, BoltTask)]
        self._lanes = {task.task_id: Lane(task, BACKLOG_BYTES / len(bolts)) for task in bolts}
        self._backlogged: list[Lane] = []  # those that have frames
        self._origins: dict[tuple[int, str], Origin] = {}

    def deliver(self, frames: Iterable[Frame]) -> None:
        """Put frames down to be taken in; any thread may call it, one at a time."""
        for frame in frames:
            if frame.target in self._came:
                self._came[frame.target] += len(frame.payload)
            self._delivered.append(frame)

    def is_waiting(self) -> bool:
        """Whether something has come that has not been looked at: it comes before what spouts have."""
        return bool(self._delivered)

    def backlogged(self) -> set[str]:
        """The bolts for which more has come than their queues have room for."""
        return {lane.task.component_id for lane in self._backlogged}

    def has_backlog_for(self, task: BoltTask) -> bool:
        """Whether that is so of one task."""
        return bool(self._lanes[task.task_id].frames)

    def waiting_bytes(self) -> int:
        """The size of what has not yet been taken in."""
        return sum(self._came.values()) - sum(self._taken.values())

    def full(self, limit: int) -> list[str]:
        """Once more than `limit` bytes wait: the components for which more of it has come than an even share."""
        sizes: Counter[str] = Counter()
        for task, came in self._came.items():
            sizes[self._plan.component_of[task]] += came - self._taken[task]
        waiting = +sizes
        if waiting.total() <= limit:
            return []
        return sorted(component for component, size in waiting.items() if size > limit / len(waiting))

    def clear(self) -> None:
        """Forget all that came."""
        while self._delivered:
            self._count(self._delivered.popleft())
        for lane in self._backlogged:
            while lane.frames:
                self._count(lane.frames.popleft())
        self._backlogged = []
        self._outbox.branches = RotatingMap(2)

    def _count(self, frame: Frame) -> Frame:
        """Note that a frame waits no more."""
        if frame.target in self._taken:
            self._taken[frame.target] += len(frame.payload)
        return frame

    def rotate(self) -> None:
        """A message timeout has passed."""
        self._outbox.branches.rotate()

    def take_in(self) -> bool:
        """Take in all acks that came, and the tuples of each task for which there is room; whether there was anything.

        A task whose queue is full holds up neither the others nor the acks.
        """
        if not self._delivered and not self._backlogged:
            return False
        took = self._sort()
        for lane in self._backlogged:
            while lane.frames and lane.has_room():
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
        """The same for the common frame: every tuple belongs to one tree, and can be unpacked."""
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
    """Make the rows tuples of the branches that the anchors stand for, and queue them."""
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
