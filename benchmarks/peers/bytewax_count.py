"""A bytewax dataflow that splits and counts, in two processes that exchange the words; it tracks and keeps nothing."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from bytewax import operators
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition

from benchmarks.peers import serve
from benchmarks.reference_loop import SENTENCES, WORDS

PROCESSES = 2
BATCH = 1000  # sentences handed over at once
SECS, FOLDER = "BYTEWAX_COUNT_SECS", "BYTEWAX_COUNT_FOLDER"


class Sentences(DynamicSource):
    def build(self, step_id, worker_index, worker_count):
        return SentencesUntil(float(os.environ[SECS]))


class SentencesUntil(StatelessSourcePartition):
    """Emits sentences for some seconds; reports at its end when it emitted the first one, and how many."""

    def __init__(self, secs):
        self.secs, self.began, self.number = secs, None, 0

    def next_batch(self):
        now = time.monotonic()
        if self.began is None:
            self.began = now
        if now >= self.began + self.secs:
            raise StopIteration
        first, self.number = self.number, self.number + BATCH
        return [SENTENCES[number % len(SENTENCES)] for number in range(first, self.number)]

    def close(self):
        tell("emitted", self.began, self.number)


class Tally(DynamicSink):
    def build(self, step_id, worker_index, worker_count):
        return Tallied()


class Tallied(StatelessSinkPartition):
    """Reports at its end when the last count came, and how many."""

    def __init__(self):
        self.last, self.number = 0.0, 0

    def write_batch(self, items):
        self.last = time.monotonic()
        self.number += len(items)

    def close(self):
        tell("counted", self.last, self.number)


def tell(what, when, number):
    Path(os.environ[FOLDER], f"{what}-{os.getpid()}").write_text(json.dumps([when, number]))


def told(folder, what):
    """Return (the moments, the sum of the numbers) in the reports of all processes."""
    moments, numbers = zip(*(json.loads(path.read_text()) for path in Path(folder).glob(f"{what}-*")), strict=True)
    return moments, sum(numbers)


def count(seen, word):
    seen = (seen or 0) + 1
    return seen, seen


def dataflow():
    flow = Dataflow("word_count")
    words = operators.flat_map("split", operators.input("sentences", flow, Sentences()), str.split)
    keyed = operators.key_on("word", words, str)
    operators.output("out", operators.stateful_map("count", keyed, count), Tally())
    return flow


def measure(secs):
    with tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, SECS: str(secs), FOLDER: folder}
        addresses = ";".join(f"127.0.0.1:{port}" for port in _free_ports(PROCESSES))
        argv = [sys.executable, "-m", "bytewax.run", "benchmarks.peers.bytewax_count:dataflow()", "-a", addresses, "-i"]
        started = [subprocess.Popen([*argv, str(number)], env=environ) for number in range(PROCESSES)]
        codes = [process.wait() for process in started]
        if any(codes):
            raise RuntimeError("a process of bytewax has failed")
        began, sentences = told(folder, "emitted")
        ended, words = told(folder, "counted")
    assert words == sentences * WORDS
    return {"words": words, "secs": max(ended) - min(began)}


def _free_ports(number):
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


if __name__ == "__main__":
    serve(measure)
