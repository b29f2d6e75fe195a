"""The sliding folds against folding anew, with the calls of the aggregator counted."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystorm_spark.aggregators import CombinerAggregator, Count, LongSum, Max, Mean, Min, Sum
from pystorm_spark.windowing.folding import EMPTY, Merging, SlidingFold, SubtractingFold, new_fold


class Counted(CombinerAggregator):
    """Concatenates, or adds if it is to be commutative; counts its calls."""

    def __init__(self, commutative=False):
        self.calls = 0
        self.commutative = commutative

    def init(self):
        return 0 if self.commutative else ()

    def apply(self, acc, value):
        self.calls += 1
        return acc + (value if self.commutative else (value,))

    def merge(self, acc, other):
        self.calls += 1
        return acc + other


class CountedInverse(Counted):
    def inverse(self, acc, other):
        self.calls += 1
        return acc - other


class InPlace(CombinerAggregator):
    """Changes its first argument and keeps the values of the second."""

    def init(self):
        return []

    def apply(self, acc, value):
        acc.append([value])
        return acc

    def merge(self, acc, other):
        acc.extend(other)
        return acc


def panes_of(steps):
    """[(pane, value)] and drops, in order, from drawn (gap, values, drop) steps."""
    pane = 0
    for gap, value, kept in steps:
        pane += gap
        yield pane, value, pane - kept


STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(-9, 9), st.integers(0, 12)), max_size=80)


@pytest.mark.parametrize("make", [Counted, InPlace])
@given(steps=STEPS)
def test_total_is_that_of_folding_anew_in_order(make, steps):
    aggregator = make()
    fold, model = SlidingFold(Merging(aggregator)), []
    for pane, value, first in panes_of(steps):
        fold.add(pane, aggregator.apply(aggregator.init(), value))
        model.append((pane, value))
        fold.drop_before(first)
        model = [entry for entry in model if entry[0] >= first]
        expected = aggregator.init()
        for _, each in model:
            expected = aggregator.apply(expected, each)
        assert (fold.total() if model else aggregator.init()) == expected
        assert bool(fold) == bool(model)


@pytest.mark.parametrize("make", [Counted, CountedInverse])
@given(steps=st.lists(st.tuples(st.integers(-6, 4), st.integers(-9, 9), st.integers(0, 12)), max_size=80))
def test_values_of_event_time_may_come_to_any_pane_that_is_there(make, steps):
    aggregator = make(commutative=True)
    fold, model, newest, first = new_fold(Merging(aggregator)), [], 0, -100
    for move, value, kept in steps:
        pane = max(first, newest + move)
        newest = max(newest, pane)
        fold.add(pane, value)
        model.append((pane, value))
        first = max(first, newest - kept)
        fold.drop_before(first)
        model = [entry for entry in model if entry[0] >= first]
        assert (fold.total() if fold else 0) == sum(each for _, each in model)
        assert bool(fold) == bool(model)


@pytest.mark.parametrize("make", [Counted, CountedInverse])
@pytest.mark.parametrize("length", [10, 100, 1000])
def test_a_slide_costs_at_most_three_calls_a_value_and_two_a_reading(make, length):
    aggregator = make(commutative=True)
    fold = new_fold(Merging(aggregator))
    readings = 0
    for number in range(20 * length):
        fold.add(number, aggregator.apply(aggregator.init(), number))
        fold.drop_before(number - length + 1)
        if number % 3 == 0:
            assert fold.total() == sum(range(max(0, number - length + 1), number + 1))
            readings += 1
    assert aggregator.calls <= 3 * 20 * length + 2 * readings


def test_late_values_cost_a_logarithm():
    aggregator = Counted(commutative=True)
    fold = SlidingFold(Merging(aggregator))
    for number in range(1024):
        fold.add(number, 1)
    fold.drop_before(1)
    before = aggregator.calls
    for number in range(1000, 0, -1):
        fold.add(number, 1)
        fold.total()
    assert aggregator.calls - before <= 1000 * 60
    assert fold.total() == 1023 + 1000


@settings(max_examples=200)
@given(steps=STEPS, breaks=st.sets(st.integers(0, 120), max_size=10))
def test_an_aggregator_that_raises_leaves_the_fold_as_it_was(steps, breaks):
    class Raising(InPlace):
        calls = 0

        def merge(self, acc, other):
            Raising.calls += 1
            merged = super().merge(acc, other)
            if Raising.calls in breaks:
                raise RuntimeError("no")
            return merged

    fold, model = SlidingFold(Merging(Raising())), []
    for pane, value, first in panes_of(steps):
        try:
            fold.add(pane, [[value]])
        except RuntimeError:
            continue
        model.append((pane, value))
        try:
            fold.drop_before(first)
            total = fold.total()
        except RuntimeError:
            continue
        finally:
            model = [entry for entry in model if entry[0] >= first]
        assert (total if model else EMPTY) == ([[each] for _, each in model] if model else EMPTY)


@pytest.mark.parametrize(
    ("aggregator", "values", "expected"),
    [
        (Count(), "abc", 3),
        (Sum(), [1, 2.5], 3.5),
        (LongSum(), [1, 1 << 70], 1 + (1 << 70)),
        (Min(), [3, 1, 2], 1),
        (Max(), [3, 1, 2], 3),
        (Min(), [], None),
        (Mean(), [1, 2], 1.5),
        (Mean(), [], None),
        (CombinerAggregator.of([], lambda acc, v: [*acc, v], lambda a, b: a + b), [1, 2], [1, 2]),
    ],
)
def test_given_aggregators(aggregator, values, expected):
    acc = aggregator.init()
    for value in values:
        acc = aggregator.apply(acc, value)
    assert aggregator.result(aggregator.merge(aggregator.init(), acc)) == expected


def test_min_keeps_the_first_of_equal_values():
    acc = Min().merge(Min().apply((), 1), Min().apply((), True))
    assert Min().result(acc) is not True


def test_every_fold_has_an_initial_value_of_its_own():
    aggregator = CombinerAggregator.of([], lambda acc, value: acc.append(value) or acc, lambda a, b: a + b)
    assert aggregator.apply(aggregator.init(), 1) == [1]
    assert aggregator.init() == []


def test_long_sum_refuses_what_is_no_whole_number():
    with pytest.raises(TypeError, match=r"LongSum adds whole numbers, got 1.5 of type float; use Sum"):
        LongSum().apply(0, 1.5)


def test_inverse_given_by_a_function_is_used():
    aggregator = CombinerAggregator.of(0, lambda a, v: a + v, lambda a, b: a + b, lambda a, b: a - b)
    assert isinstance(new_fold(Merging(aggregator)), SubtractingFold)
