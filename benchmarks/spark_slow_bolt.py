"""How much does a bolt that takes 3 s a tuple delay an independent branch?"""

import time
from dataclasses import asdict

from benchmarks import meter, report, spark_rig
from benchmarks.components import DevNullBolt
from benchmarks.meter import Spread
from benchmarks.spark_components import AwayGrouping, LastTaskSpout, PacedSpout, SlowBolt, latencies, percentile
from benchmarks.spark_rig import SparkRig
from pystorm_spark import TopologyBuilder

RATE = 500  # tuples a second of the fast branch
SLOW_SECS = 3.0
BAR = 3  # times the fast branch alone, at p95
FAST_TASKS = 2
ROUNDS, WARM_UP_SECS, SECS, GRACE_SECS = 2, 2.0, 4.0, 3.5
QUICK_ROUNDS, QUICK_SECS = 2, 3.0
PLACES = {"in a slot of its own": 3, "in a slot with fast tasks": 2}  # {place of the slow bolt: number of slots}


def method(rounds, secs):
    return (
        f"{rounds} rounds of {secs:g} s of the fast branch alone, then beside the slow bolt, after {WARM_UP_SECS:g} s "
        f"of warm-up. Fast: {RATE} tuples/s, {FAST_TASKS} spout and {FAST_TASKS} bolt tasks in two slots; every tuple "
        f"crosses to the other slot. Slow: `time.sleep({SLOW_SECS:g})` in `execute`, always busy. p95 counts from the "
        f"due time of a tuple to its ack; a tuple not emitted {GRACE_SECS:g} s after the round counts as never acked."
    )


def measure(quick=False):
    rounds, secs = (QUICK_ROUNDS, QUICK_SECS) if quick else (ROUNDS, SECS)
    with spark_rig.cluster() as cluster:
        environment = spark_rig.environment_with_spark(cluster.spark)
        found = {place: _compared(cluster, slots, rounds, secs) for place, slots in PLACES.items()}
    rows = [_row(place, spreads) for place, spreads in found.items()]
    table = report.Table(["the slow bolt is", "p95 alone", "p95 beside it", "ratio", "bar"], rows)
    figures = {place: {name: asdict(spread) for name, spread in each.items()} for place, each in found.items()}
    question = report.first_line(__doc__)
    return report.Result("spark_slow_bolt", question, method(rounds, secs), [table], figures, (), environment)


def _row(place, spreads):
    ratio = spreads["ratio"]
    shown = [report.millis(spreads["alone"]), report.millis(spreads["beside"])]
    return [place, *shown, report.ratio(ratio), report.verdict(ratio.median < BAR, f"< {BAR}")]


def _compared(cluster, slots, rounds, secs):
    pairs = [[_p95(cluster, slots, slow, secs) for slow in (False, True)] for _ in range(rounds)]
    return {
        "alone": Spread.of([alone for alone, _ in pairs]),
        "beside": Spread.of([beside for _, beside in pairs]),
        "ratio": Spread.of([beside / alone for alone, beside in pairs]),
    }


def _p95(cluster, slots, slow, secs):
    """Measure milliseconds of the fast branch."""
    with spark_rig.folder() as fast_folder, spark_rig.folder() as slow_folder:
        rig = SparkRig(cluster, _topology(slots, slow, fast_folder, slow_folder), {"topology.workers": slots})
        rig.activate()
        time.sleep(WARM_UP_SECS)
        began = time.monotonic()
        time.sleep(secs)
        ended = time.monotonic()
        time.sleep(GRACE_SECS)  # a delayed spout emits the tuples that were due
        rig.drain()
        rig.kill()
        return 1000 * percentile(latencies(fast_folder, began, ended), 95)


def _topology(slots, slow, fast_folder, slow_folder):
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, PacedSpout(RATE, fast_folder), FAST_TASKS)
    builder.set_bolt("null", DevNullBolt(), FAST_TASKS).custom_grouping(meter.SPOUT, AwayGrouping())
    if slow:
        # Tasks are dealt over the slots one by one: the last task of each is in the last slot.
        builder.set_spout("rare", LastTaskSpout(1.1 / SLOW_SECS, slow_folder), slots)
        builder.set_bolt("slow", SlowBolt(SLOW_SECS), slots).local_or_shuffle_grouping("rare")
    return builder.create_topology()


if __name__ == "__main__":
    report.answer(measure)
