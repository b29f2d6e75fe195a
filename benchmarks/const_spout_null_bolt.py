"""How many roots a second go from a spout to a bolt that acks them?"""

from benchmarks import meter, report, workload
from benchmarks.components import ConstSpout, DevNullBolt
from benchmarks.const_spout_only import TellingConstSpout
from pystorm_spark import TopologyBuilder


class TellingNullBolt(workload.TellingBolt):
    """Counts what it drops."""

    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        self.found = 0

    def execute(self, tup):
        self.found += 1
        self.collector.ack(tup)


def topology():
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, ConstSpout())
    bolts(builder, DevNullBolt())
    return builder.create_topology()


def bolts(builder, null):
    builder.set_bolt("null", null).local_or_shuffle_grouping(meter.SPOUT)


def check(emitted, folder):
    """Check that the last bolt has seen every root."""
    workload.expect("the tuples at the end", workload.told(folder, "TellingNullBolt"), [emitted])


WORKLOAD = workload.Workload(TellingConstSpout, lambda builder, folder: bolts(builder, TellingNullBolt(folder)), check)


def measure(quick=False):
    found = meter.compare(meter.null_yardstick(), topology())
    compared = report.compared("const_spout_null_bolt", __doc__, "roots", {"spout → null": (found, None)})
    return report.joined(compared, workload.measure(compared.name, quick))


if __name__ == "__main__":
    report.answer(measure)
