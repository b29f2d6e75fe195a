import pytest

from pystorm_spark import CountMetric, DataPoint, GaugeMetric, MeanReducer, ReducedMetric, StormError
from pystorm_spark.metrics.registry import MetricRegistry


def collect(registry, now):
    """Collect all due metrics as {bucket length: {name: value}}; none of them may raise."""

    def report(name, error):
        raise AssertionError(name) from error

    return {
        secs: {point.name: point.value for point in points} for secs, points in registry.collect(now, report).items()
    }


@pytest.fixture
def registry():
    return MetricRegistry()


class TestRegister:
    def test_register_returns_the_metric(self, registry):
        metric = CountMetric()
        assert registry.register("count", metric, 60, 0) is metric
        assert registry.get("count") is metric

    def test_get_of_an_unknown_name_is_none(self, registry):
        assert registry.get("count") is None

    def test_a_reducer_becomes_a_metric(self, registry):
        metric = registry.register("mean", MeanReducer(), 60, 0)
        assert isinstance(metric, ReducedMetric)
        assert registry.get("mean") is metric

    def test_a_second_metric_of_a_name_is_refused(self, registry):
        registry.register("count", CountMetric(), 60, 0)
        with pytest.raises(StormError, match="metric 'count' is already registered in this task; choose another name"):
            registry.register("count", CountMetric(), 10, 0)

    @pytest.mark.parametrize("wrong", [None, 3, object(), lambda: 1, CountMetric])
    def test_an_object_that_is_not_a_metric_is_refused(self, registry, wrong):
        with pytest.raises(StormError, match=r"metric 'wrong' must be an object with get_value_and_reset\(\), got "):
            registry.register("wrong", wrong, 60, 0)

    @pytest.mark.parametrize("secs", [0, -1, None, "60", float("nan")])
    def test_a_bucket_without_a_length_is_refused(self, registry, secs):
        with pytest.raises(StormError, match="metric 'count' needs a time bucket of more than 0 seconds, got "):
            registry.register("count", CountMetric(), secs, 0)

    def test_a_refused_metric_is_not_kept(self, registry):
        with pytest.raises(StormError):
            registry.register("count", CountMetric(), 0, 0)
        assert registry.get("count") is None

    def test_bucket_lengths_are_those_of_all_metrics(self, registry):
        assert registry.bucket_lengths() == set()
        for name, secs in (("a", 10), ("b", 0.5), ("c", 10)):
            registry.register(name, CountMetric(), secs, 0)
        assert registry.bucket_lengths() == {10, 0.5}


class TestCollect:
    def test_nothing_is_due_before_its_bucket_ends(self, registry):
        registry.register("count", CountMetric(), 10, now=5)
        assert collect(registry, 14.9) == {}

    def test_a_bucket_is_collected_once(self, registry):
        registry.register("count", CountMetric(), 10, now=5).incr_by(3)
        assert collect(registry, 15) == {10: {"count": 3}}
        assert collect(registry, 15) == {}

    def test_points_are_gathered_by_the_length_of_their_bucket(self, registry):
        for name, secs in (("a", 10), ("b", 5), ("c", 10)):
            registry.register(name, CountMetric(), secs, 0)
        assert collect(registry, 10) == {10: {"a": 0, "c": 0}, 5: {"b": 0}}

    def test_a_metric_without_a_value_makes_no_point(self, registry):
        registry.register("mean", MeanReducer(), 10, 0)
        assert collect(registry, 10) == {}

    def test_collecting_late_does_not_shift_the_buckets(self, registry):
        registry.register("count", CountMetric(), 10, 0)
        # Each call is a little less late. If a bucket began at its collection, the next call would find it not due.
        assert [bool(collect(registry, now)) for now in (10.3, 20.2, 30.1, 40)] == [True] * 4

    def test_missed_buckets_are_collected_as_one(self, registry):
        registry.register("count", CountMetric(), 10, 0)
        assert [bool(collect(registry, now)) for now in (37, 39, 40, 41)] == [True, False, True, False]

    def test_a_metric_that_raises_is_reported_and_the_others_are_collected(self, registry):
        reported = []
        registry.register("broken", GaugeMetric(lambda: 1 / 0), 10, 0)
        registry.register("count", CountMetric(), 10, 0)
        points = registry.collect(10, lambda name, error: reported.append((name, type(error))))
        assert points == {10: [DataPoint("count", 0)]}
        assert reported == [("broken", ZeroDivisionError)]

    def test_a_metric_that_raised_is_read_again(self, registry):
        answers = iter([1, 2])
        registry.register("gauge", GaugeMetric(lambda: 3 // (next(answers) - 1)), 10, 0)
        assert registry.collect(10, lambda name, error: None) == {}
        assert collect(registry, 20) == {10: {"gauge": 3}}
