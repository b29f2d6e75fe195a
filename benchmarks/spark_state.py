"""What does a durable state cost the word count on Spark?"""

from benchmarks import meter, report, spark_rig
from benchmarks.components import CountBolt, SentenceSpout, SplitBolt, StatefulCountBolt
from benchmarks.reference_loop import WORDS
from benchmarks.spark_rig import CORES, SparkRig
from benchmarks.stateful_word_count import BARS, COMMIT_MS, PLAIN, compared
from benchmarks.word_count import bolts
from pystorm_spark import SparkCluster, TopologyBuilder

TASKS = 2
PENDING, QUICK_PENDING = 200_000, 1000  # pending limit of a task: more roots than it emits between two commits
ROUNDS, WARM_UP_SECS, SECS = 3, 2.0, 5.0
QUICK_ROUNDS, QUICK_SECS = 2, 2.0


def method(rounds, secs, pending):
    return (
        f"{rounds} rounds after one that does not count, each of {secs:g} s after {WARM_UP_SECS:g} s of warm-up, all "
        f"topologies in turn; wall clock, `local[{CORES}]`, {TASKS} tasks of each component, half of "
        f"the words leave their slot; `topology.max.spout.pending` {pending:,}. States are committed to a local folder "
        f"every {COMMIT_MS / 1000:g} s. At the end the states held {WORDS} words for every acked sentence. Each ratio "
        "compares two topologies of one round."
    )


def topology(count):
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, SentenceSpout(), TASKS)
    bolts(builder, SplitBolt(), count, TASKS)
    return builder.create_topology()


def measure(quick=False):
    rounds, secs, pending = (QUICK_ROUNDS, QUICK_SECS, QUICK_PENDING) if quick else (ROUNDS, SECS, PENDING)
    with spark_rig.session() as spark, spark_rig.folder() as folder, SparkCluster(spark, checkpoint=folder) as cluster:
        environment = spark_rig.environment_with_spark(spark)
        conf = {"topology.max.spout.pending": pending, "topology.state.checkpoint.interval.ms": COMMIT_MS}
        rigs = {PLAIN: SparkRig(cluster, topology(CountBolt()), conf)}
        for guarantee in BARS:
            guaranteed = {**conf, "topology.state.guarantee": guarantee}
            rigs[guarantee] = SparkRig(cluster, topology(StatefulCountBolt()), guaranteed)
        found = [{label: rig.run(WARM_UP_SECS, secs) for label, rig in rigs.items()} for _ in range(1 + rounds)]
        for guarantee in BARS:
            _check(cluster, rigs[guarantee])
    rates = {label: [each[label].rate * WORDS for each in found[1:]] for label in rigs}
    table, figures = compared(rates)
    told = method(rounds, secs, pending)
    return report.Result("spark_state", report.first_line(__doc__), told, [table], figures, (), environment)


def _check(cluster, rig):
    acked = rig.drain().components[meter.SPOUT].acked
    counted = sum(cluster.read_state(rig.name, "count").values())
    if counted != acked * WORDS:
        raise RuntimeError(f"{acked:,} sentences were acked, but the states hold {counted:,} words")


if __name__ == "__main__":
    report.answer(measure)
