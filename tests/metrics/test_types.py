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
    """Return the value at the end of this bucket, and at the end of an empty one after it."""
    return metric.get_value_and_reset(), metric.getValueAndReset()


class TestCount:
    def test_a_count_starts_at_zero_in_each_bucket(self):
        metric = CountMetric()
        metric.incr()
        metric.incr_by(4)
        metric.incrBy(-1)
        assert two_buckets(metric) == (4, 0)

    def test_a_meter_counts_marks(self):
        metric = MeterMetric()
        metric.mark()
        metric.mark(3)
        metric.incr()
        assert two_buckets(metric) == (5, 0)


class TestMean:
    def test_a_mean_has_no_value_for_an_empty_bucket(self):
        metric = MeanMetric()
        metric.update(1)
        metric.update(2)
        assert two_buckets(metric) == (1.5, None)


class TestAssignable:
    def test_an_assignable_metric_keeps_its_value(self):
        metric = AssignableMetric("first")
        assert metric.get_value_and_reset() == "first"
        metric.setValue("second")
        assert two_buckets(metric) == ("second", "second")

    def test_an_assignable_metric_has_no_value_before_it_is_set(self):
        assert AssignableMetric().get_value_and_reset() is None


class TestGauge:
    def test_a_gauge_is_read_when_the_bucket_ends(self):
        answers = [1, 2]
        assert two_buckets(GaugeMetric(answers.pop)) == (2, 1)


class TestHistogram:
    def test_a_histogram_gives_count_mean_limits_and_percentiles(self):
        metric = HistogramMetric()
        for value in range(1, 101):
            metric.update(value)
        told, empty = two_buckets(metric)
        assert told == {"count": 100, "mean": 50.5, "min": 1, "max": 100, "p50": 50, "p95": 95, "p99": 99}
        assert empty is None

    def test_all_figures_of_a_single_value_are_that_value(self):
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

    def test_beyond_the_limit_only_percentiles_lose_values(self):
        metric = HistogramMetric()
        metric.limit = 10
        metric.update(-1000)
        metric.update(1000)
        for _ in range(100):
            metric.update(5)
        told = metric.get_value_and_reset()
        assert (told["count"], told["min"], told["max"], told["p50"]) == (102, -1000, 1000, 5)

    def test_a_histogram_keeps_no_more_values_than_its_limit(self):
        metric = HistogramMetric()
        metric.limit = 10
        for value in range(25):
            metric.update(value)
        assert len(metric._values) == 10

    @given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
    def test_percentiles_are_in_order(self, values):
        metric = HistogramMetric()
        for value in values:
            metric.update(value)
        told = metric.get_value_and_reset()
        assert told["min"] <= told["p50"] <= told["p95"] <= told["p99"] <= told["max"]
        assert told["p50"] in values


class TestTimer:
    def test_a_timer_measures_a_block(self):
        clock = ManualClock()
        metric = TimerMetric(clock.monotonic)
        with metric.time():
            clock.advance(2.5)
        told = metric.get_value_and_reset()
        assert (told["count"], told["max"]) == (1, 2.5)

    def test_a_timer_measures_a_block_that_raises(self):
        clock = ManualClock()
        metric = TimerMetric(clock.monotonic)
        with pytest.raises(ValueError, match="no"), metric.time():
            clock.advance(1)
            raise ValueError("no")
        assert metric.get_value_and_reset()["count"] == 1

    def test_a_timer_takes_seconds_too(self):
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
    def test_a_reduced_metric_gives_the_mean(self):
        metric = ReducedMetric(MeanReducer())
        metric.update(1)
        metric.update(4)
        assert two_buckets(metric) == (2.5, None)

    def test_a_reduced_metric_takes_any_reducer(self):
        metric = ReducedMetric(Longest())
        for word in ("a", "abc", "ab"):
            metric.update(word)
        assert two_buckets(metric) == ("abc", None)

    def test_a_reducer_may_have_javas_names(self):
        metric = ReducedMetric(JavaLongest())
        metric.update("abc")
        assert metric.get_value_and_reset() == "java abc"

    def test_the_result_of_a_reducer_is_its_state_by_default(self):
        assert Reducer().extractResult(7) == 7

    @pytest.mark.parametrize(("method", "args"), [("init", ()), ("reduce", (1, 2))])
    def test_a_reducer_names_the_method_that_it_lacks(self, method, args):
        with pytest.raises(NotImplementedError, match=f"Reducer must define {method}"):
            getattr(Reducer(), method)(*args)


class TestMulti:
    def test_a_multi_count_counts_for_each_name(self):
        metric = MultiCountMetric()
        metric.scope("a").incr()
        metric.scope("b").incr_by(2)
        metric.scope("a").incr()
        assert two_buckets(metric) == ({"a": 2, "b": 2}, {"a": 0, "b": 0})

    def test_a_multi_reduced_metric_leaves_out_names_without_values(self):
        metric = MultiReducedMetric(MeanReducer())
        metric.scope("a").update(3)
        assert metric.get_value_and_reset() == {"a": 3}
        metric.scope("b").update(1)
        assert two_buckets(metric) == ({"b": 1}, None)

    def test_a_multi_count_without_names_has_no_value(self):
        assert MultiCountMetric().get_value_and_reset() is None

    def test_a_multi_count_can_be_pickled(self):
        metric = MultiCountMetric()
        metric.scope("a").incr()
        assert pickle.loads(pickle.dumps(metric)).get_value_and_reset() == {"a": 1}


class TestOwn:
    def test_a_metric_may_have_javas_name(self):
        class Java(Metric):
            def getValueAndReset(self):
                return "java"

        assert two_buckets(Java()) == ("java", "java")

    def test_a_built_in_metric_may_be_overridden_under_javas_name(self):
        class Loud(CountMetric):
            def getValueAndReset(self):
                return f"{super().getValueAndReset()}!"

        assert two_buckets(Loud()) == ("0!", "0!")

    def test_a_metric_names_the_method_that_it_lacks(self):
        with pytest.raises(NotImplementedError, match=r"Metric must define get_value_and_reset\(\)"):
            Metric().get_value_and_reset()
