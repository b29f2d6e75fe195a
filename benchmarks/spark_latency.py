"""How long after its due time is a sentence counted and acked on Spark, at 1,000 sentences/s?"""

import statistics
import time
from dataclasses import asdict

from benchmarks import meter, report, spark_rig
from benchmarks.components import CountBolt, SplitBolt
from benchmarks.meter import Spread
from benchmarks.spark_components import PacedSpout, latencies, percentile
from benchmarks.spark_rig import CORES, SparkRig
from pystorm_spark import Fields, TopologyBuilder

RATE = 1000  # sentences a second
BAR = 4  # times the cost of one job of two stages, at the median
TASKS = 2
ROUNDS, WARM_UP_SECS, SECS, JOBS = 3, 2.0, 5.0, 15
QUICK_ROUNDS, QUICK_SECS = 2, 2.0


def method(rounds, secs):
    return (
        f"{rounds} rounds of {secs:g} s of the word count at {RATE:,} sentences/s after {WARM_UP_SECS:g} s of "
        f"warm-up, each followed by {JOBS} PySpark jobs of two stages (one `partitionBy` of a few rows) in the "
        "same session, while the topology is inactive. Latency counts from the due time of a sentence to the ack at "
        "its spout. Each ratio compares the p50 of a round with the median job of the same round."
    )


def topology(rate, folder, tasks=TASKS):
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, PacedSpout(rate, folder), tasks)
    builder.set_bolt("split", SplitBolt(), tasks).shuffle_grouping(meter.SPOUT)
    builder.set_bolt("count", CountBolt(), tasks).fields_grouping("split", Fields("word"))
    return builder.create_topology()


def measure(quick=False):
    rounds, secs = (QUICK_ROUNDS, QUICK_SECS) if quick else (ROUNDS, SECS)
    windows, jobs = [], []
    with spark_rig.folder() as folder:
        with spark_rig.cluster() as cluster:
            rig = SparkRig(cluster, topology(RATE, folder))
            two_stages(cluster.spark.sparkContext)
            for _ in range(rounds):
                windows.append(_window(rig, secs))
                jobs.append(statistics.median(two_stages(cluster.spark.sparkContext) for _ in range(JOBS)))
            rig.kill()
            environment = spark_rig.environment_with_spark(cluster.spark)
        found = [latencies(folder, *window) for window in windows]
    return _result(method(rounds, secs), found, jobs, environment)


def _window(rig, secs):
    """Return the moments between which latencies count."""
    rig.activate()
    time.sleep(WARM_UP_SECS)
    began = time.monotonic()
    time.sleep(secs)
    ended = time.monotonic()
    rig.drain()
    return began, ended


def _result(method, found, jobs, environment):
    halves = [percentile(each, 50) for each in found]
    spreads = {
        "p50": Spread.of([1000 * half for half in halves]),
        "p99": Spread.of([1000 * percentile(each, 99) for each in found]),
        "job": Spread.of([1000 * job for job in jobs]),
        "ratio": Spread.of([half / job for half, job in zip(halves, jobs, strict=True)]),
    }
    ratio = spreads["ratio"]
    row = [
        f"{RATE:,} sentences/s offered",
        *(report.millis(spreads[name]) for name in ("p50", "p99", "job")),
        report.ratio(ratio),
        report.verdict(ratio.median < BAR, f"< {BAR}"),
    ]
    table = report.Table(["", "p50", "p99", "one job of two stages", "p50 / job", "bar"], [row])
    figures = {name: asdict(spread) for name, spread in spreads.items()}
    return report.Result("spark_latency", report.first_line(__doc__), method, [table], figures, (), environment)


def two_stages(sc):
    """Measure the seconds of one job of two stages."""
    began = time.monotonic()
    pairs = sc.parallelize(range(CORES), CORES).map(lambda number: (number, number))
    pairs.partitionBy(CORES).mapPartitions(list).collect()
    return time.monotonic() - began


if __name__ == "__main__":
    report.answer(measure)
