"""The yardstick: what tracked tuples cost in one Python process with nothing around them.

Builds tuple objects, calls `execute`, anchors every emit, draws a 64-bit edge id, XORs the ledger and acks, with plain
lists as queues. No routing beyond a dict look-up, no checks, no counters, no timeouts, no transport. It runs with the
garbage collector off.
"""

import gc
import json
import random
import statistics
import time

VOCABULARY = [f"w{i}" for i in range(5000)]
WORDS = 8  # words in a sentence
_rng = random.Random(0)
SENTENCES = [" ".join(_rng.choices(VOCABULARY, k=WORDS)) for _ in range(5000)]


class Tuple:
    __slots__ = ("ack_value", "edge", "root", "values")

    def __init__(self, values, root, edge):
        self.values = values
        self.root = root
        self.edge = edge
        self.ack_value = 0


class Collector:
    def __init__(self, ledger):
        self.queue = []
        self.ledger = ledger
        self.draw = random.Random(1).getrandbits

    def emit(self, values, anchor):
        edge = self.draw(64)
        anchor.ack_value ^= edge
        self.queue.append(Tuple(values, anchor.root, edge))

    def ack(self, tup):
        ledger, root = self.ledger, tup.root
        left = ledger[root] ^ tup.edge ^ tup.ack_value
        if left:
            ledger[root] = left
        else:
            del ledger[root]


class Split:
    def __init__(self, collector):
        self.collector = collector

    def execute(self, tup):
        for word in tup.values[0].split():
            self.collector.emit([word], tup)
        self.collector.ack(tup)


class Count:
    def __init__(self, collector):
        self.collector = collector
        self.counts = {}

    def execute(self, tup):
        word = tup.values[0]
        self.counts[word] = self.counts.get(word, 0) + 1
        self.collector.ack(tup)


class Identity:
    def __init__(self, collector):
        self.collector = collector

    def execute(self, tup):
        self.collector.emit(tup.values, tup)
        self.collector.ack(tup)


class Null:
    def __init__(self, collector):
        self.collector = collector

    def execute(self, tup):
        self.collector.ack(tup)


def run(first, second, rows):
    """Return the seconds to take every row through `first` and then `second`, fully acked."""
    ledger = {}
    middle, last = Collector(ledger), Collector(ledger)
    head, tail = first(middle), second(last)
    draw = random.Random(2).getrandbits
    started = time.process_time()
    for at in range(0, len(rows), 500):
        for row in rows[at : at + 500]:
            root, edge = draw(64), draw(64)
            ledger[root] = edge
            head.execute(Tuple(row, root, edge))
        pending, middle.queue = middle.queue, []
        for tup in pending:
            tail.execute(tup)
    assert not ledger
    return time.process_time() - started


def sentences(count):
    return [[SENTENCES[i % len(SENTENCES)]] for i in range(count)]


def constants(count):
    return [["some data"]] * count


def main():
    gc.disable()
    lines, values = sentences(40_000), constants(200_000)
    words = statistics.median(len(lines) * WORDS / run(Split, Count, lines) for _ in range(5))
    roots = statistics.median(len(values) / run(Identity, Null, values) for _ in range(5))
    print(json.dumps({"word_count_words_per_s": round(words), "id_roots_per_s": round(roots)}))


if __name__ == "__main__":
    main()
