"""Word count whose counts survive `kill -9`, each word counted once.

    python examples/durable_word_count.py FOLDER

counts in that folder, and continues after a kill. Without a folder it demonstrates that: it starts itself as a process,
kills it on the way, and starts it again.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pystorm_spark import BasicBolt, Fields, LocalCluster, Spout, TopologyBuilder
from pystorm_spark.state import StatefulBolt

SENTENCES = (
    "the cow jumped over the moon",
    "an apple a day keeps the doctor away",
    "four score and seven years ago",
    "snow white and the seven dwarfs",
)
COUNT = 1000
CONF = {"topology.state.guarantee": "exactly-once", "topology.state.checkpoint.interval.ms": 100}


class SentenceSpout(Spout):
    """A source that remembers how far it was acked, and replays the rest: sentence 7 has the id 7 each time."""

    outputs = Fields("sentence")

    def __init__(self, position):
        self.position = position

    def open(self, conf, context, collector):
        self.collector = collector
        self.next = self.done = acked(self.position)
        self.acked, self.again = set(), []

    def next_tuple(self):
        if self.again or self.next < COUNT:
            number = self.again.pop() if self.again else self.next
            self.next = max(self.next, number + 1)
            time.sleep(0.001)
            self.collector.emit([SENTENCES[number % len(SENTENCES)]], message_id=number)

    def ack(self, number):
        self.acked.add(number)
        while self.done in self.acked:
            self.acked.remove(self.done)
            self.done += 1
        written = self.position.with_suffix(".new")
        written.write_text(str(self.done))
        written.rename(self.position)

    def fail(self, number):
        self.again.append(number)


class Split(BasicBolt):
    outputs = Fields("word")

    def execute(self, tup, collector):
        for word in tup["sentence"].split():
            collector.emit([word])


class Count(StatefulBolt):
    def prepare(self, conf, context, collector):
        self.collector = collector

    def init_state(self, state):
        self.counts = state  # the last commit, or empty

    def execute(self, tup):
        self.counts.put(tup["word"], self.counts.get(tup["word"], 0) + 1)
        self.collector.ack(tup)


def acked(position):
    return int(position.read_text()) if position.exists() else 0


def count_in(folder):
    position = folder / "position"
    builder = TopologyBuilder()
    builder.set_spout("sentences", SentenceSpout(position))
    builder.set_bolt("split", Split(), 2).shuffle_grouping("sentences")
    builder.set_bolt("count", Count(), 2).fields_grouping("split", "word")
    with LocalCluster(checkpoint=folder) as cluster:
        cluster.submit_topology("word-count", CONF, builder.create_topology())
        while acked(position) < COUNT:
            time.sleep(0.01)
        counts = cluster.read_state("word-count", "count")
    for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:3]:
        print(word, count)


def main(folder=None):
    if folder is not None:
        count_in(Path(folder))
        return
    with tempfile.TemporaryDirectory() as temporary:
        command = [sys.executable, os.path.abspath(__file__), temporary]
        first = subprocess.Popen(command)
        while not acked(Path(temporary, "position")):
            time.sleep(0.01)
        first.kill()  # kill -9
        print("killed" if first.wait() < 0 else "it was quicker", flush=True)
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
