"""The figures of a workload on `LocalCluster`: rate and cost at saturation, latency at half load, peak of memory.

A benchmark with these figures has a `WORKLOAD`.
"""

import functools
import math
import pickle
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

from benchmarks import meter, report
from benchmarks.components import CollectingBolt
from benchmarks.meter import SPOUT, Spread
from benchmarks.spark_components import percentile
from pystorm_spark import LocalCluster, Spout, TopologyBuilder

ROUNDS = 3
PATIENCE_SECS = 60.0  # for tuples in flight to arrive
COLUMNS = ["", "tuples/s", "p50", "p99", "CPU s/million", "peak RSS"]


@dataclass(frozen=True)
class Workload:
    """A topology whose tasks report their results.

    The message ids of `spout(folder, limit)` are numbers from 0 on; its `next_tuple` emits `roots_in_call` roots.
    `bolts(builder, folder)` adds the bolts; `check(emitted, folder)` compares the reports in `folder` with a plain
    count.
    """

    spout: Callable
    bolts: Callable
    check: Callable
    roots_in_call: int = 1

    def topology(self, spout, folder):
        builder = TopologyBuilder()
        builder.set_spout(SPOUT, spout)
        self.bolts(builder, folder)
        return builder.create_topology()


@dataclass(frozen=True)
class Plan:
    """How long everything is measured."""

    warm_up_secs: float
    secs: float
    paced_secs: float


WHOLE = Plan(warm_up_secs=0.3, secs=1.5, paced_secs=2.0)
QUICK = Plan(warm_up_secs=0.2, secs=0.5, paced_secs=0.5)


def method(plan):
    return (
        f"Workload: {ROUNDS} rounds, each in a new process: {plan.secs:g} s at saturation after {plan.warm_up_secs:g} "
        f"s of warm-up, then {plan.paced_secs:g} s at half load. A plain count confirmed the answers of every run."
    )


class PacedSpout(Spout):
    """Calls another spout `rate` times a second until it has emitted its `limit`, and records each root's latency.

    The latency of a late call counts from the time it was due.
    """

    def __init__(self, spout, roots_in_call, rate, folder):
        self.spout, self.roots_in_call, self.folder = spout, roots_in_call, folder
        self.every = roots_in_call / rate

    def declare_output_fields(self, declarer):
        self.spout.declare_output_fields(declarer)

    def open(self, conf, context, collector):
        self.spout.open(conf, context, collector)
        self.latencies = {}

    def activate(self):
        self.began = self.due = time.monotonic()

    def next_tuple(self):
        if self.due <= time.monotonic():
            self.due += self.every
            self.spout.next_tuple()

    def ack(self, message_id):
        due = self.began + message_id // self.roots_in_call * self.every
        self.latencies[message_id] = time.monotonic() - due

    def close(self):
        self.spout.close()
        tell(self.folder, "latencies", self.latencies)


class TellingBolt(CollectingBolt):
    """Reports what it has `found` when it is cleaned up, under the name of its class."""

    def __init__(self, folder):
        self.folder = folder

    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        self.found = {}

    def cleanup(self):
        tell(self.folder, type(self).__name__, self.found)


def tell(folder, name, answer):
    """Write the result of a task, for the check."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=f"{name}-", delete=False) as file:
        pickle.dump(answer, file)


def told(folder, name):
    """Return the reports of all tasks under that name."""
    return [pickle.loads(path.read_bytes()) for path in sorted(Path(folder).glob(f"{name}-*"))]


def expect(what, found, expected):
    if found != expected:
        raise RuntimeError(f"{what}: the topology has found {str(found)[:200]}, a plain count {str(expected)[:200]}")


@dataclass(frozen=True)
class Load:
    """The work of a topology between two moments: acked roots, seconds of wall-clock time and of CPU."""

    roots: int
    secs: float
    cpu_secs: float


def saturated(workload, plan, noting=False):
    """Run at saturation; return (the load, the peak of memory). With `noting`, the spout also notes latencies."""
    with tempfile.TemporaryDirectory() as folder:
        with LocalCluster() as cluster:
            spout = workload.spout(folder, math.inf)
            if noting:
                spout = PacedSpout(spout, workload.roots_in_call, math.inf, folder)
            run = _Run(cluster, workload, spout, folder)
            run.active_for(plan.warm_up_secs)
            load, peak = run.active_for(plan.secs), _peak_rss()
            emitted = run.acked()
        workload.check(emitted, folder)
    return load, peak


def paced(workload, rate, limit):
    """Measure the latency in seconds of each of `limit` roots at `rate` a second."""
    with tempfile.TemporaryDirectory() as folder:
        with LocalCluster() as cluster:
            spout = PacedSpout(workload.spout(folder, limit), workload.roots_in_call, rate, folder)
            _Run(cluster, workload, spout, folder).active_until(limit)
        workload.check(limit, folder)
        (latencies,) = told(folder, "latencies")
    expect("the roots acked", sorted(latencies), list(range(limit)))
    return list(latencies.values())


class _Run:
    """A topology that is active in turns."""

    def __init__(self, cluster, workload, spout, folder):
        self._cluster = cluster
        cluster.submit_topology("workload", meter.CONF, workload.topology(spout, folder), active=False)

    def active_for(self, secs):
        return self._active(lambda: time.sleep(secs))

    def active_until(self, roots):
        return self._active(lambda: self._wait(lambda: self.acked() == roots))

    def _active(self, wait):
        before, began, began_cpu = self.acked(), time.monotonic(), time.process_time()
        self._cluster.activate("workload")
        wait()
        self._cluster.deactivate("workload")
        self._wait(lambda: not self._info().pending)
        return Load(self.acked() - before, time.monotonic() - began, time.process_time() - began_cpu)

    def _wait(self, done):
        deadline = time.monotonic() + PATIENCE_SECS
        while not done():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self._info().pending} roots are pending after {PATIENCE_SECS:.0f} s")
            time.sleep(0.005)

    def acked(self):
        return self._info().components[SPOUT].acked

    def _info(self):
        info = self._cluster.topology_info("workload")
        troubles = [error for component in info.components.values() for error in component.errors]
        if troubles or any(component.failed for component in info.components.values()):
            raise RuntimeError(f"the figures are invalid, because tuples have failed: {troubles[:1]}")
        return info


def answer(name):
    """Run the command line of the workload `benchmarks.<name>`."""
    report.answer(functools.partial(measure, name))


def measure(name, quick=False):
    """Measure the workload `benchmarks.<name>`."""
    plan = QUICK if quick else WHOLE
    rounds = [_alone(name, plan) for _ in range(ROUNDS)]
    figures = {key: Spread.of([each[key] for each in rounds]) for key in rounds[0]}
    row = [
        name,
        report.rate(figures["tuples_per_s"]),
        report.fine_millis(figures["p50_ms"]),
        report.fine_millis(figures["p99_ms"]),
        report.ratio(figures["cpu_secs_per_million"]),
        f"{figures['peak_rss_mib'].median:,.0f} MiB",
    ]
    question = report.first_line(import_module(f"benchmarks.{name}").__doc__)
    kept = {key: asdict(spread) for key, spread in figures.items()}
    return report.Result(name, question, method(plan), [report.Table(COLUMNS, [row])], kept)


def _alone(name, plan):
    """Measure one round in a new process, whose peak of memory is that of the workload."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_round, (name, plan))


def _round(name, plan):
    workload = import_module(f"benchmarks.{name}").WORKLOAD
    most, peak = saturated(workload, plan)
    noting, _ = saturated(workload, plan, noting=True)
    rate = noting.roots / noting.secs / 2
    calls = math.ceil(rate * plan.paced_secs / workload.roots_in_call)
    latencies = paced(workload, rate, calls * workload.roots_in_call)
    return {
        "tuples_per_s": most.roots / most.cpu_secs,
        "offered_per_s": rate,
        "p50_ms": 1000 * percentile(latencies, 50),
        "p99_ms": 1000 * percentile(latencies, 99),
        "cpu_secs_per_million": 1e6 * most.cpu_secs / most.roots,
        "peak_rss_mib": peak / 2**20,
    }


def _peak_rss():
    """Read the peak of memory of this process. `getrusage` would include that of the parent process."""
    status = Path("/proc/self/status")
    if not status.exists():
        raise OSError("the peak memory of a process is read from /proc, which this system does not have")
    (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024
