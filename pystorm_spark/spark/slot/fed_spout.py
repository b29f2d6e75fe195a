"""Internal. FedSpout: a spout that gets its rows from Spark tasks, batch by batch; the slot's side of feeding.

Spark may run a task several times. So the slot sets rows aside by partition and attempt. When the job has ended, the
driver names the attempts that are its result, and the spout emits only their rows. Each job has a number, its round;
the slot refuses rows of an older round.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from threading import Lock
from typing import Any, NamedTuple

from pystorm_spark.errors import SerializationError, StormError, in_words
from pystorm_spark.runtime.codec.arrow_rows import ArrowRows
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.runtime.durable.committed_rows import CommittedRows, RowId
from pystorm_spark.runtime.durable.uncommitted import BLAMELESS
from pystorm_spark.runtime.spout_collector import emit_numbered
from pystorm_spark.spark.protocol.messages import Message, Settled
from pystorm_spark.spark.slot.shelf import Shelf
from pystorm_spark.topology.collector import SpoutOutputCollector
from pystorm_spark.topology.component import Conf
from pystorm_spark.topology.context import TopologyContext
from pystorm_spark.topology.durable import BatchSpout

log = logging.getLogger(__name__)

DEAD_LOGGED = 10  # of one task and batch
READ_ROWS = 512  # at once: few enough to stay in the processor's cache until they are executed

Between = Callable[[int, int], list[list[Any]]]  # the rows of a chunk from one up to another


class Chunk(NamedTuple):
    """Some rows of one partition that follow one another: an Arrow batch, or packed."""

    first: int
    rows: int
    data: bytes
    kinds: str = ""  # of the columns of an Arrow batch

    def opened(self, codec: ValueCodec) -> tuple[Between, Mapping[int, SerializationError]]:
        """A function that reads rows, and {number: why} of unreadable rows: a class may be missing here."""
        if self.kinds:
            return ArrowRows(self.data, self.kinds).between, {}
        refused: Mapping[int, SerializationError] = {}
        try:
            rows = codec.unpack_rows(self.data, self.rows)
        except SerializationError:
            rows, refused = codec.unpack_each(memoryview(self.data), self.rows)
        return lambda first, last: rows[first:last], refused


class FedSpout(BatchSpout):
    """Emits the rows it is fed, each with the id that says where it comes from; emits again what failed.

    A row that has failed more than `topology.max.replays` times is put on a shelf, with the reason, and counts as done.
    """

    def __init__(self, outputs: Any) -> None:
        self.outputs = outputs
        self._tell: Callable[[Message], None] | None = None

    # The slot's process.

    def connect(
        self, tell: Callable[[Message], None], forget_pending: Callable[[], None], committed: CommittedRows
    ) -> None:
        """There is a driver that feeds this task; `tell` sends it a message."""
        self._tell = tell
        self._forget_pending = forget_pending
        self._committed = committed
        self._lock = Lock()
        self._codec = ValueCodec()
        self._round = 0
        self._staged: dict[tuple[int, int], dict[int, Chunk]] = {}  # {(partition, attempt): {number: chunk}}
        self._begin(0, 0, [])

    def _begin(self, batch: int, round_: int, released: list[tuple[int, Chunk]]) -> None:
        self._batch = batch
        self._released_round = round_
        self._released = released  # (partition, rows), in order
        self._left = sum(chunk.rows for _, chunk in released)
        self._unread = self._reading(released)
        self._where: tuple[Any, ...] = ()  # of those that have been read, and are to be emitted next
        self._first = 0
        self._rows: list[list[Any]] = []
        self._again: deque[RowId] = deque()
        self._failures: dict[RowId, int] = {}
        self._dead = Shelf(self._codec)
        self._opened: tuple[Chunk, Between] | None = None  # the last one that a row was looked up in

    def stage(self, round_: int, partition: int, attempt: int, number: int, chunk: Chunk) -> bool:
        """Put a chunk aside that a Spark task has brought; False if its round is old. Any thread may call it."""
        with self._lock:
            if round_ < self._round:
                return False
            if round_ > self._round:
                self._round = round_
                self._staged.clear()
            self._staged.setdefault((partition, attempt), {})[number] = chunk
            return True

    def release(self, batch: int, round_: int, parts: Iterable[tuple[int, int, int]]) -> None:
        """Begin a batch with the rows of `parts`, (partition, attempt, number of chunks) each.

        The slot may come to a release when Spark tasks have already brought rows of a newer round. Then the release is
        void: the driver releases the newer round, or a later one, too.
        """
        with self._lock:
            if round_ < self._round:
                return
            staged, self._staged = self._staged, {}
        found = [(partition, staged.get((partition, attempt), {}), chunks) for partition, attempt, chunks in parts]
        if any(len(part) != chunks for _, part, chunks in found):
            raise StormError(f"round {round_} of batch {batch} is not what was put aside")
        if self._left:  # rows of a round that was in vain: another row may have the same id now
            self._forget_pending()
        chunks = [(partition, part[number]) for partition, part, _ in sorted(found) for number in sorted(part)]
        self._committed.begin(batch)
        self._begin(batch, round_, chunks)

    def dead_rows(self, round_: int) -> Shelf | None:
        """The rows of a round that have failed too often; None if it is not the last one."""
        if round_ != self._released_round:
            return None
        self._dead.seal()
        return self._dead

    # The spout.

    def open(self, conf: Conf, context: TopologyContext, collector: SpoutOutputCollector) -> None:
        self._component = context.this_component_id
        if self._tell is None:
            raise StormError(
                f"spout {self._component!r} is fed by Spark and needs a SparkCluster; on a LocalCluster give its rows "
                "with complete_topology(cluster, topology, mock_sources)"
            )
        self._task = context.this_task_id
        self._collector: Any = collector
        self._limit: int | None = conf["topology.max.replays"]

    def next_tuples(self, most: int) -> bool:
        left = most
        while left and self._again:
            row_id = self._again.popleft()
            self._emit([self._row(row_id)], row_id[:-1], row_id[-1])
            left -= 1
        while left and (self._rows or self._read_on()):
            rows, self._rows = self._rows[:left], self._rows[left:]
            first, self._first = self._first, self._first + len(rows)
            self._emit(rows, self._where, first)
            left -= len(rows)
        return not left

    def _emit(self, rows: list[list[Any]], where: tuple[Any, ...], first: int) -> None:
        emit_numbered(self._collector, rows, where, first, self._refused)

    def _refused(self, row_id: RowId, row: list[Any] | None, error: BaseException) -> None:
        self._bury(row_id, row, f"{self._component}:{self._task} {in_words(error)}")

    def _read_on(self) -> bool:
        """Read some more rows; whether there are any."""
        self._where, self._first, self._rows = next(self._unread, ((), 0, []))
        return bool(self._rows)

    def _reading(self, released: list[tuple[int, Chunk]]) -> Iterator[tuple[tuple[Any, ...], int, list[list[Any]]]]:
        """Where rows come from, the number of the first, and the rows; some of a chunk at a time."""
        for partition, chunk in released:
            where = self._component, self._batch, partition
            missing = self._committed.missing(self._batch, partition, chunk.first, chunk.first + chunk.rows)
            committed = chunk.rows - sum(end - first for first, end in missing)
            if committed:
                self._settle(committed)
            if not missing:
                continue
            between, refused = chunk.opened(self._codec)
            size = READ_ROWS if not refused else 1
            for begin, end in missing:
                for number in range(begin, end, size):
                    at = number - chunk.first
                    if at in refused:
                        self._refused((*where, number), None, refused[at])
                    else:
                        yield where, number, between(at, min(at + size, end - chunk.first))

    def _row(self, row_id: RowId) -> list[Any]:
        """A row that was emitted before, as it came."""
        place = row_id[2:]
        after = bisect_right(self._released, place, key=lambda released: (released[0], released[1].first))
        chunk = self._released[after - 1][1]
        if self._opened is None or self._opened[0] is not chunk:
            self._opened = chunk, chunk.opened(self._codec)[0]
        number = place[1] - chunk.first
        (row,) = self._opened[1](number, number + 1)
        return deepcopy(row)  # a bolt may change what it is given

    def acked(self, message_ids: Sequence[RowId]) -> None:
        self._settle(len(message_ids))

    def fail(self, message_id: RowId) -> None:
        why = self._collector.why
        if why not in BLAMELESS:
            failures = self._failures[message_id] = self._failures.get(message_id, 0) + 1
            if self._limit is not None and failures > self._limit:
                self._bury(message_id, self._row(message_id), why)
                return
        self._again.append(message_id)

    def _bury(self, row_id: RowId, row: list[Any] | None, why: str) -> None:
        if self._dead.count < DEAD_LOGGED:
            component, batch, partition, number = row_id
            log.warning(
                "%s: row %d of partition %d in batch %d is a dead letter: %s", component, number, partition, batch, why
            )
        self._dead.add([*row_id, why, row])
        self._settle(1)

    def _settle(self, rows: int) -> None:
        self._left -= rows
        if not self._left:
            self._released = []
            assert self._tell is not None
            self._tell(Settled(self._task, self._released_round, self._dead.count))

    def __getstate__(self) -> dict[str, Any]:
        return {"outputs": self.outputs, "_tell": None}


class StreamSpout(FedSpout):
    """A spout that is fed from a streaming DataFrame; `build` makes it on the driver, and does not travel."""

    build: Callable[[Any], Any] | None = None

    def __init__(self, build: Callable[[Any], Any], outputs: Any) -> None:
        super().__init__(outputs)
        self.build = build
