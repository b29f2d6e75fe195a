"""Workload A: files → DataFrameSpout → a bolt with state → a sink that replaces its batches, exactly once."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from pystorm_spark import TopologyBuilder
from pystorm_spark.dataframe import DataFrameSink, DataFrameSpout
from pystorm_spark.state import StatefulBolt
from tests.torture import ranges

NAME = "exact"
COUNT = "count"
ROWS = "rows"
KEYS = 40
FAIL_CHANCE = 1 / 3000  # of a row, by the bolt, when it has counted it
REPEATS_KEPT = 100
CONF = {
    "topology.workers": 2,
    "topology.state.guarantee": "exactly-once",
    "topology.state.checkpoint.interval.ms": 500,
    "topology.max.spout.pending": 600,
    "topology.message.timeout.secs": 60,
    "topology.execute.timeout.secs": 20,
    "supervisor.worker.start.timeout.secs": 240,
}


class Files:
    """The folder of files that is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, spark: Any) -> Any:
        reader = spark.readStream.schema("number long, key long, text string")
        return reader.option("maxFilesPerTrigger", 10).json(str(self.folder))


class Count(StatefulBolt):
    """Keeps for each key how many rows it has counted, which ones, and which of them more than once."""

    outputs = ("number", "key", "count")

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector

    def init_state(self, state: Any) -> None:
        self.state = state

    def execute(self, tup: Any) -> None:
        number, key = tup["number"], tup["key"]
        found = self.state.get(key) or {"count": 0, "seen": [], "again": []}
        found["count"] += 1
        if not ranges.add(found["seen"], number // KEYS):
            found["again"] = [*found["again"], number][:REPEATS_KEPT]
        self.state.put(key, found)
        if random.random() < FAIL_CHANCE:  # rolls back all that is not committed
            self.collector.fail(tup)
            return
        self.collector.emit([number, key, found["count"]], anchors=tup)
        self.collector.ack(tup)


class Results:
    """The table that the sink writes: a batch replaces what a batch of this number has written before."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        with closing(self._open()) as database, database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("CREATE TABLE results (batch INTEGER, number INTEGER, key INTEGER, count INTEGER)")
            database.execute("CREATE INDEX by_number ON results (number)")
            database.execute("CREATE INDEX by_batch ON results (batch)")

    def __call__(self, df: Any, batch_id: int) -> None:
        rows = [(batch_id, *row) for row in df.collect()]
        with closing(self._open()) as database, database:
            database.execute("DELETE FROM results WHERE batch = ?", [batch_id])
            database.executemany("INSERT INTO results VALUES (?, ?, ?, ?)", rows)

    def rows(self) -> list[tuple[int, int, int, int]]:
        """(batch, number, key, count) of all rows."""
        with closing(self._open()) as database:
            return database.execute("SELECT batch, number, key, count FROM results").fetchall()

    def size(self) -> tuple[int, int]:
        """How many rows there are, and the largest number."""
        with closing(self._open()) as database:
            count, largest = database.execute("SELECT count(*), max(number) FROM results").fetchone()
        return count, -1 if largest is None else largest

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=60)


def topology(folder: Path) -> Any:
    builder = TopologyBuilder()
    builder.set_spout(ROWS, DataFrameSpout(Files(folder / "files"), ["number", "key"]), 2)
    builder.set_bolt(COUNT, Count(), 2).fields_grouping(ROWS, ["key"])
    sink = DataFrameSink(Results(folder / "results.db"), "number long, key long, count long")
    builder.set_bolt("sink", sink, 2).shuffle_grouping(COUNT)
    return builder.create_topology()
