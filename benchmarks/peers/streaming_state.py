"""Structured Streaming with Python state: `applyInPandasWithState` counts the words, the JVM splits the sentences."""

import time

import pandas as pd
from pyspark.sql import functions
from pyspark.sql.streaming.state import GroupStateTimeout

from benchmarks.peers import serve
from benchmarks.reference_loop import SENTENCES, WORDS
from benchmarks.spark_rig import CORES, folder, session

BATCH = 50_000  # sentences: some seconds of work, mostly a call for each word
WARM_UP_BATCHES = 1


def count(key, frames, state):
    total = sum(len(frame) for frame in frames) + (state.get[0] if state.exists else 0)
    state.update((total,))
    yield pd.DataFrame({"word": [key[0]], "count": [total]})


def words(spark):
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", BATCH).option("numPartitions", CORES)
    pool = functions.array(*[functions.lit(sentence) for sentence in SENTENCES])
    return rows.load().select(
        functions.explode(functions.split(functions.get(pool, functions.col("value") % len(SENTENCES)), " ")).alias(
            "word"
        )
    )


def counts(spark):
    schema = "word string, count long"
    return (
        words(spark)
        .groupBy("word")
        .applyInPandasWithState(count, schema, "count long", "update", GroupStateTimeout.NoTimeout)
    )


class Batches:
    """Records the moments at which batches ended."""

    def __init__(self, query):
        self._query = query
        self.ended = []

    def watch(self, until):
        while not until():
            progress = self._query.lastProgress
            if progress is not None and progress.numInputRows and len(self.ended) <= progress.batchId:
                self.ended.append(time.monotonic())
            if self._query.exception() is not None:
                raise self._query.exception()
            time.sleep(0.05)  # asking costs time of the measured query; a batch lasts seconds


def measure(spark, secs):
    """Whole batches only, once the first ones are done."""
    with folder() as checkpoint:
        writer = counts(spark).writeStream.outputMode("update").format("noop")
        query = writer.option("checkpointLocation", checkpoint).trigger(processingTime="0 seconds").start()
        batches = Batches(query)
        batches.watch(lambda: len(batches.ended) >= WARM_UP_BATCHES)
        began, first = batches.ended[-1], len(batches.ended)
        batches.watch(lambda: len(batches.ended) > first and batches.ended[-1] - began >= secs)
        query.stop()
    return {"words": (len(batches.ended) - first) * BATCH * WORDS, "secs": batches.ended[-1] - began}


def main():
    with session() as spark:
        spark.sparkContext.setLogLevel("OFF")  # a query that is stopped in the middle of a batch logs a long error
        spark.conf.set("spark.sql.shuffle.partitions", CORES)
        spark.conf.set("spark.sql.adaptive.enabled", "false")
        serve(lambda secs: measure(spark, secs))


if __name__ == "__main__":
    main()
