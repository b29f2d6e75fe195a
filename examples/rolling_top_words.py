"""The top words of the last thirty seconds, told every ten: ticks, a sliding window, and rankings merged into one.

Words go by fields grouping to the tasks of `count`. At every tick each of them emits its own top words, and `rank`,
which gets all of them by global grouping, merges them. The cluster's time is simulated, so the example ends at once.
"""

from collections import Counter, deque

from pystorm_spark import BasicBolt, Config, Fields, LocalCluster, TickAwareBolt, TopologyBuilder
from pystorm_spark.testing import FeederSpout

TICK_SECS, WINDOW_SECS, TOP = 10, 30, 2
HEARD = ("rain rain wind", "wind sun", "sun sun", "sun wind", "")  # in ten seconds each


def best(counts):
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:TOP]


class RollingCount(TickAwareBolt):
    outputs = Fields("ranking")

    def component_configuration(self):
        return {Config.TOPOLOGY_TICK_TUPLE_FREQ_SECS: TICK_SECS}

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.window = deque([Counter()], maxlen=WINDOW_SECS // TICK_SECS)  # drops the oldest counter itself

    def process(self, tup):
        self.window[-1][tup["word"]] += 1
        self.collector.ack(tup)

    def on_tick(self, tup):
        self.collector.emit([best(sum(self.window, Counter()))])
        self.window.append(Counter())
        self.collector.ack(tup)


class Rank(BasicBolt):
    def prepare(self, conf, context):
        self.counting = set(context.component_tasks("count"))
        self.rankings = {}  # {task of `count`: its top words of this tick}

    def execute(self, tup, collector):
        self.rankings[tup.source_task] = tup["ranking"]
        if self.rankings.keys() == self.counting:
            merged = dict(entry for ranking in self.rankings.values() for entry in ranking)
            print(", ".join(f"{word} {count}" for word, count in best(merged)))
            self.rankings.clear()


def main():
    words = FeederSpout(Fields("word"))
    builder = TopologyBuilder()
    builder.set_spout("words", words)
    builder.set_bolt("count", RollingCount(), 2).fields_grouping("words", "word")
    builder.set_bolt("rank", Rank()).global_grouping("count")
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit_topology("rolling", None, builder.create_topology())
        for sentence in HEARD:
            for word in sentence.split():
                words.feed([word], message_id=word)
            cluster.advance_time(TICK_SECS)


if __name__ == "__main__":
    main()
