"""Internal. KeepingBolt: a bolt that keeps the rows it gets until a Spark job has fetched them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pystorm_spark.errors import StormError
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.spark.slot.shelf import FileShelf, Shelf
from pystorm_spark.topology.collector import OutputCollector
from pystorm_spark.topology.component import Bolt, Conf
from pystorm_spark.topology.context import TopologyContext
from pystorm_spark.topology.durable import CommittedBolt
from pystorm_spark.topology.tuple import Tuple, is_tick

BOUNDED = -1  # the transaction of a run that ends: all rows that there are


class KeepingBolt(Bolt):
    """Keeps the rows it gets until the driver fetches them.

    `freeze` sets apart what has come, and what was set apart before and not committed; it is then fetched.
    """

    _is_connected = False
    _txid: int | None  # for which `_frozen` is set apart
    _rows: Shelf
    _frozen: Shelf

    def connect(self) -> None:
        """There is a driver that fetches from this task."""
        self._is_connected = True
        self._codec = ValueCodec()
        self._verify: Callable[[Any], None] | None = None
        self.drop()

    def prepare(self, conf: Conf, context: TopologyContext, collector: OutputCollector) -> None:
        if not self._is_connected:
            raise StormError(f"bolt {context.this_component_id!r} writes with Spark and needs a SparkCluster")
        self._collector = collector
        self._verify = self.verifier()

    def new_shelf(self) -> Shelf:
        """Where rows are kept until they are fetched."""
        return Shelf(self._codec)

    def verifier(self) -> Callable[[Any], None] | None:
        """A function that raises for a row that must not be kept; None to accept all."""
        return None

    def execute(self, tup: Tuple) -> None:
        if is_tick(tup):
            self._collector.ack(tup)
            return
        if self._verify is not None:
            self._verify(tup.values)
        self._rows.add(tup.values)
        self._collector.ack(tup)

    def freeze(self, txid: int) -> int:
        """Set apart what has come so far; how many rows these are."""
        self._txid = txid
        if self._frozen.count:
            self._frozen.take(self._rows)
        else:
            self._rows.seal()
            self._frozen = self._rows
        self._rows = self.new_shelf()
        return self._frozen.count

    def frozen(self, txid: int) -> Shelf | None:
        """What was set apart for `txid`; None if that was dropped. Any thread may call it."""
        return self._frozen if txid == self._txid else None

    def drop(self) -> None:
        """Forget everything."""
        self._txid = None
        self._rows, self._frozen = self.new_shelf(), Shelf(self._codec)


class WritingBolt(KeepingBolt, CommittedBolt):
    """A bolt whose rows are handed to `write`, which stays on the driver, as a part of each commit."""

    def __init__(self, write: Callable[[Any, int], object], schema: Any) -> None:
        self.write = write
        self.schema = schema
        self.columns: Any = None  # the schema as Spark has it; set on the driver, which alone can read a DDL string

    def verifier(self) -> Callable[[Any], None]:
        from pystorm_spark.spark.rows.fitting import row_check  # a slot without sinks does without pyspark

        return row_check(self.columns)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "write": None}

    def has_changed(self) -> bool:
        return self._rows.count > 0 or self._frozen.count > 0

    def prepare_commit(self, txid: int, is_full: bool) -> None:
        self.freeze(txid)

    def commit(self, txid: int) -> None:
        self._txid, self._frozen = None, Shelf(self._codec)

    def rollback(self) -> None:
        self.drop()


class CollectingBolt(KeepingBolt):
    """Keeps what a component has emitted to the end of a bounded run."""

    def connect(self) -> None:
        self._files: list[FileShelf] = []
        super().connect()

    def new_shelf(self) -> Shelf:
        self._files.append(FileShelf(self._codec))
        return self._files[-1]

    def cleanup(self) -> None:
        for file in self._files:
            file.close()


class RevertingBolt(CollectingBolt, CommittedBolt):
    """The same for topologies that roll back when a row fails: rolls back rows since the last commit."""

    def connect(self) -> None:
        self._prepared = self._committed = 0
        super().connect()

    def has_changed(self) -> bool:
        return False  # rows alone need no commit: they wait for that of the tree they belong to

    def prepare_commit(self, txid: int, is_full: bool) -> None:
        self._prepared = self._rows.mark()

    def commit(self, txid: int) -> None:
        self._committed = self._prepared

    def rollback(self) -> None:
        self._rows.roll_back(self._committed)
