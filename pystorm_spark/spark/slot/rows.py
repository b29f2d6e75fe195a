"""Internal. RowTasks: the tasks of a slot that exchange rows with Spark jobs."""

from __future__ import annotations

from collections.abc import Callable

from pystorm_spark.runtime.bolt_task import BoltTask
from pystorm_spark.runtime.durable.committed_rows import CommittedRows
from pystorm_spark.runtime.slot import Slot
from pystorm_spark.runtime.spout_task import SpoutTask
from pystorm_spark.spark.protocol.messages import Fed, Feed, Fetch, Fetched, Message, Release
from pystorm_spark.spark.slot.fed_spout import Chunk, FedSpout
from pystorm_spark.spark.slot.keeping_bolt import BOUNDED, CollectingBolt, KeepingBolt


class RowTasks:
    """The fed spouts and the keeping bolts of a slot, by task."""

    def __init__(self, slot: Slot, tell: Callable[[Message], None]) -> None:
        self._spouts: dict[int, FedSpout] = {}
        self._bolts: dict[int, KeepingBolt] = {}
        for task_id, task in slot.tasks.items():
            if isinstance(task, SpoutTask) and isinstance(task.spout, FedSpout):
                committed = task.uncommitted.ids if task.uncommitted is not None else CommittedRows()
                assert isinstance(committed, CommittedRows)
                task.spout.connect(tell, task.forget_pending, committed)
                self._spouts[task_id] = task.spout
            elif isinstance(task, BoltTask) and isinstance(task.bolt, KeepingBolt):
                task.bolt.connect()
                self._bolts[task_id] = task.bolt

    # What Spark tasks ask; called in the threads that answer them.

    def feed(self, asked: Feed) -> Fed:
        """Take rows in for a spout."""
        spout, chunk = self._spouts[asked.task], Chunk(*asked.chunk)
        return Fed(spout.stage(asked.round, asked.partition, asked.attempt, asked.number, chunk))

    def fetch(self, asked: Fetch) -> Fetched:
        """Hand out a chunk of rows: dead letters of a spout's round, or what a bolt has frozen for a transaction."""
        spout = self._spouts.get(asked.task)
        shelf = spout.dead_rows(asked.key) if spout is not None else self._bolts[asked.task].frozen(asked.key)
        return Fetched(False, 0, b"") if shelf is None else Fetched(True, *shelf.chunk(asked.number))

    # What the driver asks; called in the thread that turns the slot.

    def release(self, asked: Release) -> None:
        parts = [(partition, attempt, chunks) for partition, attempt, chunks in asked.parts]
        self._spouts[asked.task].release(asked.batch, asked.round, parts)

    def collect(self) -> dict[int, int]:
        """{task: how many rows it has collected}, set apart at the end of a bounded run."""
        collecting = {task: bolt for task, bolt in self._bolts.items() if isinstance(bolt, CollectingBolt)}
        return {task: bolt.freeze(BOUNDED) for task, bolt in collecting.items()}

    def prepared(self, txid: int) -> dict[int, int]:
        """{task: how many rows it has set apart for a commit}, of those that have any."""
        shelves = {task: bolt.frozen(txid) for task, bolt in self._bolts.items()}
        return {task: shelf.count for task, shelf in shelves.items() if shelf is not None and shelf.count}
