"""How do rate and latency on Spark change with many slots, and which limit comes first?"""

import math
import os
import signal
import statistics
import time
from dataclasses import asdict, replace

import cloudpickle

from benchmarks import meter, report, spark_rig
from benchmarks.components import DevNullBolt
from benchmarks.scale import Line, Model, latency
from benchmarks.spark_components import NotingSpout, noted_acks, noted_pids, percentile
from benchmarks.spark_cpu import Cpu
from benchmarks.spark_curves import Curves
from benchmarks.spark_rig import CONF, CORES, PATIENCE_SECS, SparkRig, exchanges_noted
from pystorm_spark import TopologyBuilder
from pystorm_spark.checkpoint.manifest import Manifest
from pystorm_spark.checkpoint.part import Part
from pystorm_spark.runtime.codec.codec import ValueCodec, decode
from pystorm_spark.runtime.frames import TupleBuffer
from pystorm_spark.spark.driver.control import LEASE_INTERVAL_SECS
from pystorm_spark.spark.exchange.chain import make_chain
from pystorm_spark.spark.exchange.visit import Order, Visit
from pystorm_spark.spark.protocol.wire import Address
from pystorm_spark.spark.slot.exchanges import HOLD_SECS
from pystorm_spark.topology.durable import TaskKey

FITTED, CHECKED, READ_OUT = (1, 2, 4, 8), (16, 32), (100, 1000)
RATE = 100  # roots a second over all slots: enough that each slot has frames for every other one
EXCHANGES, ROUNDS, QUICK_ROUNDS = 4, 12, 3
SECS, QUICK_SECS = 10.0, 4.0
RATE_SECS, QUICK_RATE_SECS = 3.0, 1.0
HOPS = (1, 3)
ROWS = (1, 8, 64, 512)  # of a frame
PARTS = 8  # of a slot, before they are merged
FRAMES = 300


def method(rounds, secs):
    return (
        f"Each number of slots is a topology of its own on `local[{CORES}]`: {rounds} chains of {EXCHANGES} empty "
        f"exchanges, then {secs:g} s in which a spout in each slot emits to a bolt in every slot, {RATE} roots/s in "
        "all. CPU counts Spark only, by its thread clocks: *driver* is the JVM without its task threads, and the "
        "Python process that holds it, in empty chains; *one task* is a task thread and its Python worker, in loaded "
        f"ones. The model is fitted to {', '.join(map(str, FITTED))} slots, by the squares of the relative errors. "
        f"{' and '.join(map(str, CHECKED))} slots test the model, and one slot is killed there. Medians. The CPU of a "
        "tuple follows from the cores that exchanges leave free, and the words/s of the word count with "
        f"{', '.join(map(str, FITTED))} slots. One process seals and takes in frames, with "
        f"{', '.join(map(str, ROWS))} words each."
    )


class Point:
    """Measurements with one number of slots: start, activity, idle exchanges, and the loss of a slot."""

    def __init__(self, cluster, slots, folder):
        self._spark, self._slots, self._folder = cluster.spark, slots, folder
        began = time.monotonic()
        self._rig = SparkRig(cluster, _topology(slots, folder), {"topology.workers": slots})
        self._rig.activate()
        self.start_secs = time.monotonic() - began
        self._first_ack_since(began)
        self._run = cluster._running[self._rig.name].run

    def loaded(self, secs):
        """Measure an exchange while all slots have frames for all others, and the latency."""
        with exchanges_noted() as noted:
            before, began = Cpu.of(self._spark), time.monotonic()
            while time.monotonic() < began + secs or len(noted) < 2:
                time.sleep(0.2)
            cost, jobs = Cpu.of(self._spark).since(before), list(noted)
        acks = [acked - emitted for emitted, acked in noted_acks(self._folder) if began <= emitted]
        walls = [took / (exchanges + 1) for _, exchanges, took in jobs]
        return _median(walls, [cost], sum(exchanges + 1 for _, exchanges, _ in jobs)), percentile(acks, 50)

    def empty(self, rounds):
        """Measure an exchange in empty chains, with an idle topology."""
        self._rig.drain()
        jobs = -1
        while self._run.is_moving() or self._run.jobs != jobs:  # the driver's last chain ends
            jobs = self._run.jobs
            time.sleep(0.5)
        walls, costs = [], []
        for _ in range(rounds):
            before, began = Cpu.of(self._spark), time.monotonic()
            statuses = dict(make_chain(self._spark.sparkContext, self._order(), EXCHANGES).collect())
            walls.append((time.monotonic() - began) / (EXCHANGES + 1))
            costs.append(Cpu.of(self._spark).since(before))
            if set(statuses.values()) != {"ok"}:
                raise RuntimeError(f"the slots did not take part: {statuses}")
        return _median(walls, costs, EXCHANGES + 1)

    def _order(self):
        """The number of the driver's next job; an idle driver starts none."""
        return self._run.driver.exchanging.next_order()

    def recovery(self):
        """Measure the seconds from the death of a slot to the first ack of a tuple that was emitted after it."""
        self._rig.activate()
        self._first_ack_since(time.monotonic())
        killed = time.monotonic()
        os.kill(noted_pids(self._folder)[str(self._slots // 2)], signal.SIGKILL)
        return self._first_ack_since(killed) - killed

    def _first_ack_since(self, moment):
        deadline = time.monotonic() + 3 * PATIENCE_SECS
        while time.monotonic() < deadline:
            acked = [acked for emitted, acked in noted_acks(self._folder) if emitted > moment]
            if acked:
                return min(acked)
            time.sleep(0.1)
        raise RuntimeError(f"with {self._slots} slots nothing was acked for {3 * PATIENCE_SECS:.0f} s")

    def end(self):
        self._rig.kill()


def _median(walls, costs, exchanges):
    return {
        "wall": statistics.median(walls),
        "driver": statistics.median(cost.driver / exchanges for cost in costs),
        "tasks": statistics.median(cost.tasks / exchanges for cost in costs),
    }


def _topology(slots, folder):
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, NotingSpout(RATE / slots, folder), slots)
    builder.set_bolt("null", DevNullBolt(), slots).all_grouping(meter.SPOUT)
    return builder.create_topology()


def measure(quick=False):
    rounds, secs, rate_secs = (QUICK_ROUNDS, QUICK_SECS, QUICK_RATE_SECS) if quick else (ROUNDS, SECS, RATE_SECS)
    with spark_rig.cluster() as cluster:
        environment = spark_rig.environment_with_spark(cluster.spark)
        _point(cluster, FITTED[1], rounds, secs)  # Spark's own warm-up
        found = {slots: _point(cluster, slots, rounds, secs) for slots in (*FITTED, *CHECKED)}
        curves = Curves(cluster, rate_secs, CONF["topology.max.spout.pending"])
        rates = {slots: curves.slots(slots)["words_per_s"] for slots in FITTED}
        beat_secs = _beat_secs(cluster)
    model = _fitted(found, rates, beat_secs)
    tables = [_found_table(found, model), _parts_table(model), _read_out(model), _breaking(model)]
    figures = {"slots": found, "words_per_s": rates, "model": asdict(model)}
    return report.Result(
        "scale_model", report.first_line(__doc__), method(rounds, secs), tables, figures, (), environment
    )


def _point(cluster, slots, rounds, secs):
    with spark_rig.folder() as folder:
        point = Point(cluster, slots, folder)
        found = {"start": point.start_secs}
        if slots > 1:  # one slot has nothing to exchange
            found["loaded"], found["p50"] = point.loaded(secs)
        found["empty"] = point.empty(rounds)
        if slots in CHECKED:
            found["recovery"] = point.recovery()
        point.end()
    print(f"{slots} slots: {found}", flush=True)
    return found


def _fitted(found, rates, beat_secs):
    fitted = {slots: found[slots].get("loaded", found[slots]["empty"]) for slots in FITTED}
    frame = _frame_cost()
    model = Model(
        driver=Line.through({slots: found[slots]["empty"]["driver"] for slots in FITTED}),
        task=Line.through({slots: each["tasks"] / slots for slots, each in fitted.items()}),
        wall=Line.through({_cpu(found[slots]): fitted[slots]["wall"] for slots in FITTED}),
        tuple_secs=1.0,
        frame_secs=frame.fixed,
        beat_secs=beat_secs,
        order_bytes=Line.through({slots: _order_bytes(slots) for slots in (*FITTED, *READ_OUT)}),
        manifest_bytes=Line.through({slots: _manifest_bytes(slots) for slots in (*FITTED, *READ_OUT)}),
    )
    if min(model.driver.slope, model.task.slope) < 0:
        raise RuntimeError(f"costs fall with more slots, so other processes used the machine: {model}")
    return replace(model, tuple_secs=statistics.median(_tuple_secs(model, *each) for each in rates.items()))


def _cpu(point):
    """CPU of an exchange. The driver's comes from empty chains, because in others it also runs batches."""
    return point["empty"]["driver"] + point.get("loaded", point["empty"])["tasks"]


def _tuple_secs(model, slots, rate):
    """CPU of a slot for one tuple: tuples take all the CPU that exchanges leave."""
    left = CORES if slots > 1 else 1  # one slot has one thread
    taken = (model.driver.at(slots) + slots * model.task.at(slots)) / max(HOLD_SECS, model.here(slots))
    return max(0.1, left - (taken if slots > 1 else 0)) / rate


def _frame_cost():
    """CPU to seal and take in a frame, by its rows."""
    codec = ValueCodec()
    return Line.through({rows: min(_frame_secs(codec, rows) for _ in range(5)) for rows in ROWS})


def _frame_secs(codec, rows):
    buffer = TupleBuffer(1, 2, "default")
    began = time.process_time()
    for _ in range(FRAMES):
        buffer.rows, buffer.counts = [["word"] for _ in range(rows)], [1] * rows
        buffer.in_runs, buffer.roots, buffer.homes, buffer.edges = True, *([1] * rows for _ in range(3))
        decode(buffer.seal(codec).payload, codec)
    return (time.process_time() - began) / FRAMES


def _order_bytes(slots):
    order = Order(1, 1, bytes(32), tuple(Address("10.0.100.200", 40_000 + slot) for slot in range(slots)))
    return len(cloudpickle.dumps(Visit(order, 1, is_last=False)))


def _manifest_bytes(slots):
    parts = (
        Part(f"{txid:020}-{slot}-0123abcd.part", 1 << 20, bytes(16), (TaskKey("count", slot),), is_full=False)
        for slot in range(slots)
        for txid in range(PARTS)
    )
    return len(Manifest("word-count", 1, tuple(parts), {"count": slots}).to_bytes())


def _beat_secs(cluster, secs=4.0):
    """CPU of the driver's Python for a beat and a lease of one slot, while all are idle."""
    slots = FITTED[-1]
    with spark_rig.folder() as folder:
        rig = SparkRig(cluster, _topology(slots, folder), {"topology.workers": slots})
        time.sleep(1.0)
        began = time.process_time()
        time.sleep(secs)
        taken = time.process_time() - began
        rig.kill()
    return taken / secs / (slots / LEASE_INTERVAL_SECS)


def _found_table(found, model):
    rows = []
    for slots, each in found.items():
        cost = each.get("loaded", each["empty"])
        ours = model.here(slots)
        rows.append(
            [
                f"{slots}" if slots in FITTED else f"{slots}, not fitted",
                _ms(each["empty"]["wall"]),
                _ms(cost["wall"]),
                _ms(ours),
                _ms(each["empty"]["driver"]),
                _ms(model.driver.at(slots)),
                _ms(cost["tasks"] / slots),
                _ms(model.task.at(slots)),
                _ms(each["p50"]) if "p50" in each else "",
                _ms(latency(ours, 1)) if "p50" in each else "",
                f"{each['start']:.1f} s",
                f"{each['recovery']:.1f} s" if "recovery" in each else "",
            ]
        )
    columns = ["slots", "empty exchange", "exchange", "model", "driver, CPU", "model", "one task, CPU", "model"]
    return report.Table([*columns, "p50, one hop", "model", "start", "recovery"], rows)


def _parts_table(model):
    rows = [
        ["the driver, for an exchange", _ms(model.driver.fixed), f"{1000 * model.driver.slope:.2f} ms a slot"],
        ["a Spark task", _ms(model.task.fixed), f"{1000 * model.task.slope:.3f} ms a slot that it reads from"],
        ["a tuple that crosses", "", f"{1e6 * model.tuple_secs:.2f} µs"],
        ["a frame, sealed and taken in", f"{1e6 * model.frame_secs:.0f} µs", ""],
        ["a beat and a lease, at the driver", "", f"{1e6 * model.beat_secs:.0f} µs"],
    ]
    return report.Table(["CPU", "fixed", "added"], rows)


def _read_out(model):
    slots = (FITTED[-1], *READ_OUT)
    lines = {
        "an exchange on a cluster": [_ms(model.exchange(each)) for each in slots],
        "of which the driver schedules": [_ms(model.driver.at(each)) for each in slots],
        **{f"p50, {hops} hop{'s' * (hops > 1)}": [_ms(model.latency(each, hops)) for each in slots] for hops in HOPS},
        "tuples/s of a slot": [f"{model.slot_rate(each) / 1000:,.0f} k" for each in slots],
        "tuples/s of all": [f"{each * model.slot_rate(each) / 1e6:,.1f} M" for each in slots],
        "rows of a frame": [f"{model.rows_in_frame(each):,.0f}" for each in slots],
        "blocks of an exchange": [f"{each * each:,}" for each in slots],
        "order to a task": [_kb(model.order_bytes.at(each)) for each in slots],
        "manifest of a commit": [_kb(model.manifest_bytes.at(each)) for each in slots],
        "driver's CPU for beats and leases": [f"{model.control_share(each):.1%}" for each in slots],
    }
    return report.Table(
        ["slots", *[f"{each:,}" for each in slots]], [[label, *cells] for label, cells in lines.items()]
    )


def _breaking(model):
    rows = [
        [what, f"{slots:,}" if math.isfinite(slots) else "more than a million"]
        for what, slots in model.breaking().items()
    ]
    return report.Table(["limits, in this order", "slots"], rows)


def _ms(secs):
    return f"{1000 * secs:,.1f} ms" if secs < 0.1 else f"{1000 * secs:,.0f} ms"


def _kb(size):
    return f"{size / 1000:,.1f} kB"


if __name__ == "__main__":
    report.answer(measure)
