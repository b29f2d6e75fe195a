"""Aggregates of windows, as a bolt sees them."""

import pytest

from pystorm_spark.aggregators import CombinerAggregator, Count, LongSum, Max, Mean, Sum
from pystorm_spark.windowing import FIRE, Duration, EveryCount, Trigger
from pystorm_spark.windowing import Count as Tuples
from tests.windowing.running import Results, Run


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (lambda bolt: bolt.with_window(Tuples(3), Tuples(2)), [3, 9, 15]),
        (lambda bolt: bolt.with_window(Duration(10), Tuples(2)), [3, 10, 21]),
        (lambda bolt: bolt.with_tumbling_window(Duration(10)), [21]),
        (lambda bolt: bolt.with_window(Duration(20), Duration(10)), [21, 21]),
        (lambda bolt: bolt.with_window(Tuples(2), Duration(10)), [11, 11]),
        (lambda bolt: bolt.with_session_window(Duration(15)).with_watermark_interval(Duration(1)), [21]),
        (lambda bolt: bolt.with_trigger(EveryCount(2)), [3, 10, 21]),
    ],
)
def test_each_kind_of_window_has_its_aggregate(window, expected):
    with Run(window(Results()).with_aggregate(Sum())) as run:
        for value in range(1, 7):
            run.feed(value)
        run.advance(20)
        assert [result for _, result, _ in run.seen] == expected
        assert run.errors == []


def test_with_a_key_there_is_a_result_for_each_key_that_the_window_holds():
    bolt = Results().with_window(Duration(20), Duration(10)).with_aggregate(Count(), key="value")
    with Run(bolt) as run:
        for value in "aab":
            run.feed(value)
        run.advance(10)
        run.feed("c")
        run.advance(20)
        assert run.seen == [(10, {"a": 2, "b": 1}, 3), (20, {"a": 2, "b": 1, "c": 1}, 4), (30, {"c": 1}, 1)]


def test_the_value_may_be_a_field_or_a_function_and_the_key_a_list():
    for value in ("amount", lambda tup: tup[1]):
        bolt = Results().with_tumbling_window(Duration(10)).with_aggregate(Max(), value, key=["value", "amount"])
        with Run(bolt, fields=("value", "amount")) as run:
            run.feed("a", 3)
            run.feed("a", 5)
            run.advance(10)
            assert run.seen == [(10, {("a", 3): 3, ("a", 5): 5}, 2)]


def test_a_late_tuple_joins_the_aggregate_of_its_windows():
    bolt = Results().with_window(Duration(20), Duration(10)).with_aggregate(LongSum(), "value")
    bolt = bolt.with_timestamp_field("at").with_allowed_lateness(Duration(50))
    with Run(bolt, fields=("value", "at")) as run:
        run.feed(1, 5)
        run.feed(2, 30)
        run.advance(1000)
        run.feed(10, 4)
        run.feed(100, 25)
        run.feed(1000, 90)
        run.advance(1000)
        assert [(end, result) for end, result, _ in run.seen] == [
            (10, 1),
            (20, 1),
            (30, 2),
            (10, 11),
            (20, 11),
            (30, 102),
            (40, 102),
            (90, 1000),
        ]


def test_mutable_accumulators_are_shared_neither_between_keys_nor_with_the_bolt():
    appending = CombinerAggregator.of([], lambda acc, value: acc.append(value) or acc, lambda acc, other: acc + other)

    class Spoiling(Results):
        def execute(self, window):
            found = {key: list(result) for key, result in window.results.items()}
            self.collector.emit([(window.timing, found)], anchors=())
            for result in window.results.values():
                result.append("spoilt")

    bolt = (
        Spoiling().with_tumbling_window(Duration(10)).with_trigger(EveryCount(2)).with_aggregate(appending, key=first)
    )
    with Run(bolt) as run:
        for value in ("a1", "b1", "a2"):
            run.feed(value)
        run.advance(10)
        assert run.seen[1][1] == {"a": ["a1", "a2"], "b": ["b1"]}


def first(tup):
    return tup[0][0]


class Reads(Results):
    def __init__(self, read):
        self.read = read

    def execute(self, window):
        self.collector.emit([self.read(window)], anchors=())


@pytest.mark.parametrize(
    "read",
    [
        lambda window: window.get(),
        lambda window: window.get_iter(),
        lambda window: window.get_new(),
        lambda window: window.get_expired(),
        lambda window: list(window),
        lambda window: window.results,
    ],
)
def test_tuples_and_results_that_an_aggregate_does_not_have_are_errors(read):
    with Run(Reads(read).with_tumbling_window(Tuples(1)).with_aggregate(Mean())) as run:
        run.feed(1)
        (error,) = run.errors
        assert "StormError: window." in error
        assert run.failed == [0]


@pytest.mark.parametrize("read", [lambda window: window.result, lambda window: window.results])
def test_a_window_of_tuples_has_no_result(read):
    with Run(Reads(read).with_tumbling_window(Tuples(1))) as run:
        run.feed(1)
        assert "read window.get()" in run.errors[0]


def apply_raises(acc, value):
    if value == "bad":
        raise ValueError("cannot apply")
    return acc + 1


@pytest.mark.parametrize(
    "window",
    [
        lambda bolt: bolt.with_window(Tuples(2), Tuples(1)),
        lambda bolt: bolt.with_window(Duration(10), Tuples(1)),
        lambda bolt: bolt.with_tumbling_window(Duration(10)),
        lambda bolt: bolt.with_window(Tuples(3), Duration(10)),
        lambda bolt: bolt.with_session_window(Duration(5)).with_watermark_interval(Duration(5)),
        lambda bolt: bolt.with_tumbling_window(Duration(10)).with_trigger(NeverFires()),
    ],
)
def test_an_aggregator_that_raises_in_apply_fails_that_tuple_alone(window):
    counting = CombinerAggregator.of(0, apply_raises, lambda acc, other: acc + other)
    with Run(window(Results()).with_aggregate(counting)) as run:
        for value in ("good", "bad", "good"):
            run.feed(value)
        run.advance(10)
        assert run.seen[-1][1:] == (2, 2)
        assert run.failed == [1]
        (error,) = run.info.errors
        assert "ValueError: cannot apply" in error.exception
        assert "'bad'" in error.input


class NeverFires(Trigger):
    pass


def test_an_aggregator_that_raises_in_merge_fails_the_window_and_the_task_goes_on():
    def merge(acc, other):
        if "bad" in acc + other:
            raise ValueError("cannot merge")
        return acc + other

    joining = CombinerAggregator.of((), lambda acc, value: (*acc, value), merge)
    with Run(Results().with_window(Tuples(2), Tuples(1)).with_aggregate(joining)) as run:
        for value in ("a", "bad", "c", "d"):
            run.feed(value)
        assert [result for _, result, _ in run.seen] == [("a",), ("c",), ("c", "d")]
        assert run.failed == [0, 1]
        assert "ValueError: cannot merge" in run.errors[0]


def test_an_inverse_that_raises_fails_the_window_and_the_task_goes_on():
    def inverse(acc, other):
        raise ValueError("cannot subtract")

    summing = CombinerAggregator.of(0, lambda acc, value: acc + value, lambda acc, other: acc + other, inverse)
    with Run(Results().with_window(Tuples(2), Tuples(1)).with_aggregate(summing)) as run:
        for value in (1, 2, 4, 8, 16):
            run.feed(value)
        assert [result for _, result, _ in run.seen] == [1, 3, 8, 24]
        assert run.failed == [1, 2]


def test_a_key_that_cannot_be_hashed_fails_its_tuple_alone():
    for bolt in (
        Results().with_tumbling_window(Duration(10)).with_aggregate(Count(), key=unhashable),
        Results().with_session_window(Duration(5), key=unhashable).with_aggregate(Count(), key=lambda tup: 1),
    ):
        with Run(bolt.with_watermark_interval(Duration(10))) as run:
            run.feed("list")
            run.feed("a")
            run.advance(10)
            assert run.failed == [0]
            assert [result for _, result, _ in run.seen] in ([{"a": 1}], [{1: 1}])


def unhashable(tup):
    return [] if tup[0] == "list" else tup[0]


def test_a_trigger_reads_the_aggregate():
    class Above(Trigger):
        def on_tuple(self, tup, window):
            return FIRE if window.result > 5 else None

    with Run(Results().with_trigger(Above()).with_aggregate(Sum())) as run:
        for value in (1, 2, 3, 4):
            run.feed(value)
        assert [result for _, result, _ in run.seen] == [6, 10]
        assert run.errors == []
