"""At least once: a spout that keeps what it emitted until it is acked, and emits again what failed.

`deliver` refuses every third order the first time it sees it. No order is lost, and none is delivered twice.
"""

import time

from pystorm_spark import BasicBolt, FailedException, Fields, LocalCluster, Spout, TopologyBuilder

ORDERS = 7


class OrderSpout(Spout):
    outputs = Fields("order")

    def open(self, conf, context, collector):
        self.collector = collector
        self.queue = list(range(1, ORDERS + 1))
        self.pending = set()

    def next_tuple(self):
        if self.queue:
            order = self.queue.pop(0)
            self.pending.add(order)
            self.collector.emit([order], message_id=order)

    def ack(self, message_id):
        self.pending.remove(message_id)

    def fail(self, message_id):
        print(f"order {message_id} failed, emitted again")
        self.pending.remove(message_id)
        self.queue.append(message_id)

    def close(self):
        print(f"still pending: {len(self.pending)}")


class Deliver(BasicBolt):
    def prepare(self, conf, context):
        self.refused = set()

    def execute(self, tup, collector):
        order = tup["order"]
        if order % 3 == 0 and order not in self.refused:
            self.refused.add(order)
            raise FailedException(f"nobody at home for order {order}")


def main():
    builder = TopologyBuilder()
    builder.set_spout("orders", OrderSpout())
    # By fields: an order that is emitted again comes to the task that has refused it.
    builder.set_bolt("deliver", Deliver(), 2).fields_grouping("orders", "order")
    with LocalCluster() as cluster:
        cluster.submit_topology("orders", None, builder.create_topology())
        while (orders := cluster.topology_info("orders").components["orders"]).acked < ORDERS:
            time.sleep(0.01)
    print(f"{orders.emitted} emitted, {orders.acked} acked, {orders.failed} failed")


if __name__ == "__main__":
    main()
