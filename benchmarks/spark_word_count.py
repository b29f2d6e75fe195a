"""How many words a second are counted on Spark, every tuple acked, beside others that count the same words?"""

import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass

from benchmarks import meter, peers, report, spark_rig
from benchmarks.components import SentenceSpout, SplitBolt
from benchmarks.meter import Spread
from benchmarks.reference_loop import SENTENCES, WORDS
from benchmarks.spark_components import TallyingCountBolt, counted
from benchmarks.spark_rig import CORES, SparkRig
from pystorm_spark import Fields, TopologyBuilder

RDD, STREAMING, MULTILANG = "plain PySpark RDD", "`applyInPandasWithState`", "`pystorm` split over multilang"
BYTEWAX, PYFLINK = "bytewax, 2 processes", "PyFlink, keyed state"
BARS = {RDD: 0.9, STREAMING: 3, MULTILANG: 6, BYTEWAX: 2, PYFLINK: None}
ENGINE = "pystorm-spark, 2 slots"
TASKS = 2


@dataclass(frozen=True)
class Plan:
    """How long everything is measured."""

    rounds: int
    warm_up_secs: float
    secs: float
    rdd_sentences: int
    pending: int = spark_rig.CONF["topology.max.spout.pending"]


WHOLE = Plan(rounds=4, warm_up_secs=2.0, secs=5.0, rdd_sentences=300_000)
QUICK = Plan(rounds=2, warm_up_secs=1.0, secs=2.0, rdd_sentences=50_000, pending=1000)


def method(plan):
    return (
        f"{plan.rounds} rounds after one that does not count, each of {plan.secs:g} s of the engine after "
        f"{plan.warm_up_secs:g} s of warm-up, then each peer in turn; by the clock on the wall, on `local[{CORES}]`; "
        f"`topology.max.spout.pending` {plan.pending:,}. Sentences of {WORDS} words; {TASKS} tasks each of spout, "
        "split (shuffle, which stays in a slot where it can) and count (fields: half of the words leave their slot). "
        "Medians, with the quartiles in brackets; the ratio is that of the engine to the peer in the same round. At "
        f"the end {WORDS} words had been counted for every sentence acked. The RDD makes a record of every word, "
        "shuffles and counts it, with no acking and no state; Structured Streaming splits in the JVM and counts in "
        "Python; the multilang bolt only splits; bytewax and PyFlink split and count, and keep no snapshots. The peers "
        "on Spark have the same settings as the engine."
    )


def topology(folder, hook=None):
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, SentenceSpout(), TASKS)
    builder.set_bolt("split", SplitBolt(), TASKS).shuffle_grouping(meter.SPOUT)
    builder.set_bolt("count", TallyingCountBolt(folder), TASKS).fields_grouping("split", Fields("word"))
    if hook is not None:
        builder.add_worker_hook(hook)
    return builder.create_topology()


def measure(quick=False):
    plan = QUICK if quick else WHOLE
    rates, missing, environment = _rates(plan)
    ratios = {name: _ratios(rates[ENGINE], rates[name]) for name in BARS if name in rates}
    rows = [[ENGINE, report.rate(Spread.of(rates[ENGINE])), "", ""]]
    rows += [_row(name, rates[name], ratios[name]) for name in ratios]
    rows += [[name, f"missing: {why}", "", _bar(name)] for name, why in missing.items()]
    table = report.Table(["", "words/s", "engine by it", "bar"], rows)
    figures = {
        "words_per_s": {name: asdict(Spread.of(found)) for name, found in rates.items()},
        "ratio": {name: asdict(Spread.of(found)) for name, found in ratios.items()},
        "missing": missing,
    }
    return report.Result(
        "spark_word_count", report.first_line(__doc__), method(plan), [table], figures, (), environment
    )


def _row(name, rates, ratios):
    spread = Spread.of(ratios)
    met = report.verdict(spread.median >= BARS[name], _bar(name)) if BARS[name] else ""
    return [name, report.rate(Spread.of(rates)), report.ratio(spread), met]


def _bar(name):
    return f"≥ {BARS[name]:g}" if BARS[name] else ""


def _ratios(engine, peer):
    return [ours / theirs for ours, theirs in zip(engine, peer, strict=True)]


def _rates(plan):
    """({who: words a second of each round}, {peer: why it is missing}, the environment)"""
    with ExitStack() as stack:
        folder = stack.enter_context(spark_rig.folder())
        cluster = stack.enter_context(spark_rig.cluster())
        others, missing = _peers(stack)
        rig = SparkRig(cluster, topology(folder), {"topology.max.spout.pending": plan.pending})
        asked = {
            ENGINE: lambda: rig.run(plan.warm_up_secs, plan.secs).rate * WORDS,
            RDD: lambda: rdd_rate(cluster.spark.sparkContext, plan.rdd_sentences),
            **{name: lambda peer=peer: peer.rate(plan.secs) for name, peer in others.items()},
        }
        versions = {package: number for peer in others.values() for package, number in peer.versions.items()}
        environment = spark_rig.environment_with_spark(cluster.spark, **versions)
        rounds = [{name: rate() for name, rate in asked.items()} for _ in range(1 + plan.rounds)]
        check(rig, folder)
    return {name: [each[name] for each in rounds[1:]] for name in asked}, missing, environment


def _peers(stack):
    found, missing = {}, {}
    wanted = {
        STREAMING: ("streaming_state", "pandas", "pyarrow"),
        MULTILANG: ("multilang_split", "pystorm"),
        BYTEWAX: ("bytewax_count", "bytewax"),
        PYFLINK: ("pyflink_count", "apache-flink"),
    }
    for name, (program, *packages) in wanted.items():
        try:
            found[name] = peers.Peer(program, *packages)
        except peers.MissingPeerError as exc:
            missing[name] = str(exc)
        else:
            stack.callback(found[name].close)
    return found, missing


def check(rig, folder):
    """Every word of every sentence acked has been counted, once."""
    acked = rig.rest().components[meter.SPOUT].acked
    rig.kill()
    if counted(folder) != acked * WORDS:
        raise RuntimeError(f"{acked:,} sentences were acked, but {counted(folder):,} words were counted")


def rdd_rate(sc, sentences):
    """Words a second through a plain RDD: a record for every word, one shuffle, and a dict to count in."""
    began = time.monotonic()
    words = sc.parallelize(range(sentences), CORES).flatMap(_words)
    counts = words.partitionBy(CORES).mapPartitions(_count).collect()
    took = time.monotonic() - began
    assert sum(counts) == sentences * WORDS
    return sentences * WORDS / took


def _words(number):
    return [(word, 1) for word in SENTENCES[number % len(SENTENCES)].split()]


def _count(pairs):
    counts = {}
    for word, one in pairs:
        counts[word] = counts.get(word, 0) + one
    yield sum(counts.values())


if __name__ == "__main__":
    report.answer(measure)
