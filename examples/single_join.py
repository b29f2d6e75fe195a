"""Two streams joined by id. A joined tuple is anchored to both of its halves. A half without its other half fails.

At every tick `JoinById` fails halves that have waited too long. The cluster's time is simulated, so the example does
not wait for the expiry.
"""

from pystorm_spark import Config, Fields, LocalCluster, TickAwareBolt, TopologyBuilder
from pystorm_spark.testing import FeederSpout


class JoinById(TickAwareBolt):
    outputs = Fields("id", "name", "age")

    def __init__(self, expiry_secs):
        self.expiry_secs = expiry_secs

    def component_configuration(self):
        return {Config.TOPOLOGY_TICK_TUPLE_FREQ_SECS: self.expiry_secs}

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.young, self.old = {}, {}  # {id: {source component: tuple}}, since the last tick and since the one before

    def process(self, tup):
        halves = self.old.pop(tup["id"], None) or self.young.pop(tup["id"], {})
        halves[tup.source_component] = tup
        if len(halves) < 2:
            self.young[tup["id"]] = halves
            return
        name, age = halves["names"]["name"], halves["ages"]["age"]
        self.collector.emit([tup["id"], name, age], anchors=halves.values())
        for half in halves.values():
            self.collector.ack(half)

    def on_tick(self, tup):
        for halves in self.old.values():
            for half in halves.values():
                self.collector.fail(half)
        self.young, self.old = {}, self.young
        self.collector.ack(tup)


def main():
    names, ages = FeederSpout(Fields("id", "name")), FeederSpout(Fields("id", "age"))
    builder = TopologyBuilder()
    builder.set_spout("names", names)
    builder.set_spout("ages", ages)
    join = builder.set_bolt("join", JoinById(expiry_secs=5), 2)
    join.fields_grouping("names", "id").fields_grouping("ages", "id")
    builder.set_bolt("show", lambda tup: print("joined:", *tup)).global_grouping("join")
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit_topology("join", None, builder.create_topology())
        for number, name in ((1, "ada"), (2, "grace"), (3, "linus")):
            names.feed([number, name], message_id=name)
        ages.feed([2, 85], message_id="85 years")
        ages.feed([1, 36], message_id="36 years")
        cluster.advance_time(15)
    print("acked:", *sorted(names.tracker.acked + ages.tracker.acked))
    print("failed:", *names.tracker.failed)


if __name__ == "__main__":
    main()
