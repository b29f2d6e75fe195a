"""What is refused, and when: at the call, by create_topology, at the submit. And which level of settings wins."""

from datetime import timedelta

import pytest

from pystorm_spark import InvalidConfigError, InvalidTopologyError, LambdaBolt, TopologyBuilder
from pystorm_spark.aggregators import Sum
from pystorm_spark.testing import FeederSpout
from pystorm_spark.windowing import (
    BaseWindowedBolt,
    Count,
    Duration,
    EveryCount,
    EveryDuration,
    IWindowedBolt,
    Trigger,
    WindowedBolt,
)
from tests.windowing.running import Noting, Results, Run

SECOND = Duration.seconds(1)


def test_units():
    assert Count(3) == Count.of(3) != Duration(3)
    assert Duration.of(1) == Duration(1)
    assert [Duration.seconds(2).value, Duration.minutes(1).value, Duration.hours(1).value, Duration.days(1).value] == [
        2000,
        60_000,
        3_600_000,
        86_400_000,
    ]
    assert WindowedBolt.Count is Count
    assert BaseWindowedBolt.Duration is Duration
    assert IWindowedBolt is BaseWindowedBolt is WindowedBolt


def test_every_method_gives_the_bolt_itself_also_by_javas_name():
    bolt = Noting()
    assert bolt.withWindow(SECOND, Count(2)).withTimestampField("at").withLag(SECOND) is bolt
    assert bolt.with_watermark_interval(timedelta(seconds=1)).with_idle_timeout(SECOND) is bolt
    assert bolt.withLateTupleStream("late").withWatermarkInterval(SECOND).with_late_tuple_stream("late") is bolt
    other = Noting()
    assert other.with_session_window(SECOND, "key").with_trigger(EveryCount(1)).with_aggregate(Sum()) is other
    assert other.with_timestamp_extractor(len).with_allowed_lateness(SECOND).with_offset(Duration(0)) is other
    assert Noting()._window_settings != bolt._window_settings


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda bolt: bolt.with_window(5), r"Count\(5\)"),
        (lambda bolt: bolt.with_window("5"), "got '5'"),
        (lambda bolt: bolt.with_window(Count(1), 1.5), "the slide"),
        (lambda bolt: bolt.with_window(Duration(0)), "be positive"),
        (lambda bolt: bolt.with_window(Duration(-5), Duration(1)), "be positive"),
        (lambda bolt: bolt.with_tumbling_window(timedelta(microseconds=5)), "whole number of milliseconds"),
        (lambda bolt: bolt.with_tumbling_window(None), "got None"),
        (lambda bolt: bolt.with_session_window(Count(3)), "a Count is a number of tuples"),
        (lambda bolt: bolt.with_session_window(Duration(0)), "be positive"),
        (lambda bolt: bolt.with_session_window(SECOND, 7), "the session key"),
        (lambda bolt: bolt.with_session_window(SECOND, ["a", 7]), "the session key"),
        (lambda bolt: bolt.with_lag(Duration(-1)), "not be negative"),
        (lambda bolt: bolt.with_lag(Count(1)), "the lag"),
        (lambda bolt: bolt.with_offset(Duration(-1)), "not be negative"),
        (lambda bolt: bolt.with_allowed_lateness(Duration(-1)), "not be negative"),
        (lambda bolt: bolt.with_idle_timeout(Duration(0)), "be positive"),
        (lambda bolt: bolt.with_watermark_interval(Duration(0)), "be positive"),
        (lambda bolt: bolt.with_timestamp_field(""), "name of a field"),
        (lambda bolt: bolt.with_timestamp_extractor("at"), "function of the tuple"),
        (lambda bolt: bolt.with_timestamp_field("at").with_timestamp_extractor(len), "two timestamp sources"),
        (lambda bolt: bolt.with_timestamp_extractor(len).with_timestamp_field("at"), "two timestamp sources"),
        (lambda bolt: bolt.with_late_tuple_stream(None), "id of a stream"),
        (lambda bolt: bolt.with_trigger(EveryCount), "instance of Trigger"),
        (lambda bolt: bolt.with_aggregate(Sum), r"give an instance: Sum\(\)"),
        (lambda bolt: bolt.with_aggregate(Sum(), ["a"]), "the value of the aggregate"),
        (lambda bolt: bolt.with_persistence(), "not there yet"),
        (lambda bolt: bolt.with_max_events_in_memory(5), "not there yet"),
        (lambda bolt: bolt.with_message_id_field("id"), "not there yet"),
        (lambda bolt: EveryCount(0), "from 1 on"),
        (lambda bolt: EveryDuration(Count(1)), "EveryDuration"),
        (lambda bolt: Count(0), "at least 1"),
        (lambda bolt: Count(True), "whole number"),
        (lambda bolt: Duration(1.5), "whole number"),
    ],
)
def test_refused_at_the_call(call, says):
    with pytest.raises(InvalidTopologyError, match=says):
        call(Noting())


def topology(bolt, own_conf=None, fields=("value", "at")):
    builder = TopologyBuilder()
    builder.set_spout("a", FeederSpout(list(fields)))
    builder.set_bolt("windows", bolt).shuffle_grouping("a").add_configurations(own_conf)
    builder.set_bolt("last", LambdaBolt(lambda tup: None)).shuffle_grouping("windows")
    return builder.create_topology()


class DeclaresLate(Noting):
    outputs = {"default": ["window"], "late": ["value"]}


class HasExtractor(Noting):
    def timestamp_extractor(self):
        return len


@pytest.mark.parametrize(
    ("bolt", "says"),
    [
        (Noting().with_session_window(SECOND).with_tumbling_window(SECOND), "a session gap and a window length"),
        (Noting().with_window(SECOND, Duration(10)).with_trigger(EveryCount(1)), "has a trigger and windows of"),
        (Noting().with_tumbling_window(Count(2)).with_trigger(EveryCount(1)), "has a trigger and windows of"),
        (Noting().with_tumbling_window(SECOND).with_late_tuple_stream("late"), "a late tuple stream and no timestamps"),
        (Noting().with_tumbling_window(SECOND).with_lag(SECOND), "a lag and no timestamps"),
        (Noting().with_tumbling_window(SECOND).with_allowed_lateness(SECOND), "an allowed lateness and no timestamps"),
        (Noting().with_tumbling_window(SECOND).with_idle_timeout(SECOND), "an idle timeout and no timestamps"),
        (Noting().with_tumbling_window(SECOND).with_offset(SECOND), "an offset and no timestamps"),
        (
            Noting().with_tumbling_window(Count(2)).with_timestamp_field("at").with_allowed_lateness(SECOND),
            "has an allowed lateness and windows of",
        ),
        (
            DeclaresLate().with_tumbling_window(SECOND).with_timestamp_field("at").with_late_tuple_stream("late"),
            "also declared by DeclaresLate",
        ),
        (HasExtractor().with_tumbling_window(SECOND).with_timestamp_field("at"), "two timestamp sources"),
    ],
)
def test_refused_by_create_topology(bolt, says):
    with pytest.raises(InvalidTopologyError, match=says):
        topology(bolt)


def test_a_late_stream_in_the_declarers_configuration_needs_timestamps_too():
    with pytest.raises(InvalidTopologyError, match="no timestamps"):
        topology(Noting().with_tumbling_window(SECOND), {"topology.bolts.late.tuple.stream": "late"})


@pytest.mark.parametrize(
    ("bolt", "conf", "error", "says"),
    [
        (Noting(), {}, InvalidConfigError, "bolt 'windows' has no window length"),
        (
            Noting().with_window(Duration.seconds(25), Duration.seconds(6)),
            {},
            InvalidConfigError,
            r"31000 ms, .* topology.message.timeout.secs, 30 s",
        ),
        (
            Noting().with_window(Count(6), Count(5)),
            {"topology.max.spout.pending": 10},
            InvalidConfigError,
            "11 tuples, .* topology.max.spout.pending, 10",
        ),
        (
            Noting().with_tumbling_window(SECOND),
            {"topology.state.guarantee": "exactly-once"},
            InvalidTopologyError,
            "exactly-once",
        ),
        (Noting().with_tumbling_window(SECOND).with_timestamp_field("ts"), {}, InvalidTopologyError, "its timestamp"),
        (Noting().with_session_window(SECOND, ["value", "user"]), {}, InvalidTopologyError, "its session key .*'user'"),
        (
            Results().with_tumbling_window(SECOND).with_aggregate(Sum(), "amount", "value"),
            {},
            InvalidTopologyError,
            "its value .*'amount'",
        ),
        (
            Results().with_tumbling_window(SECOND).with_aggregate(Sum(), "value", "user"),
            {},
            InvalidTopologyError,
            "its key .*'user'",
        ),
        (
            Noting().with_trigger(EveryCount(1)),
            {"topology.bolts.window.length.count": 5},
            InvalidTopologyError,
            "has a trigger and windows of",
        ),
        (
            Noting(),
            {"topology.bolts.window.length.count": 5, "topology.bolts.window.length.duration.ms": 5},
            InvalidConfigError,
            "set one of them",
        ),
        (
            Noting().with_tumbling_window(SECOND).with_timestamp_field("at"),
            {"topology.bolts.late.tuple.stream": "late"},
            InvalidConfigError,
            "does not declare",
        ),
    ],
)
def test_refused_at_the_submit(bolt, conf, error, says):
    with pytest.raises(error, match=says):
        Run(bolt, conf, ("value", "at"))


def test_what_is_just_allowed_is_submitted():
    with Run(Noting().with_window(Duration.seconds(25), Duration.seconds(5))):
        pass
    with Run(Noting().with_window(Count(5), Count(5)), {"topology.max.spout.pending": 10}):
        pass
    with Run(Noting().with_tumbling_window(Duration.hours(1)), {"topology.enable.message.timeouts": False}):
        pass


LENGTH, TIME = "topology.bolts.window.length.count", "topology.bolts.window.length.duration.ms"
SLIDE = "topology.bolts.window.sliding.interval.count"


@pytest.mark.parametrize(
    ("bolt", "own_conf", "conf", "contents"),
    [
        (Noting(), {}, {LENGTH: 2, SLIDE: 2}, [["a", "b"], ["c", "d"]]),
        (Noting(), {}, {LENGTH: 2}, [["a"], ["a", "b"], ["b", "c"], ["c", "d"]]),
        (Noting(), {LENGTH: 4, SLIDE: 4}, {LENGTH: 2, SLIDE: 2}, [["a", "b", "c", "d"]]),
        (Noting(), {LENGTH: 4}, {TIME: 1, SLIDE: 2}, [["a", "b"], ["a", "b", "c", "d"]]),
        (Noting().with_tumbling_window(Count(2)), {LENGTH: 4, SLIDE: 4}, {TIME: 1}, [["a", "b"], ["c", "d"]]),
        (Noting().with_tumbling_window(Count(2)), {TIME: 1}, {SLIDE: 1}, [["a", "b"], ["c", "d"]]),
    ],
)
def test_a_bolts_method_wins_over_its_declarer_and_that_over_the_topology(bolt, own_conf, conf, contents):
    with Run(bolt, conf, own_conf=own_conf) as run:
        for value in "abcd":
            run.feed(value)
        assert run.contents == contents


def test_the_late_stream_of_the_declarers_configuration_is_declared():
    bolt = Noting().with_tumbling_window(Duration(10)).with_timestamp_field("at")
    own_conf = {"topology.bolts.late.tuple.stream": "late"}
    with Run(bolt, fields=("value", "at"), streams=["late"], own_conf=own_conf) as run:
        run.feed("a", 25)
        run.advance(1000)
        run.feed("late", 1)
        assert len(run.others["late"].captured) == 1


class CountsItself(Trigger):
    def onTuple(self, tup, window):
        self.count = getattr(self, "count", 0) + 1
        return self.count == 2


def test_a_trigger_may_be_spelt_as_in_java_and_count_in_its_attributes():
    with Run(Noting().with_tumbling_window(Duration(10)).with_trigger(CountsItself())) as run:
        for value in "abc":
            run.feed(value)
        assert run.contents == [["a", "b"]]
