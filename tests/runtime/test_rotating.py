"""Buckets turned by a timer: with n of them and a turn every T seconds, an entry stays for (n-1)·T to n·T."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pystorm_spark.runtime.rotating import RotatingMap

PERIOD = 30


@given(st.integers(0, 10 * PERIOD))
def test_with_two_buckets_an_entry_expires_between_one_and_two_periods(put_at):
    rotating = RotatingMap(2)
    for now in range(13 * PERIOD):
        if now and now % PERIOD == 0 and "key" in rotating.rotate():
            assert PERIOD <= now - put_at <= 2 * PERIOD
            return
        if now == put_at:
            rotating.put("key", "value")
    raise AssertionError("it never expired")


@given(st.integers(1, 6), st.integers(0, 9))
def test_an_entry_expires_at_the_rotation_that_has_its_bucket_count(buckets, rotations_before):
    rotating = RotatingMap(buckets)
    for _ in range(rotations_before):
        rotating.rotate()
    rotating.put("key", "value")
    assert [rotating.rotate() for _ in range(buckets)] == [{}] * (buckets - 1) + [{"key": "value"}]


def test_a_second_put_makes_an_entry_young_again():
    rotating = RotatingMap(2)
    rotating.put("key", "old")
    rotating.rotate()
    rotating.put("key", "new")
    assert rotating.rotate() == {}
    assert rotating.rotate() == {"key": "new"}


def test_expired_entries_come_in_the_order_they_were_put():
    rotating = RotatingMap(2)
    for key in "cab":
        rotating.put(key, None)
    rotating.rotate()
    assert list(rotating.rotate()) == ["c", "a", "b"]


def test_iteration_is_from_the_oldest_to_the_newest():
    rotating = RotatingMap(3)
    for key in "abc":
        rotating.put(key, None)
        rotating.rotate()
    rotating.put("d", None)
    assert list(rotating) == ["b", "c", "d"]


def test_an_entry_is_found_in_any_bucket():
    rotating = RotatingMap(2)
    rotating.put("old", 1)
    rotating.rotate()
    rotating.put("new", 2)
    assert (rotating.get("old"), rotating.get("new"), rotating.get("other")) == (1, 2, None)
    assert len(rotating) == 2


def test_a_popped_entry_does_not_expire():
    rotating = RotatingMap(2)
    rotating.put("key", 1)
    rotating.rotate()
    assert rotating.pop("key") == 1
    assert rotating.pop("key") is None
    assert rotating.rotate() == {}


OPERATIONS = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 4)), st.tuples(st.just("pop"), st.integers(0, 4)), st.just(("rotate", 0))
)


@given(st.integers(1, 4), st.lists(OPERATIONS, max_size=60))
def test_any_operations_agree_with_a_dict_of_ages(buckets, operations):
    rotating, ages = RotatingMap(buckets), {}
    for verb, key in operations:
        if verb == "put":
            rotating.put(key, key)
            ages[key] = 0
        elif verb == "pop":
            assert (rotating.pop(key) is None) == (ages.pop(key, None) is None)
        else:
            ages = {key: age + 1 for key, age in ages.items()}
            assert set(rotating.rotate()) == {key for key, age in ages.items() if age == buckets}
            ages = {key: age for key, age in ages.items() if age < buckets}
        assert set(rotating) == set(ages)
