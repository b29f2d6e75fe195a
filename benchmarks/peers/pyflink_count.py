"""A PyFlink job that splits, and counts in keyed state, with two tasks of each; no checkpoints are taken."""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from pyflink.common import Configuration, WatermarkStrategy
from pyflink.common.typeinfo import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors import Sink
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.functions import MapFunction
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.java_gateway import get_gateway

from benchmarks.peers import serve
from benchmarks.reference_loop import SENTENCES, WORDS

TASKS = 2
# The counts of all words fit into the cache of a worker, which is otherwise too small for them.
SETTINGS = {"python.state.cache-size": "10000", "python.fn-execution.bundle.size": "10000"}
WARM_UP = 20_000  # words of a task, until nearly every one has been seen
FIRST_GUESS = 10_000  # words a second: a job has an end, and is made as long as it should take


class Count(MapFunction):
    """Reports at its end its number of words, when it was warm, and when the last word came."""

    def __init__(self, folder):
        self.folder = folder

    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.name = f"{runtime_context.get_index_of_this_subtask()}-{os.getpid()}"
        self.warm, self.last, self.number = None, 0.0, 0

    def map(self, word):
        self.last = time.monotonic()
        if self.number == WARM_UP:
            self.warm = self.last
        self.number += 1
        count = (self.state.value() or 0) + 1
        self.state.update(count)
        return count

    def close(self):
        Path(self.folder, self.name).write_text(json.dumps([self.warm, self.last, self.number]))


def run(sentences, folder):
    settings = Configuration()
    for key, value in SETTINGS.items():
        settings.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.set_parallelism(TASKS)
    env.set_python_executable(sys.executable)
    source = NumberSequenceSource(0, sentences - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    words = numbers.flat_map(lambda number: SENTENCES[number % len(SENTENCES)].split(), Types.STRING())
    counts = words.key_by(lambda word: word, Types.STRING()).map(Count(folder), Types.LONG())
    counts.sink_to(Sink(get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()))
    env.execute("word_count")


class Jobs:
    """Runs one job for each question, and measures it from the moment both tasks are warm to the last word."""

    def __init__(self):
        self.rate = FIRST_GUESS

    def measure(self, secs):
        sentences = int((3 * WARM_UP * TASKS / 2 + self.rate * secs) / WORDS)  # the tasks do not get quite as many
        with tempfile.TemporaryDirectory() as folder:
            run(sentences, folder)
            told = [json.loads(path.read_text()) for path in Path(folder).iterdir()]
        assert sum(number for _, _, number in told) == sentences * WORDS
        rates = [(number - WARM_UP) / (last - warm) for warm, last, number in told]
        self.rate = sum(rates)
        return {"words": self.rate * secs, "secs": secs}


if __name__ == "__main__":
    serve(Jobs().measure)
