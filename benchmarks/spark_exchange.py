"""How long does an empty exchange take, compared with a bare `partitionBy`?"""

import itertools
import time
from dataclasses import asdict, replace

from benchmarks import meter, report, spark_rig
from benchmarks.components import DevNullBolt, SentenceSpout
from benchmarks.meter import Spread
from benchmarks.spark_rig import SLOTS, SparkRig, exchanges_noted
from pystorm_spark import TopologyBuilder
from pystorm_spark.spark.exchange.chain import make_chain

BAR = 1.2  # times the bare chain
EXCHANGES = 8  # exchanges in a chain
WARM_UP_ROUNDS, ROUNDS, QUICK_ROUNDS = 5, 15, 4


def method(rounds):
    return (
        f"{rounds} rounds after {WARM_UP_ROUNDS} that do not count: one chain of {EXCHANGES} exchanges with "
        f"{SLOTS} idle slots, and one of {EXCHANGES} `partitionBy` stages over {SLOTS} empty partitions, in one "
        "session. Milliseconds are the time of a chain divided by its exchanges. Each ratio compares the two of one "
        "round."
    )


def measure(quick=False):
    rounds = QUICK_ROUNDS if quick else ROUNDS
    with exchanges_noted() as noted, spark_rig.cluster() as cluster:
        SparkRig(cluster, _topology())
        sc, orders = cluster.spark.sparkContext, _orders(noted[-1][0])
        environment = spark_rig.environment_with_spark(cluster.spark)
        pairs = [(_exchanges(sc, next(orders)), _bare(sc)) for _ in range(WARM_UP_ROUNDS + rounds)][WARM_UP_ROUNDS:]
    spreads = {
        "exchange": Spread.of([1000 * ours / EXCHANGES for ours, _ in pairs]),
        "bare": Spread.of([1000 * bare / EXCHANGES for _, bare in pairs]),
        "ratio": Spread.of([ours / bare for ours, bare in pairs]),
    }
    ratio = spreads["ratio"]
    row = [
        f"a chain of {EXCHANGES}",
        report.millis(spreads["exchange"]),
        report.millis(spreads["bare"]),
        report.ratio(ratio),
        report.verdict(ratio.median < BAR, f"< {BAR}"),
    ]
    table = report.Table(["", "an exchange", "a bare `partitionBy`", "ratio", "bar"], [row])
    figures = {name: asdict(spread) for name, spread in spreads.items()}
    return report.Result(
        "spark_exchange", report.first_line(__doc__), method(rounds), [table], figures, (), environment
    )


def _topology():
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, SentenceSpout(), SLOTS)
    builder.set_bolt("null", DevNullBolt(), SLOTS).shuffle_grouping(meter.SPOUT)
    return builder.create_topology()


def _orders(last):
    """Yield orders like those of the driver, after its own `last` one; an idle driver gives no more."""
    return (replace(last, job=job) for job in itertools.count(last.job + 1))


def _exchanges(sc, order):
    began = time.monotonic()
    statuses = dict(make_chain(sc, order, EXCHANGES).collect())
    took = time.monotonic() - began
    if set(statuses.values()) != {"ok"}:
        raise RuntimeError(f"the slots did not take part: {statuses}")
    return took


def _bare(sc):
    began = time.monotonic()
    rdd = sc.parallelize([], SLOTS)
    for _ in range(EXCHANGES):
        rdd = rdd.mapPartitionsWithIndex(_drain).partitionBy(SLOTS, int)
    rdd.mapPartitionsWithIndex(_drain).collect()
    return time.monotonic() - began


def _drain(_, pairs):
    return list(pairs)


if __name__ == "__main__":
    report.answer(measure)
