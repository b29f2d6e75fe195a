"""Word count, the first topology of every Storm tutorial: sentences are cut into words, and the words are counted.

`count` has two tasks; the fields grouping sends equal words to the same one, so each has the whole count of its words.
"""

import time
from collections import Counter

from pystorm_spark import BasicBolt, Fields, LocalCluster, Spout, TopologyBuilder

SENTENCES = (
    "the cow jumped over the moon",
    "an apple a day keeps the doctor away",
    "four score and seven years ago",
    "snow white and the seven dwarfs",
)


class SentenceSpout(Spout):
    outputs = Fields("sentence")

    def open(self, conf, context, collector):
        self.collector = collector
        self.left = list(enumerate(SENTENCES))

    def next_tuple(self):
        if self.left:
            number, sentence = self.left.pop(0)
            # The message id makes the sentence tracked: it is acked when all of its words are counted.
            self.collector.emit([sentence], message_id=number)


class Split(BasicBolt):
    outputs = Fields("word")

    def execute(self, tup, collector):
        for word in tup["sentence"].split():
            collector.emit([word])


class Count(BasicBolt):
    outputs = Fields("word", "count")

    def prepare(self, conf, context):
        self.counts = Counter()

    def execute(self, tup, collector):
        word = tup["word"]
        self.counts[word] += 1
        collector.emit([word, self.counts[word]])


class Top(BasicBolt):
    def prepare(self, conf, context):
        self.counts = {}

    def execute(self, tup, collector):
        self.counts[tup["word"]] = tup["count"]

    def cleanup(self):
        for word, count in sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))[:3]:
            print(word, count)


def main():
    builder = TopologyBuilder()
    builder.set_spout("sentences", SentenceSpout())
    builder.set_bolt("split", Split(), 2).shuffle_grouping("sentences")
    builder.set_bolt("count", Count(), 2).fields_grouping("split", "word")
    builder.set_bolt("top", Top()).global_grouping("count")
    with LocalCluster() as cluster:
        cluster.submit_topology("word-count", None, builder.create_topology())
        while cluster.topology_info("word-count").components["sentences"].acked < len(SENTENCES):
            time.sleep(0.01)


if __name__ == "__main__":
    main()
