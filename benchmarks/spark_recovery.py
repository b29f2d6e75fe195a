"""How long after the death of a slot is the next tuple acked?"""

import os
import signal
import statistics
import time

from benchmarks import meter, report, spark_rig
from benchmarks.components import DevNullBolt
from benchmarks.spark_components import NotingSpout, noted_acks, noted_pids
from benchmarks.spark_rig import PATIENCE_SECS, SLOTS, SparkRig
from pystorm_spark import TopologyBuilder

KILLS, QUICK_KILLS = 9, 2
RATE = 100  # tuples a second, of each spout task
PAUSE_SECS = 2.0  # after each recovery: some batches pass
MEDIAN_BAR, MOST_BAR = 2.0, 5.0  # seconds


def method(kills):
    return (
        f"{kills} times `SIGKILL` to one of {SLOTS} slots in turn, {PAUSE_SECS:g} s after the last recovery, while a "
        f"spout in each slot emits {RATE} tuples/s to a bolt in every slot. A recovery ends with the first ack of a "
        "tuple emitted after the signal: its tree has been in all slots."
    )


def measure(quick=False):
    kills = QUICK_KILLS if quick else KILLS
    with spark_rig.folder() as folder, spark_rig.cluster() as cluster:
        environment = spark_rig.environment_with_spark(cluster.spark)
        rig = SparkRig(cluster, _topology(folder))
        rig.activate()
        _first_ack_since(folder, time.monotonic())
        found = [_recovery(folder, number) for number in range(kills)]
    median, most = statistics.median(found), max(found)
    row = [
        f"{kills} kills",
        f"{median:.2f} s",
        report.verdict(median < MEDIAN_BAR, f"< {MEDIAN_BAR:g} s"),
        f"{most:.2f} s",
        report.verdict(most < MOST_BAR, f"< {MOST_BAR:g} s"),
    ]
    table = report.Table(["", "median", "bar", "at most", "bar"], [row])
    figures = {"secs": sorted(found)}
    question = report.first_line(__doc__)
    return report.Result("spark_recovery", question, method(kills), [table], figures, (), environment)


def _topology(folder):
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, NotingSpout(RATE, folder), SLOTS)
    builder.set_bolt("null", DevNullBolt(), SLOTS).all_grouping(meter.SPOUT)
    return builder.create_topology()


def _recovery(folder, number):
    time.sleep(PAUSE_SECS)
    pids = sorted(noted_pids(folder).items())
    killed = time.monotonic()
    os.kill(pids[number % len(pids)][1], signal.SIGKILL)
    return _first_ack_since(folder, killed) - killed


def _first_ack_since(folder, moment):
    """Return the time of the first ack of a tuple that was emitted after `moment`."""
    deadline = time.monotonic() + PATIENCE_SECS
    while time.monotonic() < deadline:
        acked = [acked for emitted, acked in noted_acks(folder) if emitted > moment]
        if acked:
            return min(acked)
        time.sleep(0.05)
    raise RuntimeError(f"nothing was acked for {PATIENCE_SECS:.0f} s")


if __name__ == "__main__":
    report.answer(measure)
