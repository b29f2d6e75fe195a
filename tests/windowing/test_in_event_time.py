"""Windows of event time: watermarks, late tuples, idle streams."""

from datetime import datetime, timezone

import pytest

from pystorm_spark.windowing import CONTINUE, FIRE_AND_PURGE, Count, DetachedTuple, Duration, EveryCount, Trigger
from tests.windowing.running import Noting, Run

FIELDS = ("value", "at")


def noting():
    return Noting().with_timestamp_field("at")


def test_the_worked_example_of_storms_documentation():
    bolt = noting().with_window(Duration.seconds(20), Duration.seconds(10)).with_lag(Duration.seconds(5))
    six, eight = 6 * 3_600_000, 8 * 3_600_000
    with Run(bolt, {"topology.message.timeout.secs": 60}, FIELDS) as run:
        for second in (3, 5, 7, 18, 26, 36):
            run.feed(second, six + second * 1000)
        run.advance(1000)
        assert [(end - six, values) for end, values in run.windows] == [
            (10_000, [3, 5, 7]),
            (20_000, [3, 5, 7, 18]),
            (30_000, [18, 26]),
        ]
        for second in (25, 26, 27, 39):
            run.feed(second, eight + second * 1000)
        run.advance(1000)
        assert run.windows[3:] == [
            (six + 40_000, [26, 36]),
            (six + 50_000, [36]),
            (eight + 30_000, [25, 26, 27]),
        ]


def test_the_watermark_is_computed_every_interval_and_never_between():
    bolt = noting().with_tumbling_window(Duration(10)).with_watermark_interval(Duration(50))
    with Run(bolt, fields=FIELDS) as run:
        run.feed("a", 5)
        run.feed("b", 100)
        run.advance(49)
        assert run.seen == []
        run.advance(1)
        assert run.windows == [(10, ["a"]), (100, ["b"])]


@pytest.mark.parametrize("where", ["own_conf", "conf"])
def test_the_interval_and_the_lag_may_be_configured(where):
    conf = {
        "topology.bolts.watermark.event.interval.ms": 50,
        "topology.bolts.tuple.timestamp.max.lag.ms": 30,
    }
    with Run(noting().with_tumbling_window(Duration(10)), fields=FIELDS, **{where: conf}) as run:
        run.feed("a", 5)
        run.feed("b", 35)
        run.advance(50)
        assert run.windows == []
        run.feed("c", 40)
        run.advance(50)
        assert run.windows == [(10, ["a"])]


def test_ends_are_multiples_of_the_slide_since_1970_and_negative_timestamps_too():
    with Run(noting().with_tumbling_window(Duration(10)), fields=FIELDS) as run:
        run.feed("a", -25)
        run.feed("b", -20)
        run.feed("c", -19)
        run.feed("d", 1000)
        run.advance(1000)
        assert run.windows[:2] == [(-20, ["a", "b"]), (-10, ["c"])]


def test_an_offset_shifts_the_ends():
    with Run(noting().with_tumbling_window(Duration(10)).with_offset(Duration(3)), fields=FIELDS) as run:
        for at in (3, 4, 13, 14, 100):
            run.feed(at, at)
        run.advance(1000)
        assert run.windows[:3] == [(3, [3]), (13, [4, 13]), (23, [14])]


def test_tuples_come_in_order_of_arrival_and_not_of_their_timestamps():
    with Run(noting().with_tumbling_window(Duration(10)), fields=FIELDS) as run:
        for at in (7, 3, 5, 20):
            run.feed(at, at)
        run.advance(1000)
        assert run.contents[0] == [7, 3, 5]


def test_a_gap_of_years_is_not_stepped_through():
    with Run(noting().with_window(Duration(2000), Duration(1)), fields=FIELDS) as run:
        run.feed("a", 0)
        run.feed("b", 100 * 365 * 86_400_000)
        run.advance(1000)
        assert len(run.seen) == 2001


def test_the_watermark_waits_for_every_input_stream():
    with Run(noting().with_tumbling_window(Duration(10)), fields=FIELDS, sources="ab") as run:
        run.feed("a", 5)
        run.feed("b", 100)
        run.advance(5000)
        assert run.seen == []
        run.feed("c", 12, source="b")
        run.advance(1000)
        assert run.windows == [(10, ["a"])]


def test_an_idle_stream_is_not_waited_for_and_an_old_tuple_of_it_is_late():
    bolt = noting().with_tumbling_window(Duration(10)).with_idle_timeout(Duration(3000))
    with Run(bolt, fields=FIELDS, sources="ab") as run:
        for _ in range(3):
            run.feed("a", 5)
            run.feed("b", 25)
            run.advance(1000)
        assert run.windows == [(10, ["a"] * 3)]  # stream "b" has had no tuple since the start
        run.feed("old", 5, source="b")
        run.advance(1000)
        assert 6 in run.acked
        run.feed("c", 100)
        run.advance(1000)
        assert len(run.seen) == 1  # it counts again: the watermark stays


def test_what_is_held_fires_when_all_streams_are_idle():
    bolt = noting().with_tumbling_window(Duration(10)).with_idle_timeout(Duration(3000))
    with Run(bolt, fields=FIELDS) as run:
        run.feed("a", 95)
        run.advance(2999)
        assert run.seen == []
        run.advance(1)
        assert run.windows == [(100, ["a"])]


def test_idle_sessions_fire_and_incomplete_slides_of_tuples_stay():
    sessions = noting().with_session_window(Duration(10)).with_idle_timeout(Duration(2000))
    with Run(sessions, fields=FIELDS) as run:
        run.feed("a", 5)
        run.advance(2000)
        assert run.windows == [(15, ["a"])]
    counts = noting().with_window(Count(2), Count(2)).with_idle_timeout(Duration(2000))
    with Run(counts, fields=FIELDS) as run:
        for value in "abc":
            run.feed(value, 5)
        run.advance(5000)
        assert run.contents == [["a", "b"]]


class PurgingBig(Trigger):
    def on_tuple(self, tup, window):
        return FIRE_AND_PURGE if tup[0] == "big" else CONTINUE


@pytest.mark.parametrize("kind", ["tumbling", "session"])
def test_a_window_that_was_purged_moves_no_watermark_when_all_streams_are_idle(kind):
    bolt = noting().with_idle_timeout(Duration.seconds(1)).with_trigger(PurgingBig())
    bolt = bolt.with_tumbling_window(Duration(10)) if kind == "tumbling" else bolt.with_session_window(Duration(10))
    with Run(bolt, {"topology.bolts.tuple.timestamp.max.lag.ms": 1_000_000}, FIELDS) as run:
        run.feed("small", 5)
        run.feed("big", 5000)
        run.advance(1000)
        assert run.contents == [["big"], ["small"]]
        run.feed("next", 3000)
        run.advance(1000)
        assert run.contents == [["big"], ["small"], ["next"]]


def test_a_late_tuple_is_acked_and_in_no_window():
    with Run(noting().with_tumbling_window(Duration(10)), fields=FIELDS) as run:
        run.feed("a", 25)
        run.advance(1000)
        run.feed("late", 24)
        run.feed("b", 25)
        run.feed("c", 100)
        run.advance(1000)
        assert run.windows == [(30, ["a", "b"]), (100, ["c"])]
        assert run.acked == [0, 1, 2, 3]


def test_a_tuple_at_the_watermark_whose_windows_have_all_fired_is_late():
    bolt = noting().with_tumbling_window(Duration(10)).with_late_tuple_stream("late")
    with Run(bolt, fields=FIELDS, streams=["late"]) as run:
        run.feed("a", 20)
        run.advance(1000)
        assert run.windows == [(20, ["a"])]
        run.feed("b", 20)
        assert [row[0].values for row in run.others["late"].captured] == [["b", 20]]


def test_late_tuples_go_to_their_stream_detached():
    bolt = noting().with_tumbling_window(Duration(10)).with_late_tuple_stream("late")
    with Run(bolt, fields=FIELDS, streams=["late"]) as run:
        run.feed("a", 25)
        run.advance(1000)
        run.feed("b", 5)
        (row,) = run.others["late"].captured
        assert isinstance(row[0], DetachedTuple)
        assert row[0].values == ["b", 5]
        assert row[0].source_component == "a"
        assert row[0].get_value_by_field("at") == 5
        assert 1 in run.acked


def test_a_tuple_within_the_lateness_fires_its_windows_again():
    bolt = noting().with_window(Duration(20), Duration(10)).with_allowed_lateness(Duration(30))
    with Run(bolt, fields=FIELDS) as run:
        run.feed("a", 5)
        run.feed("b", 32)
        run.advance(1000)
        run.feed("c", 6)
        assert [seen[1:4] for seen in run.seen] == [
            (10, "on-time", ["a"]),
            (20, "on-time", ["a"]),
            (10, "late", ["a", "c"]),
            (20, "late", ["a", "c"]),
        ]
        run.feed("d", 1)
        assert len(run.seen) == 4
        assert 3 in run.acked


def test_a_late_tuple_merges_a_session_that_has_fired():
    bolt = noting().with_session_window(Duration(10)).with_allowed_lateness(Duration(100))
    with Run(bolt, fields=FIELDS) as run:
        for value, at in (("a", 0), ("b", 15), ("c", 60)):
            run.feed(value, at)
        run.advance(1000)
        run.feed("d", 8)
        assert [seen[:4] for seen in run.seen] == [
            (0, 10, "on-time", ["a"]),
            (15, 25, "on-time", ["b"]),
            (0, 25, "late", ["a", "b", "d"]),
        ]


def test_slides_of_tuples_count_what_the_watermark_has_reached_in_order_of_arrival():
    with Run(noting().with_window(Count(2), Count(2)), fields=FIELDS) as run:
        for value, at in (("a", 9), ("b", 50), ("c", 3), ("d", 5), ("e", 7), ("f", 20)):
            run.feed(value, at)
        run.advance(1000)
        assert run.contents == [["a", "b"], ["c", "d"], ["e", "f"]]
        assert [seen[1] for seen in run.seen] == [50, 50, 50]


def test_the_last_tuples_at_each_end_from_the_first_on():
    with Run(noting().with_window(Count(2), Duration(10)), fields=FIELDS) as run:
        for value, at in (("a", 5), ("b", 25), ("c", 4), ("d", 30)):
            run.feed(value, at)
        run.advance(1000)
        assert run.windows == [(10, ["a", "c"]), (20, ["a", "c"]), (30, ["c", "d"])]


def test_a_datetime_with_a_time_zone_is_a_timestamp():
    with Run(noting().with_tumbling_window(Duration(1000)), fields=FIELDS) as run:
        run.feed("a", datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=timezone.utc))
        run.feed("b", 3000)
        run.advance(1000)
        assert run.windows == [(2000, ["a"]), (3000, ["b"])]


@pytest.mark.parametrize("at", [None, True, 1.5, "12", datetime(2020, 1, 1)])
def test_a_timestamp_of_another_type_fails_its_tuple_alone(at):
    with Run(noting().with_tumbling_window(Duration(10)), fields=FIELDS) as run:
        run.feed("bad", at)
        run.feed("good", 10)
        run.advance(1000)
        assert run.failed == [0]
        assert run.contents == [["good"]]
        (error,) = run.info.errors
        assert "timestamp" in error.exception
        assert "value='bad'" in error.input


def extractor_that_raises(tup):
    return 1000 // tup[1]


def test_an_extractor_that_raises_fails_its_tuple_alone():
    bolt = Noting().with_tumbling_window(Duration(10)).with_timestamp_extractor(extractor_that_raises)
    with Run(bolt, fields=FIELDS) as run:
        run.feed("bad", 0)
        run.feed("good", 1)
        run.advance(1000)
        assert run.failed == [0]
        assert run.windows == [(1000, ["good"])]


class JavasExtractor:
    def extractTimestamp(self, tup):
        return tup[1]


class Ported(Noting):
    def getTimestampExtractor(self):
        return JavasExtractor()


def test_a_bolt_may_define_javas_get_timestamp_extractor():
    with Run(Ported().withTumblingWindow(Duration.of(10)), fields=FIELDS) as run:
        run.feed("a", 10)
        run.advance(1000)
        assert run.windows == [(10, ["a"])]


def test_triggers_fire_windows_of_event_time_early_and_the_end_comes_all_the_same():
    bolt = noting().with_tumbling_window(Duration(10)).with_trigger(EveryCount(2))
    with Run(bolt, fields=FIELDS) as run:
        for value, at in (("a", 1), ("b", 12), ("c", 2), ("d", 30)):
            run.feed(value, at)
        assert [seen[1:4] for seen in run.seen] == [(10, "early", ["a", "c"])]
        run.advance(1000)
        assert [seen[1:4] for seen in run.seen[1:]] == [
            (10, "on-time", ["a", "c"]),
            (20, "on-time", ["b"]),
            (30, "on-time", ["d"]),
        ]
