"""What does a row cost in a bounded run, compared with the same bolts on a stream?"""

import time
from dataclasses import asdict, dataclass

from benchmarks import report, spark_rig
from benchmarks.components import SentenceSpout
from benchmarks.cpu_meter import CpuMeter, mark
from benchmarks.dataframe_spout import sentence_column, word_count_topology
from benchmarks.meter import SPOUT, Spread
from benchmarks.spark_rig import CORES, SLOTS, SparkRig
from pystorm_spark.dataframe import run_batch

BAR = 2
PARTITIONS = 8
ROUNDS, WARM_UP_SECS, SECS, ROWS = 4, 2.0, 6.0, 400_000
QUICK_ROUNDS, QUICK_SECS, QUICK_ROWS = 2, 2.0, 20_000
KINDS = {"CPU": "cpu", "wall clock": "wall"}


@dataclass(frozen=True)
class Cost:
    """Microseconds per row."""

    wall: float
    cpu: float


def method(rounds, secs, rows):
    return (
        f"{rounds} rounds after one that does not count: {secs:g} s of the word count on a stream from a Python spout "
        f"after {WARM_UP_SECS:g} s of warm-up, then `run_batch` over {rows:,} sentences in {PARTITIONS} partitions, "
        f"which Spark generates, with the same bolts and slots. On `local[{CORES}]`. Each ratio compares the two of "
        "one round. A run over a single row right before measures the start and the end of the slots; it is subtracted "
        "and shown separately. CPU counts all processes: the driver, the JVM, Spark's Python workers, the slots."
    )


def measure(quick=False):
    rounds, secs, rows = (QUICK_ROUNDS, QUICK_SECS, QUICK_ROWS) if quick else (ROUNDS, SECS, ROWS)
    mark()
    with spark_rig.cluster() as cluster:
        environment = spark_rig.environment_with_spark(cluster.spark)
        rig = SparkRig(cluster, word_count_topology(SentenceSpout()))
        found = [(_streamed(rig, secs), *_bounded(cluster.spark, rows)) for _ in range(1 + rounds)][1:]
        rig.kill()
    table_rows, figures = [], {}
    for label, kind in KINDS.items():
        streamed, bounded = ([getattr(each[at], kind) for each in found] for at in (0, 1))
        ratio = Spread.of([cost / base for base, cost in zip(streamed, bounded, strict=True)])
        shown = [_micros(Spread.of(streamed)), _micros(Spread.of(bounded)), report.ratio(ratio)]
        table_rows.append([label, *shown, report.verdict(ratio.median <= BAR, f"≤ {BAR}")])
        figures[label] = {
            "stream": asdict(Spread.of(streamed)),
            "run_batch": asdict(Spread.of(bounded)),
            "ratio": asdict(ratio),
        }
    start = Spread.of([1000 * secs for _, _, secs in found])
    figures["start, ms"] = asdict(start)
    tables = [
        report.Table(["a row", "stream", "`run_batch`", "ratio", "bar"], table_rows),
        report.Table(["", "wall clock"], [["the start and the end alone", report.millis(start)]]),
    ]
    told = method(rounds, secs, rows)
    return report.Result("run_batch", report.first_line(__doc__), told, tables, figures, (), environment)


def _streamed(rig, secs):
    rig.activate()
    rig.window(WARM_UP_SECS, 1)
    meter = CpuMeter()
    window = rig.window(secs, 1)
    cpu = meter.stop()
    rig.drain()
    return Cost(1e6 * window.secs / window.roots, 1e6 * cpu / window.roots)


def _bounded(spark, rows):
    """Measure the cost of a row, and the duration of a run with one row."""
    start_wall, start_cpu = _run(spark, 1)
    wall, cpu = _run(spark, rows)
    return Cost(1e6 * (wall - start_wall) / rows, 1e6 * (cpu - start_cpu) / rows), start_wall


def _run(spark, rows):
    """Measure seconds of wall-clock time and of CPU."""
    sentences = spark.range(0, rows, 1, PARTITIONS).selectExpr(f"{sentence_column('id')} AS sentence")
    meter, began = CpuMeter(), time.monotonic()
    run_batch(spark, word_count_topology(SentenceSpout()), {SPOUT: sentences}, conf={"topology.workers": SLOTS})
    return time.monotonic() - began, meter.stop()


def _micros(spread):
    return f"{spread.median:.1f} µs ({spread.low:.1f}–{spread.high:.1f})"


if __name__ == "__main__":
    report.answer(measure)
