"""Internal. load_state: the state of a stateful bolt, as of the last commit, as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from pystorm_spark.checkpoint.files import Files
from pystorm_spark.checkpoint.part import read_sections
from pystorm_spark.checkpoint.store import CheckpointStore
from pystorm_spark.errors import CheckpointError, did_you_mean
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.spark.session.worker_python import use_this_python
from pystorm_spark.spark.storage.hadoop_folder import HadoopFolder
from pystorm_spark.spark.storage.place import HadoopPlace, Place, PosixPlace, named_place, topologies_in
from pystorm_spark.spark.storage.state_columns import column_of, kind_of
from pystorm_spark.state.key_value import pairs_of
from pystorm_spark.topology.durable import TaskKey

READ_TRIES = 10  # a running topology commits meanwhile, and removes files of earlier commits


def load_state(spark: SparkSession, checkpoint: Any, component: str, topology: str | None = None) -> DataFrame:
    """The state of `component` in the last commit of `checkpoint`, with the columns `key`, `value` and `task`.

    If all values of a column have one type that Spark supports, the column has that type; otherwise it holds JSON.
    `topology` is required if the checkpoint has the states of several topologies. The topology may be running.
    """
    named = named_place(checkpoint)
    place: Place = PosixPlace(named) if isinstance(named, Path) else HadoopPlace(HadoopFolder(spark, named))
    name = _topology_in(place, topology)
    sections = committed_sections((place / name / "state").files(), name, component)
    use_this_python(spark)
    rows = spark.sparkContext.parallelize(sections, max(1, len(sections))).flatMap(_rows).cache()
    try:
        kinds = rows.map(lambda row: (kind_of(row[0]), kind_of(row[1]))).distinct().collect()
        key_type, as_key = column_of({kind[0] for kind in kinds})
        value_type, as_value = column_of({kind[1] for kind in kinds})
        task = StructField("task", IntegerType(), nullable=False)
        schema = StructType([StructField("key", key_type), StructField("value", value_type), task])
        return spark.createDataFrame(rows.map(lambda row: (as_key(row[0]), as_value(row[1]), row[2])), schema)
    finally:
        rows.unpersist()


def _topology_in(checkpoint: Place, topology: str | None) -> str:
    found = topologies_in(checkpoint)
    if topology is None and len(found) == 1:
        return found[0]
    if topology in found:
        return topology
    if not found:
        raise CheckpointError(f"{str(checkpoint)!r} holds no state: no topology has committed any there")
    wanted = "name one as `topology`" if topology is None else f"but none of {topology!r}"
    known = did_you_mean(topology or "", found)
    raise CheckpointError(f"{str(checkpoint)!r} holds the states of {len(found)} topologies, {wanted}; {known}")


def committed_sections(files: Files, topology: str, component: str) -> list[tuple[int, list[bytes]]]:
    """(task index, its sections) for each task of `component` in the last commit."""
    parts = ReadOnce(files)
    for _ in range(READ_TRIES - 1):
        with suppress(CheckpointError):
            return _sections(files, parts, topology, component)
    return _sections(files, parts, topology, component)


class ReadOnce:
    """Caches parts: after a retry with the next commit, most parts are the same."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._read: dict[str, bytes] = {}  # by name, which is unique

    def path(self, name: str) -> str:
        return self._files.path(name)

    def size(self, name: str) -> int:
        return len(self._read[name]) if name in self._read else self._files.size(name)

    def read(self, name: str) -> bytes:
        if name not in self._read:
            self._read[name] = self._files.read(name)
        return self._read[name]


def _sections(files: Files, parts: ReadOnce, topology: str, component: str) -> list[tuple[int, list[bytes]]]:
    last = CheckpointStore(files, topology).last
    if last is None or component not in last.tasks:
        known = did_you_mean(component, last.tasks if last is not None else ())
        raise CheckpointError(f"{files.path('')!r} holds no state of {component!r}; {known}")
    tasks = [TaskKey(component, index) for index in range(last.tasks[component])]
    read = read_sections(parts, last.needed(tasks), tasks)
    return [(task.index, sections) for task, sections in read.items()]


def _rows(task: tuple[int, list[bytes]]) -> Iterator[tuple[Any, Any, int]]:
    index, sections = task
    for key, value in pairs_of(sections, ValueCodec()).items():
        yield key, value, index
