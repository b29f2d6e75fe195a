"""How many roots a second go from a spout through a bolt that re-emits them to one that acks them?"""

from benchmarks import meter, report, workload
from benchmarks.components import ConstSpout, DevNullBolt, IdBolt
from benchmarks.const_spout_null_bolt import TellingNullBolt, check
from benchmarks.const_spout_only import TellingConstSpout
from pystorm_spark import TopologyBuilder

BAR = 0.5  # of the rate of the reference loop


def topology():
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, ConstSpout())
    bolts(builder, DevNullBolt())
    return builder.create_topology()


def bolts(builder, null):
    builder.set_bolt("id", IdBolt()).local_or_shuffle_grouping(meter.SPOUT)
    builder.set_bolt("null", null).local_or_shuffle_grouping("id")


WORKLOAD = workload.Workload(TellingConstSpout, lambda builder, folder: bolts(builder, TellingNullBolt(folder)), check)


def measure(quick=False):
    found = meter.compare(meter.id_yardstick(), topology())
    rows = {"spout → id → null": (found, BAR)}
    compared = report.compared("const_spout_id_bolt_null_bolt", __doc__, "roots", rows)
    return report.joined(compared, workload.measure(compared.name, quick))


if __name__ == "__main__":
    report.answer(measure)
