"""The meter: runs topologies on a `LocalCluster` in slices that alternate with the reference loop, and counts CPU time.

Machines are noisy, and the noise lasts longer than a slice. So each slice of the engine is divided by the slices of
the reference right before and after it, and bars apply to the median of these ratios. A slice begins and ends with
nothing in flight, so it contains all work for the tuples that it counts.
"""

import gc
import itertools
import statistics
import time
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks import reference_loop
from benchmarks.reference_loop import WORDS
from pystorm_spark import LocalCluster

WARM_UP_SECS = 0.5
SLICE_SECS = 0.2
ROUNDS = 15
CONF = {"topology.max.spout.pending": 5000, "topology.message.timeout.secs": 600}
METHOD = (
    f"{ROUNDS} rounds of {SLICE_SECS} s slices after {WARM_UP_SECS} s of warm-up, alternating engine and reference; "
    "rates per second of CPU; `topology.max.spout.pending` 5000. The bar applies to the ratio with the garbage "
    "collector on. The reference always runs with it off."
)
SPOUT = "spout"  # every topology here has one spout, with this id


@dataclass(frozen=True)
class Spread:
    """The median of some samples, and the quartiles around it."""

    median: float
    low: float
    high: float
    samples: int

    @classmethod
    def of(cls, samples):
        low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
        return cls(median, low, high, len(samples))


@dataclass(frozen=True)
class Slice:
    """The work of a topology while it was active: acked roots, and seconds of CPU."""

    roots: int
    secs: float

    @property
    def rate(self):
        return self.roots / self.secs


class Yardstick:
    """One shape of the reference loop, in slices of `rows` roots of `tuples` tuples each."""

    def __init__(self, first, second, rows, tuples=1):
        self._shape = (first, second, rows)
        self._tuples = tuples * len(rows)

    def rate(self):
        """Return tuples per second of CPU."""
        with gc_off():
            return self._tuples / reference_loop.run(*self._shape)


def word_yardstick():
    return Yardstick(reference_loop.Split, reference_loop.Count, reference_loop.sentences(10_000), WORDS)


def id_yardstick():
    return Yardstick(reference_loop.Identity, reference_loop.Null, reference_loop.constants(50_000))


def null_yardstick():
    return Yardstick(reference_loop.Null, reference_loop.Null, reference_loop.constants(100_000))


class Rig:
    """A topology that is active in slices, and deactivated in between."""

    _numbers = itertools.count()

    def __init__(self, cluster, topology, conf=None):
        self._cluster = cluster
        self._name = f"rig-{next(self._numbers)}"
        cluster.submit_topology(self._name, {**CONF, **(conf or {})}, topology, active=False)

    def slice(self, secs=SLICE_SECS):
        """Activate for `secs`, or until the spout has reached its limit, then wait for what is in flight."""
        before, began = self.info().components[SPOUT].acked, time.process_time()
        self._cluster.activate(self._name)
        self._wait(secs)
        self._cluster.deactivate(self._name)
        while not _is_idle(self.info()):
            time.sleep(0.0005)
        took = time.process_time() - began
        return Slice(self.info().components[SPOUT].acked - before, took)

    def _wait(self, secs):
        emitted, until = -1, time.monotonic() + secs
        while (left := until - time.monotonic()) > 0 and emitted != (emitted := self._emitted()):
            time.sleep(min(0.02, left))

    def _emitted(self):
        return self.info().components[SPOUT].emitted

    def info(self):
        info = self._cluster.topology_info(self._name)
        troubles = [error for component in info.components.values() for error in component.errors]
        if troubles or any(component.failed for component in info.components.values()):
            raise RuntimeError(f"the figures of {self._name} are invalid, because tuples have failed: {troubles[:1]}")
        return info


def _is_idle(info):
    components = info.components.values()
    arrived = sum(c.executed for c in components) == sum(c.transferred for c in components)
    return arrived and info.components[SPOUT].acked == info.components[SPOUT].emitted


@dataclass(frozen=True)
class Comparison:
    """Tuples per second of CPU: the reference loop, the engine, and the engine divided by the reference."""

    reference: Spread
    engine: Spread
    ratio: Spread
    ratio_gc_off: Spread
    complete_latency_ms: float


def compare(yardstick, topology, tuples=1, rounds=ROUNDS):
    """Alternate slices of reference and engine; a root of `topology` is worth `tuples` tuples."""
    with LocalCluster() as cluster:
        rig = Rig(cluster, topology)
        rig.slice(WARM_UP_SECS)
        references, engine, engine_gc_off = [yardstick.rate()], [], []
        for _ in range(rounds):
            engine.append(rig.slice().rate * tuples)
            with gc_off():
                engine_gc_off.append(rig.slice().rate * tuples)
            references.append(yardstick.rate())
        latency = rig.info().components[SPOUT].complete_latency_ms
    return Comparison(
        Spread.of(references),
        Spread.of(engine),
        Spread.of(ratios(engine, references)),
        Spread.of(ratios(engine_gc_off, references)),
        latency,
    )


def ratios(rates, references):
    """Divide each rate by the mean of the references before and after it."""
    return [2 * rate / sum(around) for rate, around in zip(rates, itertools.pairwise(references), strict=True)]


@contextmanager
def gc_off():
    """Turn the garbage collector off, as in the reference loop."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
