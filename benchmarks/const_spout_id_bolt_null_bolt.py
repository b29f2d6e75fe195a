"""How many roots a second go through a bolt that passes them on, anchored, to one that acks them?"""

from benchmarks import meter, report
from benchmarks.components import ConstSpout, DevNullBolt, IdBolt
from pystorm_spark import TopologyBuilder

BAR = 0.5  # of the reference loop


def topology():
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, ConstSpout())
    builder.set_bolt("id", IdBolt()).local_or_shuffle_grouping(meter.SPOUT)
    builder.set_bolt("null", DevNullBolt()).local_or_shuffle_grouping("id")
    return builder.create_topology()


def measure():
    found = meter.compare(meter.id_yardstick(), topology())
    return report.compared("const_spout_id_bolt_null_bolt", __doc__, "roots", {"spout → id → null": (found, BAR)})


if __name__ == "__main__":
    report.answer(measure)
