"""Where does the time of the word count on Spark go: in the slots, by function, and in Spark, by stage?

    python -m benchmarks.profile_slot --secs 10 --sort tottime --keep /tmp/profiles

A worker hook runs cProfile in the main thread of every slot, which makes Python about twice as slow: compare shares,
not rates. `--no-cprofile` shows only Spark's side, undisturbed. `--keep` keeps the profiles for other tools.
"""

import argparse
import cProfile
import io
import os
import pstats
import shutil
import statistics
from pathlib import Path

from benchmarks import report, spark_rig
from benchmarks.reference_loop import WORDS
from benchmarks.spark_rig import CONF, SparkRig, exchanges_noted, finished_stages
from benchmarks.spark_word_count import check, topology
from pystorm_spark import WorkerHook


class Profiler(WorkerHook):
    """Profiles the thread that opens and turns the slot, from its start to its end."""

    def __init__(self, folder):
        self.folder = folder

    def start(self, conf):
        self.profile = cProfile.Profile()
        self.profile.enable()

    def shutdown(self):
        self.profile.disable()
        self.profile.dump_stats(Path(self.folder, f"slot-{os.getpid()}.prof"))


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile_slot", description=__doc__.splitlines()[0])
    parser.add_argument("--secs", type=float, default=10.0)
    parser.add_argument("--sort", default="tottime", help="as pstats sorts: tottime, cumtime, ncalls")
    parser.add_argument("--lines", type=int, default=30)
    parser.add_argument("--pending", type=int, default=CONF["topology.max.spout.pending"], help="of each spout task")
    parser.add_argument("--no-cprofile", action="store_true", help="only Spark's side, undisturbed")
    parser.add_argument("--keep", metavar="FOLDER", help="where to leave the profiles")
    asked = parser.parse_args()
    with spark_rig.folder() as folder:
        _run(folder, asked)
        for path in sorted(Path(folder).glob("*.prof")):
            print(f"{path.name}\n{_listed(path, asked)}")
            if asked.keep:
                Path(asked.keep).mkdir(parents=True, exist_ok=True)
                shutil.copy(path, asked.keep)


def _run(folder, asked):
    hook = None if asked.no_cprofile else Profiler(folder)
    with exchanges_noted() as noted, spark_rig.cluster() as cluster:
        rig = SparkRig(cluster, topology(folder, hook), {"topology.max.spout.pending": asked.pending})
        noted.clear()  # the one that warms Spark up
        window = rig.saturated(2.0, asked.secs)
        jobs = list(noted)
        latency = rig.info().components["spout"].complete_latency_ms
        stages = finished_stages(cluster.spark.sparkContext)[: sum(exchanges + 1 for _, exchanges, _ in jobs)]
        told = _told(jobs, stages)  # before the JVM ends
        check(rig, folder)
    print(f"{window.rate * WORDS:,.0f} words/s, mean complete latency {latency:,.0f} ms\n")
    print(f"{told.as_text()}\n")


def _told(jobs, stages):
    """Tabulate the wall-clock time of an exchange at the median: each line is a part of the line above it."""
    per_exchange = [took / (exchanges + 1) for _, exchanges, took in jobs]
    in_stages = [_millis_between(stage) for stage in stages]
    tasks = [max(1, stage.numCompleteTasks()) for stage in stages]
    rows = {
        "jobs": f"{len(jobs)}",
        "exchanges in a job": f"{statistics.median(exchanges for _, exchanges, _ in jobs):.0f}",
        "an exchange, in the driver": _ms(1000 * each for each in per_exchange),
        "stage, from submitted to completed": _ms(in_stages),
        "task, running": _ms(s.executorRunTime() / n for s, n in zip(stages, tasks, strict=True)),
        "task, CPU of the JVM": _ms(s.executorCpuTime() / 1e6 / n for s, n in zip(stages, tasks, strict=True)),
        "task, JVM's garbage collection": _ms(s.jvmGcTime() / n for s, n in zip(stages, tasks, strict=True)),
        "task, waiting for shuffled bytes": _ms(
            s.shuffleFetchWaitTime() / n for s, n in zip(stages, tasks, strict=True)
        ),
        "bytes shuffled by a stage": f"{statistics.median(s.shuffleWriteBytes() for s in stages):,.0f}",
    }
    return report.Table(["Spark", "median"], [[label, shown] for label, shown in rows.items()])


def _millis_between(stage):
    return stage.completionTime().get().getTime() - stage.submissionTime().get().getTime()


def _ms(samples):
    return f"{statistics.median(samples):.1f} ms"


def _listed(path, asked):
    text = io.StringIO()
    pstats.Stats(str(path), stream=text).strip_dirs().sort_stats(asked.sort).print_stats(asked.lines)
    return text.getvalue()


if __name__ == "__main__":
    main()
