"""Components for tests of state: a source that replays unacked rows, and bolts that count."""

from collections import deque

from pystorm_spark import Spout, TopologyBuilder
from pystorm_spark.state import StatefulBolt
from pystorm_spark.testing.shared import Shared

EXACTLY_ONCE = {"topology.state.guarantee": "exactly-once"}


class Source(Shared):
    """Rows that outlive the topologies that read them; it records acks, fails and other calls."""

    owner = "Source"

    def __init__(self, *words):
        super().__init__()
        self.rows = []
        self.acked = []
        self.failed = []
        self.calls = []
        self.add(*words)

    def add(self, *words):
        """Add words to emit; the message id of a word is its number."""
        self.rows += [[word] for word in words]

    def take_calls(self):
        """Return the calls since the last question."""
        calls, self.calls = self.calls, []
        return calls


class Replaying(Spout):
    """Emits the unacked rows of a source, and emits failed rows again."""

    outputs = ("word",)

    def __init__(self, source):
        self.source = source

    def open(self, conf, context, collector):
        self.collector = collector
        self.next = 0
        self.again = deque()
        self.acked = set(self.source.acked)

    def next_tuple(self):
        while self.next in self.acked:
            self.next += 1
        if self.again:
            self.emit(self.again.popleft())
        elif self.next < len(self.source.rows):
            self.next += 1
            self.emit(self.next - 1)

    def emit(self, number):
        self.collector.emit(self.source.rows[number], message_id=number)

    def ack(self, message_id):
        self.source.acked.append(message_id)

    def fail(self, message_id):
        self.source.failed.append(message_id)
        self.again.append(message_id)


class Count(StatefulBolt):
    """Counts words, and notes every call. The word "bad" raises after it was counted, "lost" is not acked.

    `raising` names hooks that raise.
    """

    outputs = ("word", "count")

    def __init__(self, source, raising=()):
        self.source = source
        self.raising = raising

    def note(self, name, *args):
        self.source.calls.append((name, *args))
        if name in self.raising:
            raise RuntimeError(f"{name} of the test")

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.note("prepare")

    def init_state(self, state):
        self.state = state
        self.note("init_state", dict(state))

    def pre_prepare(self, txid):
        self.note("pre_prepare", txid)

    def pre_commit(self, txid):
        self.note("pre_commit", txid)

    def pre_rollback(self):
        self.note("pre_rollback")

    def execute(self, tup):
        word = tup["word"]
        self.note("execute", word)
        self.state.put(word, self.state.get(word, 0) + 1)
        if word == "bad":
            raise ValueError("a bad word")
        if word != "lost":
            self.collector.emit([word, self.state[word]], anchors=tup)
            self.collector.ack(tup)

    def cleanup(self):
        self.note("cleanup")


def counting(source, bolt=None, tasks=1, spout=None):
    """Build a topology of a spout "words" and a bolt "count"."""
    builder = TopologyBuilder()
    builder.set_spout("words", spout or Replaying(source))
    builder.set_bolt("count", bolt or Count(source), tasks).fields_grouping("words", "word")
    return builder.create_topology()
