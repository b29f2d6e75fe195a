"""FixedTupleSpout: a spout with a fixed list of rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pystorm_spark.errors import EmitError, did_you_mean
from pystorm_spark.testing.row import checked_row
from pystorm_spark.topology.collector import SpoutOutputCollector
from pystorm_spark.topology.component import Conf, Spout
from pystorm_spark.topology.context import TopologyContext
from pystorm_spark.topology.declarer import OutputFieldsDeclarer
from pystorm_spark.topology.fields import DEFAULT_STREAM, FieldsLike, Stream, as_fields


class FixedTupleSpout(Spout):
    """A spout that emits each of its rows once, with its number as message id. It does not replay a row that fails.

    `rows` and `fields` are those of the default stream, or dicts by stream. Each task emits an equal share of the rows.
    A task that restarts, after a crash or a rebalance, emits its whole share again.

    >>> from pystorm_spark import LocalCluster, TopologyBuilder
    >>> from pystorm_spark.testing import complete_topology, read_tuples
    >>> builder = TopologyBuilder()
    >>> _ = builder.set_spout("words", FixedTupleSpout([["storm"], ["spark"]], ["word"]))
    >>> with LocalCluster() as cluster:
    ...     result = complete_topology(cluster, builder.create_topology())
    >>> read_tuples(result, "words")
    [['storm'], ['spark']]
    """

    def __init__(
        self,
        rows: Iterable[Any] | Mapping[str, Iterable[Any]],
        fields: FieldsLike | Mapping[str, FieldsLike | Stream],
    ) -> None:
        self.outputs = fields if isinstance(fields, Mapping) else as_fields(fields)
        self._rows = list(self._checked(rows if isinstance(rows, Mapping) else {DEFAULT_STREAM: rows}))

    def _checked(self, rows: Mapping[str, Iterable[Any]]) -> Iterator[tuple[str, list[Any]]]:
        declarer = OutputFieldsDeclarer()
        self.declare_output_fields(declarer)
        for stream_id, stream_rows in rows.items():
            if stream_id not in declarer.streams:
                raise EmitError(
                    f"rows for the undeclared stream {stream_id!r}; {did_you_mean(stream_id, declarer.streams)}"
                )
            for values in stream_rows:
                what = f"a row for stream {stream_id!r} is"
                yield stream_id, checked_row(what, values, declarer.streams[stream_id].fields)

    @property
    def row_count(self) -> int:
        """The number of rows of all tasks together."""
        return len(self._rows)

    def open(self, conf: Conf, context: TopologyContext, collector: SpoutOutputCollector) -> None:
        tasks = len(context.component_tasks(context.this_component_id))
        self._collector = collector
        self._left = deque(list(enumerate(self._rows))[context.this_task_index :: tasks])

    def next_tuple(self) -> None:
        if self._left:
            number, (stream, values) = self._left.popleft()
            self._collector.emit(list(values), message_id=number, stream=stream)
