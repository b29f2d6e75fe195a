"""How many rows a second are joined from two streams, each result anchored to both of its rows?

Orders and payments go to the bolt `join` by their number; the first to come waits, unacked, for the other.
"""

from benchmarks import meter, workload
from benchmarks.components import CollectingBolt, NumberingSpout
from pystorm_spark import Fields

AT_ONCE = 10  # orders, then their payments: the last one first
CUSTOMERS = 100
TASKS = 2  # tasks of the bolt `join`


def order(number):
    return [number, number * 7919 % CUSTOMERS, number * 31 % 997]


def payment(number):
    return [number, number * 17 % 991]


class ShopSpout(NumberingSpout):
    """Emits orders and payments; none waits for one of a later call, so that it can stop after any."""

    outputs = {"orders": ["number", "customer", "price"], "payments": ["number", "paid"]}

    def next_tuple(self):
        root = self.number
        if root < self.limit:
            first = root // 2
            for number in range(first, first + AT_ONCE):
                self.collector.emit(order(number), stream="orders", message_id=root)
                root += 1
            for number in reversed(range(first, first + AT_ONCE)):
                self.collector.emit(payment(number), stream="payments", message_id=root)
                root += 1
            self.number = root


class JoinBolt(CollectingBolt):
    outputs = ["customer", "price", "paid"]

    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        self.waiting = {}

    def execute(self, tup):
        other = self.waiting.pop(tup.values[0], None)
        if other is None:
            self.waiting[tup.values[0]] = tup
            return
        ordered, paid = (tup, other) if tup.source_stream_id == "orders" else (other, tup)
        self.collector.emit([*ordered.values[1:], paid.values[1]], anchors=[ordered, paid])
        self.collector.ack(ordered)
        self.collector.ack(paid)


class TotalBolt(workload.TellingBolt):
    """Keeps for each customer the number of orders, and the sums of their prices and payments."""

    def execute(self, tup):
        add(self.found, *tup.values)
        self.collector.ack(tup)


def add(totals, customer, price, paid):
    orders, prices, payments = totals.get(customer, (0, 0, 0))
    totals[customer] = (orders + 1, prices + price, payments + paid)


def bolts(builder, folder):
    joined = builder.set_bolt("join", JoinBolt(), TASKS)
    joined.fields_grouping(meter.SPOUT, Fields("number"), "orders")
    joined.fields_grouping(meter.SPOUT, Fields("number"), "payments")
    builder.set_bolt("total", TotalBolt(folder)).global_grouping("join")


def check(emitted, folder):
    """Check that every order was joined with its payment, once."""
    (found,) = workload.told(folder, "TotalBolt")
    expected = {}
    for number in range(emitted // 2):
        add(expected, *order(number)[1:], payment(number)[1])
    workload.expect("the orders, prices and payments of the customers", found, expected)


WORKLOAD = workload.Workload(lambda folder, limit: ShopSpout(limit), bolts, check, roots_in_call=2 * AT_ONCE)

if __name__ == "__main__":
    workload.answer("join")
