"""`input_ended`: components of a bounded run hear when all input has come, one after the other."""

from collections import Counter

import pytest

from pystorm_spark import BasicBolt, Bolt, StormError, TopologyBuilder
from pystorm_spark.dataframe import run_batch
from pystorm_spark.state import StatefulBolt
from tests.behaviour.probes import Rows

pytestmark = pytest.mark.spark
TWO_SLOTS = {"topology.workers": 2}


class Totals(Bolt):
    """Emits what it has counted when the input has ended, and nothing before."""

    outputs = ("word", "count")

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.counts = Counter()

    def execute(self, tup):
        self.counts[tup[0]] += tup[1] if len(tup) > 1 else 1
        self.collector.ack(tup)

    def input_ended(self):
        for word, count in self.counts.items():
            self.collector.emit([word, count])


class StatefulTotals(Totals, StatefulBolt):
    def init_state(self, state):
        self.counts = Counter()
        self.state = state


class Raises(BasicBolt):
    outputs = ("word", "count")

    def execute(self, tup, collector):
        pass

    def input_ended(self):
        raise ValueError("too early")


def topology(first, second):
    builder = TopologyBuilder()
    builder.set_spout("words", Rows([], ["word"]))
    # The one that is further from the input is declared first.
    builder.set_bolt("all", second, 2).fields_grouping("partial", ["word"])
    builder.set_bolt("partial", first, 4).shuffle_grouping("words")
    return builder.create_topology()


@pytest.mark.parametrize("first", [Totals, StatefulTotals])
def test_each_component_gets_the_end_once_all_earlier_ones_are_settled(spark, first):
    words = ["storm", "spark", "storm", "heron"] * 50
    df = spark.createDataFrame([(word,) for word in words], "word string")

    result = run_batch(spark, topology(first(), Totals()), {"words": df}, collect=["all"], conf=TWO_SLOTS)

    assert {(row["word"], row["count"]) for row in result["all"].collect()} == set(Counter(words).items())
    assert result["all"].count() == 3


def test_an_exception_at_the_end_of_the_input_ends_the_run(spark):
    df = spark.createDataFrame([("storm",)], "word string")

    with pytest.raises(StormError, match=r"input_ended of 'partial' .* raised ValueError: too early"):
        run_batch(spark, topology(Raises(), Totals()), {"words": df}, collect=["all"], conf=TWO_SLOTS)
