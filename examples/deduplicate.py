"""Deduplication by message id: a queue that delivers some messages twice, and a bolt that lets each one through once.

The seen ids are state: they survive a restart of the topology, and a rollback includes them. The bolt forgets ids that
are a hundred messages old, so that the state does not grow forever.
"""

import time

from pystorm_spark import BasicBolt, Fields, LocalCluster, Spout, TopologyBuilder
from pystorm_spark.state import StatefulBolt

DELIVERED = (("m1", "order tea"), ("m2", "order cake"), ("m1", "order tea"), ("m3", "pay"), ("m2", "order cake"))
REMEMBERED = 100


class Queue(Spout):
    outputs = Fields("id", "text")

    def open(self, conf, context, collector):
        self.collector = collector
        self.left = list(enumerate(DELIVERED))

    def next_tuple(self):
        if self.left:
            number, delivered = self.left.pop(0)
            self.collector.emit(delivered, message_id=number)


class Deduplicate(StatefulBolt):
    outputs = Fields("id", "text")

    def prepare(self, conf, context, collector):
        self.collector = collector

    def init_state(self, state):
        self.seen = state  # its keys are the ids, oldest first

    def execute(self, tup):
        if tup["id"] not in self.seen:
            self.seen.put(tup["id"], True)
            self.collector.emit(tup.values, anchors=tup)
        if len(self.seen) > REMEMBERED:
            self.seen.delete(next(self.seen.keys()))
        self.collector.ack(tup)


class Print(BasicBolt):
    def execute(self, tup, collector):
        print(tup["id"], tup["text"])


def main():
    builder = TopologyBuilder()
    builder.set_spout("queue", Queue())
    builder.set_bolt("deduplicate", Deduplicate(), 2).fields_grouping("queue", "id")
    builder.set_bolt("print", Print()).global_grouping("deduplicate")
    with LocalCluster() as cluster:
        cluster.submit_topology("deduplicate", None, builder.create_topology())
        while cluster.topology_info("deduplicate").components["queue"].acked < len(DELIVERED):
            time.sleep(0.01)


if __name__ == "__main__":
    main()
