"""The λ-architecture with one code for both its layers: page views are counted by the same bolts, twice.

    master data   every event there ever was, as Parquet files, one for each hour
    batch layer   `run_batch` now and then counts all of it from scratch, which also corrects earlier mistakes
    speed layer   the same topology on a stream of the same files counts newer events; its view is its state
    query         the batch view up to its last hour, and the speed view of the hours after it

The batch view and its last hour are replaced together, in one step. The batch view holds no later hours, even if their
events arrive while it is counted. So the query is correct at all times, also while the batch layer counts: each hour
comes from one of the two views, never from both.
"""

import tempfile
import threading
from collections import Counter
from pathlib import Path

from pystorm_spark import BasicBolt, SparkCluster, Spout, TopologyBuilder
from pystorm_spark.dataframe import DataFrameSpout, run_batch
from pystorm_spark.state import StatefulBolt

HOURS = [
    ["/", "/", "/about"],
    ["/", "/news", "/news", "/"],
    ["/about", "/"],
    ["/news", "/news", "/news", "/", "/imprint"],
]
EVENT = "hour int, path string"
CONF = {
    "topology.workers": 2,
    "topology.state.guarantee": "exactly-once",
    "topology.state.checkpoint.interval.ms": 200,  # the maximum age of the speed view
}


class Normalise(BasicBolt):
    outputs = ("hour", "page")

    def execute(self, tup, collector):
        collector.emit([tup["hour"], tup["path"].strip("/") or "home"])


class Count(StatefulBolt):
    """Counts the views of each page and hour."""

    outputs = ("hour", "page", "views")

    def prepare(self, conf, context, collector):
        self.collector = collector

    def init_state(self, state):
        self.views = state

    def execute(self, tup):
        hour, page = tup.values
        views = self.views.get((hour, page), 0) + 1
        self.views.put((hour, page), views)
        self.collector.emit([hour, page, views], anchors=tup)
        self.collector.ack(tup)


class NoEvents(Spout):
    outputs = ("hour", "path")


def build_topology(spout):
    """The topology of both layers; they differ in where events come from."""
    builder = TopologyBuilder()
    builder.set_spout("events", spout, 2)
    builder.set_bolt("normalise", Normalise(), 2).shuffle_grouping("events")
    builder.set_bolt("count", Count(), 2).fields_grouping("normalise", ["hour", "page"])
    return builder.create_topology()


class MasterData:
    def __init__(self, spark, folder):
        self.spark, self.folder = spark, folder
        self.hours = 0

    def append(self, paths):
        events = [(self.hours, path) for path in paths]
        self.spark.createDataFrame(events, EVENT).coalesce(1).write.mode("append").parquet(str(self.folder))
        self.hours += 1

    def read(self, last_hour):
        return self.spark.read.schema(EVENT).parquet(str(self.folder)).where(f"hour <= {last_hour}")

    def stream(self, spark):
        return spark.readStream.schema(EVENT).parquet(str(self.folder))


class Views:
    """The batch view and the speed view, which answer queries."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.batch = (-1, {})  # the last hour that it covers, {page: views}

    def recompute(self, master, last_hour):
        """The batch layer: count all events up to the end of an hour."""
        inputs = {"events": master.read(last_hour)}
        counts = run_batch(self.cluster.spark, build_topology(NoEvents()), inputs, ["count"], CONF)["count"]
        pages = counts.groupBy("hour", "page").max("views").groupBy("page").sum("max(views)").collect()
        self.batch = last_hour, dict(map(tuple, pages))

    def query(self):
        last_hour, pages = self.batch
        views = Counter(pages)
        for (hour, page), count in self.cluster.read_state("speed", "count").items():
            if hour > last_hour:
                views[page] += count
        return views


def expected(hours):
    return Counter(path.strip("/") or "home" for paths in HOURS[:hours] for path in paths)


def shown(views):
    return dict(sorted(views.items()))


def main():
    with tempfile.TemporaryDirectory() as folder, SparkCluster() as cluster:
        master, views = MasterData(cluster.spark, Path(folder) / "events"), Views(cluster)
        master.append(HOURS[0])
        spout = DataFrameSpout(master.stream, ["hour", "path"])
        handle = cluster.submit_topology("speed", CONF, build_topology(spout))

        def await_views(hours):
            while views.query() != expected(hours):
                handle.await_termination(0.05)

        await_views(1)
        print("after an hour, from the speed view:", shown(views.query()))
        master.append(HOURS[1])
        await_views(2)

        batch_layer = threading.Thread(target=views.recompute, args=[master, master.hours - 1])
        master.append(HOURS[2])  # before the batch layer gets to read what there is
        batch_layer.start()
        while batch_layer.is_alive():
            assert expected(2) <= views.query() <= expected(3), views.query()
            batch_layer.join(0.01)
        assert expected(2) <= views.query() <= expected(3), views.query()
        await_views(3)
        print(
            f"after three, from the batch view up to hour {views.batch[0]}, and the speed view:", shown(views.query())
        )

        master.append(HOURS[3])
        await_views(4)
        print("after four:", shown(views.query()))


if __name__ == "__main__":
    main()
