"""Slides in tuples against a model that counts from the beginning each time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystorm_spark.aggregators import CombinerAggregator
from pystorm_spark.windowing.entry import Entry
from pystorm_spark.windowing.kinds.count_slides import CountSlides
from pystorm_spark.windowing.units import Count, Duration
from tests.windowing.kinds.driving import ADDING, APPENDING, Drive

LENGTHS = st.builds(Count, st.integers(1, 8)) | st.builds(Duration, st.integers(1, 15))


class Model:
    """All entries that have counted, in order."""

    def __init__(self, length, slide, in_event_time):
        self.length, self.slide, self.in_event_time = length, slide, in_event_time
        self.watermark, self.waiting, self.counted, self.fired = None, [], [], []

    def add(self, number, at):
        if self.in_event_time and self.watermark is not None and at < self.watermark:
            return False
        if self.in_event_time and (self.watermark is None or at > self.watermark):
            self.waiting.append((number, at))
        else:
            self.count(number, at)
        return True

    def advance(self, watermark):
        self.watermark = watermark
        reached = [entry for entry in self.waiting if entry[1] <= watermark]
        self.waiting = [entry for entry in self.waiting if entry[1] > watermark]
        for number, at in sorted(reached):
            self.count(number, at)

    def count(self, number, at):
        self.counted.append((number, at))
        if len(self.counted) % self.slide == 0:
            highest = max(at for _, at in self.counted)
            start = None if isinstance(self.length, Count) else highest - self.length.value
            held = self.within(len(self.counted), highest)
            self.fired.append((start, highest, "on-time", sorted(held)))

    def within(self, count, highest):
        if isinstance(self.length, Count):
            return [number for number, _ in self.counted[max(0, count - self.length.value) :]]
        return [number for number, at in self.counted if at > highest - self.length.value]

    def held(self):
        if not self.counted:
            return {number for number, _ in self.waiting}
        next_count = (len(self.counted) // self.slide + 1) * self.slide
        highest = max(at for _, at in self.counted)
        if not self.in_event_time and self.watermark is not None:
            highest = max(highest, self.watermark)
        return set(self.within(next_count, highest)) | {number for number, _ in self.waiting}


@settings(max_examples=200)
@given(
    length=LENGTHS,
    slide=st.integers(1, 9),
    steps=st.lists(st.tuples(st.booleans(), st.integers(-20, 40)), max_size=60),
    is_aggregated=st.booleans(),
)
def test_count_slides_of_event_time_are_those_of_the_model(length, slide, steps, is_aggregated):
    drive = Drive(CountSlides(length, slide, in_event_time=True, aggregator=ADDING if is_aggregated else None))
    model = Model(length, slide, in_event_time=True)
    for number, (is_entry, at) in enumerate(steps):
        if is_entry:
            assert drive.add(at, group=number % 3) == model.add(len(drive.entries) - 1, at)
        elif model.watermark is None or at > model.watermark:
            drive.advance(at)
            model.advance(at)
        assert drive.fired == model.fired
        assert drive.held == model.held()


@settings(max_examples=200)
@given(
    length=LENGTHS,
    slide=st.integers(1, 9),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=60),
    is_aggregated=st.booleans(),
)
def test_count_slides_by_the_clock_are_those_of_the_model(length, slide, steps, is_aggregated):
    kind = CountSlides(length, slide, aggregator=APPENDING if is_aggregated else None)
    drive, model, now = Drive(kind, fold=tuple), Model(length, slide, in_event_time=False), 1000
    for is_entry, passed in steps:
        now += passed
        drive.advance(now)
        model.watermark = now
        if is_entry:
            drive.add(now)
            model.add(len(drive.entries) - 1, now)
        assert drive.fired == model.fired
        assert drive.held == model.held()


def test_the_first_windows_are_partial():
    drive = Drive(CountSlides(Count(30), 10))
    for _ in range(50):
        drive.add(0)
    assert [(numbers[0], numbers[-1]) for *_, numbers in drive.fired] == [(0, 9), (0, 19), (0, 29), (10, 39), (20, 49)]


def test_a_merge_that_is_not_commutative_keeps_the_order():
    drive = Drive(CountSlides(Count(6), 4, aggregator=APPENDING), fold=tuple)
    for at in range(40):
        drive.add(at)
    assert len(drive.fired) == 10  # Drive compares each aggregate with folding anew


@pytest.mark.parametrize("length", [Count(4), Duration(4)])
@pytest.mark.parametrize("in_event_time", [True, False])
def test_what_fails_leaves_all_windows(length, in_event_time):
    drive = Drive(CountSlides(length, 2, in_event_time=in_event_time, aggregator=ADDING), fails=[2])
    for at in range(8):
        drive.add(at)
        drive.advance(at)
    assert drive.failed == {0, 1, 2, 3}
    assert [numbers for *_, numbers in drive.fired] == [[0, 1], [0, 1, 2, 3], [4, 5], [4, 5, 6, 7]]


@pytest.mark.parametrize("aggregator", [None, ADDING])
def test_a_window_of_which_all_tuples_have_failed_does_not_fire(aggregator):
    drive = Drive(CountSlides(Duration(10), 1, in_event_time=True, aggregator=aggregator), fails={1})
    for at in (100, 50, 95, 105):
        drive.add(at)
    drive.advance(105)
    assert drive.fired == [
        (90, 100, "on-time", [0]),  # fails
        (90, 100, "on-time", [2]),  # nothing was left for the tuple before it, which was too old
        (95, 105, "on-time", [3]),
    ]
    assert drive.failed == {0}
    assert drive.held == {3}


def test_a_value_that_cannot_be_applied_fails_alone_and_does_not_count():
    picky = CombinerAggregator.of(0, lambda acc, value: acc + 1 // (value != 2), lambda acc, other: acc + other)
    drive = Drive(CountSlides(Count(2), 2, in_event_time=True, aggregator=picky), fold=len)
    for _ in range(5):
        drive.add(1)
    drive.advance(1)
    assert [numbers for *_, numbers in drive.fired] == [[0, 2], [3, 4]]
    assert [(entry.number, type(error)) for entry, error in drive.kind.failed] == [(1, ZeroDivisionError)]


@pytest.mark.parametrize("length", [10, 100, 1000])
@pytest.mark.parametrize("kind", ["Count", "Duration"])
def test_aggregates_cost_the_same_whatever_the_length(length, kind):
    calls = []
    counted = CombinerAggregator.of(
        0, lambda acc, value: calls.append(1) or acc + value, lambda acc, other: calls.append(1) or acc + other
    )
    extent = Count(length) if kind == "Count" else Duration(length)
    drive = Drive(CountSlides(extent, 1, aggregator=counted))
    for number in range(3 * length):
        for firing in drive.kind.add(Entry(None, number, number, None, None, 1)):
            assert firing.totals == {None: min(number + 1, length)}
        drive.kind.released.clear()
    assert len(calls) <= (3 + 2) * 3 * length
