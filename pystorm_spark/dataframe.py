"""Spark DataFrames as spouts and sinks of a topology; `run_batch` runs a topology over bounded DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pystorm_spark.errors import InvalidTopologyError
from pystorm_spark.spark.slot.fed_spout import StreamSpout
from pystorm_spark.spark.slot.keeping_bolt import WritingBolt
from pystorm_spark.topology.fields import FieldsLike, as_fields
from pystorm_spark.topology.graph import Topology

if TYPE_CHECKING:
    from pystorm_spark.spark.bounded import DataFrame, SparkSession

__all__ = ["DataFrameSink", "DataFrameSpout", "run_batch"]


class DataFrameSpout(StreamSpout):
    """A spout that emits the rows of a streaming DataFrame, batch by batch. Runs on a `SparkCluster` only.

    `build(spark)` returns the DataFrame, from any source that Spark supports. It is called on the driver, at submit.
    `fields` are the columns to emit, in this order. A row that fails is emitted again, up to `topology.max.replays`
    times, and then written to the checkpoint's `dead-letters`. A batch is done when each of its rows is acked or a dead
    letter. With a named checkpoint, a restart continues with the first batch that is not done.
    """

    def __init__(self, build: Callable[[SparkSession], DataFrame], fields: FieldsLike) -> None:
        if not callable(build):
            raise InvalidTopologyError(
                f"a DataFrameSpout takes a function build(spark) that returns a streaming DataFrame, got {build!r}"
            )
        super().__init__(build, as_fields(fields))


class DataFrameSink(WritingBolt):
    """A bolt that passes its input to `write(df, batch_id)` as a DataFrame per batch. Runs on a `SparkCluster` only.

    `schema` is a Spark schema, or its DDL string, for the values of the input. A tuple that does not fit it fails.
    `write` is called on the driver, once for each batch that has rows. The tuples are acked after it has returned. If
    it raises, it is called again with the same rows and the same id; if it raises three times, the topology ends. After
    a crash between `write` and the commit, `write` is called again with the same id, and must replace what it wrote for
    that id; the rows may differ, and the DataFrame may be empty.
    """

    def __init__(self, write: Callable[[DataFrame, int], object], schema: Any) -> None:
        if not callable(write):
            raise InvalidTopologyError(f"a DataFrameSink takes a function write(df, batch_id), got {write!r}")
        super().__init__(write, schema)


def run_batch(
    spark: SparkSession,
    topology: Topology,
    inputs: Mapping[str, DataFrame],
    collect: Sequence[str] | Mapping[str, Any] = (),
    conf: Mapping[str, Any] | None = None,
) -> dict[str, DataFrame]:
    """Run `topology` over bounded DataFrames; returns the tuples of the components in `collect` as DataFrames.

    `inputs` has a bounded DataFrame for each spout, which emits these rows instead of its own. The run ends when every
    row is acked. If rows fail more than `topology.max.replays` times, it raises an error that shows them. `collect`
    lists components, or maps each to a schema: `{"count": "word string, count long"}`. Without a schema, Spark infers
    the types from all rows. The DataFrames hold the tuples of the default stream, in no guaranteed order.
    """
    from pystorm_spark.spark.bounded import run_bounded  # imported here: slots import this module, without pyspark

    return run_bounded(spark, topology, inputs, collect, conf)
