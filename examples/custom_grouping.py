"""A grouping of your own: words go to the task that keeps their part of the alphabet.

A fields grouping would spread the words by hash. `AlphabetGrouping` sends neighbours in the alphabet to the same task.
"""

import time

from pystorm_spark import BasicBolt, CustomStreamGrouping, Fields, LocalCluster, Spout, TopologyBuilder

WORDS = ("tuple", "acker", "spout", "bolt", "stream", "grouping")


class AlphabetGrouping(CustomStreamGrouping):
    def prepare(self, context, stream, target_tasks):
        self.target_tasks = target_tasks

    def choose_tasks(self, task_id, values):
        place = (ord(values[0][0]) - ord("a")) * len(self.target_tasks) // 26
        return [self.target_tasks[place]]


class WordSpout(Spout):
    outputs = Fields("word")

    def open(self, conf, context, collector):
        self.collector = collector
        self.left = list(WORDS)

    def next_tuple(self):
        if self.left:
            word = self.left.pop(0)
            self.collector.emit([word], message_id=word)


class Shelf(BasicBolt):
    def prepare(self, conf, context):
        self.number = context.this_task_index
        self.words = []

    def execute(self, tup, collector):
        self.words.append(tup["word"])

    def cleanup(self):
        print(f"shelf {self.number}: {' '.join(sorted(self.words))}")


def main():
    builder = TopologyBuilder()
    builder.set_spout("words", WordSpout())
    builder.set_bolt("shelf", Shelf(), 2).custom_grouping("words", AlphabetGrouping())
    with LocalCluster() as cluster:
        cluster.submit_topology("custom", None, builder.create_topology())
        while cluster.topology_info("custom").components["words"].acked < len(WORDS):
            time.sleep(0.01)


if __name__ == "__main__":
    main()
