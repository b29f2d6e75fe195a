"""run_batch while slots and Python workers die: the result is the same, or the error names the cause."""

import logging
from collections import Counter

import pytest

from pystorm_spark import SlotLostError, StormError
from pystorm_spark.dataframe import run_batch
from tests.spark.components import DiesOnce
from tests.spark.faults import FetcherKilled, SlotsKilled, put_in_fetching
from tests.spark.sentences import TWO_SLOTS, Picky, Split, highest, sentences, word_count

pytestmark = pytest.mark.spark


class DiesOnText(Split):
    def __init__(self, marker, how="kill"):
        self.dies = DiesOnce("fatal", marker, how)

    def execute(self, tup, collector):
        if tup["sentence"] == "fatal":
            self.dies.execute(tup, collector)
        else:
            super().execute(tup, collector)


def test_the_death_of_a_slot_does_not_change_the_result(spark, tmp_path, caplog):
    texts, df = sentences(spark, 1000, more=["fatal"])
    split = DiesOnText(str(tmp_path / "marker"))

    result = run_batch(spark, word_count(split=split), {"sentences": df}, ["count"], TWO_SLOTS)

    assert highest(result["count"]) == Counter(word for text in texts for word in text.split())
    assert (tmp_path / "marker").exists()
    assert "restarting the run" in caplog.text
    assert not [record for record in caplog.records if record.levelno > logging.WARNING]


class DiesAlways(Split):
    def execute(self, tup, collector):
        import os

        os._exit(3)


def test_a_slot_that_dies_every_time_ends_the_run_with_its_last_tuple(spark):
    _, df = sentences(spark, 2)
    conf = {**TWO_SLOTS, "topology.slot.max.restarts": 1}

    told = r"in each of 2 tries; the last time: slot \d died: .*; the last it ran was split:\d+ on Tuple\(sentence="
    with pytest.raises(SlotLostError, match=told):
        run_batch(spark, word_count(split=DiesAlways()), {"sentences": df}, ["count"], conf)


@pytest.mark.parametrize("kind", [SlotsKilled, FetcherKilled])
@pytest.mark.parametrize("collect", [["count"], {"count": "word string, count long"}], ids=["found", "given"])
def test_a_death_while_the_result_is_fetched_does_not_change_it(spark, tmp_path, monkeypatch, kind, collect):
    texts, df = sentences(spark, 100)
    put_in_fetching(monkeypatch, kind, tmp_path / "faults")

    result = run_batch(spark, word_count(), {"sentences": df}, collect, TWO_SLOTS)

    assert highest(result["count"]) == Counter(word for text in texts for word in text.split())
    assert list((tmp_path / "faults").iterdir())


def test_a_worker_that_dies_in_every_fetch_is_not_reported_as_a_type_error(spark, tmp_path, monkeypatch):
    _, df = sentences(spark, 2)
    put_in_fetching(monkeypatch, FetcherKilled, tmp_path / "faults", times=100)

    with pytest.raises(StormError, match=r"the output of 'count' cannot be fetched: .*Python worker exited") as caught:
        run_batch(spark, word_count(), {"sentences": df}, {"count": "word string, count long"}, TWO_SLOTS)

    assert "schema" not in str(caught.value)


@pytest.mark.parametrize("kind", [SlotsKilled, FetcherKilled])
def test_a_death_while_failed_rows_are_fetched_hides_none(spark, tmp_path, monkeypatch, kind):
    _, df = sentences(spark, 20, more=["poison"])
    put_in_fetching(monkeypatch, kind, tmp_path / "faults")
    conf = {**TWO_SLOTS, "topology.max.replays": 0}

    with pytest.raises(StormError, match=r"(?s)1 row has failed:.*\['poison'\].*it is poison"):
        run_batch(spark, word_count(split=Picky()), {"sentences": df}, ["count"], conf)


def test_failed_rows_that_cannot_be_fetched_are_counted(spark, tmp_path, monkeypatch):
    _, df = sentences(spark, 20, more=["poison"])
    put_in_fetching(monkeypatch, FetcherKilled, tmp_path / "faults", times=100)
    conf = {**TWO_SLOTS, "topology.max.replays": 0}

    with pytest.raises(StormError, match=r"1 row has failed, but cannot be shown: .*Python worker exited"):
        run_batch(spark, word_count(split=Picky()), {"sentences": df}, ["count"], conf)
