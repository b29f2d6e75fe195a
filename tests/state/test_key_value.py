"""KeyValueState: used like a dict, committed like a table."""

import datetime as dt
import enum
import re
import threading
import uuid
from collections import namedtuple
from dataclasses import dataclass, make_dataclass
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pystorm_spark.checkpoint.section import merge_sections, same_bytes
from pystorm_spark.errors import SerializationError
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.state.key_value import KEPT, KeyValueState, pairs_of
from pystorm_spark.topology.durable import PACKED
from tests.ids import shown

CODEC = ValueCodec()


class Colour(enum.Enum):
    RED = "red"


@dataclass(frozen=True)
class Point:
    x: int
    y: int


VALUES = [
    *(
        None,
        True,
        False,
        0,
        -1,
        2**63,
        -(2**70),
        1.5,
        float("inf"),
        "",
        "text",
        "\ud800",
        b"",
        b"bytes",
        bytearray(b"x"),
    ),
    *([1, [2]], (1, "a"), {"a": {1: None}}, {1, 2}, frozenset({3})),
    *(dt.datetime(2020, 1, 2, 3, 4, tzinfo=dt.timezone.utc), dt.date(2020, 1, 2), dt.timedelta(days=1)),
    *(Decimal("1.50"), uuid.UUID(int=7), Colour.RED, np.int64(5), Point(1, 2), 3 + 4j),
]
KEYS = [
    *(None, True, 2, -(2**70), 2.5, "word", "\ud800", b"bytes", ("a", 1), frozenset({3}), Decimal("1.5")),
    *(dt.date(2020, 1, 2), uuid.UUID(int=7), Colour.RED, Point(1, 2)),
]


def state_of(pairs=(), sections=()):
    state = KeyValueState(CODEC)
    state.restore(sections)
    for key, value in dict(pairs).items():
        state.put(key, value)
    return state


def key_of(code, data):
    return CODEC.unpack_rows(data, 1)[0][0] if code == PACKED else same_bytes(code, data)


# A dict.


def test_a_state_is_used_like_a_dict():
    state = state_of({"a": 1})
    state["b"] = 2
    assert (state["a"], state.get("b"), state.get("c"), state.get("c", 0)) == (1, 2, None, 0)
    assert ("a" in state, "c" in state, len(state), bool(state), bool(state_of())) == (True, False, 2, True, False)
    assert list(state) == list(state.items()) == [("a", 1), ("b", 2)]
    assert (list(state.keys()), list(state.values())) == (["a", "b"], [1, 2])
    assert repr(state) == "<KeyValueState of 2 keys>"


def test_a_state_is_changed_like_a_dict():
    state = state_of({"a": 1, "b": [2]})
    assert (state.pop("a"), state.pop("a", 0), state.pop("b"), len(state)) == (1, 0, [2], 0)
    with pytest.raises(KeyError, match="a"):
        state.pop("a")
    assert (state.setdefault("a", 1), state.setdefault("a", 2), state.setdefault("b")) == (1, 1, None)
    state.update({"b": 2}, c=3)
    state.update([("d", 4)])
    state.update(state_of({"e": 5}))
    assert dict(state) == {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
    state.clear()
    assert list(state) == []


def test_pop_clear_and_update_are_committed_and_rolled_back():
    state = state_of({"a": 1, "b": 2})
    before = state.prepare_commit()
    state.accept_prepared()
    state.pop("a")
    state.update(b=3, c=4)
    assert dict(state_of(sections=[before, state.prepare_commit()])) == {"b": 3, "c": 4}
    state.clear()
    state.rollback()
    assert dict(state) == {"a": 1, "b": 2}


def test_a_missing_key_raises_by_subscript_and_is_ignored_by_delete():
    state = state_of({"a": 1})
    del state["a"]
    state.delete("a")
    with pytest.raises(KeyError, match="a"):
        state["a"]
    with pytest.raises(KeyError, match="a"):
        del state["a"]
    assert list(state) == []


def test_a_state_may_be_changed_while_it_is_iterated():
    state = state_of({"a": 1, "b": 2})
    for key, value in state:
        state.delete(key)
        state.put(key + key, value)
    assert dict(state) == {"aa": 1, "bb": 2}


def test_a_state_has_javas_names():
    state = state_of({"a": 1})
    assert list(state.iterator()) == [("a", 1)]


def test_get_returns_a_copy():
    state = state_of({"a": [1]})
    for read in (state.get, state.__getitem__, dict(state).get, state.committed_value):
        if found := read("a"):
            found.append(2)
    assert state["a"] == [1]


def test_put_stores_a_copy():
    mine = {"seen": 1}
    state = state_of({"a": mine})
    mine["seen"] = 2
    assert state["a"] == {"seen": 1}


# Values and keys.


@pytest.mark.parametrize("value", VALUES, ids=shown)
def test_a_value_of_any_type_that_can_travel_is_the_same_after_a_restart(value):
    state = state_of({"key": value})
    restored = state_of(sections=[state.prepare_commit()])
    for found in (state["key"], restored["key"]):
        assert type(found) is type(value)
        assert found == value


def test_an_array_is_the_same_after_a_restart():
    state = state_of({"key": np.arange(6).reshape(2, 3)})
    (found,) = state_of(sections=[state.prepare_commit()]).values()
    np.testing.assert_array_equal(found, [[0, 1, 2], [3, 4, 5]])


def test_nan_is_a_valid_value():
    state = state_of({"key": float("nan")})
    (found,) = state_of(sections=[state.prepare_commit()]).values()
    assert found != found


@pytest.mark.parametrize("key", KEYS, ids=shown)
def test_a_key_of_any_type_that_can_be_hashed_and_travel_is_found_after_a_restart(key):
    state = state_of({key: 7})
    restored = state_of(sections=[state.prepare_commit()])
    assert (restored[key], [type(found) for found, _ in restored]) == (7, [type(key)])


def test_equal_keys_are_one_key():
    state = state_of({1: "a"})
    state.put(1.0, "b")
    state.put(True, "c")
    assert dict(state_of(sections=[state.prepare_commit()])) == {1: "c"}


LOCK = threading.Lock()


class Unpicklable:
    def __reduce__(self):
        raise TypeError("it is alive")

    def __repr__(self):
        return "<unpicklable>"


@dataclass
class Refusing:
    """Looks like a plain value, but cannot be stored."""

    @property
    def __dict__(self):
        raise RuntimeError("no more")


class Identical:
    def __repr__(self):
        return "<identical>"


def local_point():
    return make_dataclass("Point", ["x"], frozen=True)(1)


def local_colour():
    return enum.Enum("Colour", ["RED"]).RED


NAMED = f"a {__name__}.%s"
ELSEWHERE = "cannot be a key of the state: its class is defined in the main program or in a function"
UNPICKLED = f"cannot be pickled: cannot pickle '_thread.lock' object; {KEPT}"
ALIVE = f"{NAMED % 'Unpicklable'} cannot be pickled: it is alive; {KEPT}"
REFUSED = f"cannot be packed: RuntimeError: no more; {KEPT}"


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("word", LOCK, f"the value for key 'word' cannot be kept in the state: a _thread.lock {UNPICKLED}"),
        ("word", Unpicklable(), f"the value for key 'word' cannot be kept in the state: {ALIVE}"),
        ("word", [1, {"deep": Unpicklable()}], f"the value for key 'word' cannot be kept in the state: {ALIVE}"),
        ("word", Refusing(), f"the value for key 'word' cannot be kept in the state: {NAMED % 'Refusing'} {REFUSED}"),
        (Unpicklable(), 1, f"the key <unpicklable> cannot be kept in the state: {ALIVE}"),
        ((1, Unpicklable()), 1, f"the key (1, <unpicklable>) cannot be kept in the state: {ALIVE}"),
        (["list"], 1, "['list'] cannot be a key of the state: unhashable type"),
        ((["list"],), [2], "(['list'],) cannot be a key of the state: unhashable type"),
        (float("nan"), 1, "nan cannot be a key of the state: it is not equal to itself"),
        ((float("nan"),), 1, "(nan,) cannot be a key of the state: it is not equal to a copy of itself"),
        (Identical(), 1, "<identical> cannot be a key of the state: it is not equal to a copy of itself"),
        (local_point(), 1, f"Point(x=1) {ELSEWHERE}"),
        ((1, local_colour()), 1, f"(1, <Colour.RED: 1>) {ELSEWHERE}"),
    ],
    ids=[
        *("lock", "value", "inner value", "dataclass", "key", "inner key", "list as key", "list in key"),
        *("nan", "inner nan", "identity", "local dataclass", "inner local enum"),
    ],
)
def test_an_entry_that_cannot_be_stored_is_refused_with_its_key_and_changes_nothing(key, value, told):
    state = state_of({"other": 1})
    state.prepare_commit()
    state.accept_prepared()
    with pytest.raises(SerializationError, match=f"^{re.escape(told)}"):
        state.put(key, value)
    assert dict(state) == {"other": 1}
    assert not state.has_changed()


@pytest.mark.parametrize(
    "made",
    [
        lambda: namedtuple("Offset", ["part", "at"])("a", 1),
        lambda: enum.Enum("Colour", {"RED": "red"}, type=str).RED,
        lambda: (enum.IntEnum("Colour", ["RED"]).RED, 1.5),
        lambda: ("_make_skeleton_", 1.5),
    ],
    ids=["named tuple", "enum of texts", "enum of numbers in a tuple", "a text"],
)
def test_a_key_that_compares_equal_to_its_plain_value_is_found_after_a_restart(made):
    state = state_of({made(): 1})
    again = state_of(sections=[state.prepare_commit()])
    assert again.get(made()) == 1


class Locked(str):
    __slots__ = ("lock",)


def test_a_key_that_cannot_be_stored_is_refused_even_if_an_equal_one_exists():
    state = state_of({"x": 1})
    state.prepare_commit()
    state.accept_prepared()
    key = Locked("x")
    key.lock = LOCK
    with pytest.raises(SerializationError, match="the key 'x' cannot be kept"):
        state.put(key, 2)
    assert dict(state) == {"x": 1}


def test_a_value_that_cannot_be_stored_leaves_the_old_one():
    state = state_of({"word": 1})
    with pytest.raises(SerializationError):
        state.put("word", LOCK)
    assert state["word"] == 1


# Commits.


def test_a_commit_contains_only_the_changes():
    state = state_of({f"word{number}": number for number in range(1000)})
    state.prepare_commit()
    state.accept_prepared()
    state.put("word7", 0)
    state.delete("word8")
    assert len(state.prepare_commit()) < 50


def test_a_commit_leaves_no_changes():
    state = state_of({"a": 1})
    assert state.has_changed()
    state.prepare_commit()
    assert state.has_changed()
    state.accept_prepared()
    assert not state.has_changed()
    assert state.prepare_commit() is None


def test_an_aborted_commit_is_part_of_the_next_one():
    state = state_of({"a": 1})
    state.prepare_commit()
    state.put("b", 2)
    assert pairs_of([state.prepare_commit()], CODEC) == {"a": 1, "b": 2}


def test_a_key_that_was_deleted_and_put_again_survives_a_merge():
    first, second, third = state_of({"a": 1}).prepare_commit(), *changes_of({"a": 1}, [("a", None), ("a", 2)])
    merged = merge_sections([second, third], is_full=False, key_of=key_of)
    assert pairs_of([first, merged], CODEC) == pairs_of([first, second, third], CODEC) == {"a": 2}


def changes_of(pairs, changes):
    """Commit each of `changes` in turn; return the sections."""
    state = state_of(sections=[state_of(pairs).prepare_commit()])
    for key, value in changes:
        if value is None:
            state.delete(key)
        else:
            state.put(key, value)
        yield state.prepare_commit()
        state.accept_prepared()


def test_a_section_of_a_later_version_is_refused():
    with pytest.raises(SerializationError, match="unknown extension type 99"):
        state_of(sections=[b"\x92\xa1a\xd4\x63\x00"])


# Few keys, so that calls delete keys that others have put.
keys = st.sampled_from(["a", "b", 1, 1.0, None, ("a",), Decimal(1), "\ud800", 2**70])
values = st.one_of(st.integers(), st.none(), st.text(max_size=3), st.lists(st.integers(), max_size=2), st.just(2**70))

DELETE = object()


class Committing(RuleBasedStateMachine):
    """Any sequence of calls, compared with plain dicts of the current, prepared and committed state."""

    @initialize(is_empty=st.booleans())
    def begin(self, is_empty):
        self.state = KeyValueState(CODEC)
        self.now, self.prepared, self.committed = {}, None, {}
        self.written = []  # sections that make up what is committed
        self.proposed = None
        if not is_empty:
            self.put("a", 1)

    @rule(key=keys, value=values)
    def put(self, key, value):
        self.state.put(key, value)
        self.now[key] = value

    @rule(key=keys)
    def delete(self, key):
        self.state.delete(key)
        self.now.pop(key, None)

    @rule(is_full=st.booleans())
    def prepare(self, is_full):
        section = self.state.prepare_all() if is_full else self.state.prepare_commit()
        base = [] if is_full else self.written
        self.proposed = [*base, section] if section is not None else base
        self.prepared = dict(self.now)

    @precondition(lambda self: self.prepared is not None)
    @rule()
    def commit(self):
        self.state.accept_prepared()
        self.written, self.committed, self.prepared = self.proposed, self.prepared, None

    @rule(changes=st.dictionaries(keys, st.one_of(st.just(DELETE), values), max_size=4))
    def change_and_commit(self, changes):
        for key, value in changes.items():
            self.delete(key) if value is DELETE else self.put(key, value)
        self.prepare(is_full=False)
        self.commit()

    @rule()
    def roll_back(self):
        self.state.rollback()
        self.now, self.prepared = dict(self.committed), None

    @rule()
    def restart(self):
        self.state = KeyValueState(CODEC)
        self.state.restore(self.written)
        self.now, self.prepared = dict(self.committed), None

    @precondition(lambda self: len(self.written) > 1)
    @rule(data=st.data())
    def merge(self, data):
        start = data.draw(st.integers(0, len(self.written) - 2))
        merged = merge_sections(self.written[start:], start == 0, key_of)
        self.written = [*self.written[:start], merged]
        self.prepared = None  # the proposal refers to the previous sections

    @invariant()
    def it_is_what_the_dicts_say(self):
        if hasattr(self, "state"):
            assert dict(self.state) == self.now
            assert self.state.committed() == self.committed
            assert pairs_of(self.written, CODEC) == self.committed
            for key, value in self.committed.items():
                assert self.state.committed_value(key) == value


TestCommitting = Committing.TestCase
TestCommitting.settings = settings(max_examples=60, stateful_step_count=30)


@given(st.dictionaries(keys, values), st.dictionaries(keys, st.one_of(st.just(DELETE), values)))
def test_a_rollback_undoes_all_uncommitted_changes(before, changes):
    state = state_of(before)
    state.prepare_commit()
    state.accept_prepared()
    for key, value in changes.items():
        state.delete(key) if value is DELETE else state.put(key, value)
    state.rollback()
    assert dict(state) == before
    assert not state.has_changed()
