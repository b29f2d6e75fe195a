"""storm-starter's ExclamationTopology, ported from Java line by line: every name is Java's.

| Java | here |
|---|---|
| `extends BaseRichSpout`, `extends BaseRichBolt` | `(BaseRichSpout)`, `(BaseRichBolt)` |
| `new Fields("word")`, `new Values(word)` | `Fields("word")`, `Values(word)` |
| `Utils.sleep(100)` | `time.sleep`, and shorter: the ten spouts of this example share one thread |
| a log with `conf.setDebug(true)` | the same, through `logging` |
"""

import logging
import random
import sys
import time

from pystorm_spark import BaseRichBolt, BaseRichSpout, Config, Fields, LocalCluster, TopologyBuilder, Values


class TestWordSpout(BaseRichSpout):
    def open(self, conf, context, collector):
        self._collector = collector

    def nextTuple(self):
        time.sleep(0.005)
        words = ["nathan", "mike", "jackson", "golda", "bertels"]
        word = random.choice(words)
        self._collector.emit(Values(word))

    def declareOutputFields(self, declarer):
        declarer.declare(Fields("word"))


class ExclamationBolt(BaseRichBolt):
    def prepare(self, conf, context, collector):
        self._collector = collector

    def execute(self, tuple):  # noqa: A002 - Java's name
        self._collector.emit(tuple, Values(tuple.getString(0) + "!!!"))
        self._collector.ack(tuple)

    def declareOutputFields(self, declarer):
        declarer.declare(Fields("word"))


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    builder = TopologyBuilder()

    builder.setSpout("word", TestWordSpout(), 10)
    builder.setBolt("exclaim1", ExclamationBolt(), 3).shuffleGrouping("word")
    builder.setBolt("exclaim2", ExclamationBolt(), 2).shuffleGrouping("exclaim1")

    conf = Config()
    conf.setDebug(True)
    conf.setNumWorkers(3)

    cluster = LocalCluster()
    cluster.submitTopology("test", conf, builder.createTopology())
    while cluster.topologyInfo("test").components["exclaim2"].acked < 10:
        time.sleep(0.01)
    cluster.killTopology("test")
    cluster.shutdown()


if __name__ == "__main__":
    main()
