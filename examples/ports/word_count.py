"""storm-starter's WordCountTopology, ported from Java line by line: every name is Java's.

| Java | here |
|---|---|
| `extends BaseRichSpout`, `extends BaseBasicBolt` | `(BaseRichSpout)`, `(BaseBasicBolt)` |
| `SplitSentence extends ShellBolt`, with a script in Python | a bolt in Python |
| `Map<String, Integer> counts = new HashMap<>()` | `counts = {}` in `prepare`, so that every task has its own |
| `Utils.sleep(100)` | `time.sleep`, and shorter: the tasks of this example share one thread |
"""

import random
import time

from pystorm_spark import BaseBasicBolt, BaseRichSpout, Config, Fields, LocalCluster, TopologyBuilder, Values


class RandomSentenceSpout(BaseRichSpout):
    def open(self, conf, context, collector):
        self._collector = collector
        self._rand = random.Random()

    def nextTuple(self):
        time.sleep(0.001)
        sentences = [
            "the cow jumped over the moon",
            "an apple a day keeps the doctor away",
            "four score and seven years ago",
            "snow white and the seven dwarfs",
            "i am at two with nature",
        ]
        sentence = sentences[self._rand.randrange(len(sentences))]
        self._collector.emit(Values(sentence))

    def declareOutputFields(self, declarer):
        declarer.declare(Fields("word"))


class SplitSentence(BaseBasicBolt):
    def execute(self, tuple, collector):  # noqa: A002 - Java's name
        for word in tuple.getString(0).split(" "):
            collector.emit(Values(word))

    def declareOutputFields(self, declarer):
        declarer.declare(Fields("word"))

    def getComponentConfiguration(self):
        return None


class WordCount(BaseBasicBolt):
    def prepare(self, topoConf, context):
        self.counts = {}

    def execute(self, tuple, collector):  # noqa: A002 - Java's name
        word = tuple.getString(0)
        count = self.counts.get(word)
        if count is None:
            count = 0
        count += 1
        self.counts[word] = count
        collector.emit(Values(word, count))

    def declareOutputFields(self, declarer):
        declarer.declare(Fields("word", "count"))

    def cleanup(self):
        for word, count in self.counts.items():
            print(f"{word}: {count}")


def main():
    builder = TopologyBuilder()

    builder.setSpout("spout", RandomSentenceSpout(), 5)
    builder.setBolt("split", SplitSentence(), 8).shuffleGrouping("spout")
    builder.setBolt("count", WordCount(), 12).fieldsGrouping("split", Fields("word"))

    conf = Config()
    conf.setMaxTaskParallelism(3)

    cluster = LocalCluster()
    cluster.submitTopology("word-count", conf, builder.createTopology())
    while cluster.topologyInfo("word-count").components["count"].executed < 100:
        time.sleep(0.01)
    cluster.killTopology("word-count")
    cluster.shutdown()


if __name__ == "__main__":
    main()
