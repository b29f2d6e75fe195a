"""Internal. Fetching: rows that tasks keep in their slots become a DataFrame, by a Spark job."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark import RDD, SparkContext

from pystorm_spark.errors import StormError
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.spark.driver.control import SlotLink
from pystorm_spark.spark.driver.slots import Slots
from pystorm_spark.spark.errors import SparkError, translated
from pystorm_spark.spark.exchange.visit import ask
from pystorm_spark.spark.protocol.wire import Address

log = logging.getLogger(__name__)

T = TypeVar("T")

JOB_TRIES = 3  # of a job; where the driver is the executor Spark itself gives a task only one
LOSS_NOTICE_SECS = 2.0  # for the driver to notice that a slot is gone which Spark tasks cannot reach
GONE = "are gone: its slot was lost, or has gone on"


class RowsLost(StormError):  # noqa: N818 - a reason to make them again
    """Rows were lost with their slot before they were fetched."""


@dataclass(frozen=True)
class Shelves:
    """The rows that tasks keep, (task, key, slot) each."""

    token: bytes
    places: Sequence[tuple[int, int, SlotLink]]

    def __repr__(self) -> str:
        return "Shelves()"  # the token is shown nowhere

    def are_lost(self) -> bool:
        return any(link.state != "ready" for _, _, link in self.places)

    def read(self, context: SparkContext, slots: Slots, read: Callable[[RDD[Any]], T]) -> T:
        """What `read` makes of the rows in a Spark job, with retries: Spark replaces a Python worker that died.

        Raises `RowsLost` if a slot that keeps some of the rows is lost, and `SparkError` for anything else.
        """
        rows = fetched(context, self.token, self.places)
        for left in reversed(range(JOB_TRIES)):
            try:
                with translated(kind=SparkError):
                    return read(rows)
            except SparkError as exc:
                if exc.is_about_types():
                    raise
                slots.wait_for(self.are_lost, LOSS_NOTICE_SECS)
                if self.are_lost() or GONE in exc.story:
                    raise RowsLost(f"rows were lost before they were fetched: {exc}") from exc.original
                if not left:
                    raise
                log.warning("fetching rows again: %s", exc)
        raise AssertionError


@dataclass(frozen=True)
class Shelved:
    """Where one task keeps rows: in a spout's round, or in a transaction of a bolt."""

    task: int
    key: int
    address: Address


@dataclass(frozen=True)
class Fetching:
    """What the Spark tasks that fetch rows need to know."""

    token: bytes

    def __repr__(self) -> str:
        return "Fetching()"  # the token is shown nowhere

    def __call__(self, places: Iterable[Shelved]) -> Iterator[list[Any]]:
        codec = ValueCodec()
        for place in list(places):
            number = 0
            while True:
                status, answer = ask(place.address, self.token, ["fetch", place.task, place.key, number])
                if status != "ok":
                    raise StormError(f"the rows of task {place.task} {GONE}")
                count, data = answer
                if not count:
                    break
                yield from codec.unpack_rows(data, count)
                number += 1


def fetched(context: SparkContext, token: bytes, shelves: Iterable[tuple[int, int, SlotLink]]) -> RDD[Any]:
    """The rows that tasks keep, (task, key, slot) each, as an RDD of lists: fetched each time it is computed."""
    places = [Shelved(task, key, link.address) for task, key, link in shelves if link.address is not None]
    return context.parallelize(places, max(1, len(places))).mapPartitions(Fetching(token))
