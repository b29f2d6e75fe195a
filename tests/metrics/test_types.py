import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystorm_spark import (
    AssignableMetric,
    CountMetric,
    GaugeMetric,
    HistogramMetric,
    MeanMetric,
    MeanReducer,
    MeterMetric,
    Metric,
    MultiCountMetric,
    MultiReducedMetric,
    ReducedMetric,
    Reducer,
    TimerMetric,
)
from pystorm_spark.testing import ManualClock


def two_buckets(metric):
    """What a metric tells at the end of this bucket, and of an empty one after it."""
    return metric.get_value_and_reset(), metric.getValueAndReset()


class TestCount:
    def test_it_counts_and_starts_anew(self):
        metric = CountMetric()
        metric.incr()
        metric.incr_by(4)
        metric.incrBy(-1)
        assert two_buckets(metric) == (4, 0)

    def test_a_meter_is_marked(self):
        metric = MeterMetric()
        metric.mark()
        metric.mark(3)
        metric.incr()
        assert two_buckets(metric) == (5, 0)


class TestMean:
    def test_it_tells_nothing_of_an_empty_bucket(self):
        metric = MeanMetric()
        metric.update(1)
        metric.update(2)
        assert two_buckets(metric) == (1.5, None)


class TestAssignable:
    def test_it_keeps_its_value(self):
        metric = AssignableMetric("first")
        assert metric.get_value_and_reset() == "first"
        metric.setValue("second")
        assert two_buckets(metric) == ("second", "second")

    def test_it_tells_nothing_before_it_is_set(self):
        assert AssignableMetric().get_value_and_reset() is None


class TestGauge:
    def test_it_asks_when_the_bucket_ends(self):
        answers = [1, 2]
        assert two_buckets(GaugeMetric(answers.pop)) == (2, 1)


class TestHistogram:
    def test_it_tells_what_it_was_given(self):
        metric = HistogramMetric()
        for value in range(1, 101):
            metric.update(value)
        told, empty = two_buckets(metric)
        assert told == {"count": 100, "mean": 50.5, "min": 1, "max": 100, "p50": 50, "p95": 95, "p99": 99}
        assert empty is None

    def test_of_one_value_all_are_that_value(self):
        metric = HistogramMetric()
        metric.update(7)
        assert metric.get_value_and_reset() == {
            "count": 1,
            "mean": 7,
            "min": 7,
            "max": 7,
            "p50": 7,
            "p95": 7,
            "p99": 7,
        }

    def test_beyond_the_limit_only_percentiles_forget(self):
        metric = HistogramMetric()
        metric.limit = 10
        metric.update(-1000)
        metric.update(1000)
        for _ in range(100):
            metric.update(5)
        told = metric.get_value_and_reset()
        assert (told["count"], told["min"], told["max"], told["p50"]) == (102, -1000, 1000, 5)

    def test_it_keeps_no_more_than_the_limit(self):
        metric = HistogramMetric()
        metric.limit = 10
        for value in range(25):
            metric.update(value)
        assert len(metric._values) == 10

    @given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
    def test_its_numbers_are_in_order(self, values):
        metric = HistogramMetric()
        for value in values:
            metric.update(value)
        told = metric.get_value_and_reset()
        assert told["min"] <= told["p50"] <= told["p95"] <= told["p99"] <= told["max"]
        assert told["p50"] in values


class TestTimer:
    def test_it_measures_a_block(self):
        clock = ManualClock()
        metric = TimerMetric(clock.monotonic)
        with metric.time():
            clock.advance(2.5)
        told = metric.get_value_and_reset()
        assert (told["count"], told["max"]) == (1, 2.5)

    def test_it_measures_a_block_that_raises(self):
        clock = ManualClock()
        metric = TimerMetric(clock.monotonic)
        with pytest.raises(ValueError, match="no"), metric.time():
            clock.advance(1)
            raise ValueError("no")
        assert metric.get_value_and_reset()["count"] == 1

    def test_it_takes_seconds_too(self):
        metric = TimerMetric(ManualClock().monotonic)
        metric.update(0.25)
        assert metric.get_value_and_reset()["mean"] == 0.25


class Longest(Reducer):
    def init(self):
        return ""

    def reduce(self, state, value):
        return max(state, value, key=len)

    def extract_result(self, state):
        return state or None


class JavaLongest(Longest):
    def extractResult(self, state):
        return f"java {state}"


class TestReduced:
    def test_the_mean(self):
        metric = ReducedMetric(MeanReducer())
        metric.update(1)
        metric.update(4)
        assert two_buckets(metric) == (2.5, None)

    def test_any_reducer(self):
        metric = ReducedMetric(Longest())
        for word in ("a", "abc", "ab"):
            metric.update(word)
        assert two_buckets(metric) == ("abc", None)

    def test_a_reducer_may_have_javas_names(self):
        metric = ReducedMetric(JavaLongest())
        metric.update("abc")
        assert metric.get_value_and_reset() == "java abc"

    def test_the_result_is_the_state_unless_told_otherwise(self):
        assert Reducer().extractResult(7) == 7

    @pytest.mark.parametrize(("method", "args"), [("init", ()), ("reduce", (1, 2))])
    def test_a_reducer_that_is_not_finished_says_so(self, method, args):
        with pytest.raises(NotImplementedError, match=f"Reducer must define {method}"):
            getattr(Reducer(), method)(*args)


class TestMulti:
    def test_it_counts_for_each_name(self):
        metric = MultiCountMetric()
        metric.scope("a").incr()
        metric.scope("b").incr_by(2)
        metric.scope("a").incr()
        assert two_buckets(metric) == ({"a": 2, "b": 2}, {"a": 0, "b": 0})

    def test_it_reduces_for_each_name_and_leaves_out_what_is_empty(self):
        metric = MultiReducedMetric(MeanReducer())
        metric.scope("a").update(3)
        assert metric.get_value_and_reset() == {"a": 3}
        metric.scope("b").update(1)
        assert two_buckets(metric) == ({"b": 1}, None)

    def test_it_tells_nothing_when_nothing_was_named(self):
        assert MultiCountMetric().get_value_and_reset() is None

    def test_it_travels(self):
        metric = MultiCountMetric()
        metric.scope("a").incr()
        assert pickle.loads(pickle.dumps(metric)).get_value_and_reset() == {"a": 1}


class TestOwn:
    def test_a_metric_may_have_javas_name(self):
        class Java(Metric):
            def getValueAndReset(self):
                return "java"

        assert two_buckets(Java()) == ("java", "java")

    def test_a_metric_of_ours_may_be_overridden_under_javas_name(self):
        class Loud(CountMetric):
            def getValueAndReset(self):
                return f"{super().getValueAndReset()}!"

        assert two_buckets(Loud()) == ("0!", "0!")

    def test_one_that_is_not_finished_says_so(self):
        with pytest.raises(NotImplementedError, match=r"Metric must define get_value_and_reset\(\)"):
            Metric().get_value_and_reset()
