"""A topology that counts numbers durably, on Spark: numbers → pass → count, grouped so that tuples cross slots."""

import os
import time

from pystorm_spark import BasicBolt, TopologyBuilder
from pystorm_spark.state import StatefulBolt
from tests.spark.components import Numbers

CONF = {"topology.workers": 2, "topology.state.checkpoint.interval.ms": 200}
EXACTLY_ONCE = {**CONF, "topology.state.guarantee": "exactly-once"}


class Replayed(Numbers):
    """Begins with what the journal does not hold as acked: a source that remembers what was acked."""

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        self.acked = set(map(int, self.journal.noted("acked")))

    def next_tuple(self):
        while self.next < self.count and self.next in self.acked:
            self.next += self.step
        super().next_tuple()


class Pass(BasicBolt):
    outputs = ("number",)

    def execute(self, tup, collector):
        collector.emit(tup.values)


class Count(StatefulBolt):
    """Keeps how often each number came."""

    def __init__(self, journal):
        self.journal = journal

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.journal.note("prepared", os.getpid())

    def init_state(self, state):
        self.state = state
        self.journal.note("restored", len(state))

    def execute(self, tup):
        self.state.put(tup[0], self.state.get(tup[0], 0) + 1)
        self.collector.ack(tup)

    def pre_commit(self, txid):
        self.journal.note("committed", txid)


class BlocksOnce(Pass):
    """Waits on one number until a file is there."""

    def __init__(self, number, gate, journal):
        self.number, self.gate, self.journal = number, gate, journal

    def execute(self, tup, collector):
        if tup[0] == self.number:
            self.journal.note("blocked", tup[0])
            while not os.path.exists(self.gate):
                time.sleep(0.01)
        collector.emit(tup.values)


def counting(count, journal, bolt=None, rate=200):
    builder = TopologyBuilder()
    builder.set_spout("numbers", Replayed(count, journal, rate), 2)
    builder.set_bolt("pass", bolt or Pass(), 2).fields_grouping("numbers", ["number"])
    builder.set_bolt("count", Count(journal), 2).fields_grouping("pass", ["number"])
    return builder.create_topology()


def acked(journal):
    return set(map(int, journal.noted("acked")))
