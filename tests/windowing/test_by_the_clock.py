"""Windows by the clock: when they fire, to the millisecond, and what they hold."""

from pystorm_spark.windowing import FIRE_AND_PURGE, Count, Duration, EveryCount, EveryDuration, Trigger
from tests.windowing.running import Noting, Run


def test_count_windows_are_partial_at_first_and_then_slide():
    with Run(Noting().with_window(Count(3), Count(2))) as run:
        for value in range(6):
            run.feed(value)
        assert run.contents == [[0, 1], [1, 2, 3], [3, 4, 5]]
        assert {start for start, *_ in run.seen} == {None}


def test_without_a_slide_every_tuple_fires():
    with Run(Noting().with_window(Count(2))) as run:
        for value in range(3):
            run.feed(value)
        assert run.contents == [[0], [0, 1], [1, 2]]


def test_time_windows_fire_one_slide_after_the_start_and_every_slide_from_then_on():
    with Run(Noting().with_window(Duration.seconds(3), Duration.seconds(1))) as run:
        run.feed(0)
        run.advance(999)
        assert run.windows == []
        run.advance(1)
        assert run.windows == [(1000, [0])]
        run.advance(500)
        run.feed(1)
        run.advance(3500)
        assert run.windows == [(1000, [0]), (2000, [0, 1]), (3000, [0, 1]), (4000, [1])]


def test_a_tuple_at_the_very_moment_of_an_end_belongs_to_what_follows():
    with Run(Noting().with_tumbling_window(Duration(10))) as run:
        run.feed("start")
        run.advance(10)
        run.feed("end")
        run.advance(10)
        assert run.windows == [(10, ["start"]), (20, ["end"])]


def test_an_empty_window_does_not_fire_and_what_has_expired_is_told_at_the_next_firing():
    with Run(Noting().with_tumbling_window(Duration(10))) as run:
        run.feed("a")
        run.advance(50)
        run.feed("b")
        run.advance(10)
        assert [seen[3:] for seen in run.seen] == [(["a"], ["a"], []), (["b"], ["b"], ["a"])]


def test_several_ends_that_passed_while_the_task_was_held_up_fire_in_order():
    with Run(Noting().with_window(Duration(20), Duration(10))) as run:
        run.feed("a")
        run.advance(15)
        run.feed("b")
        _hold_up(run, 100)
        assert run.windows == [(10, ["a"]), (20, ["a", "b"]), (30, ["b"])]


def _hold_up(run, millis):
    """The clock moves, and the task hears of it later."""
    clock = run.cluster._clock
    clock.move_to(clock.monotonic() + millis / 1000)
    run.cluster.wait_until_idle()


def test_a_task_that_was_held_up_fires_before_it_takes_the_next_tuple():
    with Run(Noting().with_tumbling_window(Duration(10))) as run:
        run.feed("a")
        clock = run.cluster._clock
        clock.move_to(clock.monotonic() + 0.025)
        run.feed("b")
        run.advance(5)
        assert run.windows == [(10, ["a"]), (30, ["b"])]


def test_the_slide_may_be_in_tuples_and_the_length_in_time():
    with Run(Noting().with_window(Duration(10), Count(2))) as run:
        for value in range(6):
            run.feed(value)
            run.advance(4)
        assert [(start, end, values) for start, end, _, values, _, _ in run.seen] == [
            (-6, 4, [0, 1]),
            (2, 12, [1, 2, 3]),
            (10, 20, [3, 4, 5]),
        ]


def test_tuples_of_a_length_in_time_are_acked_when_that_has_passed_though_none_follows():
    with Run(Noting().with_window(Duration(10), Count(2))) as run:
        run.feed(0)
        run.advance(9)
        assert run.acked == []
        run.advance(1)
        assert run.acked == [0]


def test_the_last_tuples_fire_at_each_end_whether_or_not_one_is_new():
    with Run(Noting().with_window(Count(2), Duration(10))) as run:
        for value in range(3):
            run.feed(value)
        run.advance(20)
        assert run.windows == [(10, [1, 2]), (20, [1, 2])]
        assert run.acked == [0]


def test_tuples_between_two_windows_are_in_none_and_acked():
    with Run(Noting().with_window(Duration(5), Duration(20))) as run:
        run.feed("between")
        assert run.acked == [0]
        run.advance(16)
        run.feed("in")
        run.advance(4)
        assert run.windows == [(20, ["in"])]
        assert run.acked == [0, 1]


def test_a_slide_of_tuples_longer_than_the_length_leaves_tuples_out():
    with Run(Noting().with_window(Count(1), Count(3))) as run:
        for value in range(6):
            run.feed(value)
        assert run.contents == [[2], [5]]
        assert run.acked == [0, 1, 2, 3, 4, 5]


def test_sessions_fire_at_the_first_multiple_of_the_interval_at_or_after_their_end():
    bolt = Noting().with_session_window(Duration(30)).with_watermark_interval(Duration(20))
    with Run(bolt) as run:
        run.feed("a")
        run.advance(25)
        run.feed("b")  # ends at 55
        run.advance(34)
        assert run.seen == []
        run.advance(1)
        assert [seen[:4] for seen in run.seen] == [(0, 55, "on-time", ["a", "b"])]


def test_a_session_that_ends_at_a_multiple_fires_then_and_the_tuple_of_that_moment_begins_another():
    bolt = Noting().with_session_window(Duration(20)).with_watermark_interval(Duration(10))
    with Run(bolt) as run:
        run.feed("a")
        run.advance(20)
        assert [seen[:4] for seen in run.seen] == [(0, 20, "on-time", ["a"])]
        run.feed("b")
        run.advance(20)
        assert run.contents == [["a"], ["b"]]


def test_sessions_of_keys_fire_in_order_of_their_ends_and_then_of_first_arrival():
    bolt = Noting().with_session_window(Duration(10), key="value").with_watermark_interval(Duration(100))
    with Run(bolt) as run:
        for value in ("x", "y", "z"):
            run.feed(value)
        run.advance(5)
        run.feed("x")
        run.advance(95)
        assert run.contents == [["y"], ["z"], ["x", "x"]]
        assert run.acked == [0, 1, 2, 3]


def test_windows_go_on_while_the_topology_is_deactivated():
    with Run(Noting().with_tumbling_window(Duration(10))) as run:
        run.feed("a")
        run.cluster.deactivate("run")
        run.advance(10)
        assert run.windows == [(10, ["a"])]


def test_ticks_enter_no_window():
    conf = {"topology.tick.tuple.freq.secs": 0.01}
    with Run(Noting().with_window(Count(1)), conf) as run:
        run.advance(100)
        run.feed("a")
        run.advance(100)
        assert run.contents == [["a"]]


def test_previous_plus_new_minus_expired_is_this_window():
    with Run(Noting().with_window(Duration(30), Duration(10))) as run:
        before = []
        for value in range(12):
            run.feed(value)
            run.advance(7 if value % 4 else 60)
        for *_, values, new, expired in run.seen:
            assert [each for each in before + new if each not in expired] == values
            before = values


def test_a_trigger_fires_early_at_every_nth_tuple():
    with Run(Noting().with_tumbling_window(Duration(100)).with_trigger(EveryCount(2))) as run:
        for value in range(5):
            run.feed(value)
        assert [seen[2:4] for seen in run.seen] == [("early", [0, 1]), ("early", [0, 1, 2, 3])]
        run.advance(100)
        assert run.seen[-1][:4] == (0, 100, "on-time", [0, 1, 2, 3, 4])
        run.feed(5)
        run.feed(6)  # a window of its own, with a trigger of its own
        assert run.seen[-1][:4] == (100, 200, "early", [5, 6])


def test_a_trigger_fires_every_so_often_while_the_window_holds_anything():
    with Run(Noting().with_tumbling_window(Duration(100)).with_trigger(EveryDuration(Duration(30)))) as run:
        run.advance(30)
        run.feed("a")
        run.advance(70)
        assert [seen[1:3] for seen in run.seen] == [(100, "early"), (100, "early"), (100, "on-time")]


class Purging(Trigger):
    def on_tuple(self, tup, window):
        assert tup in window.get()
        return FIRE_AND_PURGE if len(window) == 2 else None


def test_purged_tuples_are_acked_and_the_end_fires_only_if_something_is_left():
    with Run(Noting().with_tumbling_window(Duration(100)).with_trigger(Purging())) as run:
        for value in range(4):
            run.feed(value)
        assert run.contents == [[0, 1], [2, 3]]
        assert run.acked == [0, 1, 2, 3]
        run.advance(100)
        assert len(run.seen) == 2


def test_a_trigger_without_a_length_has_one_window_without_an_end():
    with Run(Noting().with_trigger(EveryCount(2))) as run:
        run.advance(5)
        for value in range(4):
            run.feed(value)
        assert [seen[:4] for seen in run.seen] == [(None, 5, "early", [0, 1]), (None, 5, "early", [0, 1, 2, 3])]


class Raising(Trigger):
    def on_tuple(self, tup, window):
        raise ValueError("no decision")


def test_a_trigger_that_raises_is_reported_and_the_window_goes_on():
    with Run(Noting().with_tumbling_window(Duration(10)).with_trigger(Raising())) as run:
        run.feed("a")
        run.advance(10)
        assert run.contents == [["a"]]
        assert run.errors == ["ValueError: no decision"]


def test_each_task_fires_for_itself_and_one_that_had_nothing_does_not():
    with Run(Noting().with_tumbling_window(Duration(10)), tasks=4) as run:
        run.feed("a")
        run.advance(30)
        assert run.windows == [(10, ["a"])]


def test_sessions_fire_early_by_a_trigger_and_go_on():
    bolt = Noting().with_session_window(Duration(30), "value").with_watermark_interval(Duration(10))
    with Run(bolt.with_trigger(EveryCount(2))) as run:
        for value in "aba":
            run.feed(value)
        assert [seen[:4] for seen in run.seen] == [(0, 30, "early", ["a", "a"])]
        run.advance(20)
        run.feed("a")
        run.advance(30)
        assert [seen[:4] for seen in run.seen[1:]] == [(0, 30, "on-time", ["b"]), (0, 50, "on-time", ["a", "a", "a"])]
        assert run.seen[2][4:] == (["a"], [])


def test_the_key_of_a_session_is_that_of_its_window():
    class Keys(Noting):
        def execute(self, window):
            self.collector.emit([window.key])

    for key, expected in (("value", "a"), (["value"], ("a",)), (lambda tup: tup[0] * 2, "aa"), (None, None)):
        with Run(Keys().with_session_window(Duration(5), key).with_watermark_interval(Duration(5))) as run:
            run.feed("a")
            run.advance(5)
            assert run.seen == [expected]


def test_a_rebalance_begins_with_empty_windows():
    with Run(Noting().with_tumbling_window(Duration(10)), {"topology.message.timeout.secs": 2}) as run:
        run.feed("a")
        run.cluster.rebalance("run", wait_secs=0)
        run.feed("b")
        run.advance(20)
        assert run.contents == [["b"]]
        assert run.acked == [1]
