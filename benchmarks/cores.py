"""How much CPU does the compiled core save?"""

import os
import random
import time
from dataclasses import asdict
from multiprocessing import get_context

from benchmarks import const_spout_id_bolt_null_bolt, const_spout_null_bolt, meter, report, word_count
from benchmarks.components import CountBolt, SentenceSpout, SplitBolt
from benchmarks.meter import CONF, SLICE_SECS, Rig, Spread
from benchmarks.reference_loop import WORDS
from pystorm_spark import Fields, LocalCluster, TopologyBuilder
from pystorm_spark.clock import SystemClock
from pystorm_spark.core import CORE
from pystorm_spark.runtime.components import pickle_components
from pystorm_spark.runtime.plan import make_plan
from pystorm_spark.runtime.slot import Slot
from pystorm_spark.topology.config import resolve

ROUNDS = 9
TURNS = 4  # turns of each slot between two exchanges of frames
METHOD = (
    f"{ROUNDS} rounds of {SLICE_SECS} s slices, alternating a process with the compiled core and one without it; the "
    "garbage collector is on. *Two slots* run in one process, with one task of each component in each; the benchmark "
    "carries their frames, and half of the words cross. Each ratio compares two consecutive slices."
)


class TwoSlots:
    """The word count in two slots, which take turns."""

    def __init__(self):
        builder = TopologyBuilder()
        builder.set_spout(meter.SPOUT, SentenceSpout(), 2)
        builder.set_bolt("split", SplitBolt(), 2).shuffle_grouping(meter.SPOUT)
        builder.set_bolt("count", CountBolt(), 2).fields_grouping("split", Fields("word"))
        self._plan = plan = make_plan(builder.create_topology(), resolve(CONF), "two-1-0", 2)
        components = pickle_components(plan)
        self._slots = [Slot(plan, number, components, SystemClock(), random.Random(number)) for number in range(2)]
        for slot in self._slots:
            slot.open()
            slot.active = True

    def slice(self):
        before, began = self._acked(), time.process_time()
        while time.process_time() < began + SLICE_SECS:
            for slot in self._slots * TURNS:
                slot.turn()
            for frame in [frame for slot in self._slots for frame in slot.take()]:
                self._slots[self._plan.slot_of[frame.target]].deliver([frame])
        return meter.Slice(self._acked() - before, time.process_time() - began)

    def _acked(self):
        return sum(spout.counted().acked for slot in self._slots for spout in slot.spouts)


def _on_cluster(topology):
    return lambda: Rig(LocalCluster().__enter__(), topology)  # runs until the process ends


RIGS = {  # {label: (function that makes it, tuples of a root)}
    "spout → null, a root": (_on_cluster(const_spout_null_bolt.topology()), 1),
    "spout → id → null, a root": (_on_cluster(const_spout_id_bolt_null_bolt.topology()), 1),
    "word count, a word": (_on_cluster(word_count.topology()), WORDS),
    "word count, 4 tasks": (_on_cluster(word_count.topology(tasks=4)), WORDS),
    "word count, 64 tasks": (_on_cluster(word_count.topology(tasks=64)), WORDS),
    "word count, two slots": (TwoSlots, WORDS),
}
_made = {}  # set in the measuring processes


def _core():
    return CORE


def _cost(label):
    """Measure nanoseconds of CPU per tuple, in one slice."""
    make, tuples = RIGS[label]
    if label not in _made:
        _made[label] = make()
        _made[label].slice()
    return 1e9 / _made[label].slice().rate / tuples


def measure():
    with _process(pure="") as compiled, _process(pure="1") as pure:
        if compiled.apply(_core) != "compiled":
            raise RuntimeError("the compiled core has not been built")
        found = {label: _costs(label, pure, compiled) for label in RIGS}
    table = report.Table(
        ["ns of CPU", "pure", "compiled", "ratio"], [_row(label, *each) for label, each in found.items()]
    )
    figures = {
        label: {"pure_ns": asdict(pure), "compiled_ns": asdict(compiled), "ratio": asdict(ratio)}
        for label, (pure, compiled, ratio) in found.items()
    }
    return report.Result("cores", report.first_line(__doc__), METHOD, [table], figures)


def _process(pure):
    os.environ["PYSTORM_SPARK_PURE"] = pure
    try:
        return get_context("spawn").Pool(1)
    finally:
        del os.environ["PYSTORM_SPARK_PURE"]


def _costs(label, *processes):
    """Tabulate the costs on both cores, and the second divided by the first."""
    rounds = [[process.apply(_cost, (label,)) for process in processes] for _ in range(ROUNDS)]
    pure, compiled = zip(*rounds, strict=True)
    return Spread.of(pure), Spread.of(compiled), Spread.of([second / first for first, second in rounds])


def _row(label, pure, compiled, ratio):
    return [label, _nanos(pure), _nanos(compiled), report.ratio(ratio)]


def _nanos(spread):
    return f"{spread.median:,.0f} ({spread.low:,.0f}–{spread.high:,.0f})"


if __name__ == "__main__":
    report.answer(measure)
