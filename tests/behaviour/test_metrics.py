"""Metrics: registered in `open` and `prepare`, read once per bucket, sent to the consumers."""

import logging
from collections import Counter

import pytest

from pystorm_spark import (
    AssignableMetric,
    CombinedMetric,
    Combiner,
    Config,
    CountMetric,
    GaugeMetric,
    HistogramMetric,
    InvalidConfigError,
    LoggingMetricsConsumer,
    MeanMetric,
    MeanReducer,
    MeterMetric,
    Metric,
    MetricsConsumer,
    MultiCountMetric,
    MultiReducedMetric,
    ReducedMetric,
    Reducer,
    StormError,
    TimerMetric,
    TopologyBuilder,
)
from tests.behaviour.engine import LONG_TIME, STANDING_TIME, advance, chain, component, run, run_until_idle
from tests.behaviour.probes import Fed, Rows, Sink, attempt, feed, note, noted, numbers
from tests.ids import shown


class Consumer(MetricsConsumer):
    """Notes all points that it receives."""

    def prepare(self, conf, argument, context, report_error):
        self.argument = argument
        note("consumer", ("prepare", argument, conf["topology.name"], context.storm_id))

    def handle_data_points(self, task_info, data_points):
        for point in data_points:
            note("points", (task_info.component_id, task_info.task_id, point.name, point.value))
        note("told", (task_info.timestamp, task_info.update_interval_secs, [point.name for point in data_points]))
        note("by argument", self.argument)

    def cleanup(self):
        note("consumer", ("cleanup",))


class Measured(Sink):
    """Registers `metric` under "metric" for buckets of `secs`, and calls `update(metric, tup)` for each tuple."""

    def __init__(self, metric, update, secs=1):
        self.metric = metric
        self.update = update
        self.secs = secs

    def prepare(self, conf, context):
        super().prepare(conf, context)
        self.registered = context.register_metric("metric", self.metric, self.secs)

    def execute(self, tup, collector):
        self.update(self.registered, tup)


def consumed(*consumers):
    conf = Config()
    for consumer in consumers or (Consumer,):
        conf.register_metrics_consumer(consumer)
    return conf


def points(name="metric"):
    return [value for _, _, point, value in noted("points") if point == name]


class SumReducer(Reducer):
    def init(self):
        return 0

    def reduce(self, state, value):
        return state + value


KINDS = {
    "count": (CountMetric(), lambda metric, tup: metric.incr(), [3, 0]),
    "count by": (CountMetric(), lambda metric, tup: metric.incr_by(tup[0]), [9, 0]),
    "mean": (MeanMetric(), lambda metric, tup: metric.update(tup[0]), [3.0]),
    "meter": (MeterMetric(), lambda metric, tup: metric.mark(2), [6, 0]),
    "assignable": (AssignableMetric("none"), lambda metric, tup: metric.set_value(tup[0]), [4, 4]),
    "gauge": (GaugeMetric(lambda: 7), lambda metric, tup: None, [7, 7]),
    "reduced": (ReducedMetric(SumReducer()), lambda metric, tup: metric.update(tup[0]), [9, 0]),
    "a reducer": (MeanReducer(), lambda metric, tup: metric.update(tup[0]), [3.0]),
    "many counts": (MultiCountMetric(), lambda metric, tup: metric.scope(f"{tup[0] % 2}").incr(), [{"0": 2, "1": 1}]),
    "many means": (
        MultiReducedMetric(MeanReducer()),
        lambda metric, tup: metric.scope("all").update(tup[0]),
        [{"all": 3.0}],
    ),
}


@pytest.mark.local_only(STANDING_TIME)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_metric_is_read_and_reset_at_the_end_of_a_bucket(cluster, kind):
    metric, update, expected = KINDS[kind]

    run(cluster, chain(Rows([[2], [3], [4]]), Measured(metric, update)), consumed())
    advance(cluster, 2)

    told = points()
    # A counter per name may also give names of earlier buckets.
    assert told[: len(expected)] == expected
    assert component(cluster, "a").errors == []


def test_a_histogram_gives_the_percentiles_of_its_values(cluster):
    metric = HistogramMetric()

    run(cluster, chain(Rows([[value] for value in range(1, 101)]), Measured(metric, update_it)), consumed())
    advance(cluster, 2)

    assert {"count": 100, "mean": 50.5, "min": 1, "max": 100, "p50": 50, "p95": 95, "p99": 99} in points()


def update_it(metric, tup):
    metric.update(tup[0])


def test_the_shortcuts_of_the_context_register_metrics(cluster):
    class Shortcuts(Sink):
        def prepare(self, conf, context):
            super().prepare(conf, context)
            note("kinds", type(context.register_timer("timer")) is TimerMetric)
            context.register_counter("counter").incr()
            context.register_meter("meter").mark(5)
            context.register_gauge("gauge", lambda: "read")
            context.register_histogram("histogram").update(1)
            with context.registered_metric("timer").time():
                pass

    conf = {**consumed(), "topology.builtin.metrics.bucket.size.secs": 2}
    run(cluster, chain(numbers(0), Shortcuts()), conf)
    advance(cluster, 2)

    assert noted("kinds") == [True]
    assert (points("counter")[0], points("meter")[0], points("gauge")[0]) == (1, 5, "read")
    assert points("histogram")[0]["count"] == points("timer")[0]["count"] == 1


# Buckets.


@pytest.mark.local_only(STANDING_TIME)
def test_a_bucket_holds_what_was_counted_in_it(cluster):
    run(cluster, chain(Fed(), Measured(CountMetric(), count, secs=10)), consumed())
    for tuples in (2, 0, 1):
        for _ in range(tuples):
            feed("spout", [1], None)
        run_until_idle(cluster)
        advance(cluster, 10)

    assert points() == [2, 0, 1]


def count(metric, tup):
    metric.incr()


@pytest.mark.local_only(STANDING_TIME)
def test_no_bucket_ends_before_its_time(cluster):
    run(cluster, chain(numbers(1), Measured(CountMetric(), count, secs=10)), consumed())

    advance(cluster, 9.9)
    assert points() == []
    advance(cluster, 0.1)
    assert points() == [1]


@pytest.mark.local_only(STANDING_TIME)
def test_buckets_of_different_lengths_each_keep_their_own_time(cluster):
    class Two(Sink):
        def prepare(self, conf, context):
            super().prepare(conf, context)
            context.register_metric("short", CountMetric(), 3)
            context.register_metric("long", CountMetric(), 10)

    run(cluster, chain(numbers(0), Two()), consumed())
    advance(cluster, 30)

    times = {secs: [time for time, interval, _ in noted("told") if interval == secs] for secs in (3, 10)}
    assert times == {3: [3, 6, 9, 12, 15, 18, 21, 24, 27, 30], 10: [10, 20, 30]}


def test_metrics_of_one_bucket_arrive_together(cluster):
    class Two(Sink):
        def prepare(self, conf, context):
            super().prepare(conf, context)
            context.register_metric("one", CountMetric(), 1)
            context.register_metric("two", CountMetric(), 1)

    run(cluster, chain(numbers(0), Two()), consumed())
    advance(cluster, 2)

    assert next(names for _, _, names in noted("told")) == ["one", "two"]


def test_a_bucket_without_a_length_has_the_configured_one(cluster):
    conf = {**consumed(), "topology.builtin.metrics.bucket.size.secs": 1}

    run(cluster, chain(numbers(0), Measured(CountMetric(), count, secs=None)), conf)
    advance(cluster, 2)

    assert points()[:2] == [0, 0]


@pytest.mark.local_only(LONG_TIME)
def test_a_metric_without_a_value_is_left_out(cluster):
    run(cluster, chain(numbers(0), Measured(MeanMetric(), update_it)), consumed())
    advance(cluster, 30)

    assert noted("points") == []


# Tasks and consumers.


def test_every_task_has_metrics_of_its_own(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(6))
    builder.set_bolt("a", Measured(CountMetric(), count), 3).all_grouping("spout")
    run(cluster, builder.create_topology(), consumed())
    advance(cluster, 2)

    counted = Counter()
    for _, task, _, value in noted("points"):
        counted[task] += value
    assert sorted(counted.values()) == [6, 6, 6]


def test_a_spout_may_have_metrics(cluster):
    class Measures(Rows):
        def open(self, conf, context, collector):
            super().open(conf, context, collector)
            self.emitted = context.register_metric("emitted", CountMetric(), 1)

        def next_tuple(self):
            self.emitted.incr_by(len(self.left) > 0)
            super().next_tuple()

    run(cluster, chain(Measures([["a"], ["b"]]), Sink()), consumed())
    advance(cluster, 2)

    assert sum(points("emitted")) == 2


def test_every_consumer_gets_all_points(cluster):
    conf = Config()
    conf.register_metrics_consumer(Consumer, "first")
    conf.register_metrics_consumer(Consumer, {"name": "second"}, 1)
    run(cluster, chain(numbers(1), Measured(CountMetric(), count)), conf)
    advance(cluster, 2)

    assert sum(points()) == 2
    assert all(argument in noted("by argument") for argument in ("first", {"name": "second"}))


def test_a_consumer_is_prepared_with_its_argument_and_cleaned_up(cluster):
    conf = Config()
    conf.register_metrics_consumer(Consumer, ["an", "argument"], 1)
    handle = run(cluster, chain(numbers(0)), conf)
    cluster.kill_topology("topology")

    assert noted("consumer") == [("prepare", ["an", "argument"], "topology", handle.id), ("cleanup",)]


@pytest.mark.parametrize("name", [f"{__name__}.Consumer", f"{__name__}:Consumer"])
def test_a_consumer_may_be_given_by_its_dotted_name(cluster, name):
    run(cluster, chain(numbers(1), Measured(CountMetric(), count)), consumed(name))
    advance(cluster, 2)

    assert sum(points()) == 1


def test_a_consumer_may_have_several_tasks_that_share_the_work(cluster):
    conf = Config()
    conf.register_metrics_consumer(Consumer, None, 3)
    run(cluster, chain(numbers(0), Measured(CountMetric(), count)), conf)
    advance(cluster, 3)

    assert len([call for call in noted("consumer") if call[0] == "prepare"]) == 3
    assert points()[:3] == [0, 0, 0]


@pytest.mark.parametrize("name", ["no.such.module.Consumer", f"{__name__}.NoSuchConsumer", f"{__name__}:count"])
def test_a_consumer_that_cannot_be_loaded_stops_the_submit(cluster, name):
    with pytest.raises(StormError, match=name.replace(".", r"\.")):
        cluster.submit_topology("topology", consumed(name), chain(numbers(1)))
    assert cluster.list_topologies() == []


def test_a_consumer_defined_inside_a_function_is_refused():
    class Hidden(MetricsConsumer):
        pass

    with pytest.raises(InvalidConfigError, match="Hidden"):
        consumed(Hidden)


def test_the_logging_consumer_logs(cluster, caplog):
    with caplog.at_level(logging.INFO):
        run(cluster, chain(numbers(1), Measured(CountMetric(), count)), consumed(LoggingMetricsConsumer))
        advance(cluster, 2)

    assert "a:" in caplog.text
    assert "metric 1" in caplog.text


def test_metrics_are_not_counted_as_tuples(cluster):
    run(cluster, chain(numbers(2), Measured(CountMetric(), count)), consumed())
    advance(cluster, 2)

    info = cluster.topology_info("topology")
    assert set(info.components) == {"spout", "a"}
    assert (info.components["a"].emitted, info.components["a"].executed, info.pending) == (0, 2, 0)


def test_without_consumers_metrics_are_harmless(cluster):
    run(cluster, chain(numbers(2), Measured(CountMetric(), count)))
    advance(cluster, 2)

    assert noted("points") == []
    assert component(cluster, "a").errors == []


# Registering.


def test_a_metric_registered_after_prepare_is_refused(cluster):
    class Late(Sink):
        def execute(self, tup, collector):
            attempt("outcome", lambda: self.context.register_metric("late", CountMetric(), 1))

    run(cluster, chain(numbers(1), Late()), consumed())

    (error,) = noted("outcome")
    assert isinstance(error, StormError)
    assert "'late'" in str(error)


def test_a_name_can_be_registered_once_in_a_task(cluster):
    class Twice(Sink):
        def prepare(self, conf, context):
            super().prepare(conf, context)
            context.register_metric("same", CountMetric(), 1)
            context.register_metric("same", CountMetric(), 2)

    with pytest.raises(StormError, match=r"'a'.*'same'"):
        cluster.submit_topology("topology", None, chain(numbers(1), Twice()))


def test_a_name_can_be_registered_in_every_task(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(0))
    builder.set_bolt("a", Measured(CountMetric(), count), 2).shuffle_grouping("spout")
    builder.set_bolt("b", Measured(CountMetric(), count)).shuffle_grouping("spout")
    run(cluster, builder.create_topology(), consumed())
    advance(cluster, 2)

    assert len({task for _, task, name, _ in noted("points") if name == "metric"}) == 3


@pytest.mark.parametrize(
    ("metric", "secs"),
    [(object(), 1), (None, 1), (CountMetric, 1), (CountMetric(), 0), (CountMetric(), -1), (CountMetric(), "10")],
    ids=shown,
)
def test_an_invalid_metric_or_bucket_is_refused(cluster, metric, secs):
    with pytest.raises(StormError, match=r"'a'.*'metric'"):
        cluster.submit_topology("topology", None, chain(numbers(1), Measured(metric, count, secs)))


def test_a_registered_metric_is_found_by_name(cluster):
    class Asks(Sink):
        def prepare(self, conf, context):
            super().prepare(conf, context)
            metric = context.register_metric("known", CountMetric(), 1)
            note("found", (context.registered_metric("known") is metric, context.registered_metric("unknown")))

    run(cluster, chain(numbers(0), Asks()))

    assert noted("found") == [(True, None)]


def test_any_object_with_get_value_and_reset_is_a_metric(cluster):
    class Reads:
        def get_value_and_reset(self):
            return "read"

    run(cluster, chain(numbers(0), Measured(Reads(), count)), consumed())
    advance(cluster, 2)

    assert points()[0] == "read"


def test_a_metric_without_get_value_and_reset_is_an_error_that_names_it():
    with pytest.raises(NotImplementedError, match="get_value_and_reset"):
        Metric().get_value_and_reset()


class Largest(Combiner):
    def identity(self):
        return 0

    def combine(self, one, other):
        return max(one, other)


def test_a_combiner_becomes_a_metric():
    metric = CombinedMetric(Largest())
    for value in (3, 7, 5):
        metric.update(value)
    assert [metric.get_value_and_reset(), metric.get_value_and_reset()] == [7, 0]


@pytest.mark.local_only(STANDING_TIME)
def test_counts_of_the_engine_have_storms_names(cluster):
    conf = Config()
    conf.register_metrics_consumer(Consumer)
    conf["topology.builtin.metrics.bucket.size.secs"] = 10
    run(cluster, chain(numbers(5), Sink()), conf)
    advance(cluster, 10)

    told = {(component_id, name): value for component_id, _, name, value in noted("points")}
    assert told["spout", "__emit-count"] == told["spout", "__transfer-count"] == {"default": 5}
    assert told["spout", "__ack-count"] == told["a", "__ack-count"] == told["a", "__execute-count"] == 5
    assert {("spout", "__complete-latency"), ("a", "__execute-latency"), ("a", "__process-latency")} <= set(told)
    assert ("a", "__emit-count") not in told

    before = len(noted("points"))
    advance(cluster, 10)
    assert len(noted("points")) == before  # nothing happened in the second bucket
