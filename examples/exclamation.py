"""Two bolts in a row, each adding exclamation marks; rich bolts that anchor and ack by hand.

What a `BasicBolt` does by itself is written out here: `anchors=tup` makes the new tuple part of the input's tree, and
`ack` says that this bolt is done with it. The spout's tuple is acked when its whole tree is.
"""

import time

from pystorm_spark import Bolt, Fields, LocalCluster, Spout, TopologyBuilder

WORDS = ("nathan", "mike", "jackson", "golda", "bertels")


class WordSpout(Spout):
    outputs = Fields("word")

    def open(self, conf, context, collector):
        self.collector = collector
        self.left = list(WORDS)

    def next_tuple(self):
        if self.left:
            word = self.left.pop(0)
            self.collector.emit([word], message_id=word)


class Exclaim(Bolt):
    outputs = Fields("word")

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.collector.emit([tup["word"] + "!!!"], anchors=tup)
        self.collector.ack(tup)


def show(tup):
    print(tup["word"])


def main():
    builder = TopologyBuilder()
    builder.set_spout("words", WordSpout())
    builder.set_bolt("exclaim1", Exclaim(), 3).shuffle_grouping("words")
    builder.set_bolt("exclaim2", Exclaim(), 2).shuffle_grouping("exclaim1")
    builder.set_bolt("show", show).global_grouping("exclaim2")
    with LocalCluster() as cluster:
        cluster.submit_topology("exclamation", None, builder.create_topology())
        while cluster.topology_info("exclamation").components["words"].acked < len(WORDS):
            time.sleep(0.01)


if __name__ == "__main__":
    main()
