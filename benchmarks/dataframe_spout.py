"""How many rows a second does a DataFrameSpout emit, beside a Python spout that emits the same rows?"""

from dataclasses import asdict

from benchmarks import meter, report, spark_rig
from benchmarks.components import ConstSpout, CountBolt, DevNullBolt, SentenceSpout, SplitBolt
from benchmarks.meter import Spread
from benchmarks.reference_loop import SENTENCES
from benchmarks.spark_rig import CORES, SparkRig
from pystorm_spark import Fields, TopologyBuilder
from pystorm_spark.dataframe import DataFrameSpout

BAR = 0.7
TASKS = 2
ROUNDS, WARM_UP_SECS, SECS, BATCH_ROWS = 5, 2.0, 6.0, 500_000
QUICK_ROUNDS, QUICK_SECS, QUICK_ROWS = 2, 2.0, 20_000
QUICK_CONF = {"topology.max.spout.pending": 1000}
NULL, WORD_COUNT = "a bolt that only acks", "word count"
PYTHON, DATAFRAME = "Python spout", "DataFrameSpout"


def method(rounds, secs, batch_rows):
    return (
        f"{rounds} rounds after one that does not count, each of {secs:g} s after {WARM_UP_SECS:g} s of warm-up, all "
        f"topologies in turn; by the clock on the wall, on `local[{CORES}]`; {TASKS} tasks of each component, every "
        "tuple tracked. Spark makes the rows itself (`rate-micro-batch`), so that reading them costs little, in "
        f"batches of {batch_rows:,}; a Python spout has them in memory. The ratio is that of the two in one round. "
        "Medians, with the quartiles in brackets."
    )


def null_topology(spout):
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, spout, TASKS)
    builder.set_bolt("null", DevNullBolt(), TASKS).shuffle_grouping(meter.SPOUT)
    return builder.create_topology()


def word_count_topology(spout):
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, spout, TASKS)
    builder.set_bolt("split", SplitBolt(), TASKS).shuffle_grouping(meter.SPOUT)
    builder.set_bolt("count", CountBolt(), TASKS).fields_grouping("split", Fields("word"))
    return builder.create_topology()


def rows_of(column, field, batch_rows):
    """A spout whose rows have one column; an endless stream of batches."""

    def build(spark):
        numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", batch_rows)
        return numbers.option("numPartitions", CORES).load().selectExpr(f"{column} AS {field}")

    return DataFrameSpout(build, [field])


def sentence_column(number):
    """SQL for the sentence of a number, as `SentenceSpout` has it."""
    sentences = ", ".join(f"'{sentence}'" for sentence in SENTENCES)
    return f"element_at(array({sentences}), CAST({number} % {len(SENTENCES)} + 1 AS int))"


def topologies(batch_rows):
    """{what is behind the spout: {spout: topology}}"""
    return {
        NULL: {
            PYTHON: null_topology(ConstSpout()),
            DATAFRAME: null_topology(rows_of("'some data'", "value", batch_rows)),
        },
        WORD_COUNT: {
            PYTHON: word_count_topology(SentenceSpout()),
            DATAFRAME: word_count_topology(rows_of(sentence_column("value"), "sentence", batch_rows)),
        },
    }


def measure(quick=False):
    rounds, secs, batch_rows = (QUICK_ROUNDS, QUICK_SECS, QUICK_ROWS) if quick else (ROUNDS, SECS, BATCH_ROWS)
    with spark_rig.cluster() as cluster:
        environment = spark_rig.environment_with_spark(cluster.spark)
        rates = {
            behind: _rates(cluster, each, rounds, secs, QUICK_CONF if quick else None)
            for behind, each in topologies(batch_rows).items()
        }
    ratios = {
        behind: [fed / plain for fed, plain in zip(each[DATAFRAME], each[PYTHON], strict=True)]
        for behind, each in rates.items()
    }
    rows = [_row(behind, rates[behind], Spread.of(ratios[behind])) for behind in rates]
    table = report.Table(["behind the spout", f"{PYTHON}, rows/s", f"{DATAFRAME}, rows/s", "ratio", "bar"], rows)
    figures = {
        behind: {
            **{spout: asdict(Spread.of(found)) for spout, found in each.items()},
            "ratio": asdict(Spread.of(ratios[behind])),
        }
        for behind, each in rates.items()
    }
    told = method(rounds, secs, batch_rows)
    return report.Result("dataframe_spout", report.first_line(__doc__), told, [table], figures, (), environment)


def _rates(cluster, topologies, rounds, secs, conf):
    """{spout: rows a second of each round}"""
    rigs = {spout: SparkRig(cluster, topology, conf) for spout, topology in topologies.items()}
    found = [{spout: rig.run(WARM_UP_SECS, secs).rate for spout, rig in rigs.items()} for _ in range(1 + rounds)]
    for rig in rigs.values():
        rig.kill()
    return {spout: [each[spout] for each in found[1:]] for spout in rigs}


def _row(behind, rates, ratio):
    shown = [report.rate(Spread.of(rates[spout])) for spout in (PYTHON, DATAFRAME)]
    return [behind, *shown, report.ratio(ratio), report.verdict(ratio.median >= BAR, f"≥ {BAR}")]


if __name__ == "__main__":
    report.answer(measure)
