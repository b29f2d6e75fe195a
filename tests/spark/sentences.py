"""A word count for bounded runs: its topology, sentences as a DataFrame, and the counts of a result."""

import random
from collections import Counter

from pystorm_spark import BasicBolt, Spout, TopologyBuilder

TWO_SLOTS = {"topology.workers": 2}
WORDS = ["the", "cow", "jumped", "over", "the", "moon", "and", "the", "dish", "ran", "away", "with", "the", "spoon"]


class Sentences(Spout):
    outputs = ("sentence",)


class Split(BasicBolt):
    outputs = ("word",)

    def execute(self, tup, collector):
        for word in tup["sentence"].split():
            collector.emit([word])


class Count(BasicBolt):
    outputs = ("word", "count")

    def prepare(self, conf, context):
        self.counts = Counter()

    def execute(self, tup, collector):
        self.counts[tup["word"]] += 1
        collector.emit([tup["word"], self.counts[tup["word"]]])


def word_count(spout=None, split=None, count=None):
    builder = TopologyBuilder()
    builder.set_spout("sentences", spout or Sentences(), 2)
    builder.set_bolt("split", split or Split(), 2).shuffle_grouping("sentences")
    builder.set_bolt("count", count or Count(), 2).fields_grouping("split", ["word"])
    return builder.create_topology()


def sentences(spark, count, more=()):
    rng = random.Random(count)
    texts = [" ".join(rng.choices(WORDS, k=5)) for _ in range(count)] + list(more)
    return texts, spark.createDataFrame([(text,) for text in texts], "sentence string").repartition(3)


def highest(df):
    return {row["word"]: row["max(count)"] for row in df.groupBy("word").max("count").collect()}


class Picky(Split):
    def execute(self, tup, collector):
        if "poison" in tup["sentence"]:
            raise ValueError("it is poison")
        super().execute(tup, collector)
