"""Internal. Arrivals: frames from other slots, until they are tuples in a queue or news for a spout."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice, repeat
from typing import Any

from pystorm_spark.core import compiled
from pystorm_spark.errors import SerializationError
from pystorm_spark.runtime.bolt_task import BoltTask
from pystorm_spark.runtime.codec import AckFrame, TupleFrame, ValueCodec, decode
from pystorm_spark.runtime.frames import Frame, Outbox
from pystorm_spark.runtime.plan import Plan
from pystorm_spark.runtime.rotating import RotatingMap
from pystorm_spark.runtime.spout_task import SpoutTask
from pystorm_spark.runtime.task import Task
from pystorm_spark.runtime.trees import join
from pystorm_spark.topology.tuple import Origin, Tree, Tuple, new_tuple

Anchors = tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]  # roots, homes, edges, rows of each

BACKLOG = 4096  # queued tuples above which nothing is taken in
BACKLOG_BYTES = 8 << 20  # the same for large ones, by the size of the last


class Arrivals:
    """What was delivered to a slot, and the parts of trees that came with it."""

    def __init__(self, plan: Plan, codec: ValueCodec, tasks: Mapping[int, Task], outbox: Outbox) -> None:
        self._plan = plan
        self._codec = codec
        self._tasks = tasks
        self._outbox = outbox
        self._delivered: deque[Frame] = deque()
        self._row_bytes = 1.0  # of the tuples that were taken in last
        self._origins: dict[tuple[int, str], Origin] = {}

    def deliver(self, frames: Iterable[Frame]) -> None:
        self._delivered.extend(frames)

    def is_waiting(self) -> bool:
        """Whether something has not yet been taken in: it comes before what spouts have."""
        return bool(self._delivered)

    def waiting_bytes(self) -> int:
        """The size of what has not yet been taken in."""
        return sum(len(frame.payload) for frame in list(self._delivered))

    def clear(self) -> None:
        """Forget all that came."""
        self._delivered.clear()
        self._outbox.branches = RotatingMap(2)

    def rotate(self) -> None:
        """A message timeout has passed."""
        self._outbox.branches.rotate()

    def take_in(self, queued: Callable[[], int]) -> bool:
        """Unpack what was delivered while there is room for it: packed it takes a tenth of the memory."""
        took = bool(self._delivered)
        while self._delivered and queued() < min(BACKLOG, BACKLOG_BYTES / self._row_bytes):
            payload = self._delivered.popleft().payload
            frame = decode(payload, self._codec)
            task = self._tasks.get(frame.target)
            if isinstance(frame, AckFrame) and isinstance(task, SpoutTask):
                _take_acks(frame, task)
            elif isinstance(frame, TupleFrame) and isinstance(task, BoltTask):
                self._row_bytes = len(payload) / max(1, len(frame.rows))
                self._take_tuples(frame, task)
            else:
                raise SerializationError(f"a frame came for task {frame.target}, which is not in this slot")
        return took

    def _take_tuples(self, frame: TupleFrame, task: BoltTask) -> None:
        if frame.in_runs and not frame.refused:
            self._take_runs(frame, task)
            return
        origin = self._origin(frame.source, frame.stream)
        trees = self._trees(frame)
        for tree in trees:
            tree.open += 1
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
        branch.open += count
        for values in islice(left, count):
            tup = Tuple()  # `new_tuple`, without the call
            tup.values = values
            tup._origin = origin
            tup._tree = branch
            inbox.append(tup)


def _take_acks(frame: AckFrame, task: SpoutTask) -> None:
    for root, edges in zip(frame.acked_roots, frame.acked_edges, strict=True):
        task.part_acked(root, edges)
    for root, why in zip(frame.failed_roots, frame.whys or repeat("")):  # noqa: B905 - or for ever
        task.part_failed(root, why)
    for root in frame.reset_roots:
        task.reset_root(root)
