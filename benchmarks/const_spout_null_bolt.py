"""How many roots a second go from a spout to a bolt that acks them?"""

from benchmarks import meter, report
from benchmarks.components import ConstSpout, DevNullBolt
from pystorm_spark import TopologyBuilder


def topology():
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, ConstSpout())
    builder.set_bolt("null", DevNullBolt()).local_or_shuffle_grouping(meter.SPOUT)
    return builder.create_topology()


def measure():
    found = meter.compare(meter.null_yardstick(), topology())
    return report.compared("const_spout_null_bolt", __doc__, "roots", {"spout → null": (found, None)})


if __name__ == "__main__":
    report.answer(measure)
