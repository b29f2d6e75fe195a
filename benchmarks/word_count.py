"""How many words a second are split from sentences and counted, all anchored and acked?"""

from collections import Counter

from benchmarks import meter, report, workload
from benchmarks.components import BasicCountBolt, BasicSplitBolt, CountBolt, SentenceSpout, SplitBolt
from benchmarks.reference_loop import SENTENCES, WORDS
from pystorm_spark import Fields, TopologyBuilder

BAR = 0.6  # of the rate of the reference loop, which anchors and acks by hand like rich bolts


class TellingCountBolt(workload.TellingBolt):
    def execute(self, tup):
        word = tup.values[0]
        self.found[word] = self.found.get(word, 0) + 1
        self.collector.ack(tup)


def topology(split=None, count=None, tasks=1, spout=None):
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, spout or SentenceSpout())
    bolts(builder, split or SplitBolt(), count or CountBolt(), tasks)
    return builder.create_topology()


def bolts(builder, split, count, tasks=1):
    builder.set_bolt("split", split, tasks).shuffle_grouping(meter.SPOUT)
    builder.set_bolt("count", count, tasks).fields_grouping("split", Fields("word"))


def check(emitted, folder):
    """Check that every word of every sentence was counted, once."""
    (found,) = workload.told(folder, "TellingCountBolt")
    rounds, rest = divmod(emitted, len(SENTENCES))
    expected = Counter()
    for number, sentence in enumerate(SENTENCES):
        for word in sentence.split():
            expected[word] += rounds + (number < rest)
    workload.expect("the counts of the words", found, +expected)


WORKLOAD = workload.Workload(
    lambda folder, limit: SentenceSpout(limit),
    lambda builder, folder: bolts(builder, SplitBolt(), TellingCountBolt(folder)),
    check,
)


def measure(quick=False):
    basic = topology(BasicSplitBolt(), BasicCountBolt())
    asked = {
        "rich bolts": (topology(), BAR),
        "rich bolts, 2 tasks each": (topology(tasks=2), BAR),
        "basic bolts": (basic, None),
    }
    yardstick = meter.word_yardstick()
    found = {label: (meter.compare(yardstick, each, WORDS), bar) for label, (each, bar) in asked.items()}
    compared = report.compared("word_count", __doc__, "words", found)
    return report.joined(compared, workload.measure(compared.name, quick))


if __name__ == "__main__":
    report.answer(measure)
