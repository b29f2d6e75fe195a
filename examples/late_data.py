"""Event time: readings that come out of order, a window that fires again for a late one, and one that is too late."""

from pystorm_spark import BasicBolt, LocalCluster, TopologyBuilder
from pystorm_spark.aggregators import Mean
from pystorm_spark.testing import FeederSpout
from pystorm_spark.windowing import Duration, WindowedBolt

# What comes in each second: (sensor, celsius, second of the measurement).
READINGS = [
    [("attic", 20.0, 1), ("attic", 24.0, 8), ("attic", 22.0, 4)],  # out of order
    [("attic", 30.0, 12), ("attic", 32.0, 31)],  # the watermark comes to 31 s: two windows fire
    [("attic", 40.0, 17)],  # late, but allowed: the window of 10 s to 20 s fires again
    [("attic", 99.0, 3)],  # too late
]


class Averages(WindowedBolt):
    outputs = ("start", "end", "timing", "celsius")

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, window):
        bounds = [window.start_timestamp // 1000, window.end_timestamp // 1000]
        self.collector.emit([*bounds, window.timing, window.result])


class Show(BasicBolt):
    def execute(self, tup, collector):
        if tup.source_stream_id == "too-late":
            late = tup["late_tuple"]
            print(f"too late: {late['sensor']} {late['celsius']} of {late['at'] // 1000} s")
        else:
            start, end, timing, celsius = tup.values
            print(f"{start} s to {end} s, {timing}: {celsius:.1f} °C")


def build(readings):
    averages = (
        Averages()
        .with_tumbling_window(Duration.seconds(10))
        .with_timestamp_field("at")
        .with_allowed_lateness(Duration.seconds(20))
        .with_late_tuple_stream("too-late")
        .with_aggregate(Mean(), value="celsius")
    )
    builder = TopologyBuilder()
    builder.set_spout("readings", readings)
    builder.set_bolt("averages", averages).fields_grouping("readings", ["sensor"])
    builder.set_bolt("show", Show()).shuffle_grouping("averages").shuffle_grouping("averages", "too-late")
    return builder.create_topology()


def main():
    readings = FeederSpout(["sensor", "celsius", "at"])
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit_topology("late-data", {"topology.message.timeout.secs": 60}, build(readings))
        for second in READINGS:
            for sensor, celsius, at in second:
                readings.feed([sensor, celsius, at * 1000], message_id=at)
            cluster.advance_time(1)  # the watermark is computed every second


if __name__ == "__main__":
    main()
