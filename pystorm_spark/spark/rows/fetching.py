"""Internal. Fetching: a Spark job reads rows that tasks keep in their slots."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark import RDD, SparkContext

from pystorm_spark.errors import StormError
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.spark.driver.link import SlotLink
from pystorm_spark.spark.driver.slots import Slots
from pystorm_spark.spark.errors import SparkError, translated
from pystorm_spark.spark.exchange.visit import ask
from pystorm_spark.spark.protocol.messages import Fetch, Fetched
from pystorm_spark.spark.protocol.wire import Address
from pystorm_spark.spark.rows.job_tries import JobTries
from pystorm_spark.spark.session.worker_python import renewing_workers

log = logging.getLogger(__name__)

T = TypeVar("T")

JOB_TRIES = 3  # in local mode Spark itself tries a task only once
LOSS_NOTICE_SECS = 2.0  # within which the driver notices the loss of a slot that Spark tasks cannot reach
GONE = "are gone: its slot was lost, or has discarded them"


class RowsLost(StormError):  # noqa: N818 - a reason to feed them again
    """Rows were lost with their slot before they were fetched."""


@dataclass(frozen=True)
class Shelves:
    """Rows that tasks keep: (task, key, slot) for each place."""

    token: bytes
    places: Sequence[tuple[int, int, SlotLink]]

    def __repr__(self) -> str:
        return "Shelves()"  # without the token, which is secret

    def are_lost(self) -> bool:
        return any(link.state != "ready" for _, _, link in self.places)

    def read(self, context: SparkContext, slots: Slots, read: Callable[[RDD[Any]], T]) -> T:
        """The result of `read` on the rows, with retries: a Python worker may have died, and Spark replaces it.

        Raises `RowsLost` if a slot that keeps some of the rows is lost, and `SparkError` for anything else.
        """
        rows = fetched(context, self.token, self.places)
        tries = JobTries(JOB_TRIES)
        while True:
            try:
                with translated(kind=SparkError), renewing_workers(context):
                    return read(rows)
            except SparkError as exc:
                if exc.is_about_types():
                    raise
                slots.wait_for(self.are_lost, LOSS_NOTICE_SECS)
                if self.are_lost() or GONE in exc.story:
                    raise RowsLost(f"rows were lost before they were fetched: {exc}") from exc.original
                if tries.are_over(exc):
                    raise
                log.warning("fetching rows failed, retrying: %s", exc)


@dataclass(frozen=True)
class Shelved:
    """One place where a task keeps rows."""

    task: int
    key: int  # the round of a spout, or the commit of a bolt
    address: Address


@dataclass(frozen=True)
class Fetching:
    """The function of the Spark job that fetches rows."""

    token: bytes

    def __repr__(self) -> str:
        return "Fetching()"  # without the token, which is secret

    def __call__(self, places: Iterable[Shelved]) -> Iterator[list[Any]]:
        codec = ValueCodec()
        for place in list(places):
            number = 0
            while True:
                answer = ask(place.address, self.token, Fetch(place.task, place.key, number))
                if not (isinstance(answer, Fetched) and answer.is_there):
                    raise StormError(f"the rows of task {place.task} {GONE}")
                if not answer.rows:
                    break
                yield from codec.unpack_rows(answer.data, answer.rows)
                number += 1


def fetched(context: SparkContext, token: bytes, shelves: Iterable[tuple[int, int, SlotLink]]) -> RDD[Any]:
    """The rows in `shelves` ((task, key, slot) each) as an RDD of lists. Each computation fetches them."""
    places = [Shelved(task, key, link.address) for task, key, link in shelves if link.address is not None]
    return context.parallelize(places, max(1, len(places))).mapPartitions(Fetching(token))
