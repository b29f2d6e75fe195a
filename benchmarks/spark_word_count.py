"""How many words a second are counted on Spark, all acked, compared with a plain RDD?"""

import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from benchmarks import meter, report, spark_rig
from benchmarks.components import SentenceSpout, SplitBolt
from benchmarks.meter import Spread
from benchmarks.reference_loop import SENTENCES, WORDS
from benchmarks.spark_components import TallyingCountBolt, counted
from benchmarks.spark_rig import CORES, SparkRig
from pystorm_spark import Fields, TopologyBuilder

RDD = "plain PySpark RDD"
BARS = {RDD: 1}
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


WHOLE = Plan(rounds=9, warm_up_secs=2.0, secs=5.0, rdd_sentences=300_000)
QUICK = Plan(rounds=2, warm_up_secs=1.0, secs=2.0, rdd_sentences=50_000, pending=1000)


def method(plan):
    return (
        f"{plan.rounds} rounds after one that does not count: {plan.secs:g} s of the engine after "
        f"{plan.warm_up_secs:g} s of warm-up, then each peer in turn; wall clock, `local[{CORES}]`, "
        f"`topology.max.spout.pending` {plan.pending:,}. Sentences of {WORDS} words; {TASKS} tasks each of spout, "
        "split (shuffle grouping, which prefers the same slot) and count (fields grouping; half of the words leave "
        "their slot). Each ratio compares the engine with the peer of the same round. At the end the bolts had counted "
        f"{WORDS} words for every acked sentence. The RDD makes a record of every word, shuffles and counts it, "
        "without acking or state, and has the settings of the engine."
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
    rounds, environment = in_turn(plan, {})
    question = report.first_line(__doc__)
    table, figures = compared(rounds, BARS)
    return report.Result("spark_word_count", question, method(plan), [table], figures, (), environment)


def in_turn(plan, others):
    """Measure ([{name: answer} of each round], the environment); `others` are warm peers, {name: peer}."""
    with _engine(plan) as (spark, engine):
        asked = {
            ENGINE: engine,
            RDD: lambda: rdd(spark.sparkContext, plan.rdd_sentences),
            **{name: lambda peer=peer: peer.ask(plan.secs) for name, peer in others.items()},
        }
        versions = {package: number for peer in others.values() for package, number in peer.versions.items()}
        environment = spark_rig.environment_with_spark(spark, **versions)
        for name in (ENGINE, RDD):
            asked[name]()
        rounds = [{name: heard(name, ask()) for name, ask in asked.items()} for _ in range(plan.rounds)]
    return rounds, environment


def heard(name, answer):
    """Print each answer as it comes, because some take a minute."""
    print(f"{name}: {_rate(answer):,.0f} words/s", file=sys.stderr, flush=True)
    return answer


@contextmanager
def _engine(plan):
    """Yield (Spark's session, the engine as a peer); check the counts at the end."""
    with spark_rig.folder() as folder, spark_rig.cluster() as cluster:
        rig = SparkRig(cluster, topology(folder), {"topology.max.spout.pending": plan.pending})

        def answer():
            found = rig.run(plan.warm_up_secs, plan.secs)
            latency = rig.info().components[meter.SPOUT].complete_latency_ms
            return {"words": found.roots * WORDS, "secs": found.secs, "mean_ms": latency}

        yield cluster.spark, answer
        check(rig, folder)


def compared(rounds, bars):
    """Return (the table, the figures) of the answers of some rounds; `bars` is {peer: bar of its ratio, or None}."""
    rates = {name: [_rate(each[name]) for each in rounds] for name in rounds[0]}
    ratios = {name: _ratios(rates[ENGINE], rates[name]) for name in bars if name in rates}
    spreads = {name: Spread.of(found) for name, found in rates.items()}
    rows = [[ENGINE, report.rate(spreads[ENGINE]), "", ""]]
    rows += [_row(name, spreads[name], Spread.of(found), bars[name]) for name, found in ratios.items()]
    figures = {
        "words_per_s": {name: asdict(spread) for name, spread in spreads.items()},
        "ratio": {name: asdict(Spread.of(found)) for name, found in ratios.items()},
        "bars": bars,
    }
    return report.Table(["", "words/s", "engine / peer", "bar"], rows), figures


def _rate(answer):
    return answer["words"] / answer["secs"]


def _ratios(engine, peer):
    return [ours / theirs for ours, theirs in zip(engine, peer, strict=True)]


def _row(name, rate, ratio, bar):
    met = report.verdict(ratio.median >= bar, f"≥ {bar:g}") if bar else ""
    return [name, report.rate(rate), report.ratio(ratio), met]


def check(rig, folder):
    """Check that every word of every acked sentence was counted, once."""
    acked = rig.drain().components[meter.SPOUT].acked
    rig.kill()
    if counted(folder) != acked * WORDS:
        raise RuntimeError(f"{acked:,} sentences were acked, but {counted(folder):,} words were counted")


def rdd(sc, sentences):
    """Measure a plain RDD: a record for every word, one shuffle, and a dict to count in."""
    began = time.monotonic()
    words = sc.parallelize(range(sentences), CORES).flatMap(_words)
    counts = words.partitionBy(CORES).mapPartitions(_count).collect()
    took = time.monotonic() - began
    assert sum(counts) == sentences * WORDS
    return {"words": sentences * WORDS, "secs": took}


def _words(number):
    return [(word, 1) for word in SENTENCES[number % len(SENTENCES)].split()]


def _count(pairs):
    counts = {}
    for word, one in pairs:
        counts[word] = counts.get(word, 0) + one
    yield sum(counts.values())


if __name__ == "__main__":
    report.answer(measure)
