"""CaptureBolt: a bolt that keeps the tuples it receives."""

from __future__ import annotations

from typing import Any

from pystorm_spark.testing.shared import Shared
from pystorm_spark.topology.collector import OutputCollector
from pystorm_spark.topology.component import Bolt, Conf
from pystorm_spark.topology.context import TopologyContext
from pystorm_spark.topology.tuple import Tuple, is_tick


class Captured(Shared):
    """The rows that the tasks of one `CaptureBolt` have received."""

    owner = "CaptureBolt"

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[Any]] = []


class CaptureBolt(Bolt):
    """A bolt that keeps the values of every tuple in `captured`, in order of arrival, and acks the tuple.

    Runs on `LocalCluster` only. Ticks are acked but not kept.

    >>> from pystorm_spark import LocalCluster, TopologyBuilder
    >>> from pystorm_spark.testing import FixedTupleSpout
    >>> capture = CaptureBolt()
    >>> builder = TopologyBuilder()
    >>> _ = builder.set_spout("words", FixedTupleSpout([["storm"], ["spark"]], ["word"]))
    >>> _ = builder.set_bolt("capture", capture).global_grouping("words")
    >>> with LocalCluster(simulated_time=True) as cluster:
    ...     _ = cluster.submit_topology("capturing", None, builder.create_topology())
    ...     cluster.wait_until_idle()
    >>> capture.captured
    [['storm'], ['spark']]
    """

    def __init__(self) -> None:
        self._captured = Captured()

    @property
    def captured(self) -> list[list[Any]]:
        return self._captured.rows

    def prepare(self, conf: Conf, context: TopologyContext, collector: OutputCollector) -> None:
        self._collector = collector

    def execute(self, tup: Tuple) -> None:
        if not is_tick(tup):
            self.captured.append(list(tup.values))
        self._collector.ack(tup)
