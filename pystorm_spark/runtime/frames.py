"""Internal. Frames: everything that leaves a slot. An `Outbox` buffers tuples and acks, and seals them into frames."""

from __future__ import annotations

import math
import random
from array import array
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from pystorm_spark.core import laid_out
from pystorm_spark.runtime.codec.codec import ValueCodec, encode_acks, encode_tuples
from pystorm_spark.runtime.rotating import RotatingMap
from pystorm_spark.runtime.trees import Branch, Travelling
from pystorm_spark.topology.tuple import Tree

DRAWN_IDS = 512  # edge ids drawn at once
MOST_ROWS = 1024  # of one frame
LARGE_BYTES = 1 << 16  # a larger value is packed at the emit, and ends its frame


class Frame(NamedTuple):
    """Bytes for one task: tuples of one source task and stream, or acks. Nothing else travels between slots."""

    target: int
    payload: bytes


@laid_out
class TupleBuffer:
    """The tuples of one source task and stream for one target task in another slot, until they are sealed.

    Consecutive tuples of one tree form a run, which travels along one edge.
    """

    __slots__ = ("counts", "edges", "homes", "in_runs", "roots", "rows", "run", "source", "stream", "target")

    def __init__(self, target: int, source: int, stream: str) -> None:
        self.target = target
        self.source = source
        self.stream = stream
        self.clear()

    def clear(self) -> None:
        self.rows: list[list[Any] | bytes] = []  # rows of atoms, packed at the seal, or packed rows
        self.in_runs = False
        self.run: Tree | None = None  # the tree of the last run, if the buffer is in runs
        self.counts: list[int] = []
        self.roots: list[int] = []
        self.homes: list[int] = []
        self.edges: list[int] = []

    def seal(self, codec: ValueCodec) -> Frame:
        rows = codec.pack_rows(self.rows)
        columns = (self.in_runs, self.counts, array("Q", self.roots), array("I", self.homes), array("Q", self.edges))
        payload = encode_tuples(self.target, self.source, self.stream, len(self.rows), rows, *columns)
        self.clear()
        return Frame(self.target, payload)


@laid_out
class AckBuffer:
    """Acker messages for one spout task in another slot, until they are sealed."""

    __slots__ = ("acked_edges", "acked_roots", "failed", "reset", "target", "whys")

    def __init__(self, target: int) -> None:
        self.target = target
        self.acked_roots: list[int] = []
        self.acked_edges: list[int] = []
        self.failed: list[int] = []
        self.whys: list[str] = []  # why each of the failed roots failed
        self.reset: list[int] = []

    def seal(self) -> Frame:
        roots, edges, failed, reset = (
            array("Q", column) for column in (self.acked_roots, self.acked_edges, self.failed, self.reset)
        )
        return Frame(self.target, encode_acks(self.target, roots, edges, failed, reset, self.whys))


@laid_out
class Outbox:
    """Buffers and frames of one slot: tuples for other slots, and acks, fails and resets for roots of other slots."""

    __slots__ = (
        "_acks",
        "_codec",
        "_dirty",
        "_edge_ids",
        "_full",
        "_rng",
        "_sealed",
        "_sealed_bytes",
        "_taken_bytes",
        "branches",
        "why",
    )

    def __init__(self, rng: random.Random, codec: ValueCodec) -> None:
        # {root id: branch}, from its first tuple until it drains. An expired branch still sends its value home when it
        # drains; a later tuple of its tree starts another branch.
        self.branches: RotatingMap[int, Branch] = RotatingMap(2)
        self._rng = rng
        self._codec = codec
        self._edge_ids: Iterator[int] = iter(())
        self._dirty: dict[tuple[int, int], TupleBuffer] = {}  # {(source, target): buffer with tuples}
        self._full: list[Frame] = []  # sealed before the end of the turn
        self._acks: dict[int, AckBuffer] = {}
        self._sealed: deque[Frame] = deque()
        self._sealed_bytes = 0  # in total, counted by the slot's thread
        self._taken_bytes = 0  # in total, counted by the thread that takes
        self.why = ""  # the reason of the fail in progress

    def edge_id(self) -> int:
        """A random id other than zero, because XOR with zero changes nothing."""
        while not (edge := next(self._edge_ids, 0)):
            self._edge_ids = filter(None, array("Q", self._rng.randbytes(8 * DRAWN_IDS)))
        return edge

    def send(self, buffer: TupleBuffer, row: list[Any] | bytes, tree: Tree) -> None:
        """Put a tuple of `tree` into `buffer`. A row that is not packed must consist of atoms."""
        if tree is buffer.run:
            buffer.counts[-1] += 1
        else:
            self._begin(buffer, tree)
        buffer.rows.append(row)
        if len(buffer.rows) >= MOST_ROWS or (type(row) is bytes and len(row) > LARGE_BYTES):
            self._full.append(buffer.seal(self._codec))

    def _begin(self, buffer: TupleBuffer, tree: Tree) -> None:
        """Record the anchors of a tuple. A tuple with one anchor begins a run."""
        in_runs = isinstance(tree, Travelling)
        if buffer.rows and buffer.in_runs != in_runs:
            self._full.append(buffer.seal(self._codec))
        if not buffer.rows:
            self._open(buffer)
            buffer.in_runs = in_runs
        if isinstance(tree, Travelling):
            self._anchor(buffer, tree)
            buffer.run = tree
            buffer.counts.append(1)
        else:
            members = tree.members()
            for member in members:
                assert isinstance(member, Travelling)
                self._anchor(buffer, member)
            buffer.counts.append(len(members))

    def _anchor(self, buffer: TupleBuffer, member: Travelling) -> None:
        edge = next(self._edge_ids, 0) or self.edge_id()
        buffer.roots.append(member.leave(edge))
        buffer.homes.append(member.home())
        buffer.edges.append(edge)

    def _open(self, buffer: TupleBuffer) -> None:
        """Begin to fill `buffer`, and seal any other buffer of the two tasks: order holds across their streams, too."""
        lane = (buffer.source, buffer.target)
        other = self._dirty.get(lane)
        if other is not None and other.rows:
            self._full.append(other.seal(self._codec))
        self._dirty[lane] = buffer

    def enter(self, root_id: int, home_task: int, edge: int) -> Branch:
        """The branch of a root's tree in this slot, with one more incoming edge."""
        branch = self.branches.newest.get(root_id) or self.branches.get(root_id)
        if branch is None:
            branch = self.branches.newest[root_id] = Branch(root_id, home_task, self)
        branch.edge ^= edge
        return branch

    def close(self, branch: Branch) -> None:
        """`branch` has drained: send its XOR home, once."""
        if self.branches.get(branch.root_id) is branch:  # else it has expired and was replaced
            self.branches.pop(branch.root_id)
        edge, branch.edge = branch.edge, 0
        if not branch.failed and edge:
            acks = self._acks_to(branch.home_task)
            acks.acked_roots.append(branch.root_id)
            acks.acked_edges.append(edge)

    def fail(self, branch: Branch) -> None:
        acks = self._acks_to(branch.home_task)
        acks.failed.append(branch.root_id)
        acks.whys.append(self.why)

    def reset(self, branch: Branch) -> None:
        self._acks_to(branch.home_task).reset.append(branch.root_id)

    def _acks_to(self, home_task: int) -> AckBuffer:
        buffer = self._acks.get(home_task)
        if buffer is None:
            buffer = self._acks[home_task] = AckBuffer(home_task)
        return buffer

    def seal(self) -> None:
        """Seal all buffers into frames. Tuples go before acks, so that an ack never overtakes tuples of its tree."""
        if not self._dirty and not self._acks:
            return
        frames = [*self._full, *(buffer.seal(self._codec) for buffer in self._dirty.values() if buffer.rows)]
        frames += [buffer.seal() for buffer in self._acks.values()]
        self._full.clear()
        self._dirty.clear()
        self._acks = {}
        self._sealed_bytes += sum(len(frame.payload) for frame in frames)
        self._sealed.extend(frames)

    def has_frames(self) -> bool:
        return bool(self._sealed)

    def waiting_bytes(self) -> int:
        """The size of the sealed frames that are not yet taken."""
        return self._sealed_bytes - self._taken_bytes

    def clear(self) -> None:
        """Drop everything that is not yet taken."""
        for buffer in self._dirty.values():
            buffer.clear()
        self._full.clear()
        self._dirty.clear()
        self._acks = {}
        self.take()

    def take(self, enough_bytes: float = math.inf) -> list[Frame]:
        """Remove and return sealed frames, until they reach `enough_bytes`.

        Another thread may call it while the slot's thread seals frames.
        """
        frames, size = [], 0
        while self._sealed and size < enough_bytes:
            frames.append(self._sealed.popleft())
            size += len(frames[-1].payload)
        self._taken_bytes += size
        return frames
