"""DataFrames in and out: JSON files are a spout, Parquet files a sink, and an impossible reading is a dead letter.

Spark finds new files and remembers which of them are done; the bolts see tuples. The sink writes each batch to a folder
of its own, and overwrites what an interrupted run of the same batch has left there. So every reading is there once.
"""

import json
import tempfile
from pathlib import Path

from pystorm_spark import BasicBolt, FailedException, SparkCluster, TopologyBuilder
from pystorm_spark.dataframe import DataFrameSink, DataFrameSpout

FILES = {
    "monday": [("cellar", 10.0), ("attic", 20.0), ("garden", 9999.0)],
    "tuesday": [("cellar", 12.0), ("attic", 30.0), ("garden", 15.0)],
}


class ToFahrenheit(BasicBolt):
    outputs = ("sensor", "fahrenheit")

    def execute(self, tup, collector):
        if tup["celsius"] > 1000:
            raise FailedException(f"{tup['celsius']} °C is too hot to be true")
        collector.emit([tup["sensor"], tup["celsius"] * 9 / 5 + 32])


def build_topology(source, target):
    def read(spark):
        return spark.readStream.schema("sensor string, celsius double").json(str(source))

    def write(df, batch_id):
        df.write.mode("overwrite").parquet(str(target / f"batch={batch_id}"))

    builder = TopologyBuilder()
    builder.set_spout("readings", DataFrameSpout(read, ["sensor", "celsius"]), 2)
    builder.set_bolt("fahrenheit", ToFahrenheit(), 2).shuffle_grouping("readings")
    builder.set_bolt("parquet", DataFrameSink(write, "sensor string, fahrenheit double")).shuffle_grouping("fahrenheit")
    return builder.create_topology()


def put_readings(source):
    source.mkdir()
    for name, readings in FILES.items():
        lines = [json.dumps({"sensor": sensor, "celsius": celsius}) for sensor, celsius in readings]
        (source / f"{name}.json").write_text("\n".join(lines))


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, target, checkpoint = folder / "readings", folder / "fahrenheit", folder / "checkpoint"
        dead_letters = checkpoint / "readings" / "dead-letters" / "readings"
        put_readings(source)
        with SparkCluster(checkpoint=checkpoint) as cluster:
            conf = {"topology.workers": 2, "topology.max.replays": 1}
            handle = cluster.submit_topology("readings", conf, build_topology(source, target))
            while not list(dead_letters.glob("*/_SUCCESS")):  # then only the entry in Spark's log is missing
                handle.await_termination(0.1)
            for row in cluster.spark.read.parquet(str(target)).orderBy("sensor", "fahrenheit").collect():
                print(f"{row.sensor} {row.fahrenheit:.1f} °F")
            for letter in cluster.spark.read.json(str(dead_letters)).collect():
                print(f"dead letter: {letter.row.sensor}, {letter.error.rpartition(': ')[2]}")


if __name__ == "__main__":
    main()
