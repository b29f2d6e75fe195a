"""How many words a second are split from sentences and counted, every one of them anchored and acked?"""

from benchmarks import meter, report
from benchmarks.components import BasicCountBolt, BasicSplitBolt, CountBolt, SentenceSpout, SplitBolt
from benchmarks.reference_loop import WORDS
from pystorm_spark import Fields, TopologyBuilder

BAR = 0.6  # of the reference loop, which anchors and acks by hand as rich bolts do


def topology(split=None, count=None, tasks=1, spout=None):
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, spout or SentenceSpout())
    builder.set_bolt("split", split or SplitBolt(), tasks).shuffle_grouping(meter.SPOUT)
    builder.set_bolt("count", count or CountBolt(), tasks).fields_grouping("split", Fields("word"))
    return builder.create_topology()


def measure():
    basic = topology(BasicSplitBolt(), BasicCountBolt())
    asked = {
        "rich bolts": (topology(), BAR),
        "rich bolts, 2 tasks each": (topology(tasks=2), BAR),
        "basic bolts": (basic, None),
    }
    yardstick = meter.word_yardstick()
    found = {label: (meter.compare(yardstick, each, WORDS), bar) for label, (each, bar) in asked.items()}
    return report.compared("word_count", __doc__, "words", found)


if __name__ == "__main__":
    report.answer(measure)
