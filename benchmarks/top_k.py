"""How many words a second are counted in a sliding window that emits its top words at every tick?

The words go to the tasks of `count` by fields grouping. At a tick each of them emits the top words of its last ticks,
and `rank` merges them.
"""

import heapq
import random
from collections import Counter, deque

from benchmarks import meter, workload
from benchmarks.components import NumberingSpout
from benchmarks.reference_loop import VOCABULARY
from pystorm_spark import Config, Fields, TickAwareBolt

TICK_SECS = 0.1
WINDOW = 5  # ticks
TOP = 10
TASKS = 2  # tasks of the bolt `count`
_rng = random.Random(0)
# Some words are much more frequent than others, as in natural language.
WORDS = _rng.choices(VOCABULARY, [1 / rank for rank in range(1, len(VOCABULARY) + 1)], k=50_000)


def word(number):
    return WORDS[number % len(WORDS)]


def best(counts):
    """Return the most frequent words; equally frequent ones in the order of their names."""
    return heapq.nsmallest(TOP, counts.items(), key=lambda item: (-item[1], item[0]))


def merged(rankings):
    return best(dict(entry for ranking in rankings for entry in ranking))


class WordSpout(NumberingSpout):
    outputs = ["word"]

    def next_tuple(self):
        if self.number < self.limit:
            self.collector.emit([word(self.number)], message_id=self.number)
            self.number += 1


class RollingCountBolt(workload.TellingBolt, TickAwareBolt):
    outputs = ["tick", "ranking"]

    def component_configuration(self):
        return {Config.TOPOLOGY_TICK_TUPLE_FREQ_SECS: TICK_SECS}

    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        self.task = context.this_task_id
        self.window = deque([{}], maxlen=WINDOW)  # drops the oldest counter itself
        self.words, self.seen = set(), 0
        self.ticks = []  # (words seen so far, the ranking then)

    def process(self, tup):
        word, counts = tup.values[0], self.window[-1]
        counts[word] = counts.get(word, 0) + 1
        self.collector.ack(tup)

    def on_tick(self, tup):
        newest = self.window[-1]
        self.words.update(newest)
        self.seen += sum(newest.values())
        counts = Counter()
        for each in self.window:
            counts.update(each)
        ranking = best(counts)
        self.collector.emit([len(self.ticks), ranking])
        self.ticks.append((self.seen, ranking))
        self.window.append({})
        self.collector.ack(tup)

    def cleanup(self):
        newest = self.window[-1]
        self.found = (self.task, self.words.union(newest), self.seen + sum(newest.values()), self.ticks)
        super().cleanup()


class RankBolt(workload.TellingBolt):
    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        self.rankings = {}  # {task of `count`: its last ranking}
        self.found = []  # (task, its tick, the top words of all then)

    def execute(self, tup):
        tick, ranking = tup.values
        self.rankings[tup.source_task] = ranking
        self.found.append((tup.source_task, tick, merged(self.rankings.values())))
        self.collector.ack(tup)


def bolts(builder, folder):
    builder.set_bolt("count", RollingCountBolt(folder), TASKS).fields_grouping(meter.SPOUT, Fields("word"))
    builder.set_bolt("rank", RankBolt(folder)).global_grouping("count")


def check(emitted, folder):
    """Check that the ranking at each tick is that of the words before it."""
    counts = workload.told(folder, "RollingCountBolt")
    workload.expect("the words seen", sum(seen for _, _, seen, _ in counts), emitted)
    for _, words, _, ticks in counts:
        mine = [each for each in map(word, range(emitted)) if each in words]  # the words of a task keep their order
        ends = [seen for seen, _ in ticks]
        begins = [0] * WINDOW + ends
        for (end, ranking), begin in zip(ticks, begins, strict=False):
            workload.expect("the top words of a task", ranking, best(Counter(mine[begin:end])))
    (heard,) = workload.told(folder, "RankBolt")
    _check_ranks(heard, {task: [ranking for _, ranking in ticks] for task, _, _, ticks in counts})


def _check_ranks(heard, told):
    """Check that `rank` has received every tick in order, except perhaps the last ones before the end."""
    rankings, ticks = {}, dict.fromkeys(told, 0)
    for task, tick, found in heard:
        workload.expect("the ticks of a task", tick, ticks[task])
        ticks[task] += 1
        rankings[task] = told[task][tick]
        workload.expect("the top words", found, merged(rankings.values()))


WORKLOAD = workload.Workload(lambda folder, limit: WordSpout(limit), bolts, check)

if __name__ == "__main__":
    workload.answer("top_k")
