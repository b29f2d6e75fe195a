"""What does a durable state cost the word count in one process?"""

import tempfile

from benchmarks import meter, report
from benchmarks.components import StatefulCountBolt
from benchmarks.meter import Rig, Spread
from benchmarks.reference_loop import WORDS
from benchmarks.word_count import topology
from pystorm_spark import LocalCluster

ROUNDS, QUICK_ROUNDS = 5, 2
SLICE_SECS = 2.0  # long enough for some commits
COMMIT_MS = 1000
PLAIN = "plain"
BARS = {"at-least-once": 0.75, "exactly-once": 0.6}


def method(rounds):
    return (
        f"{rounds} rounds of {SLICE_SECS:g} s slices, all topologies in turn; rates per second of CPU, each divided by "
        "that of the plain word count right before it. States are committed to a local folder every "
        f"{COMMIT_MS / 1000:g} s; spouts have no pending limit."
    )


def measure(quick=False):
    rounds = QUICK_ROUNDS if quick else ROUNDS
    with tempfile.TemporaryDirectory() as folder, LocalCluster(checkpoint=folder) as cluster:
        rigs = {PLAIN: Rig(cluster, topology(), {"topology.max.spout.pending": None})}
        for guarantee in BARS:
            conf = {
                "topology.state.guarantee": guarantee,
                "topology.state.checkpoint.interval.ms": COMMIT_MS,
                "topology.max.spout.pending": None,
            }
            rigs[guarantee] = Rig(cluster, topology(count=StatefulCountBolt()), conf)
        for rig in rigs.values():
            rig.slice(meter.WARM_UP_SECS)
        rates = {label: [] for label in rigs}
        for _ in range(rounds):
            for label, rig in rigs.items():
                rates[label].append(rig.slice(SLICE_SECS).rate * WORDS)
    table, figures = compared(rates)
    return report.Result("stateful_word_count", report.first_line(__doc__), method(rounds), [table], figures)


def compared(rates):
    """Return (the table, the figures) of {state: words a second of each round}; one is the plain word count."""
    rows, figures = [], {}
    for label, found in rates.items():
        ratios = Spread.of([rate / plain for rate, plain in zip(found, rates[PLAIN], strict=True)])
        bar = BARS.get(label)
        judged = report.verdict(ratios.median >= bar, f"≥ {bar}") if bar else ""
        rows.append([label, report.rate(Spread.of(found)), report.ratio(ratios), judged])
        figures[label] = {"words/s": Spread.of(found).median, "ratio": ratios.median}
    return report.Table(["state", "words/s", "relative to plain", "bar"], rows), figures


if __name__ == "__main__":
    report.answer(measure)
