"""The spouts and bolts of the benchmarks, written as a user would write them; every emit is tracked."""

import math

from benchmarks.reference_loop import SENTENCES
from pystorm_spark import BasicBolt, Bolt, Spout
from pystorm_spark.state import StatefulBolt


class NumberingSpout(Spout):
    """Uses the number of each tuple as its message id, and stops at `limit`."""

    def __init__(self, limit=math.inf):
        self.limit = limit

    def open(self, conf, context, collector):
        self.collector = collector
        self.number = 0


class ConstSpout(NumberingSpout):
    """Emits the same data forever, like the rows of the reference loop."""

    outputs = ["value"]

    def next_tuple(self):
        self.number += 1
        self.collector.emit(["some data"], message_id=self.number)


class HearingConstSpout(ConstSpout):
    """Handles each ack, like a spout that records its pending messages."""

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        self.acked = 0

    def ack(self, message_id):
        self.acked += 1


class RecordSpout(NumberingSpout):
    """Emits a different string in every tuple."""

    outputs = ["record"]

    def next_tuple(self):
        if self.number < self.limit:
            self.collector.emit([f"record {self.number:08}"], message_id=self.number)
            self.number += 1


class SentenceSpout(NumberingSpout):
    outputs = ["sentence"]

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        self.sentences = SENTENCES

    def next_tuple(self):
        if self.number < self.limit:
            sentence = self.sentences[self.number % len(self.sentences)]
            self.collector.emit([sentence], message_id=self.number)
            self.number += 1


class CollectingBolt(Bolt):
    def prepare(self, conf, context, collector):
        self.collector = collector


class IdBolt(CollectingBolt):
    outputs = ["value"]

    def execute(self, tup):
        self.collector.emit(tup.values, anchors=tup)
        self.collector.ack(tup)


class DevNullBolt(CollectingBolt):
    def execute(self, tup):
        self.collector.ack(tup)


class SplitBolt(CollectingBolt):
    outputs = ["word"]

    def execute(self, tup):
        for word in tup.values[0].split():
            self.collector.emit([word], anchors=tup)
        self.collector.ack(tup)


class CountBolt(CollectingBolt):
    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        self.counts = {}

    def execute(self, tup):
        word = tup.values[0]
        self.counts[word] = self.counts.get(word, 0) + 1
        self.collector.ack(tup)


class BasicDevNullBolt(BasicBolt):
    def execute(self, tup, collector):
        pass


class BasicSplitBolt(BasicBolt):
    outputs = ["word"]

    def execute(self, tup, collector):
        for word in tup.values[0].split():
            collector.emit([word])


class BasicCountBolt(BasicBolt):
    def prepare(self, conf, context):
        self.counts = {}

    def execute(self, tup, collector):
        word = tup.values[0]
        self.counts[word] = self.counts.get(word, 0) + 1


class ForgetfulBolt(Bolt):
    """Never acks, and holds no tuple."""

    def execute(self, tup):
        pass


class HoardingBolt(Bolt):
    """Never acks, and holds every tuple, like a bolt that waits for the other side of a join."""

    def prepare(self, conf, context, collector):
        self.kept = []

    def execute(self, tup):
        self.kept.append(tup)


class StatefulCountBolt(StatefulBolt):
    """Counts in a state that is committed."""

    def prepare(self, conf, context, collector):
        self.collector = collector

    def init_state(self, state):
        self.state = state

    def execute(self, tup):
        word = tup.values[0]
        self.state.put(word, self.state.get(word, 0) + 1)
        self.collector.ack(tup)
