"""A chain of small bolts: Celsius to Fahrenheit, a filter for broken readings, a moving average for each sensor.

Every step is grouped by sensor. So all readings of a sensor go through the same tasks and stay in order. The average
needs that, because it weighs the latest reading most.
"""

import time

from pystorm_spark import BasicBolt, Fields, LocalCluster, Spout, TopologyBuilder

# The sensor in the attic breaks for a moment.
READINGS = (("cellar", 10.0), ("attic", 20.0), ("cellar", 12.0), ("attic", 999.0), ("attic", 30.0), ("cellar", 12.0))


class SensorSpout(Spout):
    outputs = Fields("sensor", "celsius")

    def open(self, conf, context, collector):
        self.collector = collector
        self.left = list(enumerate(READINGS))

    def next_tuple(self):
        if self.left:
            number, reading = self.left.pop(0)
            self.collector.emit(list(reading), message_id=number)


class ToFahrenheit(BasicBolt):
    outputs = Fields("sensor", "fahrenheit")

    def execute(self, tup, collector):
        collector.emit([tup["sensor"], tup["celsius"] * 9 / 5 + 32])


class Below(BasicBolt):
    outputs = Fields("sensor", "fahrenheit")

    def __init__(self, limit):
        self.limit = limit

    def execute(self, tup, collector):
        if tup["fahrenheit"] < self.limit:
            collector.emit(tup.values)


class Average(BasicBolt):
    outputs = Fields("sensor", "average")

    def __init__(self, weight):
        self.weight = weight
        self.averages = {}

    def execute(self, tup, collector):
        sensor, fahrenheit = tup.values
        before = self.averages.get(sensor, fahrenheit)
        self.averages[sensor] = before + self.weight * (fahrenheit - before)
        collector.emit([sensor, self.averages[sensor]])


def main():
    builder = TopologyBuilder()
    builder.set_spout("sensors", SensorSpout())
    builder.set_bolt("fahrenheit", ToFahrenheit(), 2).fields_grouping("sensors", "sensor")
    builder.set_bolt("plausible", Below(limit=200), 2).fields_grouping("fahrenheit", "sensor")
    builder.set_bolt("average", Average(weight=0.5), 2).fields_grouping("plausible", "sensor")
    builder.set_bolt("show", lambda tup: print(f"{tup[0]} {tup[1]:.1f} °F")).global_grouping("average")
    with LocalCluster() as cluster:
        cluster.submit_topology("sensors", None, builder.create_topology())
        while cluster.topology_info("sensors").components["sensors"].acked < len(READINGS):
            time.sleep(0.01)


if __name__ == "__main__":
    main()
