"""How do rate and latency on Spark change with the slots, the load, the hops and the size of the values?"""

import math
import time

from benchmarks import meter, report, spark_rig
from benchmarks.components import CountBolt, DevNullBolt, IdBolt, NumberingSpout, SentenceSpout, SplitBolt
from benchmarks.reference_loop import WORDS
from benchmarks.spark_components import AwayGrouping, PacedSpout, latencies, percentile
from benchmarks.spark_latency import topology as paced_word_count
from benchmarks.spark_rig import CONF, CORES, SparkRig
from pystorm_spark import Fields, TopologyBuilder

SLOTS = (1, 2, 4, 8)
OFFERED = (2, 3, 4, 5, 6)  # powers of ten, words a second
HOPS = (1, 2, 3, 4, 5)
SIZES = (10, 100, 1_000, 10_000, 100_000)  # bytes
TASKS = 2
LOW_RATE = 200  # roots a second, to see the latency of an idle engine
IN_FLIGHT_BYTES = 32 << 20  # large values in flight from each spout task
WARM_UP_SECS, SECS, QUICK_SECS = 1.5, 2.0, 1.0


def method(secs, pending):
    return (
        f"Each point is a topology of its own: {secs:g} s after {WARM_UP_SECS:g} s of warm-up, in one session on "
        f"`local[{CORES}]`, so more slots than {CORES} share the cores. Defaults: {TASKS} slots, {TASKS} tasks of each "
        f"component, `topology.max.spout.pending` {pending:,}. Slots and load: the word count, with one task of each "
        "component per slot. Hops: bolts that pass a tuple on, each time to another slot; p50 at "
        f"{LOW_RATE} tuples/s, the rate at saturation. Bytes: one hop to another slot, at most "
        f"{IN_FLIGHT_BYTES >> 20} MiB pending at each spout task. Latency counts from the due time of a tuple; *falls "
        "behind*: the spout had not emitted half of the tuples by the end."
    )


class BytesSpout(NumberingSpout):
    """Emits the same bytes forever."""

    outputs = ["value"]

    def __init__(self, size):
        self.size = size

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        self.value = bytes(self.size)

    def next_tuple(self):
        self.number += 1
        self.collector.emit([self.value], message_id=self.number)


class Curves:
    """Measures the points of all curves, one after the other on one cluster."""

    def __init__(self, cluster, secs, pending):
        self._cluster, self._secs, self._pending = cluster, secs, pending

    def rate(self, topology, conf=None):
        """Measure roots a second at saturation."""
        rig = SparkRig(self._cluster, topology, {"topology.max.spout.pending": self._pending, **(conf or {})})
        found = rig.saturated(WARM_UP_SECS, self._secs).rate
        rig.kill()
        return found

    def paced(self, make, rate):
        """Measure (roots a second, milliseconds at the median) of `make(rate, folder)`."""
        with spark_rig.folder() as folder:
            rig = SparkRig(self._cluster, make(rate, folder))
            rig.activate()
            time.sleep(WARM_UP_SECS)
            began = time.monotonic()
            window = rig.window(self._secs)
            ended = time.monotonic()
            rig.drain()
            rig.kill()
            return window.rate, 1000 * percentile(latencies(folder, began, ended), 50)

    def slots(self, slots):
        rate = self.rate(_word_count(max(TASKS, slots)), {"topology.workers": slots})
        return {"words_per_s": rate * WORDS}

    def offered(self, power):
        rate, p50 = self.paced(paced_word_count, 10**power / WORDS)
        return {"words_per_s": rate * WORDS, "p50_ms": p50}

    def hops(self, hops):
        _, p50 = self.paced(lambda rate, folder: _chain(PacedSpout(rate, folder), hops), LOW_RATE)
        return {"p50_ms": p50, "roots_per_s": self.rate(_chain(SentenceSpout(), hops))}

    def sizes(self, size):
        pending = min(self._pending, IN_FLIGHT_BYTES // size)
        rate = self.rate(_chain(BytesSpout(size), 1), {"topology.max.spout.pending": pending})
        return {"tuples_per_s": rate, "mb_per_s": rate * size / 1e6}


def _word_count(tasks):
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, SentenceSpout(), tasks)
    builder.set_bolt("split", SplitBolt(), tasks).shuffle_grouping(meter.SPOUT)
    builder.set_bolt("count", CountBolt(), tasks).fields_grouping("split", Fields("word"))
    return builder.create_topology()


def _chain(spout, hops):
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, spout, TASKS)
    source = meter.SPOUT
    for number in range(1, hops):
        builder.set_bolt(f"id-{number}", IdBolt(), TASKS).custom_grouping(source, AwayGrouping())
        source = f"id-{number}"
    builder.set_bolt("null", DevNullBolt(), TASKS).custom_grouping(source, AwayGrouping())
    return builder.create_topology()


def measure(quick=False):
    secs, step, pending = (QUICK_SECS, 3, 500) if quick else (SECS, 1, CONF["topology.max.spout.pending"])
    with spark_rig.cluster() as cluster:
        environment = spark_rig.environment_with_spark(cluster.spark)
        curves = Curves(cluster, secs, pending)
        curves.rate(_word_count(TASKS))  # Spark's own warm-up
        found = {
            "slots": {str(slots): curves.slots(slots) for slots in SLOTS[::step]},
            "words/s offered": {f"10^{power}": curves.offered(power) for power in OFFERED[::step]},
            "hops": {str(hops): curves.hops(hops) for hops in HOPS[::step]},
            "bytes a value": {f"{size:,}": curves.sizes(size) for size in SIZES[::step]},
        }
    tables = [_table(label, points) for label, points in found.items()]
    charts = [_chart("slots", found, "words_per_s", 1000, "thousand words/s")]
    charts.append(_chart("words/s offered", found, "p50_ms", 1, "p50 in ms"))
    charts.append(_chart("hops", found, "p50_ms", 1, "p50 in ms"))
    charts.append(_chart("bytes a value", found, "mb_per_s", 1, "MB/s"))
    return report.Result(
        "spark_curves", report.first_line(__doc__), method(secs, pending), tables, found, charts, environment
    )


SHOWN = {
    "words_per_s": ("words/s", lambda value: f"{value / 1000:,.1f} k"),
    "roots_per_s": ("roots/s at saturation", lambda value: f"{value / 1000:,.1f} k"),
    "tuples_per_s": ("tuples/s", lambda value: f"{value / 1000:,.1f} k"),
    "p50_ms": ("p50", lambda value: f"{value:,.0f} ms" if math.isfinite(value) else "falls behind"),
    "mb_per_s": ("MB/s", lambda value: f"{value:,.1f}"),
}


def _table(label, points):
    names = list(next(iter(points.values())))
    rows = [[key, *[SHOWN[name][1](point[name]) for name in names]] for key, point in points.items()]
    return report.Table([label, *[SHOWN[name][0] for name in names]], rows)


def _chart(label, found, name, unit, title):
    points = {key: point for key, point in found[label].items() if math.isfinite(point[name])}
    return report.Chart(f"{title}, by {label}", list(points), [point[name] / unit for point in points.values()])


if __name__ == "__main__":
    report.answer(measure)
