"""Internal. Feeding: the rows of a DataFrame go to the slots that hold a spout's tasks; the driver's side of it.

A Spark job hands the rows over, chunk by chunk, dealt over the spout's tasks. It does not wait until they
are emitted: a waiting job would keep the exchanges from the processors. When it has ended, the driver releases what it
has brought, and waits until each task has settled its share: every row acked, or a dead letter. The share of a task
that was lost with its slot is fed again.
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
from pystorm_spark.runtime.codec.arrow_rows import BYTES, TEXT, row_count
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.spark.driver.control import SlotLink
from pystorm_spark.spark.driver.loop import Driver
from pystorm_spark.spark.errors import spark_errors_ignored, translated
from pystorm_spark.spark.exchange.visit import ask
from pystorm_spark.spark.protocol.wire import Address
from pystorm_spark.spark.rows.fetching import JOB_TRIES, LOSS_NOTICE_SECS
from pystorm_spark.spark.rows.full_disk import FullDisk
from pystorm_spark.spark.rows.row_batches import column_kinds, first_row_bytes, row_batches

log = logging.getLogger(__name__)

FIRST_CHUNK_ROWS = 500  # of a chunk, where all that is known is how large one row is
CAREFUL_CHUNK_ROWS = 32  # where not even that is: they may be some megabytes each
SMALLEST_CHUNK_ROWS, LARGEST_CHUNK_ROWS = 100, 4000  # of a chunk, unless they are large; more would be no faster
LARGEST_CHUNK_BYTES = 8 << 20
EVEN_ROUNDS = 64  # in which each task gets one chunk of a partition; a power of two
CHUNKS_PER_TASK = 8  # for each task and batch, so that all have about the same to do


class Stopped(StormError):  # noqa: N818 - the topology ends, which is no error
    """The topology ends before a batch is done."""


@dataclass(frozen=True)
class Handing:
    """What the Spark tasks of one round need to know."""

    round_: int
    token: bytes
    kinds: str  # of the columns, if the rows come as Arrow batches
    chunk_rows: int
    tasks: tuple[int, ...]  # of the spout, over which chunks are dealt
    addresses: dict[int, Address]  # of the slots of those tasks that are fed

    def __repr__(self) -> str:
        return f"Handing(round={self.round_})"  # the token is shown nowhere

    def __call__(self, partition: int, rows: Iterable[Any]) -> Iterator[Any]:
        """Hand the rows of a partition over; what each task has got, or None if one cannot be reached."""
        context = TaskContext.get()
        attempt = context.taskAttemptId() if context is not None else 0
        got: dict[int, list[int]] = {}  # {task: [chunks, rows, bytes]}
        reached, first = True, 0
        # All rows are taken in any case: a Python worker with input left cannot be used again.
        for number, (count, chunk) in enumerate(self._chunks(rows)):
            task = self.tasks[(partition + dealt(number, len(self.tasks))) % len(self.tasks)]
            if reached and task in self.addresses:
                request = ["feed", task, self.round_, partition, attempt, number, [first, count, chunk, self.kinds]]
                reached = ask(self.addresses[task], self.token, request)[0] == "ok"
                counts = got.setdefault(task, [0, 0, 0])
                counts[0] += 1
                counts[1] += count
                counts[2] += len(chunk)
            first += count
        yield partition, attempt, got if reached else None

    def _chunks(self, rows: Iterable[Any]) -> Iterator[tuple[int, bytes]]:
        """(how many rows, and these packed) of each chunk."""
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
    """Which of `tasks` gets the chunk with this number of a partition.

    They get one after the other, then two, then four: a few per cent of the partition at the most. So what a task has
    of a partition is a few hundred runs of rows, however long that is, which each commit of exactly-once keeps.
    """
    stretch = max(0, (number // tasks).bit_length() - EVEN_ROUNDS.bit_length() + 1)  # 2 to the power of it are dealt
    begin = tasks * (EVEN_ROUNDS << stretch - 1) if stretch else 0
    return (number - begin >> stretch) % tasks


class Rows:
    """The rows that are fed, all columns of them, as often as that is needed."""

    def __init__(self, df: DataFrame, chunk_rows: int | None = None) -> None:
        """Hand `chunk_rows` over at once, or as many as seem right after a look at the first row."""
        self._df = df
        self.kinds = column_kinds(df)
        self.chunk_rows = self._peek() if chunk_rows is None else chunk_rows
        # Once: Spark keeps the shuffles of an RDD, not those of a DataFrame.
        self._rdd = row_batches(df, self.chunk_rows) if self.kinds else df.rdd.map(tuple)

    def _peek(self) -> int:
        if not {TEXT, BYTES}.intersection(self.kinds):
            return FIRST_CHUNK_ROWS  # they are small, or chunks end by their size
        with spark_errors_ignored():  # the job that reads all rows reports what is wrong
            return max(1, min(FIRST_CHUNK_ROWS, LARGEST_CHUNK_BYTES // max(1, first_row_bytes(self._df))))
        return CAREFUL_CHUNK_ROWS

    def partitions(self) -> int:
        return self._rdd.getNumPartitions()

    def is_determinate(self) -> bool:
        """Whether Spark gives each row the same partition and place every time."""
        return str(self._df._jdf.queryExecution().toRdd().outputDeterministicLevel()) == "DETERMINATE"

    def hand_over(self, handing: Handing, partitions: Sequence[int] | None) -> list[Any]:
        """Run a job over all partitions, or some; what `handing` gives for each of them."""
        handed = self._rdd.mapPartitionsWithIndex(handing)
        if partitions is None:
            return handed.collect()
        return list(self._rdd.context.runJob(handed, list, partitions))


class Share:
    """What one task has got of a batch."""

    def __init__(self, link: SlotLink, round_: int, rows: int, size: int) -> None:
        self.link = link
        self.round = round_
        self.rows = rows
        self.size = size  # of these in bytes
        self.dead = 0
        self.is_settled = rows == 0

    def is_lost(self) -> bool:
        """Whether it must be fed again: dead letters that nobody has fetched are lost with their slot, too."""
        return self.link.state != "ready" and (not self.is_settled or self.dead > 0)


class Feeder:
    """Feeds the tasks of one spout.

    With exactly-once rows are known `by_ids`: what is committed is never executed again, so that a row must have the
    same id every time. Then a share that is lost can be fed again by itself, too, whatever Spark promises.
    """

    def __init__(
        self, driver: Driver, token: bytes, tasks: Sequence[int], slot_of: dict[int, int], by_ids: bool = False
    ) -> None:
        self.driver = driver
        self._token = token
        self._tasks = tuple(tasks)
        self._slot_of = slot_of
        self._by_ids = by_ids
        self._is_warned = False
        self.is_stopping = False  # jobs are interrupted, and not begun again
        self.check_layout: Callable[[int, list[int]], None] | None = None  # of a batch, how many rows partitions have
        self._rounds = itertools.count(1)
        self._shares: dict[int, Share] = {}

    def chunk_rows(self) -> int | None:
        """How many rows of the next batch to hand over at once, if it is like the last one; None if that had none."""
        shares = self._shares.values()
        rows = sum(share.rows for share in shares)
        if not rows:
            return None
        row_bytes = sum(share.size for share in shares) / rows
        even = min(LARGEST_CHUNK_ROWS, max(SMALLEST_CHUNK_ROWS, rows // (CHUNKS_PER_TASK * len(self._tasks))))
        return max(1, min(even, int(LARGEST_CHUNK_BYTES / row_bytes)))

    def on_settled(self, link: SlotLink, message: dict[str, Any]) -> None:
        """A task has settled its share; called in the threads that listen to slots."""
        share = self._shares.get(message["task"])
        if share is not None and share.link is link and share.round == message["round"]:
            share.dead = message["dead"]
            share.is_settled = True

    def feed(self, rows: Rows, batch: int, partitions: Sequence[int] | None = None) -> dict[int, Share]:
        """Feed `rows`, of all or some partitions, until each is acked or a dead letter; {task: its share}."""
        self._shares = {}
        if self._by_ids and not self._is_warned and not rows.is_determinate():
            self._is_warned = True
            log.warning(
                "rows may come in another order when Spark reads them again, as after a shuffle: exactly-once holds "
                "only as long as they do not"
            )
        return self.feed_lost(rows, batch, partitions)

    def feed_lost(self, rows: Rows, batch: int, partitions: Sequence[int] | None = None) -> dict[int, Share]:
        """Feed what tasks lack of `rows`: all of it, or what they have lost with their slots since they had it."""
        while True:
            lacking = [task for task in self._tasks if self._lacks(task)]
            if lacking:
                whole = self._shares and not self._by_ids and not rows.is_determinate()
                tasks = self._tasks if whole else lacking
                self._feed(rows, batch, partitions, tasks)
            if not self.driver.wait_for(self._is_at_an_end):
                raise Stopped(f"the topology ends before batch {batch} is done")
            if all(share.is_settled and not share.is_lost() for share in self._shares.values()):
                return self._shares

    def _lacks(self, task: int) -> bool:
        return task not in self._shares or self._shares[task].is_lost()

    def _is_at_an_end(self) -> bool:
        shares = self._shares.values()
        return all(share.is_settled for share in shares) or any(share.is_lost() for share in shares)

    def _feed(self, rows: Rows, batch: int, partitions: Sequence[int] | None, tasks: Sequence[int]) -> None:
        """Have a Spark job hand `tasks` their shares, again until all of them have got them."""
        failures, disk = 0, FullDisk(f"the rows of batch {batch}", self.driver.pause)
        while True:
            links = self.driver.all_ready()
            if links is None:
                raise Stopped(f"the topology ends before batch {batch} is done")
            try:
                handed = self._hand_over(rows, partitions, tasks, links)
            except StormError as exc:
                if not self.is_stopping and disk.makes_wait(exc):
                    continue
                failures += 1
                if self.is_stopping or failures == JOB_TRIES:
                    raise
                log.warning("the rows of batch %d are handed over again: %s", batch, exc)
                continue
            if handed is not None:
                break
            self.driver.wait_for(lambda: any(link.state != "ready" for link in links), LOSS_NOTICE_SECS)  # noqa: B023
        round_, parts = handed
        if self._by_ids and self.check_layout is not None and len(tasks) == len(self._tasks):
            self.check_layout(batch, [sum(count for _, count, _ in got.values()) for _, _, got in sorted(parts)])
        for task in tasks:
            link = links[self._slot_of[task]]
            own = [[partition, attempt, got[task][0]] for partition, attempt, got in parts if task in got]
            count, size = (sum(got[task][each] for _, _, got in parts if task in got) for each in (1, 2))
            self._shares[task] = Share(link, round_, count, size)
            if count:
                link.tell("release", task=task, batch=batch, round=round_, parts=own)

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
