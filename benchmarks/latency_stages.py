"""How long is a sentence in each stage on Spark, from its due time to its ack, at 1,000 sentences/s?"""

import statistics
import time
from dataclasses import asdict

from benchmarks import meter, report, spark_rig
from benchmarks.charts import stacked
from benchmarks.components import CountBolt, SplitBolt
from benchmarks.meter import Spread
from benchmarks.spark_components import percentile
from benchmarks.spark_rig import SparkRig
from benchmarks.stage_probe import STAGES, Notes, SlotProbe, StampedSpout, visits_noted
from pystorm_spark import Fields, TopologyBuilder

RATE = 1000  # sentences a second
TASKS = 2
ROUNDS, WARM_UP_SECS, SECS = 4, 3.0, 5.0
QUICK_ROUNDS, QUICK_SECS = 2, 2.0
# {variant: (settings of a slot's answers, whether garbage collection skips the modules of Spark's workers)}
AS_IT_WAS, AS_IT_IS = "before", "now"
VARIANTS = {AS_IT_WAS: ({"LINGER_SECS": 0.0}, False), AS_IT_IS: ({}, True)}
PICTURE = report.PAGE.parent / "latency-stages.svg"


def method(rounds, secs):
    return (
        f"{rounds} rounds of {secs:g} s of the word count at {RATE:,} sentences/s after {WARM_UP_SECS:g} s of warm-up, "
        f"alternating in one session the engine *{AS_IT_IS}* and *{AS_IT_WAS}*: before, slots answered an exchange "
        "before they had processed the tuples it brought, and Spark's Python workers collected garbage among all "
        "modules after each task. Only sentences with words counted in the other slot are shown; each stage begins "
        "where the one above it ends. Probes record each frame in the slots and in Spark's Python workers; Spark "
        "reports the end of a shuffle write to the millisecond. Percentiles cover all sentences of all rounds; the "
        "ratio compares the medians of a round."
    )


def topology(folder, settings):
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, StampedSpout(RATE, folder), TASKS)
    builder.set_bolt("split", SplitBolt(), TASKS).shuffle_grouping(meter.SPOUT)
    builder.set_bolt("count", CountBolt(), TASKS).fields_grouping("split", Fields("word"))
    builder.add_worker_hook(SlotProbe(folder, **settings))
    return builder.create_topology()


class Run:
    """One variant on a cluster: active in some windows, and evaluated after them."""

    def __init__(self, cluster, folder, settings, spares_modules):
        self._sc, self._folder, self._spares_modules = cluster.spark.sparkContext, folder, spares_modules
        self._rig = SparkRig(cluster, topology(folder, settings))
        self._windows = []

    def round(self, secs):
        with visits_noted(self._folder, self._spares_modules):
            self._rig.activate()
            time.sleep(WARM_UP_SECS)
            began = time.monotonic()
            time.sleep(secs)
            ended = time.monotonic()
            self._rig.drain()
        self._windows.append((began, ended, spark_rig.completed_stages(self._sc)))

    def lives(self):
        """Return the seconds that sentences have spent in each stage, for each round."""
        self._rig.kill()
        notes = Notes(self._folder)
        return [notes.lives(*window) for window in self._windows]


def measure(quick=False):
    rounds, secs = (QUICK_ROUNDS, QUICK_SECS) if quick else (ROUNDS, SECS)
    with spark_rig.cluster() as cluster:
        environment = spark_rig.environment_with_spark(cluster.spark)
        found = _measured(cluster, rounds, secs)
    return _result(method(rounds, secs), found, environment)


def _measured(cluster, rounds, secs):
    """Measure {variant: times of sentences in each round}."""
    with spark_rig.folder() as first, spark_rig.folder() as second:
        runs = {
            variant: Run(cluster, folder, *changed)
            for (variant, changed), folder in zip(VARIANTS.items(), (first, second), strict=True)
        }
        for _ in range(rounds):
            for run in runs.values():
                run.round(secs)
        return {variant: run.lives() for variant, run in runs.items()}


def _result(method, found, environment):
    together = {variant: [life for lives in rounds for life in lives] for variant, rounds in found.items()}
    figures = {variant: _figures(lives) for variant, lives in together.items()}
    halves = {variant: [_complete(lives, 50) for lives in rounds] for variant, rounds in found.items()}
    ratio = Spread.of([now / before for before, now in zip(*halves.values(), strict=True)])
    tables = [_stages(figures[AS_IT_IS]), _variants(figures, ratio)]
    figures["ratio"] = asdict(ratio)
    pictures = [report.Picture("A sentence's life in stages", PICTURE, stacked(_means(figures), "ms"))]
    return report.Result(
        "latency_stages", report.first_line(__doc__), method, tables, figures, (), environment, pictures
    )


def _figures(lives):
    stages = {stage: _spent(1000 * life[at] for life in lives) for at, stage in enumerate(STAGES)}
    return {"stages": stages, "complete": _spent(1000 * sum(life) for life in lives), "sentences": len(lives)}


def _spent(samples):
    kept = list(samples)
    return {"p50": percentile(kept, 50), "p99": percentile(kept, 99), "mean": statistics.mean(kept)}


def _complete(lives, percent):
    return percentile([sum(life) for life in lives], percent)


def _stages(figures):
    complete = figures["complete"]["mean"]
    rows = [[stage, *_shown(spent), f"{spent['mean'] / complete:.0%}"] for stage, spent in figures["stages"].items()]
    rows.append(["complete", *_shown(figures["complete"]), ""])
    return report.Table(["until", "p50", "p99", "mean", "share"], rows)


def _shown(spent):
    return [f"{spent[name]:,.1f} ms" for name in ("p50", "p99", "mean")]


def _variants(figures, ratio):
    rows = [[variant, *_shown(found["complete"])[:2], ""] for variant, found in figures.items()]
    rows[-1][-1] = report.ratio(ratio)
    return report.Table(["", "p50", "p99", "ratio"], rows)


def _means(figures):
    """Return {variant: {stage: mean}} for the chart."""
    return {
        variant: {stage: spent["mean"] for stage, spent in figures[variant]["stages"].items()} for variant in VARIANTS
    }


if __name__ == "__main__":
    report.answer(measure)
