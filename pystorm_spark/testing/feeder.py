"""FeederSpout: a spout that a test feeds while its topology runs; AckFailTracker: records its acks and fails."""

from __future__ import annotations

from collections import deque
from typing import Any

from pystorm_spark.naming import java_names
from pystorm_spark.testing.row import checked_row
from pystorm_spark.testing.shared import Shared
from pystorm_spark.topology.collector import SpoutOutputCollector
from pystorm_spark.topology.component import Conf, Spout
from pystorm_spark.topology.context import TopologyContext
from pystorm_spark.topology.fields import FieldsLike, as_fields


class Feed(Shared):
    """The rows that a `FeederSpout` was fed and has not emitted yet."""

    owner = "FeederSpout"

    def __init__(self) -> None:
        super().__init__()
        self.rows: deque[tuple[list[Any], Any]] = deque()  # values, message id

    def take(self) -> tuple[list[Any], Any] | None:
        try:
            return self.rows.popleft()
        except IndexError:
            return None


@java_names()
class AckFailTracker(Shared):
    """The message ids that were acked and those that failed, each in order. Works on `LocalCluster` only.

    >>> tracker = AckFailTracker()
    >>> tracker.ack(7)
    >>> tracker.acked, tracker.is_acked(7), tracker.is_failed(7)
    ([7], True, False)
    """

    owner = "AckFailTracker"

    def __init__(self) -> None:
        super().__init__()
        self.acked: list[Any] = []
        self.failed: list[Any] = []

    def ack(self, message_id: Any) -> None:
        self.acked.append(message_id)

    def fail(self, message_id: Any) -> None:
        self.failed.append(message_id)

    def is_acked(self, message_id: Any) -> bool:
        return message_id in self.acked

    def is_failed(self, message_id: Any) -> bool:
        return message_id in self.failed


class FeederSpout(Spout):
    """A spout that emits the rows a test feeds it, before or after the submit. Runs on `LocalCluster` only.

    >>> from pystorm_spark import LambdaBolt, LocalCluster, TopologyBuilder
    >>> feeder = FeederSpout(["word"])
    >>> builder = TopologyBuilder()
    >>> _ = builder.set_spout("words", feeder)
    >>> _ = builder.set_bolt("ignore", LambdaBolt(lambda tup: None)).shuffle_grouping("words")
    >>> with LocalCluster(simulated_time=True) as cluster:
    ...     _ = cluster.submit_topology("feeding", None, builder.create_topology())
    ...     feeder.feed(["storm"], message_id=1)
    ...     cluster.wait_until_idle()
    >>> feeder.tracker.acked
    [1]
    """

    def __init__(self, fields: FieldsLike) -> None:
        self.outputs = as_fields(fields)
        self._feed = Feed()
        self.tracker = AckFailTracker()

    def feed(self, values: Any, message_id: Any = None) -> None:
        """Have one of the tasks emit `values` once. Without a message id the tuple is not tracked."""
        self._feed.rows.append((checked_row("FeederSpout is fed", values, self.outputs), message_id))

    def open(self, conf: Conf, context: TopologyContext, collector: SpoutOutputCollector) -> None:
        self._collector = collector

    def next_tuple(self) -> None:
        fed = self._feed.take()
        if fed is not None:
            values, message_id = fed
            self._collector.emit(values, message_id=message_id)

    def ack(self, message_id: Any) -> None:
        self.tracker.ack(message_id)

    def fail(self, message_id: Any) -> None:
        self.tracker.fail(message_id)
