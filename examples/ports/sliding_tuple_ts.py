"""storm-starter's SlidingTupleTsTopology, ported from Java line by line: every name is Java's.

| Java | here |
|---|---|
| `new Duration(5, TimeUnit.SECONDS)` | `Duration.seconds(5)` |
| `Utils.sleep(40000)`, `System.currentTimeMillis()` | simulated time, and timestamps that grow by 100 ms |
"""

import random

from pystorm_spark import (
    BaseBasicBolt,
    BaseRichSpout,
    Config,
    Fields,
    LocalCluster,
    TopologyBuilder,
    Values,
)
from pystorm_spark.windowing import BaseWindowedBolt

Duration = BaseWindowedBolt.Duration


class RandomIntegerSpout(BaseRichSpout):
    def open(self, conf, context, collector):
        self.collector = collector
        self.rand = random.Random(7)
        self.msgId = 0

    def nextTuple(self):
        if self.msgId < 200:
            self.msgId += 1
            self.collector.emit(Values(self.rand.randrange(1000), self.msgId * 100, self.msgId), self.msgId)

    def declareOutputFields(self, declarer):
        declarer.declare(Fields("value", "ts", "msgid"))


class SlidingWindowSumBolt(BaseWindowedBolt):
    def prepare(self, conf, context, collector):
        self.collector = collector
        self.sum = 0

    def execute(self, inputWindow):
        for tuple in inputWindow.getNew():  # noqa: A001 - Java's name
            self.sum += tuple.getValue(0)
        for tuple in inputWindow.getExpired():  # noqa: A001
            self.sum -= tuple.getValue(0)
        self.collector.emit(Values(self.sum))

    def declareOutputFields(self, declarer):
        declarer.declare(Fields("sum"))


class PrinterBolt(BaseBasicBolt):
    def execute(self, tuple, collector):  # noqa: A002
        print(tuple.getValues())


def main():
    builder = TopologyBuilder()
    bolt = (
        SlidingWindowSumBolt()
        .withWindow(Duration.seconds(5), Duration.seconds(3))
        .withTimestampField("ts")
        .withLag(Duration.seconds(5))
    )
    builder.setSpout("integer", RandomIntegerSpout(), 1)
    builder.setBolt("slidingsum", bolt, 1).shuffleGrouping("integer")
    builder.setBolt("printer", PrinterBolt(), 1).shuffleGrouping("slidingsum")
    conf = Config()
    conf.setDebug(False)
    cluster = LocalCluster(simulated_time=True)
    cluster.submitTopology("test", conf, builder.createTopology())
    cluster.advanceClusterTime(40)
    cluster.killTopology("test", 0)
    cluster.shutdown()


if __name__ == "__main__":
    main()
