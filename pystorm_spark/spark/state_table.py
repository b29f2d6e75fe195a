"""Internal. The state of a stateful bolt as a DataFrame: what the last commit holds, for Spark SQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from pystorm_spark.checkpoint.files import Files
from pystorm_spark.checkpoint.manifest import Manifest
from pystorm_spark.checkpoint.part import read_sections
from pystorm_spark.checkpoint.store import CheckpointStore
from pystorm_spark.errors import CheckpointError, did_you_mean
from pystorm_spark.runtime.codec import ValueCodec
from pystorm_spark.spark.checkpoint_place import HadoopPlace, Place, PosixPlace, named_place
from pystorm_spark.spark.hadoop_folder import HadoopFolder
from pystorm_spark.state.key_value import pairs_of
from pystorm_spark.topology.durable import TaskKey

_COLUMNS: dict[str, DataType] = {
    "str": StringType(),
    "bool": BooleanType(),
    "int": LongType(),
    "float": DoubleType(),
    "bytes": BinaryType(),
}
_LONG = range(-(1 << 63), 1 << 63)


def load_state(spark: SparkSession, checkpoint: Any, component: str, topology: str | None = None) -> DataFrame:
    """The state of `component` as of the last commit in `checkpoint`: the columns `key`, `value` and `task`.

    A column whose values are all strings, all integers and so on has that type; any other holds JSON. `topology` is
    needed where a checkpoint has the states of several.
    """
    named = named_place(checkpoint)
    place: Place = PosixPlace(named) if isinstance(named, Path) else HadoopPlace(HadoopFolder(spark, named))
    name = _topology_in(place, topology)
    place = place / name / "state"
    files = place.files()
    manifest = CheckpointStore(files, name).last
    if manifest is None or component not in manifest.tasks:
        known = manifest.tasks if manifest is not None else ()
        raise CheckpointError(f"{str(place)!r} has no state of {component!r}; {did_you_mean(component, known)}")
    tasks = [TaskKey(component, index) for index in range(manifest.tasks[component])]
    sections = _sections(files, manifest, tasks)
    rows = spark.sparkContext.parallelize(sections, max(1, len(sections))).flatMap(_rows).cache()
    try:
        kinds = rows.map(_kinds).distinct().collect()
        columns = [_column({kind[0] for kind in kinds}), _column({kind[1] for kind in kinds})]
        schema = StructType(
            [
                StructField("key", columns[0] or StringType()),
                StructField("value", columns[1] or StringType()),
                StructField("task", IntegerType(), nullable=False),
            ]
        )
        shown = rows.map(lambda row: (_shown(row[0], columns[0]), _shown(row[1], columns[1]), row[2]))
        return spark.createDataFrame(shown, schema)
    finally:
        rows.unpersist()


def _topology_in(checkpoint: Place, topology: str | None) -> str:
    found = [name for name in checkpoint.folders() if "state" in (checkpoint / name).folders()]
    if topology is None and len(found) == 1:
        return found[0]
    if topology in found:
        return topology
    if not found:
        raise CheckpointError(f"there is no state in {str(checkpoint)!r}: no topology has committed any there")
    wanted = "say which `topology` is meant" if topology is None else f"and none of {topology!r}"
    known = did_you_mean(topology or "", found)
    raise CheckpointError(f"{str(checkpoint)!r} holds the states of {len(found)} topologies, {wanted}; {known}")


def _sections(files: Files, manifest: Manifest, tasks: list[TaskKey]) -> list[tuple[int, list[bytes]]]:
    read = read_sections(files, manifest.needed(tasks), tasks)
    return [(task.index, sections) for task, sections in read.items()]


def _rows(task: tuple[int, list[bytes]]) -> Iterator[tuple[Any, Any, int]]:
    index, sections = task
    for key, value in pairs_of(sections, ValueCodec()).items():
        yield key, value, index


def _kinds(row: tuple[Any, Any, int]) -> tuple[str, str]:
    return _kind(row[0]), _kind(row[1])


def _kind(value: Any) -> str:
    if value is None:
        return "none"
    kind = type(value).__name__
    return "huge" if kind == "int" and value not in _LONG else kind


def _column(kinds: set[str]) -> DataType | None:
    """The type of a column, None for one of JSON."""
    plain = kinds - {"none"}
    return _COLUMNS.get(next(iter(plain))) if len(plain) == 1 else None


def _shown(value: Any, column: DataType | None) -> Any:
    if value is None or column is not None:
        return value
    return json.dumps(value, default=repr)
