"""How many rows a second does a DataFrameSpout emit, compared with a Python spout?"""

import itertools
import os
import time
from dataclasses import asdict
from pathlib import Path

from benchmarks import meter, report, spark_rig
from benchmarks.components import ConstSpout, CountBolt, DevNullBolt, SentenceSpout, SplitBolt
from benchmarks.meter import Spread
from benchmarks.reference_loop import SENTENCES
from benchmarks.spark_rig import CORES, SparkRig
from benchmarks.word_count import bolts
from pystorm_spark import TopologyBuilder
from pystorm_spark.dataframe import DataFrameSpout
from pystorm_spark.spark.rows.row_batches import row_batches
from pystorm_spark.spark.session.session import JVM_SETTINGS

BAR = 0.7
TASKS = 2
FILES = 500  # more files than a run reads
ALONE_BATCHES = 12
CHUNK_ROWS = 4000
ROUNDS, WARM_UP_SECS, SECS, BATCH_ROWS = 3, 2.0, 8.0, 2_000_000
FIRST_SECS = 25.0  # until the JVM has compiled the code that reads rows
QUICK_ROUNDS, QUICK_SECS, QUICK_ROWS, QUICK_FIRST_SECS = 2, 2.0, 20_000, 2.0
QUICK_CONF = {"topology.max.spout.pending": 1000}
NULL, WORD_COUNT = "a bolt that only acks", "word count"
PYTHON, DATAFRAME = "Python spout", "DataFrameSpout"
# {label of a JVM: its settings}
JVMS = {"Spark": {}, "`SparkCluster()`": JVM_SETTINGS}


def method(first_secs, rounds, secs, batch_rows):
    return (
        f"{rounds} rounds, all topologies in turn, each of {secs:g} s after {WARM_UP_SECS:g} s of warm-up. Each "
        f"topology first runs for {first_secs:g} s, which do not count: the JVM compiles the code that reads rows. "
        f"Wall clock, `local[{CORES}]`, {TASKS} tasks of each component, every tuple tracked. Spark reads Parquet "
        f"files in batches of {batch_rows:,} rows; the Python spout holds its rows in memory. *JVM of*: the JVM has "
        "Spark's defaults, or the settings of a session that `SparkCluster()` makes. Each ratio compares the two "
        f"of one round. *Spark alone*: the same stream with Python workers that only count rows, {ALONE_BATCHES} "
        "batches right before."
    )


def null_topology(spout):
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, spout, TASKS)
    builder.set_bolt("null", DevNullBolt(), TASKS).shuffle_grouping(meter.SPOUT)
    return builder.create_topology()


def word_count_topology(spout):
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, spout, TASKS)
    bolts(builder, SplitBolt(), CountBolt(), TASKS)
    return builder.create_topology()


def write_files(spark, folder, column, batch_rows):
    """Fill `folder` with files of one column; a batch is one file for each core."""
    spark.range(batch_rows // CORES).selectExpr(f"{column} AS value").coalesce(1).write.parquet(f"{folder}/first")
    (first,) = Path(folder, "first").glob("*.parquet")
    for name, count in {"all": FILES, "some": CORES * ALONE_BATCHES}.items():
        os.mkdir(f"{folder}/{name}")
        for number in range(count):
            os.link(first, f"{folder}/{name}/{number:04}.parquet")


def rows_of(folder, field):
    """Make a spout of the rows in the files of `folder`."""
    return DataFrameSpout(lambda spark: _streamed(spark, f"{folder}/all").withColumnRenamed("value", field), [field])


def _streamed(spark, folder):
    files = spark.readStream.schema("value string").option("maxFilesPerTrigger", CORES)
    return files.parquet(folder)


def sentence_column(number):
    """Return SQL that makes the sentence of a number, like `SentenceSpout`."""
    sentences = ", ".join(f"'{sentence}'" for sentence in SENTENCES)
    return f"element_at(array({sentences}), CAST({number} % {len(SENTENCES)} + 1 AS int))"


# {bolts behind the spout: (function that makes the topology, a Python spout, its rows in SQL)}
BEHIND = {
    NULL: (null_topology, ConstSpout, "'some data'"),
    WORD_COUNT: (word_count_topology, SentenceSpout, sentence_column("id")),
}


def measure(quick=False):
    rounds, secs, batch_rows = (QUICK_ROUNDS, QUICK_SECS, QUICK_ROWS) if quick else (ROUNDS, SECS, BATCH_ROWS)
    first_secs = QUICK_FIRST_SECS if quick else FIRST_SECS
    rates, alone = {}, {}
    for (behind, (topology, spout, column)), (jvm, settings) in itertools.product(BEHIND.items(), JVMS.items()):
        with spark_rig.cluster(jvm=settings) as cluster, spark_rig.folder() as folder:
            environment = spark_rig.environment_with_spark(cluster.spark)
            write_files(cluster.spark, folder, column, batch_rows)
            alone[behind, jvm] = batch_rows * _batches_alone(cluster.spark, f"{folder}/some")
            each = {PYTHON: topology(spout()), DATAFRAME: topology(rows_of(folder, *spout.outputs))}
            rates[behind, jvm] = _rates(cluster, each, first_secs, rounds, secs, QUICK_CONF if quick else None)
    ratios = {
        case: Spread.of([fed / plain for fed, plain in zip(each[DATAFRAME], each[PYTHON], strict=True)])
        for case, each in rates.items()
    }
    rows = [_row(case, rates[case], ratios[case], alone[case]) for case in rates]
    heads = ["behind the spout", "JVM of", f"{PYTHON}, rows/s", f"{DATAFRAME}, rows/s", "ratio", "bar", "Spark alone"]
    table = report.Table(heads, rows)
    figures = {
        ", JVM of ".join(case): {
            **{spout: asdict(Spread.of(found)) for spout, found in each.items()},
            "ratio": asdict(ratios[case]),
            "Spark alone": alone[case],
        }
        for case, each in rates.items()
    }
    told = method(first_secs, rounds, secs, batch_rows)
    return report.Result("dataframe_spout", report.first_line(__doc__), told, [table], figures, (), environment)


def _rates(cluster, topologies, first_secs, rounds, secs, conf):
    """Measure {spout: rows a second in each round}."""
    rigs = {spout: SparkRig(cluster, topology, conf) for spout, topology in topologies.items()}
    for rig in rigs.values():
        rig.run(WARM_UP_SECS, first_secs)
    found = [{spout: rig.run(WARM_UP_SECS, secs).rate for spout, rig in rigs.items()} for _ in range(rounds)]
    for rig in rigs.values():
        rig.kill()
    return {spout: [each[spout] for each in found] for spout in rigs}


def _batches_alone(spark, folder):
    """Measure batches a second of a query whose Python workers only count the rows."""
    done = []

    def count(df, batch):
        row_batches(df, CHUNK_ROWS).mapPartitions(lambda chunks: [sum(1 for _ in chunks)]).collect()
        done.append(time.monotonic())

    _streamed(spark, folder).writeStream.foreachBatch(count).trigger(availableNow=True).start().awaitTermination()
    counted = done[1:]  # the first one takes longer
    return (len(counted) - 1) / (counted[-1] - counted[0])


def _row(case, rates, ratio, alone):
    shown = [report.rate(Spread.of(rates[spout])) for spout in (PYTHON, DATAFRAME)]
    judged = report.verdict(ratio.median >= BAR, f"≥ {BAR}")
    return [*case, *shown, report.ratio(ratio), judged, f"{alone / 1000:,.0f} k"]


if __name__ == "__main__":
    report.answer(measure)
