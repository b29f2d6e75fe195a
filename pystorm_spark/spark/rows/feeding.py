"""Internal. Feeding: brings the rows of a DataFrame to the slots with a spout's tasks; the driver's side.

A Spark job hands the rows over in chunks, which it distributes over the spout's tasks. The job does not wait until the
rows are emitted, because it would occupy processors that the exchanges need. When the job has ended, the driver
releases the rows, and waits until each task has settled its share: each row is acked or a dead letter. If a share is
lost with its slot, it is fed again.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame

from pystorm_spark.errors import StormError
from pystorm_spark.runtime.codec.arrow_rows import BYTES, STRING_KIND, row_count
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.spark.driver.link import SlotLink
from pystorm_spark.spark.driver.slots import Slots
from pystorm_spark.spark.errors import spark_errors_ignored, translated
from pystorm_spark.spark.exchange.visit import ask
from pystorm_spark.spark.protocol.messages import Fed, Feed, Release, Settled
from pystorm_spark.spark.protocol.wire import Address
from pystorm_spark.spark.rows.fetching import JOB_TRIES, LOSS_NOTICE_SECS
from pystorm_spark.spark.rows.full_disk import FullDisk
from pystorm_spark.spark.rows.job_tries import JobTries
from pystorm_spark.spark.rows.row_batches import column_kinds, first_row_bytes, row_batches
from pystorm_spark.spark.session.worker_python import renewing_workers

log = logging.getLogger(__name__)

FIRST_CHUNK_ROWS = 500  # rows of a chunk if only the size of one row is known
CAREFUL_CHUNK_ROWS = 32  # if not even that is known: rows may have some megabytes each
SMALLEST_CHUNK_ROWS, LARGEST_CHUNK_ROWS = 100, 4000  # unless rows are large; larger chunks are not faster
LARGEST_CHUNK_BYTES = 8 << 20
FEED_RETRY_SECS = 0.5  # before rows are handed over again
EVEN_ROUNDS = 64  # in which each task gets one chunk of a partition; a power of two
CHUNKS_PER_TASK = 8  # of each batch, so that tasks have about the same number of rows


class Stopped(StormError):  # noqa: N818 - a normal end of the topology
    """The topology ended before a batch was done."""


@dataclass(frozen=True)
class Handing:
    """The function of the Spark job of one round: hands the rows of a partition to the slots."""

    round_: int
    token: bytes
    kinds: str  # of the columns, if the rows come as Arrow batches; otherwise empty
    chunk_rows: int
    tasks: tuple[int, ...]  # all tasks of the spout; chunks are distributed over them
    addresses: dict[int, Address]  # {task: the address of its slot}, for the tasks that are fed

    def __repr__(self) -> str:
        return f"Handing(round={self.round_})"  # without the token, which is secret

    def __call__(self, partition: int, rows: Iterable[Any]) -> Iterator[Any]:
        """Hand the rows of a partition over. Yields the counts of each task, or None if a slot cannot be reached."""
        context = TaskContext.get()
        attempt = context.taskAttemptId() if context is not None else 0
        got: dict[int, list[int]] = {}  # {task: [chunks, rows, bytes]}
        reached, first = True, 0
        # Read all rows in any case: Spark cannot reuse a Python worker with unread input.
        for number, (count, chunk) in enumerate(self._chunks(rows)):
            task = self.tasks[(partition + dealt(number, len(self.tasks))) % len(self.tasks)]
            if reached and task in self.addresses:
                request = Feed(task, self.round_, partition, attempt, number, [first, count, chunk, self.kinds])
                answer = ask(self.addresses[task], self.token, request)
                reached = isinstance(answer, Fed) and answer.is_taken
                counts = got.setdefault(task, [0, 0, 0])
                counts[0] += 1
                counts[1] += count
                counts[2] += len(chunk)
            first += count
        yield partition, attempt, got if reached else None

    def _chunks(self, rows: Iterable[Any]) -> Iterator[tuple[int, bytes]]:
        """(number of rows, packed rows) of each chunk."""
        if self.kinds:
            yield from ((row_count(batch), bytes(batch)) for batch in rows)
            return
        codec, chunk, size = ValueCodec(), list[bytes](), 0
        for row in rows:
            chunk.append(codec.pack(row))
            size += len(chunk[-1])
            if len(chunk) == self.chunk_rows or size >= LARGEST_CHUNK_BYTES:
                yield len(chunk), codec.pack_rows(chunk)
                chunk, size = [], 0
        if chunk:
            yield len(chunk), codec.pack_rows(chunk)


def dealt(number: int, tasks: int) -> int:
    """The index, of `tasks` many, of the task that gets the chunk `number` of a partition.

    In each round every task gets one run of chunks. A run has one chunk at first, later two, then four, but at most a
    few per cent of the partition. So the rows of a task form a few hundred runs, however large the partition is. Each
    commit of exactly-once stores these runs.
    """
    stretch = max(0, (number // tasks).bit_length() - EVEN_ROUNDS.bit_length() + 1)  # a run has 2 ** stretch chunks
    begin = tasks * (EVEN_ROUNDS << stretch - 1) if stretch else 0
    return (number - begin >> stretch) % tasks


class Rows:
    """The rows of a DataFrame with all its columns. They can be handed over several times."""

    def __init__(self, df: DataFrame, chunk_rows: int | None = None) -> None:
        """`chunk_rows` is the number of rows in a chunk; None derives it from the size of the first row."""
        self._df = df
        self.kinds = column_kinds(df)
        self.chunk_rows = self._peek() if chunk_rows is None else chunk_rows
        # Make the RDD once: Spark keeps the shuffles of an RDD, but not those of a DataFrame.
        self._rdd = row_batches(df, self.chunk_rows) if self.kinds else df.rdd.map(tuple)

    def _peek(self) -> int:
        if not {STRING_KIND, BYTES}.intersection(self.kinds):
            return FIRST_CHUNK_ROWS  # rows are small, or LARGEST_CHUNK_BYTES limits the chunks
        with spark_errors_ignored():  # the job that reads all rows will report the error
            return max(1, min(FIRST_CHUNK_ROWS, LARGEST_CHUNK_BYTES // max(1, first_row_bytes(self._df))))
        return CAREFUL_CHUNK_ROWS

    def partitions(self) -> int:
        return self._rdd.getNumPartitions()

    def is_determinate(self) -> bool:
        """Whether each row has the same partition and position every time Spark reads it."""
        return str(self._df._jdf.queryExecution().toRdd().outputDeterministicLevel()) == "DETERMINATE"

    def hand_over(self, handing: Handing, partitions: Sequence[int] | None) -> list[Any]:
        """Run a job over all partitions, or some; returns the results of `handing`."""
        handed = self._rdd.mapPartitionsWithIndex(handing)
        with renewing_workers(self._rdd.context):
            if partitions is None:
                return handed.collect()
            return list(self._rdd.context.runJob(handed, list, partitions))


class Share:
    """The rows of a batch that one task was given."""

    def __init__(self, link: SlotLink, round_: int, rows: int, size: int) -> None:
        self.link = link
        self.round = round_
        self.rows = rows
        self.size = size  # of the rows in bytes
        self.dead = 0
        self.is_settled = rows == 0

    def is_lost(self) -> bool:
        """Whether it must be fed again. Dead letters that were not fetched are lost with their slot, too."""
        return self.link.state != "ready" and (not self.is_settled or self.dead > 0)


class Feeder:
    """Feeds the tasks of one spout.

    With exactly-once, slots know rows `by_ids` and skip committed ones, so a row must have the same id every time. Then
    a lost share can always be fed again alone. Otherwise all shares are fed again if Spark may reorder rows.
    """

    def __init__(
        self, slots: Slots, token: bytes, tasks: Sequence[int], slot_of: dict[int, int], by_ids: bool = False
    ) -> None:
        self.slots = slots
        self._token = token
        self._tasks = tuple(tasks)
        self._slot_of = slot_of
        self._by_ids = by_ids
        self._is_warned = False
        self.is_stopping = False  # then a failed job is not retried
        self.check_layout: Callable[[int, list[int]], None] | None = None  # called with (batch, rows of each partition)
        self._rounds = itertools.count(1)
        self._shares: dict[int, Share] = {}

    def chunk_rows(self) -> int | None:
        """The number of rows in a chunk of the next batch, derived from the last batch; None if that was empty."""
        shares = self._shares.values()
        rows = sum(share.rows for share in shares)
        if not rows:
            return None
        row_bytes = sum(share.size for share in shares) / rows
        even = min(LARGEST_CHUNK_ROWS, max(SMALLEST_CHUNK_ROWS, rows // (CHUNKS_PER_TASK * len(self._tasks))))
        return max(1, min(even, int(LARGEST_CHUNK_BYTES / row_bytes)))

    def on_settled(self, link: SlotLink, message: Settled) -> None:
        """Note that a task has settled its share. Called in the threads that listen to slots."""
        share = self._shares.get(message.task)
        if share is not None and share.link is link and share.round == message.round:
            share.dead = message.dead
            share.is_settled = True

    def feed(self, rows: Rows, batch: int, partitions: Sequence[int] | None = None) -> dict[int, Share]:
        """Feed `rows`, of all or some partitions, until each is acked or a dead letter. Returns {task: its share}."""
        self._shares = {}
        if self._by_ids and not self._is_warned and not rows.is_determinate():
            self._is_warned = True
            log.warning(
                "Spark may return the rows in a different order when it reads them again, for example after a shuffle; "
                "exactly-once holds only if it does not"
            )
        return self.feed_lost(rows, batch, partitions)

    def feed_lost(self, rows: Rows, batch: int, partitions: Sequence[int] | None = None) -> dict[int, Share]:
        """Feed the shares of `rows` that tasks lack: all at first, later those that were lost with their slots."""
        while True:
            lacking = [task for task in self._tasks if self._lacks(task)]
            if lacking:
                whole = self._shares and not self._by_ids and not rows.is_determinate()
                tasks = self._tasks if whole else lacking
                self._feed(rows, batch, partitions, tasks)
            if not self.slots.wait_for(self._is_at_an_end):
                raise Stopped(f"the topology ended before batch {batch} was done")
            if all(share.is_settled and not share.is_lost() for share in self._shares.values()):
                return self._shares

    def _lacks(self, task: int) -> bool:
        return task not in self._shares or self._shares[task].is_lost()

    def _is_at_an_end(self) -> bool:
        shares = self._shares.values()
        return all(share.is_settled for share in shares) or any(share.is_lost() for share in shares)

    def _feed(self, rows: Rows, batch: int, partitions: Sequence[int] | None, tasks: Sequence[int]) -> None:
        """Run Spark jobs until one has handed all `tasks` their shares, then release the rows."""
        tries, disk = JobTries(JOB_TRIES), FullDisk(f"the rows of batch {batch}", self.slots.pause)
        while True:
            links = self.slots.all_ready()
            if links is None:
                raise Stopped(f"the topology ended before batch {batch} was done")
            try:
                handed = self._hand_over(rows, partitions, tasks, links)
            except StormError as exc:
                if not self.is_stopping and disk.makes_wait(exc):
                    continue
                if self.is_stopping or tries.are_over(exc):
                    raise
                log.warning("handing over the rows of batch %d again: %s", batch, exc)
                self.slots.pause(FEED_RETRY_SECS)
                continue
            if handed is not None:
                break
            self.slots.wait_for(lambda: any(link.state != "ready" for link in links), LOSS_NOTICE_SECS)  # noqa: B023
        round_, parts = handed
        if self._by_ids and self.check_layout is not None and len(tasks) == len(self._tasks):
            self.check_layout(batch, [sum(count for _, count, _ in got.values()) for _, _, got in sorted(parts)])
        for task in tasks:
            link = links[self._slot_of[task]]
            own = [[partition, attempt, got[task][0]] for partition, attempt, got in parts if task in got]
            count, size = (sum(got[task][each] for _, _, got in parts if task in got) for each in (1, 2))
            self._shares[task] = Share(link, round_, count, size)
            if count:
                link.tell(Release(task, batch, round_, own))

    def _hand_over(
        self, rows: Rows, partitions: Sequence[int] | None, tasks: Sequence[int], links: list[SlotLink]
    ) -> tuple[int, list[Any]] | None:
        addresses = {task: links[self._slot_of[task]].address for task in tasks}
        known = {task: address for task, address in addresses.items() if address is not None}
        if len(known) < len(addresses):
            return None
        round_ = next(self._rounds)
        handing = Handing(round_, self._token, rows.kinds, rows.chunk_rows, self._tasks, known)
        with translated("the rows cannot be read"):
            parts = rows.hand_over(handing, partitions)
        return None if any(got is None for _, _, got in parts) else (round_, parts)
