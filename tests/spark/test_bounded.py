"""run_batch: a topology over DataFrames that end, its results as DataFrames, and what goes wrong with it."""

import time
from collections import Counter
from decimal import Decimal

import pytest

from pystorm_spark import BasicBolt, Bolt, InvalidTopologyError, StormError, TopologyBuilder
from pystorm_spark.dataframe import DataFrameSink, DataFrameSpout, run_batch
from pystorm_spark.state import StatefulBolt
from tests.spark.sentences import TWO_SLOTS, Picky, Sentences, Split, highest, sentences, word_count

pytestmark = pytest.mark.spark

EXACTLY_ONCE = {"topology.state.guarantee": "exactly-once", "topology.state.checkpoint.interval.ms": 100}


def test_words_are_counted_as_python_counts_them(spark):
    texts, df = sentences(spark, 2000)

    result = run_batch(spark, word_count(), {"sentences": df}, collect=["count", "split"], conf=TWO_SLOTS)

    expected = Counter(word for text in texts for word in text.split())
    assert highest(result["count"]) == expected
    assert result["count"].schema.simpleString() == "struct<word:string,count:bigint>"
    assert Counter(row.word for row in result["split"].collect()) == expected


def test_every_partition_is_counted_once_in_whatever_batch_it_comes(spark):
    texts, df = sentences(spark, 300)

    result = run_batch(spark, word_count(), {"sentences": df.repartition(21)}, ["count"], TWO_SLOTS)

    assert highest(result["count"]) == Counter(word for text in texts for word in text.split())
    assert result["count"].count() == 5 * 300


def test_a_schema_may_be_given_and_a_spout_may_be_collected(spark):
    _, df = sentences(spark, 10)

    collect = {"count": "word string, count int", "sentences": "text string"}
    result = run_batch(spark, word_count(), {"sentences": df}, collect, TWO_SLOTS)

    assert result["count"].schema.simpleString() == "struct<word:string,count:int>"
    assert result["sentences"].count() == 10


def test_a_topology_of_a_stream_runs_over_rows_that_end(spark):
    texts, df = sentences(spark, 10)
    spout = DataFrameSpout(lambda spark: pytest.fail("it is replaced"), ["sentence"])

    result = run_batch(spark, word_count(spout), {"sentences": df}, ["count"], TWO_SLOTS)

    assert result["count"].count() == sum(len(text.split()) for text in texts)


def test_no_rows_make_an_empty_result(spark):
    _, df = sentences(spark, 0)

    result = run_batch(spark, word_count(), {"sentences": df}, ["count"], TWO_SLOTS)

    assert result["count"].columns == ["word", "count"]
    assert result["count"].count() == 0


def test_a_sink_writes_in_a_run_that_ends(spark):
    texts, df = sentences(spark, 10)
    written = []
    builder = TopologyBuilder()
    builder.set_spout("sentences", Sentences())
    sink = DataFrameSink(lambda df, batch_id: written.extend(row.text for row in df.collect()), "text string")
    builder.set_bolt("sink", sink).shuffle_grouping("sentences")

    assert run_batch(spark, builder.create_topology(), {"sentences": df}, conf=TWO_SLOTS) == {}

    assert sorted(written) == sorted(texts)


class Unanchored(BasicBolt):
    outputs = ("word",)

    def execute(self, tup, collector):
        for word in tup["sentence"].split():
            collector._collector.emit([word])


def test_what_is_emitted_without_an_anchor_is_there_too(spark):
    texts, df = sentences(spark, 500)

    result = run_batch(spark, word_count(split=Unanchored()), {"sentences": df}, ["count"], TWO_SLOTS)

    assert highest(result["count"]) == Counter(word for text in texts for word in text.split())


def test_two_spouts_have_an_input_each(spark):
    builder = TopologyBuilder()
    builder.set_spout("left", Sentences())
    builder.set_spout("right", Sentences())
    builder.set_bolt("split", Split(), 2).shuffle_grouping("left").shuffle_grouping("right")
    inputs = {name: spark.createDataFrame([(name,)], "sentence string") for name in ("left", "right")}

    result = run_batch(spark, builder.create_topology(), inputs, ["split"], TWO_SLOTS)

    assert sorted(row.word for row in result["split"].collect()) == ["left", "right"]


def test_rows_that_fail_are_shown(spark):
    _, df = sentences(spark, 20, more=[f"poison {number}" for number in range(12)])
    conf = {**TWO_SLOTS, "topology.max.replays": 0}

    with pytest.raises(StormError, match=r"12 rows have failed; the first 10 are") as caught:
        run_batch(spark, word_count(split=Picky()), {"sentences": df}, ["count"], conf)

    lines = str(caught.value).splitlines()[1:]
    assert len(lines) == 10
    assert all("['poison" in line and "ValueError: it is poison" in line and "split:" in line for line in lines)


class FailsOnce(StatefulBolt):
    """Counts words; the first "bad" that it gets fails when it has been counted and emitted, and then comes again."""

    outputs = ("word", "count")

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.is_first = True

    def init_state(self, state):
        self.counts = state

    def execute(self, tup):
        word = tup["word"]
        self.counts.put(word, self.counts.get(word, 0) + 1)
        self.collector.emit([word, self.counts[word]], anchors=tup)
        if word == "bad" and self.is_first:
            self.is_first = False
            self.collector.fail(tup)
        else:
            self.collector.ack(tup)


def test_a_row_that_comes_again_is_counted_and_collected_once_with_exactly_once(spark):
    texts, df = sentences(spark, 200, more=["bad"])
    conf = {**TWO_SLOTS, **EXACTLY_ONCE}

    result = run_batch(spark, word_count(count=FailsOnce()), {"sentences": df}, ["count"], conf)

    assert highest(result["count"]) == Counter(word for text in texts for word in text.split())
    assert result["count"].count() == sum(len(text.split()) for text in texts)


class EmitsAndFailsOnce(Bolt):
    """Has no state; the first time that a "bad" comes it fails when it has been emitted, and then comes again."""

    outputs = ("word",)

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.failed = set()

    def execute(self, tup):
        sentence = tup["sentence"]
        self.collector.emit([sentence], anchors=tup)
        if sentence.startswith("bad") and sentence not in self.failed:
            self.failed.add(sentence)
            self.collector.fail(tup)
        else:
            self.collector.ack(tup)


def test_a_row_that_comes_again_is_collected_once_with_exactly_once_though_no_bolt_has_state(spark):
    texts, df = sentences(spark, 200, more=["bad 1", "bad 2"])
    conf = {**TWO_SLOTS, **EXACTLY_ONCE}
    builder = TopologyBuilder()
    builder.set_spout("sentences", Sentences(), 2)
    builder.set_bolt("pass", EmitsAndFailsOnce()).shuffle_grouping("sentences")

    result = run_batch(spark, builder.create_topology(), {"sentences": df}, ["pass"], conf)

    assert sorted(row.word for row in result["pass"].collect()) == sorted(texts)


class Forgetful(Bolt):
    outputs = ("word",)

    def execute(self, tup):
        pass


def test_a_bolt_that_never_acks_ends_the_run_with_an_error(spark):
    _, df = sentences(spark, 5)
    conf = {**TWO_SLOTS, "topology.message.timeout.secs": 1}

    with pytest.raises(StormError, match="5 rows were neither acked nor failed for 3 s; every bolt must ack or fail"):
        run_batch(spark, word_count(split=Forgetful()), {"sentences": df}, ["count"], conf)


def test_a_write_that_takes_long_is_waited_for(spark):
    texts, df = sentences(spark, 5)
    written = []

    def write(df, batch_id):
        time.sleep(2)  # more than three timeouts and a commit interval
        written.extend(row.text for row in df.collect())

    builder = TopologyBuilder()
    builder.set_spout("sentences", Sentences())
    builder.set_bolt("sink", DataFrameSink(write, "text string")).shuffle_grouping("sentences")
    conf = {**TWO_SLOTS, "topology.message.timeout.secs": 0.2, "topology.execute.timeout.secs": 60}

    run_batch(spark, builder.create_topology(), {"sentences": df}, conf=conf)

    assert sorted(written) == sorted(texts)


class Slow(Split):
    def execute(self, tup, collector):
        time.sleep(0.1)
        super().execute(tup, collector)


def test_a_row_that_waits_for_longer_than_the_timeout_is_counted_once(spark):
    texts, df = sentences(spark, 60)
    conf = {"topology.workers": 1, "topology.message.timeout.secs": 1, "topology.max.spout.pending": 40}

    result = run_batch(spark, word_count(split=Slow()), {"sentences": df}, ["count"], conf)

    assert highest(result["count"]) == Counter(word for text in texts for word in text.split())


@pytest.mark.parametrize("shuffled", [False, True])
def test_an_input_that_cannot_be_read_is_named(spark, shuffled):
    df = spark.range(3).selectExpr("IF(id = 1, raise_error('out of ink'), 'a') AS sentence")

    with pytest.raises(
        StormError, match=r"the input of spout 'sentences' failed: the rows cannot be read: .*out of ink"
    ):
        run_batch(spark, word_count(), {"sentences": df.repartition(2) if shuffled else df}, ["count"], TWO_SLOTS)


class Mixed(BasicBolt):
    outputs = ("value",)

    def execute(self, tup, collector):
        collector.emit([1])
        collector.emit([[1]])


def mixed():
    builder = TopologyBuilder()
    builder.set_spout("sentences", Sentences())
    builder.set_bolt("mixed", Mixed()).shuffle_grouping("sentences")
    return builder.create_topology()


def test_values_without_a_common_type_are_an_error_that_asks_for_a_schema(spark):
    _, df = sentences(spark, 2)

    with pytest.raises(StormError, match=r"the output of 'mixed' cannot become a DataFrame: .*; give its schema"):
        run_batch(spark, mixed(), {"sentences": df}, ["mixed"], TWO_SLOTS)


def test_values_that_do_not_fit_the_schema_that_was_given_are_an_error_that_names_it(spark):
    _, df = sentences(spark, 2)

    with pytest.raises(StormError, match=r"does not fit collect\['mixed'\], which is struct<value:int>: ") as caught:
        run_batch(spark, mixed(), {"sentences": df}, {"mixed": "value int"}, TWO_SLOTS)

    assert "give its schema" not in str(caught.value)


class Emits(BasicBolt):
    outputs = ("value",)

    def __init__(self, value):
        self.value = value

    def execute(self, tup, collector):
        collector.emit([self.value])


@pytest.mark.parametrize(
    ("value", "collect", "told"),
    [
        (1 << 70, ["odd"], r"cannot become a DataFrame: .*field 'value' does not fit its column of type bigint"),
        ("a\ud800", ["odd"], r"cannot become a DataFrame: .*lone surrogate"),
        ({"a": 1}, {"odd": "value string"}, r"does not fit collect\['odd'\].*expected a string"),
        (Decimal("12345.678"), {"odd": "value decimal(5,2)"}, r"does not fit collect\['odd'\].*too many digits"),
    ],
    ids=["huge", "surrogate", "dict as text", "decimal"],
)
def test_values_that_spark_would_silently_change_are_an_error(spark, value, collect, told):
    _, df = sentences(spark, 2)
    builder = TopologyBuilder()
    builder.set_spout("sentences", Sentences())
    builder.set_bolt("odd", Emits(value)).shuffle_grouping("sentences")

    with pytest.raises(StormError, match=f"the output of 'odd' {told}"):
        run_batch(spark, builder.create_topology(), {"sentences": df}, collect, TWO_SLOTS)


def refused(spark, inputs, collect=(), topology=None):
    with pytest.raises(InvalidTopologyError) as caught:
        run_batch(spark, topology or word_count(), inputs, collect)
    return str(caught.value)


def test_a_streaming_dataframe_is_refused(spark):
    stream = spark.readStream.format("rate").load().selectExpr("CAST(value AS string) AS sentence")
    assert "inputs['sentences'] is a streaming DataFrame, which never ends" in refused(spark, {"sentences": stream})


def test_inputs_that_do_not_fit_are_refused(spark):
    _, df = sentences(spark, 1)
    assert "spout 'sentences' has no input" in refused(spark, {})
    assert "'sentence', which is not a spout; did you mean 'sentences'?" in refused(spark, {"sentence": df})
    assert "'split', which is not a spout" in refused(spark, {"sentences": df, "split": df})
    assert "inputs['sentences'] must be a DataFrame, got [1]" in refused(spark, {"sentences": [1]})
    assert "inputs must be a mapping" in refused(spark, df)
    renamed = df.withColumnRenamed("sentence", "sentense")
    assert "declares the field 'sentence', but its DataFrame has no such column; did you mean 'sentense'?" in refused(
        spark, {"sentences": renamed}
    )


def test_what_cannot_be_collected_is_refused(spark):
    _, df = sentences(spark, 1)
    assert "'cuont', which is not a component; did you mean 'count'?" in refused(spark, {"sentences": df}, ["cuont"])
    assert "collect must be names of components" in refused(spark, {"sentences": df}, 5)
    assert "has the columns ['word'], but 'count' emits ['word', 'count']" in refused(
        spark, {"sentences": df}, {"count": "word string"}
    )
