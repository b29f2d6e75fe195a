"""Runs one windowed bolt on a LocalCluster in simulated time, and notes its windows to the millisecond."""

from pystorm_spark import LocalCluster, TopologyBuilder
from pystorm_spark.testing import CaptureBolt, FeederSpout
from pystorm_spark.windowing import WindowedBolt


class Noting(WindowedBolt):
    """Emits what each window shows: (start, end, timing, values, new values, expired values)."""

    outputs = ("window",)

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, window):
        shown = [[tup[0] for tup in tuples] for tuples in (window.get(), window.get_new(), window.get_expired())]
        self.collector.emit([(window.start_timestamp, window.end_timestamp, window.timing, *shown)], anchors=())


class Results(WindowedBolt):
    """Emits the aggregate of each window."""

    outputs = ("window",)

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, window):
        has_keys = self._window_settings.aggregate.key is not None
        found = window.results if has_keys else window.result
        self.collector.emit([(window.end_timestamp, found, len(window))], anchors=())


class Run:
    """The topology: spouts "a", "b", … → bolt "windows" → what is captured, on its default and on other streams."""

    def __init__(self, bolt, conf=None, fields=("value",), sources="a", streams=(), own_conf=None, tasks=1):
        self.feeders = {name: FeederSpout(list(fields)) for name in sources}
        self.capture, self.others = CaptureBolt(), {stream: CaptureBolt() for stream in streams}
        builder = TopologyBuilder()
        declarer = builder.set_bolt("windows", bolt, tasks)
        for name, feeder in self.feeders.items():
            builder.set_spout(name, feeder)
            declarer.fields_grouping(name, [fields[0]])
        declarer.add_configurations(own_conf or {})
        builder.set_bolt("capture", self.capture).shuffle_grouping("windows")
        for stream, capture in self.others.items():
            builder.set_bolt(f"capture-{stream}", capture).shuffle_grouping("windows", stream)
        self.cluster = LocalCluster(simulated_time=True)
        self.fed = 0
        try:
            self.cluster.submit_topology("run", conf, builder.create_topology())
        except BaseException:
            self.cluster.shutdown()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.cluster.shutdown()

    def feed(self, *values, source="a"):
        """Feed one tuple; its message id is the number of tuples fed before."""
        self.feeders[source].feed(list(values), message_id=self.fed)
        self.fed += 1
        self.cluster.wait_until_idle()

    def advance(self, millis):
        self.cluster.advance_time(millis / 1000)

    @property
    def seen(self):
        return [row[0] for row in self.capture.captured]

    @property
    def windows(self):
        """(end, values) of each window."""
        return [(end, values) for _, end, _, values, _, _ in self.seen]

    @property
    def contents(self):
        return [values for _, _, _, values, _, _ in self.seen]

    @property
    def acked(self):
        return sorted(id_ for feeder in self.feeders.values() for id_ in feeder.tracker.acked)

    @property
    def failed(self):
        return sorted(id_ for feeder in self.feeders.values() for id_ in feeder.tracker.failed)

    @property
    def info(self):
        return self.cluster.topology_info("run").components["windows"]

    @property
    def errors(self):
        return [error.exception for error in self.info.errors]
