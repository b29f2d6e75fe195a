"""A sliding and a tumbling word count: the same words in windows of 10 s, every 5 s and every 10 s.

An aggregate costs the same for each word, however long the window is.
"""

from pystorm_spark import BasicBolt, LocalCluster, TopologyBuilder
from pystorm_spark.aggregators import Count
from pystorm_spark.testing import FeederSpout
from pystorm_spark.windowing import Duration, WindowedBolt

WORDS = ["rain sun rain", "wind sun", "rain", "", "sun sun wind"]  # of every 5 s


class WordCounts(WindowedBolt):
    outputs = ("kind", "end", "counts")

    def __init__(self, kind):
        self.kind = kind

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, window):
        counts = sorted(window.results.items())
        self.collector.emit([self.kind, window.end_timestamp, counts])  # anchored to the words of the window


class Show(BasicBolt):
    def execute(self, tup, collector):
        kind, end, counts = tup.values
        print(f"{end // 1000} s {kind}:", ", ".join(f"{word} {count}" for word, count in counts))


def build(words):
    builder = TopologyBuilder()
    builder.set_spout("words", words)
    sliding = WordCounts("sliding").with_window(Duration.seconds(10), Duration.seconds(5))
    tumbling = WordCounts("tumbling").with_tumbling_window(Duration.seconds(10))
    for name, bolt in (("sliding", sliding), ("tumbling", tumbling)):
        builder.set_bolt(name, bolt.with_aggregate(Count(), key="word")).global_grouping("words")
    builder.set_bolt("show", Show()).shuffle_grouping("sliding").shuffle_grouping("tumbling")
    return builder.create_topology()


def main():
    words = FeederSpout(["word"])
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit_topology("sliding-word-count", None, build(words))
        for line in WORDS:
            for word in line.split():
                words.feed([word], message_id=word)
            cluster.advance_time(5)
        cluster.advance_time(10)
    print(f"acked: {len(words.tracker.acked)} of {len(' '.join(WORDS).split())}")


if __name__ == "__main__":
    main()
