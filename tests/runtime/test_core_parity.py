"""Both cores behave alike: the same calls have the same results and exceptions, and leave equal objects.

Hypothesis draws a program: a list of calls with their arguments. It runs on two equal stages, once with the compiled
functions and once with Python's own. Every outcome is compared, and at the end every object of the stages.
"""

from __future__ import annotations

import logging
from array import array
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystorm_spark.core import CORE
from pystorm_spark.runtime import arrivals, spout_collector
from pystorm_spark.runtime.codec import arrow_rows
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.runtime.durable import uncommitted
from pystorm_spark.runtime.durable.committed_ids import CommittedIds
from pystorm_spark.runtime.durable.uncommitted import UncommittedOutcomes
from pystorm_spark.runtime.trees import ROLLED_BACK, UNTRACKED
from pystorm_spark.state.key_value import KeyValueState

from .slots import TIMEOUT_SECS, CountingRandom
from .twins import compiled_functions, drawn, outcome, python_alone, stage

pytestmark = [
    pytest.mark.slow,
    pytest.mark.core,
    pytest.mark.skipif(CORE != "compiled", reason="the compiled core does not run"),
]

KEYS = st.sampled_from(
    [
        "",
        "a",
        "b",
        "c",
        "word",
        "x" * 64,
        "x" * 65,
        "é",
        "語",
        "\ud800",
        0,
        1,
        1.0,
        True,
        None,
        b"raw",
        2**70,
        300,
        -1,
        ("a", 1),
        (1, [2]),
        [1],
        {"k": 1},
        {1, 2},
        float("nan"),
        object,
    ]
)
VALUES = st.one_of(KEYS, st.sampled_from(["LARGE", b"LARGE"]), st.just({"k": [1]}))
SMALL = st.integers(0, 5)
IDS = st.one_of(st.integers(0, 3), st.sampled_from([2**63, 2**64 - 1, 2**64, -1, 1.5, None, "id"]))
ANYTHING = st.sampled_from([None, 3, "x", [], {}, (), b"", 2.5, -7, 2**80])


class FewIds(CountingRandom):
    """Draws few different ids, zero among them, so that they often collide."""

    def getrandbits(self, bits):
        return super().getrandbits(bits) % 5 if bits == 64 else super().getrandbits(bits)


class Actors:
    """The strategies of a program, and the stage it runs on."""

    def __init__(self, bits):
        self.mesh = stage(bits(7))
        self.tasks = [task for slot in self.mesh.slots for task in slot.bolts if task.component_id != "__acker"]
        self.source = self.mesh.task("source")
        self.state = KeyValueState(ValueCodec())
        UNTRACKED.unsettled = ROLLED_BACK.unsettled = 0  # all stages share these trees
        self._begin()

    def _begin(self):
        """Have every bolt hold tuples of trees in both slots."""
        for number, key in enumerate("abcabc"):
            self.source.collector.emit([key, number], message_id=("first", number))
            self.source.collector.emit([key], message_id=("side", number), stream="side")
        for number in (0, 1):
            self.turn_(number)
        for task in self.tasks[:1] + self.tasks[-1:]:
            for tup in task.bolt.kept:
                outcome(task.collector.emit, ["c", 0], anchors=tup)
                outcome(task.collector.emit, ["b", 0], anchors=tup)
        for number in (0, 1, 0, 1):
            self.turn_(number)

    def task(self, number):
        return self.tasks[number % len(self.tasks)]

    def tuple(self, task, number):
        """Pick a tuple that the bolt has received, or another object if there is none."""
        kept = task.bolt.kept
        return kept[number % len(kept)] if kept else None

    def roots(self):
        return [*self.source.pending, *self.source.acked, *self.source._failed]

    # The calls. Those whose names end in an underscore are not compiled; they prepare states for the others.

    def spout_emit(self, values, message_id, stream, way):
        emit = self.source.collector.emit
        values = values if way else tuple(values)
        return emit(values, stream=stream) if way == 1 else emit(values, message_id=message_id, stream=stream)

    def emit_numbered(self, rows, where, first, fails):
        refused = []

        def refuse(*message):
            refused.append(message)
            if fails:
                raise RuntimeError("refused")

        spout_collector.emit_numbered(self.source.collector, rows, where, first, refuse)
        return refused

    def emit(self, number, which, values, stream, way):
        task = self.task(number)
        emit, tup = task.collector.emit, self.tuple(task, which)
        calls = [
            lambda: emit(values, anchors=tup, stream=stream),
            lambda: emit(values, stream=stream),
            lambda: emit(tup, values),
            lambda: emit(stream, tup, values),
            lambda: emit(tuple(values), anchors=tup),
            lambda: emit(values, anchors=[tup, *task.bolt.kept[:2]], stream=stream),
            lambda: emit(values, anchors="no tuple"),
            lambda: emit(values, anchors=tup, stream="".join(stream)),
            lambda: emit(values, anchor=tup),
            lambda: emit(),
        ]
        return calls[way]()

    def ack(self, number, which, wrong):
        task = self.task(number)
        return task.collector.ack(self.tuple(task, which) if wrong is None else wrong)

    def ack_all_(self, number):
        task = self.task(number)
        for tup in list(task.bolt.kept):
            task.collector.ack(tup)

    def fail_(self, number, which):
        task = self.task(number)
        return task.collector.fail(self.tuple(task, which))

    def turn_(self, number):
        slot = self.mesh.slots[number % 2]
        self.mesh.turn(slot.number)
        while self.mesh.wire:
            self.mesh.move()
        slot._open_short_way()

    def roll_back_(self, number):
        self.mesh.slots[number % 2]._roll_back_held()

    def hold_(self, number, which):
        task = self.task(number)
        tup = self.tuple(task, which)
        if tup is not None:
            task.collector.held[tup] = 0.0

    def wait_(self, number):
        self.mesh.clock.now += number * TIMEOUT_SECS / 4

    def begin_exactly_once_(self):
        self.source.uncommitted = UncommittedOutcomes(CommittedIds("source", self.source.slot_context.codec), True, 2)
        self.source.collector._plainly = False

    def close_short_way_(self, number):
        self.mesh.slots[number % 2]._close_short_way()

    def track(self, number):
        roots = self.roots()
        return self.source.track(roots[number % len(roots)]) if roots else None

    def subtree_acked(self, number, edges, is_last):
        left = list(self.source._left)
        root = left[number % len(left)] if left else 1
        entry = self.source._ledger._entries.get(root)
        return self.source.subtree_acked(root, entry.edges if entry and is_last else edges)

    def send(self, number, which, values):
        task = self.task(number)
        route = task.routes["default"]
        buffer = next(port.buffer for port in route.ports if port.buffer is not None)
        tup = self.tuple(task, which)
        return task.send(route, buffer, values, tup._tree if tup is not None else UNTRACKED)

    def next_batch(self, number, size, wrong):
        task = self.task(number)
        task._batch = size
        return task._next_batch(*wrong)

    def fill(self, number, rows, columns, shape):
        task = self.task(number)
        roots, homes, edges, counts = ([column[i] for column in columns] for i in range(4))
        if shape == 1 and all(type(each) is int and 0 <= each < 2**64 for each in roots + edges):
            roots, edges = array("Q", roots), array("Q", edges)
        anchors = (roots, homes[:-1] if shape == 2 else homes, edges, counts)
        if shape == 3:
            anchors = anchors[:3]
        origin = task.routes["default"].origin
        return arrivals._fill(task.inbox, origin, rows, anchors, task.slot_context.outbox)

    def read(self, number, others):
        return uncommitted._read([*self.roots()[:number], *others])

    def texts(self, pieces, ends, kind, wrong):
        data = b"".join(piece.encode("utf-8", "surrogatepass") for piece in pieces)
        ends = ends or [0, *accumulate(len(piece.encode("utf-8", "surrogatepass")) for piece in pieces)]
        return arrow_rows._texts(memoryview(array(kind, ends)) if wrong is None else wrong, data)

    def rows(self, columns):
        return arrow_rows._rows(columns)

    def get(self, args):
        return self.state.get(*args)

    def put(self, args):
        return self.state.put(*args)

    def commit_(self, deed, key):
        deeds = {
            "prepare": self.state.prepare_commit,
            "commit": self.state.accept_prepared,
            "rollback": self.state.rollback,
            "delete": lambda: self.state.delete(key),
        }
        deeds[deed]()


def call(name, *strategies):
    return st.tuples(st.just(name), st.tuples(*strategies))


STREAM = st.sampled_from(["default"] * 8 + ["side", "all", "lone", "unknown", 5])
ROW = st.lists(VALUES, max_size=3)
PAIR = st.tuples(st.one_of(st.sampled_from("abc"), KEYS), VALUES).map(list)
SHAPED = st.one_of(PAIR, PAIR, PAIR, PAIR, st.lists(KEYS, min_size=1, max_size=1), ROW)
COLUMN = st.tuples(IDS, SMALL, IDS, st.sampled_from([0, 1, 1, 2, 3, -1, None]))
EMITS = [
    call("spout_emit", SHAPED, st.one_of(st.none(), SMALL, KEYS), STREAM, st.integers(0, 6)),
    call("emit_numbered", st.lists(SHAPED, max_size=3), st.sampled_from([(), ("w",), None]), IDS, st.booleans()),
    call("emit", SMALL, SMALL, SHAPED, STREAM, st.sampled_from([0] * 6 + list(range(1, 10)))),
    call("ack", SMALL, SMALL, st.one_of(st.none(), st.none(), ANYTHING)),
    call("ack", SMALL, SMALL, st.none()),
    call("ack_all_", SMALL),
    call("turn_", SMALL),
    call("turn_", SMALL),
]
OTHERS = [
    call("fail_", SMALL, SMALL),
    call("roll_back_", SMALL),
    call("hold_", SMALL, SMALL),
    call("wait_", SMALL),
    call("begin_exactly_once_"),
    call("close_short_way_", SMALL),
    call("track", SMALL),
    call("subtree_acked", SMALL, IDS, st.booleans()),
    call("send", SMALL, SMALL, PAIR),
    call("next_batch", SMALL, SMALL, st.sampled_from([(), (), (), (1,)])),
    call("fill", SMALL, st.lists(PAIR, max_size=5), st.lists(COLUMN, max_size=3), SMALL),
    call("read", SMALL, st.one_of(st.just([]), st.lists(ANYTHING, max_size=1))),
]
TREES = st.lists(st.one_of(*EMITS, *EMITS, *OTHERS), min_size=1, max_size=30)
STATES = st.lists(
    st.one_of(
        call("get", st.one_of(st.tuples(KEYS), st.tuples(KEYS, VALUES), st.lists(KEYS, max_size=4))),
        call("put", st.one_of(st.tuples(KEYS, VALUES), st.tuples(KEYS, VALUES), st.lists(KEYS, max_size=4))),
        call("commit_", st.sampled_from(["prepare", "commit", "rollback", "delete"]), KEYS),
    ),
    max_size=20,
)
TEXTS = call(
    "texts",
    st.lists(st.one_of(st.text(), st.text("abc"), st.just("\ud800"))),
    st.one_of(st.just([]), st.lists(st.integers(-3, 9), max_size=4)),
    st.sampled_from("iiiqhf"),
    st.one_of(st.none(), st.none(), ANYTHING),
)
COLUMNS = st.integers(0, 3).flatmap(
    lambda height: st.lists(st.lists(VALUES, min_size=height, max_size=height), max_size=3)
)
ROWS = call("rows", st.one_of(COLUMNS, st.lists(st.one_of(st.lists(KEYS, max_size=3), ANYTHING), max_size=3), ANYTHING))


def own(value):
    """Copy a drawn value for one run; "LARGE" becomes a large value."""
    if type(value) in (list, tuple):
        return type(value)(map(own, value))
    return value * 20_000 if value in ("LARGE", b"LARGE") else value


def played(program, bits):
    """Return the outcome of every call, followed by all objects of the stage."""
    actors = Actors(bits)
    came = [drawn(outcome(getattr(actors, name), *own(args))) for name, args in program]
    return came, drawn(actors)


@pytest.fixture(autouse=True, scope="module")
def quiet():
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def check(program, bits=CountingRandom):
    with python_alone():
        expected, left_behind = played(program, bits)
    came, left = played(program, bits)
    for (name, args), one, other in zip(program, came, expected, strict=True):
        assert one == other, f"{name}{args}"
    assert left == left_behind


@settings(max_examples=200)
@given(TREES, st.sampled_from([CountingRandom, CountingRandom, FewIds]))
def test_both_cores_treat_tuples_and_trees_alike(program, bits):
    check(program, bits)


@given(STATES)
def test_both_cores_treat_states_alike(program):
    check(program)


@given(st.lists(st.one_of(TEXTS, ROWS), min_size=1, max_size=5))
def test_both_cores_treat_columns_alike(program):
    check(program)


def test_every_compiled_function_is_called():
    called = {name.strip("_") for name in vars(Actors)} | {"ack", "emit"}
    for _, _, function in compiled_functions():
        assert function.__name__.strip("_") in called
