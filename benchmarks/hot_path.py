"""What does each step of a tuple cost?"""

from dataclasses import asdict

from benchmarks import meter, report
from benchmarks.components import BasicDevNullBolt, ConstSpout, DevNullBolt, HearingConstSpout, IdBolt
from benchmarks.meter import Rig, Spread
from pystorm_spark import LocalCluster, TopologyBuilder

ROUNDS = 12
MEASURED_SECS = 0.1
HOP, PAIR = "spout → null", "spout → id → null"
METHOD = (
    f"{ROUNDS} rounds of {MEASURED_SECS} s slices of every topology in turn, with the reference between; the garbage "
    "collector is on. Each cost is scaled by the reference slices around it, to cancel changes of the machine's speed. "
    "*Extra* is the difference of the medians."
)


def measure():
    costs = _costs(_topologies())
    rows = [_row(label, base, costs) for label, (_, base, _) in _topologies().items()]
    table = report.Table(["", "ns of CPU a root", "extra", "compared with"], rows)
    figures = {label: asdict(Spread.of(ns)) for label, ns in costs.items()}
    return report.Result("hot_path", report.first_line(__doc__), METHOD, [table], figures)


def _topologies():
    """{label: (topology, label of the topology with one step less, conf)}"""
    return {
        HOP: (_chain(DevNullBolt()), None, {}),
        PAIR: (_chain(IdBolt(), DevNullBolt()), HOP, {}),
        "spout → id → id → null": (_chain(IdBolt(), IdBolt(), DevNullBolt()), PAIR, {}),
        "the spout has an `ack`": (_chain(DevNullBolt(), spout=HearingConstSpout()), HOP, {}),
        "null is a `BasicBolt`": (_chain(BasicDevNullBolt()), HOP, {}),
        "null has 4 tasks, fields grouping": (_chain(DevNullBolt(), tasks=4, grouping=_by_value), HOP, {}),
        "null has 4 tasks, all grouping": (_chain(DevNullBolt(), tasks=4, grouping=_to_all), HOP, {}),
        "no ackers, one hop": (_chain(DevNullBolt()), HOP, {"topology.acker.executors": 0}),
    }


def _by_value(declarer, source):
    declarer.fields_grouping(source, "value")


def _to_all(declarer, source):
    declarer.all_grouping(source)


def _shuffled(declarer, source):
    declarer.shuffle_grouping(source)


def _chain(*bolts, spout=None, tasks=1, grouping=_shuffled):
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, spout or ConstSpout())
    source = meter.SPOUT
    for number, bolt in enumerate(bolts):
        grouping(builder.set_bolt(f"bolt-{number}", bolt, tasks), source)
        source = f"bolt-{number}"
    return builder.create_topology()


def _costs(topologies):
    """Return {label: nanoseconds per root in each round}, scaled to the median speed of the reference."""
    yardstick, references, found = meter.id_yardstick(), [], {label: [] for label in topologies}
    with LocalCluster() as cluster:
        rigs = {label: Rig(cluster, topology, conf) for label, (topology, _, conf) in topologies.items()}
        for rig in rigs.values():
            rig.slice(meter.WARM_UP_SECS)
        references.append(yardstick.rate())
        for label, rig in list(rigs.items()) * ROUNDS:
            rate = rig.slice(MEASURED_SECS).rate
            references.append(yardstick.rate())
            found[label].extend(meter.ratios([rate], references[-2:]))
    scale = 1e9 / Spread.of(references).median
    return {label: [scale / ratio for ratio in ratios] for label, ratios in found.items()}


def _row(label, base, costs):
    spread = Spread.of(costs[label])
    more = f"{spread.median - Spread.of(costs[base]).median:+,.0f}" if base else ""
    return [label, f"{spread.median:,.0f} ({spread.low:,.0f}–{spread.high:,.0f})", more, base or ""]


if __name__ == "__main__":
    report.answer(measure)
