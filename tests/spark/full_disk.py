"""Topologies whose checkpoint is on a small disk that fills up: run as a script, where it may mount one."""

import logging
import sys
from pathlib import Path

from pyspark.sql.functions import udf
from pyspark.sql.types import LongType

from pystorm_spark import BasicBolt, SparkCluster, TopologyBuilder
from pystorm_spark.dataframe import DataFrameSpout
from tests.disks import fill, mount
from tests.spark.components import Sum, wait_until
from tests.spark.conftest import Journal
from tests.spark.durable import EXACTLY_ONCE, Count, Pass
from tests.spark.rows.test_dataframe_spout import Files, committed

TWO_SLOTS = {"topology.workers": 2}
MARK = 15  # the number at which the disk is filled


class Warned(logging.Handler):
    """What is logged of a disk without room."""

    def __init__(self):
        super().__init__()
        self.told = []

    def emit(self, record):
        if "until there is space" in record.getMessage():
            self.told.append(record.getMessage())


class Disk:
    """A disk of two megabytes that is filled once."""

    def __init__(self, folder):
        self.folder = folder
        self.filler, self.marker = folder / "filler", folder.with_suffix(".filled")
        folder.mkdir()
        mount(folder, "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs")

    def fill(self):
        if not self.marker.exists():
            self.marker.touch()
            fill(self.filler)

    def fill_at(self, number):
        """Give the number back."""
        if number == MARK:
            self.fill()
        return number

    def free(self):
        self.filler.unlink()


class Fills(BasicBolt):
    """Fills the disk at one number, which it may fail."""

    outputs = ("number",)

    def __init__(self, disk, is_failing=False):
        self.disk, self.is_failing = disk, is_failing

    def execute(self, tup, collector):
        if self.disk.fill_at(tup[0]) == MARK and self.is_failing:
            raise ValueError("not to my liking")
        collector.emit([tup[0]])


def play(folder, name, conf, bolt=None, build=None, is_durable=False):
    """Three files, and a disk that is full in the second of them; the journal, when all is done."""
    disk, journal, files = Disk(folder / name), Journal(folder / f"{name}.journal"), Files(folder / f"{name}.files")
    builder = TopologyBuilder()
    read = build(files, disk) if build else files.read
    builder.set_spout("rows", DataFrameSpout(read, ["number"]), 2)
    builder.set_bolt("pass", bolt(disk) if bolt else Pass(), 2).shuffle_grouping("rows")
    last = Count(journal) if is_durable else Sum(journal)
    builder.set_bolt("last", last, 2).fields_grouping("pass", ["number"])
    warned = Warned()
    logging.getLogger("pystorm_spark").addHandler(warned)
    files.put(range(10))
    with SparkCluster(checkpoint=disk.folder) as cluster:
        handle = cluster.submit_topology(name, conf, builder.create_topology())
        wait_until(lambda: handle.await_termination(0) or committed(disk.folder, name) == {0})
        if bolt is None and build is None:
            disk.fill()
        files.put(range(10, 20))
        wait_until(lambda: handle.await_termination(0) or warned.told)
        disk.free()
        files.put(range(20, 30))
        wait_until(lambda: handle.await_termination(0) or committed(disk.folder, name) == {0, 1, 2})
        state = cluster.read_state(name, "last") if is_durable else None
    logging.getLogger("pystorm_spark").removeHandler(warned)
    print(name, warned.told, flush=True)
    return disk, sorted(map(int, journal.noted("executed"))), state


def no_room_for_what_spark_notes_of_a_batch(folder):
    _, executed, _ = play(folder, "offsets", TWO_SLOTS)
    assert executed == list(range(30)), executed


def no_room_for_what_spark_notes_of_the_end_of_a_batch(folder):
    """Which is not fed again, though Spark begins it again."""
    _, executed, _ = play(folder, "commits", TWO_SLOTS, bolt=Fills)
    assert executed == list(range(30)), executed


def no_room_for_the_layout_of_a_batch(folder):
    def build(files, disk):
        return lambda spark: files.read(spark).select(udf(disk.fill_at, LongType())("number").alias("number"))

    _, _, state = play(folder, "layout", EXACTLY_ONCE, build=build, is_durable=True)
    assert state == dict.fromkeys(range(30), 1), state


def no_room_for_dead_letters(folder):
    conf = {**TWO_SLOTS, "topology.max.replays": 0}
    disk, executed, _ = play(folder, "letters", conf, bolt=lambda disk: Fills(disk, is_failing=True))
    assert executed == [number for number in range(30) if number != MARK], executed
    letters = list(disk.folder.glob("letters/dead-letters/rows/batch=1/*.json"))
    assert sum(len(path.read_text().splitlines()) for path in letters) == 1


def main(folder):
    no_room_for_what_spark_notes_of_a_batch(folder)
    no_room_for_what_spark_notes_of_the_end_of_a_batch(folder)
    no_room_for_the_layout_of_a_batch(folder)
    no_room_for_dead_letters(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
