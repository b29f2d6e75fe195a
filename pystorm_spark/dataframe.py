"""Spark's DataFrames as spouts and sinks of a topology, and topologies over DataFrames that end."""

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
    """A spout that emits the rows of a streaming DataFrame, batch by batch; for a `SparkCluster`.

    `build(spark)` gives the DataFrame, from any source that Spark has; it is called on the driver, at submit. `fields`
    are the columns that are emitted, in this order. A batch is done when each of its rows is acked; one that fails is
    emitted again, up to `topology.max.replays` times, and then written to the checkpoint's `dead-letters`. With a
    checkpoint that was named, a restart goes on with the first batch that was not done.
    """

    def __init__(self, build: Callable[[SparkSession], DataFrame], fields: FieldsLike) -> None:
        if not callable(build):
            raise InvalidTopologyError(
                f"a DataFrameSpout takes a function that is given the session and builds a DataFrame, got {build!r}"
            )
        super().__init__(build, as_fields(fields))


class DataFrameSink(WritingBolt):
    """A bolt whose input becomes a DataFrame for each batch, handed to `write(df, batch_id)`; for a `SparkCluster`.

    `schema` is a Spark schema, or its DDL string, for the values of the input; a tuple that does not fit fails. `write`
    is called on the driver, once for each batch that has rows; the tuples are acked when it has returned. If it raises,
    it is called again with the same rows and the same id, and the topology ends when it has raised three times. What
    was written and not committed, because of a crash, is replaced by a call with the same id, if need be without rows.
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
    """Run `topology` over DataFrames that end; what the components in `collect` have emitted, as DataFrames.

    `inputs` has a bounded DataFrame for each spout, which emits its rows instead of its own. The run ends when every
    row is acked; rows that fail more than `topology.max.replays` times are an error that shows them. `collect` names
    components, or gives each of them a schema, `{"count": "word string, count long"}`; else types are found by looking
    at all rows. The DataFrames have what was emitted on the default stream, in no certain order.
    """
    from pystorm_spark.spark.bounded import run_bounded  # pyspark is loaded when it is needed: not in slots

    return run_bounded(spark, topology, inputs, collect, conf)
