"""Sessions: the page views of each user until it is quiet for 30 s, with an early result at every third page."""

from pystorm_spark import BasicBolt, LocalCluster, TopologyBuilder
from pystorm_spark.testing import FeederSpout
from pystorm_spark.windowing import Duration, EveryCount, WindowedBolt

VIEWS = [  # (user, page, seconds until the next one)
    ("ada", "home", 5),
    ("bob", "home", 5),
    ("ada", "search", 10),
    ("ada", "book", 20),
    ("ada", "cart", 40),  # bob's session ends meanwhile, then ada's
    ("bob", "help", 40),
]


class Sessions(WindowedBolt):
    outputs = ("user", "timing", "secs", "pages")

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, window):
        quiet = 30_000
        secs = (window.end_timestamp - quiet - window.start_timestamp) // 1000  # from the first view to the last one
        self.collector.emit([window.key, window.timing, secs, [tup["page"] for tup in window]])


class Show(BasicBolt):
    def execute(self, tup, collector):
        user, timing, secs, pages = tup.values
        print(f"{user}, {timing}: {len(pages)} pages in {secs} s: {' '.join(pages)}")


def build(views):
    sessions = Sessions().with_session_window(Duration.seconds(30), key="user").with_trigger(EveryCount(3))
    builder = TopologyBuilder()
    builder.set_spout("views", views)
    builder.set_bolt("sessions", sessions, 2).fields_grouping("views", ["user"])
    builder.set_bolt("show", Show()).shuffle_grouping("sessions")
    return builder.create_topology()


def main():
    views = FeederSpout(["user", "page"])
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit_topology("sessions", {"topology.message.timeout.secs": 120}, build(views))
        for number, (user, page, secs) in enumerate(VIEWS):
            views.feed([user, page], message_id=number)
            cluster.advance_time(secs)
    print(f"acked: {len(views.tracker.acked)} of {len(VIEWS)}")


if __name__ == "__main__":
    main()
