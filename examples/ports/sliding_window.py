"""storm-starter's SlidingWindowTopology, ported from Java line by line: every name is Java's.

| Java | here |
|---|---|
| `extends BaseWindowedBolt` | `(BaseWindowedBolt)` |
| `(int) tuple.getValue(0)` | `tuple.getValue(0)` |
| `import static …BaseWindowedBolt.Count` | `BaseWindowedBolt.Count` |
| `Utils.sleep(40000)` | simulated time, so that it takes a moment |
"""

import random
import time

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

Count = BaseWindowedBolt.Count


class RandomIntegerSpout(BaseRichSpout):
    def open(self, conf, context, collector):
        self.collector = collector
        self.rand = random.Random(7)
        self.msgId = 0

    def nextTuple(self):
        if self.msgId < 60:
            self.msgId += 1
            yesterday = int(time.time() * 1000) - 24 * 60 * 60 * 1000
            self.collector.emit(Values(self.rand.randrange(1000), yesterday, self.msgId), self.msgId)

    def declareOutputFields(self, declarer):
        declarer.declare(Fields("value", "ts", "msgid"))


class SlidingWindowSumBolt(BaseWindowedBolt):
    def prepare(self, conf, context, collector):
        self.collector = collector
        self.sum = 0

    def execute(self, inputWindow):
        # The sum is computed from what is new and what has expired, not by going over the whole window.
        for tuple in inputWindow.getNew():  # noqa: A001 - Java's name
            self.sum += tuple.getValue(0)
        for tuple in inputWindow.getExpired():  # noqa: A001
            self.sum -= tuple.getValue(0)
        self.collector.emit(Values(self.sum))

    def declareOutputFields(self, declarer):
        declarer.declare(Fields("sum"))


class TumblingWindowAvgBolt(BaseWindowedBolt):
    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, inputWindow):
        total = 0
        tuplesInWindow = inputWindow.get()
        if len(tuplesInWindow) > 0:
            for tuple in tuplesInWindow:  # noqa: A001
                total += tuple.getValue(0)
            self.collector.emit(Values(total // len(tuplesInWindow)))

    def declareOutputFields(self, declarer):
        declarer.declare(Fields("avg"))


class PrinterBolt(BaseBasicBolt):
    def execute(self, tuple, collector):  # noqa: A002
        print(tuple.getValues())


def main():
    builder = TopologyBuilder()
    builder.setSpout("integer", RandomIntegerSpout(), 1)
    builder.setBolt("slidingsum", SlidingWindowSumBolt().withWindow(Count.of(30), Count.of(10)), 1).shuffleGrouping(
        "integer"
    )
    builder.setBolt("tumblingavg", TumblingWindowAvgBolt().withTumblingWindow(Count.of(3)), 1).shuffleGrouping(
        "slidingsum"
    )
    builder.setBolt("printer", PrinterBolt(), 1).shuffleGrouping("tumblingavg")
    conf = Config()
    conf.setDebug(False)
    cluster = LocalCluster(simulated_time=True)
    cluster.submitTopology("test", conf, builder.createTopology())
    cluster.advanceClusterTime(40)
    cluster.killTopology("test", 0)
    cluster.shutdown()


if __name__ == "__main__":
    main()
