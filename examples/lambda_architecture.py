"""The λ-architecture with one code for both its layers: page views are counted by the same bolts, twice.

    master data   every event there ever was, as Parquet files, one for each hour
    batch layer   `run_batch` counts all of it now and then, from nothing: whatever was wrong before is right again
    speed layer   the same topology on a stream of the same files counts what has come since
    query         the batch view up to its last hour, and the speed view of the hours after it

The batch view and the hour that it goes up to are replaced together, in one step. So the query is right at all times,
also while the batch layer counts again: an hour is taken from the one view or from the other, never from both.
"""

import tempfile
import threading
from collections import Counter
from pathlib import Path

from pystorm_spark import BasicBolt, SparkCluster, Spout, TopologyBuilder
from pystorm_spark.dataframe import DataFrameSink, DataFrameSpout, run_batch

HOURS = [
    ["/", "/", "/about"],
    ["/", "/news", "/news", "/"],
    ["/about", "/"],
    ["/news", "/news", "/news", "/", "/imprint"],
]
EVENT = "id string, hour int, path string"
CONF = {"topology.workers": 2}


class Normalise(BasicBolt):
    outputs = ("id", "hour", "page")

    def execute(self, tup, collector):
        collector.emit([tup["id"], tup["hour"], tup["path"].strip("/") or "home"])


class Count(BasicBolt):
    """Counts the events of each page and hour; one that comes again, because it was replayed, changes nothing."""

    outputs = ("hour", "page", "views")

    def prepare(self, conf, context):
        self.seen = {}

    def execute(self, tup, collector):
        event, hour, page = tup.values
        seen = self.seen.setdefault((hour, page), set())
        seen.add(event)
        collector.emit([hour, page, len(seen)])


class NoEvents(Spout):
    outputs = ("id", "hour", "path")


def build_topology(spout, write=None):
    """The topology of both layers; they differ in where events come from, and where counts go to."""
    builder = TopologyBuilder()
    builder.set_spout("events", spout, 2)
    builder.set_bolt("normalise", Normalise(), 2).shuffle_grouping("events")
    builder.set_bolt("count", Count(), 2).fields_grouping("normalise", ["hour", "page"])
    if write is not None:
        sink = DataFrameSink(write, "hour int, page string, views long")
        builder.set_bolt("view", sink).shuffle_grouping("count")
    return builder.create_topology()


class Views:
    """What a query is answered from."""

    def __init__(self):
        self.batch = (-1, {})  # the last hour that it covers, {page: views}
        self.speed = {}  # {(hour, page): views}

    def write_speed(self, df, batch_id):
        for row in df.collect():
            key = (row.hour, row.page)
            self.speed[key] = max(self.speed.get(key, 0), row.views)

    def query(self):
        last_hour, pages = self.batch
        views = Counter(pages)
        for (hour, page), count in list(self.speed.items()):
            if hour > last_hour:
                views[page] += count
        return dict(sorted(views.items()))


class MasterData:
    def __init__(self, spark, folder):
        self.spark, self.folder = spark, folder
        self.hours = 0

    def append(self, paths):
        events = [(f"{self.hours}-{number}", self.hours, path) for number, path in enumerate(paths)]
        self.spark.createDataFrame(events, EVENT).coalesce(1).write.mode("append").parquet(str(self.folder))
        self.hours += 1

    def read(self):
        return self.spark.read.schema(EVENT).parquet(str(self.folder))

    def stream(self, spark):
        return spark.readStream.schema(EVENT).parquet(str(self.folder))


def recompute(spark, master, views):
    """The batch layer: count all that there is now."""
    last_hour = master.hours - 1
    result = run_batch(spark, build_topology(NoEvents()), {"events": master.read()}, ["count"], CONF)
    counts = result["count"].groupBy("hour", "page").max("views").groupBy("page").sum("max(views)").collect()
    views.batch = last_hour, dict(map(tuple, counts))


def expected(hours):
    return dict(sorted(Counter(path.strip("/") or "home" for paths in HOURS[:hours] for path in paths).items()))


def main():
    views = Views()
    with tempfile.TemporaryDirectory() as folder, SparkCluster() as cluster:
        master = MasterData(cluster.spark, Path(folder) / "events")
        master.append(HOURS[0])
        spout = DataFrameSpout(master.stream, ["id", "hour", "path"])
        handle = cluster.submit_topology("speed", CONF, build_topology(spout, views.write_speed))

        def await_views(hours):
            while views.query() != expected(hours):
                handle.await_termination(0.05)

        await_views(1)
        print("after an hour, from the speed view:", views.query())
        master.append(HOURS[1])
        await_views(2)

        batch_layer = threading.Thread(target=recompute, args=(cluster.spark, master, views))
        batch_layer.start()
        asked = 0
        while batch_layer.is_alive():
            asked += 1
            assert views.query() == expected(2), views.query()
            batch_layer.join(0.01)
        assert asked
        print(f"after two, from the batch view up to hour {views.batch[0]}:", views.query())

        for hour in (2, 3):
            master.append(HOURS[hour])
        await_views(4)
        print("after four, from both:", views.query())


if __name__ == "__main__":
    main()
