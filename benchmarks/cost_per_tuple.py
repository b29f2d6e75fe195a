"""Does a tuple cost the same in a long run as in a short one, and with many tasks as with one?"""

import statistics
from dataclasses import asdict

from benchmarks import meter, report
from benchmarks.components import SentenceSpout
from benchmarks.meter import Rig, Spread
from benchmarks.reference_loop import WORDS
from benchmarks.word_count import topology
from pystorm_spark import LocalCluster

RUNS = {4: 9, 5: 7, 6: 3, 7: 1}  # {power of ten of the words in a run: runs}
TASKS = (1, 4, 16, 64)  # tasks of split, and of count
ROUNDS = 9
SLICES = 8  # slices of the engine for one of the reference, in a long run
METHOD = (
    "Lengths: CPU from activation to the last ack, in slices of 0.2 s with the reference between every "
    f"{SLICES}. The CPU of a run with an empty spout right before is subtracted and shown as the start. "
    f"Tasks: {ROUNDS} rounds of 0.2 s slices of each topology, with the reference between them. The garbage collector "
    "is on. A tuple is a word."
)


def measure():
    yardstick = meter.word_yardstick()
    curves = {
        "words in the run": {f"10^{power}": _cost_of_runs(10**power, runs, yardstick) for power, runs in RUNS.items()},
        "tasks of split and of count": _cost_with_tasks(yardstick),
    }
    start = Spread.of([1000 * _start_secs() for _ in range(ROUNDS)])
    started = report.Table(
        ["", "CPU"], [["the start alone", f"{start.median:.1f} ms ({start.low:.1f}–{start.high:.1f})"]]
    )
    tables = [*(_table(label, costs) for label, costs in curves.items()), started]
    charts = [_chart(label, costs) for label, costs in curves.items()]
    figures = {**{label: _plain(costs) for label, costs in curves.items()}, "start_ms": asdict(start)}
    return report.Result("cost_per_tuple", report.first_line(__doc__), METHOD, tables, figures, charts)


def _cost_of_runs(words, runs, yardstick):
    """Return nanoseconds per tuple, and the ratio to the reference."""
    found = [_cost_of_run(words, yardstick) for _ in range(runs)]
    return [ns for ns, _ in found], [times for _, times in found]


def _cost_of_run(words, yardstick):
    left, secs, references = words // WORDS, -_start_secs(), [yardstick.rate()]
    with LocalCluster() as cluster:
        rig = Rig(cluster, topology(spout=SentenceSpout(limit=left)))
        while left:
            for _ in range(SLICES):
                part = rig.slice()
                left, secs = left - part.roots, secs + part.secs
                if not left:
                    break
            references.append(yardstick.rate())
    return 1e9 * secs / words, secs / words * statistics.mean(references)


def _start_secs():
    """Measure the cost of a run without emits."""
    with LocalCluster() as cluster:
        return Rig(cluster, topology(spout=SentenceSpout(limit=0))).slice().secs


def _cost_with_tasks(yardstick):
    costs = {count: ([], []) for count in TASKS}
    with LocalCluster() as cluster:
        rigs = {count: Rig(cluster, topology(tasks=count)) for count in TASKS}
        for rig in rigs.values():
            rig.slice(meter.WARM_UP_SECS)
        before = yardstick.rate()
        for _ in range(ROUNDS):
            for count, rig in rigs.items():
                part, after = rig.slice(), yardstick.rate()
                costs[count][0].append(1e9 / part.rate / WORDS)
                costs[count][1].append((before + after) / 2 / part.rate / WORDS)
                before = after
    return costs


def _table(label, costs):
    columns = [label, "ns of CPU a tuple", "times the reference"]
    return report.Table(
        columns, [[str(key), _shown(ns, ",.0f"), _shown(times, ".2f")] for key, (ns, times) in costs.items()]
    )


def _chart(label, costs):
    heights = [statistics.median(times) for _, times in costs.values()]
    return report.Chart(f"times the reference, by {label}", [str(key) for key in costs], heights)


def _shown(samples, form):
    if len(samples) == 1:
        return f"{samples[0]:{form}}"
    spread = Spread.of(samples)
    return f"{spread.median:{form}} ({spread.low:{form}}–{spread.high:{form}})"


def _plain(costs):
    return {str(key): {"ns": _spread(ns), "times_reference": _spread(times)} for key, (ns, times) in costs.items()}


def _spread(samples):
    return asdict(Spread.of(samples * 2 if len(samples) == 1 else samples))


if __name__ == "__main__":
    report.answer(measure)
