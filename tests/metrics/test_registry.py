import pytest

from pystorm_spark import CountMetric, DataPoint, GaugeMetric, MeanReducer, ReducedMetric, StormError
from pystorm_spark.metrics.registry import MetricRegistry


def collect(registry, now):
    """{bucket length: {name: value}} of what is due, none of which may raise."""

    def report(name, error):
        raise AssertionError(name) from error

    return {
        secs: {point.name: point.value for point in points} for secs, points in registry.collect(now, report).items()
    }


@pytest.fixture
def registry():
    return MetricRegistry()


class TestRegister:
    def test_it_gives_the_metric_back(self, registry):
        metric = CountMetric()
        assert registry.register("count", metric, 60, 0) is metric
        assert registry.get("count") is metric

    def test_an_unknown_name_is_none(self, registry):
        assert registry.get("count") is None

    def test_a_reducer_becomes_a_metric(self, registry):
        metric = registry.register("mean", MeanReducer(), 60, 0)
        assert isinstance(metric, ReducedMetric)
        assert registry.get("mean") is metric

    def test_a_name_is_used_once(self, registry):
        registry.register("count", CountMetric(), 60, 0)
        with pytest.raises(StormError, match="metric 'count' is already registered in this task; choose another name"):
            registry.register("count", CountMetric(), 10, 0)

    @pytest.mark.parametrize("wrong", [None, 3, object(), lambda: 1, CountMetric])
    def test_what_cannot_be_read_is_refused(self, registry, wrong):
        with pytest.raises(StormError, match=r"metric 'wrong' must be an object with get_value_and_reset\(\), got "):
            registry.register("wrong", wrong, 60, 0)

    @pytest.mark.parametrize("secs", [0, -1, None, "60", float("nan")])
    def test_a_bucket_has_a_length(self, registry, secs):
        with pytest.raises(StormError, match="metric 'count' needs a time bucket of more than 0 seconds, got "):
            registry.register("count", CountMetric(), secs, 0)

    def test_what_is_refused_is_not_kept(self, registry):
        with pytest.raises(StormError):
            registry.register("count", CountMetric(), 0, 0)
        assert registry.get("count") is None

    def test_it_knows_how_often_to_collect(self, registry):
        assert registry.bucket_lengths() == set()
        for name, secs in (("a", 10), ("b", 0.5), ("c", 10)):
            registry.register(name, CountMetric(), secs, 0)
        assert registry.bucket_lengths() == {10, 0.5}


class TestCollect:
    def test_nothing_is_due_before_its_bucket_ends(self, registry):
        registry.register("count", CountMetric(), 10, now=5)
        assert collect(registry, 14.9) == {}

    def test_a_bucket_that_ended_is_told_once(self, registry):
        registry.register("count", CountMetric(), 10, now=5).incr_by(3)
        assert collect(registry, 15) == {10: {"count": 3}}
        assert collect(registry, 15) == {}

    def test_points_are_gathered_by_the_length_of_their_bucket(self, registry):
        for name, secs in (("a", 10), ("b", 5), ("c", 10)):
            registry.register(name, CountMetric(), secs, 0)
        assert collect(registry, 10) == {10: {"a": 0, "c": 0}, 5: {"b": 0}}

    def test_a_metric_that_tells_nothing_makes_no_point(self, registry):
        registry.register("mean", MeanReducer(), 10, 0)
        assert collect(registry, 10) == {}

    def test_collecting_late_does_not_shift_the_buckets(self, registry):
        registry.register("count", CountMetric(), 10, 0)
        # Each time a little less late: a bucket that began when it was collected would not be due the next time.
        assert [bool(collect(registry, now)) for now in (10.3, 20.2, 30.1, 40)] == [True] * 4

    def test_buckets_that_were_missed_are_told_as_one(self, registry):
        registry.register("count", CountMetric(), 10, 0)
        assert [bool(collect(registry, now)) for now in (37, 39, 40, 41)] == [True, False, True, False]

    def test_a_metric_that_raises_is_reported_and_takes_no_other_with_it(self, registry):
        reported = []
        registry.register("broken", GaugeMetric(lambda: 1 / 0), 10, 0)
        registry.register("count", CountMetric(), 10, 0)
        points = registry.collect(10, lambda name, error: reported.append((name, type(error))))
        assert points == {10: [DataPoint("count", 0)]}
        assert reported == [("broken", ZeroDivisionError)]

    def test_a_metric_that_raised_is_asked_again(self, registry):
        answers = iter([1, 2])
        registry.register("gauge", GaugeMetric(lambda: 3 // (next(answers) - 1)), 10, 0)
        assert registry.collect(10, lambda name, error: None) == {}
        assert collect(registry, 20) == {10: {"gauge": 3}}
