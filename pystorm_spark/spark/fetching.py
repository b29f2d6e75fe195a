"""Internal. Fetching: rows that tasks keep in their slots become a DataFrame, by a Spark job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark import RDD, SparkContext

from pystorm_spark.errors import StormError
from pystorm_spark.runtime.codec import ValueCodec
from pystorm_spark.spark.control import SlotLink
from pystorm_spark.spark.exchange import ask
from pystorm_spark.spark.wire import Address


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
                    raise StormError(f"the rows of task {place.task} are gone: its slot was lost, or has gone on")
                count, data = answer
                if not count:
                    break
                yield from codec.unpack_rows(data, count)
                number += 1


def fetched(context: SparkContext, token: bytes, shelves: Iterable[tuple[int, int, SlotLink]]) -> RDD[Any]:
    """The rows that tasks keep, (task, key, slot) each, as an RDD of lists: fetched each time it is computed."""
    places = [Shelved(task, key, link.address) for task, key, link in shelves if link.address is not None]
    return context.parallelize(places, max(1, len(places))).mapPartitions(Fetching(token))
