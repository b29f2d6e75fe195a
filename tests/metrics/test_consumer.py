import logging

import pytest

from pystorm_spark import (
    Bolt,
    Config,
    CountMetric,
    DataPoint,
    LocalCluster,
    LoggingMetricsConsumer,
    MeanReducer,
    MetricsConsumer,
    Spout,
    StormError,
    TaskInfo,
    TopologyBuilder,
)

TOLD = []
CONTEXTS = {}


class Noting(MetricsConsumer):
    def prepare(self, conf, argument, context, report_error):
        TOLD.append(("prepare", argument))

    def handle_data_points(self, task_info, data_points):
        TOLD.append((task_info.component_id, task_info.timestamp, {point.name: point.value for point in data_points}))

    def cleanup(self):
        TOLD.append("cleanup")


class Java(MetricsConsumer):
    def handleDataPoints(self, task_info, data_points):
        TOLD.append((task_info.getComponentId(), [(point.getName(), point.getValue()) for point in data_points]))


class Reporting(MetricsConsumer):
    def prepare(self, conf, argument, context, report_error):
        self.report_error = report_error

    def handle_data_points(self, task_info, data_points):
        self.report_error(ValueError("reported"))
        raise KeyError("raised")


class Measuring(MetricsConsumer):
    """Has a metric of its own, which no consumer receives."""

    def prepare(self, conf, argument, context, report_error):
        self.count = context.register_metric("own", CountMetric(), 1)

    def handle_data_points(self, task_info, data_points):
        self.count.incr()
        TOLD.append(task_info.component_id)


class Quiet(Spout):
    outputs = ["value"]


class Measured(Bolt):
    """Calls `register(context)` in `prepare`."""

    def __init__(self, register):
        self.register = register

    def prepare(self, conf, context, collector):
        CONTEXTS["measured"] = context
        self.register(context)


def one_count(context):
    context.register_counter("count").incr_by(3)


def two_lengths(context):
    context.register_metric("often", CountMetric(), 2)
    context.register_metric("seldom", CountMetric(), 5)


def of_every_kind(context):
    context.register_counter("counter").incr()
    context.register_meter("meter").mark(2)
    context.register_gauge("gauge", lambda: 3)
    context.register_histogram("histogram").update(4)
    with context.register_timer("timer").time():
        pass
    context.register_metric("mean", MeanReducer()).update(5)


def twice(context):
    context.register_metric("count", CountMetric(), 1)
    context.register_metric("count", CountMetric(), 1)


def one_broken(context):
    context.register_gauge("broken", lambda: 1 / 0)
    context.register_counter("count")


def run(register, secs, *consumers):
    """Run a topology with a bolt "measured" for some seconds, return its status; consumers write into `TOLD`."""
    TOLD.clear()
    conf = Config({"topology.builtin.metrics.bucket.size.secs": 10})
    for consumer in consumers:
        conf.register_metrics_consumer(*consumer)
    builder = TopologyBuilder()
    builder.set_spout("quiet", Quiet())
    builder.set_bolt("measured", Measured(register)).shuffle_grouping("quiet")
    with LocalCluster(simulated_time=True) as cluster:
        handle = cluster.submit_topology("test", conf, builder.create_topology())
        cluster.advance_time(secs)
        assert not handle.await_termination(timeout=0)
        return cluster.topology_info("test")


class TestConsumer:
    def test_a_consumer_is_prepared_gets_points_and_is_cleaned_up(self):
        run(one_count, 25, (Noting, {"path": "/metrics"}))
        assert TOLD == [
            ("prepare", {"path": "/metrics"}),
            ("measured", 10, {"count": 3}),
            ("measured", 20, {"count": 0}),
            "cleanup",
        ]

    def test_a_consumer_may_have_javas_names(self):
        run(one_count, 10, (Java,))
        assert TOLD == [("measured", [("count", 3)])]

    def test_a_consumer_needs_to_define_nothing(self):
        consumer = MetricsConsumer()
        calls = [consumer.prepare({}, None, None, None), consumer.handleDataPoints(None, []), consumer.cleanup()]
        assert calls == [None] * 3

    def test_metrics_of_one_bucket_come_together(self):
        run(of_every_kind, 10, (Noting,))
        _, (_, _, points), _ = TOLD
        values = {name: value["count"] if isinstance(value, dict) else value for name, value in points.items()}
        assert values == {"counter": 1, "meter": 2, "gauge": 3, "histogram": 1, "timer": 1, "mean": 5}

    def test_buckets_of_two_lengths_arrive_when_they_end(self):
        run(two_lengths, 10, (Noting,))
        times = [(time, sorted(points)) for _, time, points in TOLD[1:-1]]
        assert times == [
            (2, ["often"]),
            (4, ["often"]),
            (5, ["seldom"]),
            (6, ["often"]),
            (8, ["often"]),
            (10, ["often"]),
            (10, ["seldom"]),
        ]

    def test_several_consumers_get_the_same_points(self):
        run(one_count, 10, (Noting,), (Java,))
        assert ("measured", 10, {"count": 3}) in TOLD
        assert ("measured", [("count", 3)]) in TOLD

    def test_an_exception_in_a_consumer_leaves_other_consumers_alone(self):
        info = run(one_count, 25, (Reporting,), (Noting,))
        assert len([told for told in TOLD if told[0] == "measured"]) == 2
        assert info.status == "ACTIVE"

    def test_a_metric_of_a_consumer_is_not_collected(self):
        run(one_count, 25, (Measuring,))
        assert TOLD == ["measured", "measured"]

    def test_a_metric_that_raises_is_an_error_of_its_component(self):
        info = run(one_broken, 10, (Noting,))
        assert ("measured", 10, {"count": 0}) in TOLD
        assert [error.exception for error in info.components["measured"].errors] == [
            "ZeroDivisionError: division by zero"
        ]

    def test_without_a_consumer_nothing_is_read(self):
        info = run(one_broken, 25)
        assert info.components["measured"].errors == []


class TestRegistration:
    def test_a_name_is_used_once_in_a_task(self):
        with pytest.raises(StormError, match="metric 'count' is already registered in this task"):
            run(twice, 1)

    def test_a_metric_registered_after_prepare_is_refused(self):
        run(one_count, 1)
        with pytest.raises(StormError, match="metric 'late' must be registered in open or prepare, not later"):
            CONTEXTS["measured"].register_counter("late")

    def test_a_metric_is_found_by_its_name(self):
        run(one_count, 1)
        context = CONTEXTS["measured"]
        assert isinstance(context.registered_metric("count"), CountMetric)
        assert context.getRegisteredMetricByName("count") is context.registered_metric("count")
        assert context.registered_metric("other") is None


class TestPoints:
    def test_points_have_storms_fields(self):
        info = TaskInfo("count", 3, 0, 12.5, 60)
        assert (info.componentId, info.taskId, info.updateIntervalSecs) == ("count", 3, 60)
        assert DataPoint("emitted", 7).getValue() == 7


def test_the_logging_consumer_logs_every_point(caplog):
    points = [DataPoint("emitted", 7), DataPoint("latency", {"p50": 1.5})]
    with caplog.at_level(logging.INFO):
        LoggingMetricsConsumer().handle_data_points(TaskInfo("count", 3, 0, 12.5, 60), points)
    assert caplog.messages == ["count:3 emitted 7", "count:3 latency {'p50': 1.5}"]
