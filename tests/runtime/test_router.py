"""Groupings: to which tasks an emit goes, as the emit itself returns them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystorm_spark.errors import EmitError
from pystorm_spark.runtime import router
from pystorm_spark.runtime.keys.hashing import partial_key_candidates
from pystorm_spark.runtime.keys.java_hash import java_fields_index, java_partial_key_candidates
from pystorm_spark.topology.builder import TopologyBuilder
from pystorm_spark.topology.component import Bolt, Spout
from pystorm_spark.topology.fields import Stream
from pystorm_spark.topology.grouping import CustomStreamGrouping
from pystorm_spark.topology.tuple import GlobalStreamId
from tests.ids import shown

from .slots import Mesh

JAVA = {"topology.fields.grouping.hash": "java"}


class Source(Spout):
    outputs = {"default": ["word", "n"], "direct": Stream(["word", "n"], direct=True)}

    def open(self, conf, context, collector):
        self.collector = collector
        self.acked = []

    def ack(self, message_id):
        self.acked.append(message_id)


class Sink(Bolt):
    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.collector.ack(tup)


class Network:
    """The spout `source` and its subscribers; `send` returns the ids of the tasks that got a copy."""

    def __init__(self, *subscribe, tasks=4, sources=1, slots=1, conf=None):
        builder = TopologyBuilder()
        builder.set_spout("source", Source(), sources)
        for number, group in enumerate(subscribe):
            group(builder.set_bolt(f"sink{number}", Sink(), tasks))
        self.mesh = Mesh(builder.create_topology(), slots, conf)

    def send(self, word, n=0, source=0, **options):
        return self.collector(source).emit([word, n], **options)

    def send_direct(self, task, **options):
        self.collector().emit_direct(task, ["word", 0], stream="direct", **options)

    def collector(self, source=0):
        return self.mesh.spout("source", source).collector

    def tasks(self, number=0):
        return self.mesh.tasks(f"sink{number}")


def by_shuffle(declarer):
    declarer.shuffle_grouping("source")


def by_local_or_shuffle(declarer):
    declarer.local_or_shuffle_grouping("source")


def by_word(declarer):
    declarer.fields_grouping("source", "word")


def by_both(declarer):
    declarer.fields_grouping("source", ["n", "word"])


def by_partial_key(declarer):
    declarer.partial_key_grouping("source", "word")


def by_all(declarer):
    declarer.all_grouping("source")


def by_global(declarer):
    declarer.global_grouping("source")


def by_none(declarer):
    declarer.none_grouping("source")


def by_direct(declarer):
    declarer.direct_grouping("source", "direct")


def by_custom(chooser):
    return lambda declarer: declarer.custom_grouping("source", chooser)


# Shuffle, all, global, none.


@pytest.mark.parametrize("grouping", [by_shuffle, by_local_or_shuffle])
@given(emits=st.integers(0, 50), tasks=st.integers(1, 7))
def test_shuffle_is_exactly_even(grouping, emits, tasks):
    network = Network(grouping, tasks=tasks)
    counts = Counter(task for _ in range(emits) for task in network.send("w"))
    assert set(counts) <= set(network.tasks())
    shares = [counts[task] for task in network.tasks()]
    assert sum(shares) == emits
    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize("grouping", [by_shuffle, by_local_or_shuffle])
def test_shuffle_stays_in_the_slot_where_it_can(grouping):
    network = Network(grouping, tasks=4, slots=2)
    near = [task for task in network.tasks() if network.mesh.plan.slot_of[task] == 0]
    counts = Counter(task for _ in range(20) for task in network.send("w"))
    assert counts == {near[0]: 10, near[1]: 10}


@pytest.mark.parametrize("grouping", [by_shuffle, by_local_or_shuffle])
def test_shuffle_without_a_task_in_the_slot_is_even_over_all_tasks(grouping):
    network = Network(grouping, tasks=2, sources=3, slots=3)
    counts = Counter(task for _ in range(20) for task in network.send("w", source=2))
    assert counts == dict.fromkeys(network.tasks(), 10)


def test_all_sends_a_copy_to_every_task():
    network = Network(by_all)
    assert network.send("w") == network.tasks()
    assert network.send("w") == network.tasks()


@given(st.text(), st.integers())
def test_global_sends_everything_to_the_lowest_id(word, n):
    network = Network(by_global)
    assert network.send(word, n) == [min(network.tasks())]


def test_none_sends_each_tuple_to_one_of_the_tasks_and_leaves_none_out():
    network = Network(by_none)
    chosen = [network.send("w") for _ in range(200)]
    assert {len(tasks) for tasks in chosen} == {1}
    assert {task for tasks in chosen for task in tasks} == set(network.tasks())


def test_fields_grouping_without_fields_is_global():
    network = Network(lambda declarer: declarer.fields_grouping("source", []))
    assert {*network.send("a"), *network.send("b"), *network.send("c")} == {min(network.tasks())}


# Fields.

KEYS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.decimals(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(KEYS, min_size=1, max_size=20))
def test_a_key_always_has_the_same_one_task_from_every_source(keys):
    network = Network(by_word, sources=2)
    first = [network.send(key) for key in keys]
    assert all(len(tasks) == 1 for tasks in first)
    assert [network.send(key) for key in reversed(keys)] == first[::-1]
    assert [network.send(key, source=1) for key in keys] == first


@pytest.mark.parametrize(
    "equal",
    [
        (1, 1.0, True, Decimal(1)),
        (0, -0.0, False),
        ([1, 2], (1, 2), [True, 2.0]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({1, 2}, frozenset({2, 1})),
        (b"x", bytearray(b"x")),
        (float("nan"), -float("nan")),
    ],
    ids=shown,
)
def test_equal_keys_have_one_task(equal):
    network = Network(by_word, tasks=97)
    assert len({tuple(network.send(key)) for key in (*equal, *reversed(equal))}) == 1


def test_all_the_fields_of_a_grouping_make_the_key():
    network = Network(by_both, tasks=97)
    sent = {(word, n): network.send(word, n) for word in "abcdef" for n in range(6)}
    assert len(set(map(tuple, sent.values()))) > 20
    assert all(network.send(word, n) == tasks for (word, n), tasks in sent.items())


def test_only_the_fields_of_a_grouping_make_the_key():
    network = Network(by_word, tasks=97)
    assert len({tuple(network.send("w", n)) for n in range(50)}) == 1


def test_many_keys_are_spread_over_all_tasks():
    network = Network(by_word)
    counts = Counter(task for number in range(2000) for task in network.send(f"word{number}"))
    assert all(400 < counts[task] < 600 for task in network.tasks())


def test_a_key_keeps_its_task_when_the_cache_has_been_emptied(monkeypatch):
    monkeypatch.setattr(router, "CACHED_KEYS", 10)
    network = Network(by_word)
    first = [network.send(number) for number in range(50)]
    assert [network.send(number) for number in range(50)] == first


class Unhashable:
    def __eq__(self, other):
        return isinstance(other, Unhashable)

    __hash__ = None


@pytest.mark.parametrize("grouping", [by_word, by_partial_key])
@pytest.mark.parametrize("key", [object(), print, Unhashable(), [object()]], ids=lambda key: type(key).__name__)
def test_a_key_that_cannot_be_hashed_is_refused_with_component_stream_and_fields(grouping, key):
    network = Network(grouping)
    for _ in range(2):
        with pytest.raises(EmitError, match=r"'source' emits on stream 'default', which is grouped on \['word'\]: "):
            network.send(key)


JAVA_KEYS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.lists(st.integers())


@given(st.lists(JAVA_KEYS, max_size=20), st.integers(1, 9))
def test_javas_hash_gives_the_task_of_java_storm(keys, tasks):
    network = Network(by_word, tasks=tasks, conf=JAVA)
    for key in keys:
        assert network.send(key) == [network.tasks()[java_fields_index([key], tasks)]]


def test_javas_hash_differs_for_numbers_of_different_types():
    network = Network(by_word, tasks=97, conf=JAVA)
    assert len({tuple(network.send(key)) for key in (1, 1.0, True, 1, 1.0, True)}) == 3


def test_javas_hash_takes_the_fields_in_the_order_of_the_grouping():
    network = Network(by_both, tasks=97, conf=JAVA)
    for word, n in [("a", "b"), ("b", "a"), ("a", 1)]:
        assert network.send(word, n) == [network.tasks()[java_fields_index([n, word], 97)]]


def test_a_key_without_a_java_counterpart_is_refused():
    network = Network(by_word, conf=JAVA)
    with pytest.raises(EmitError, match=r"which is grouped on \['word'\]: cannot hash a object as Java does"):
        network.send(object())


# Partial key.


@pytest.mark.parametrize(("conf", "candidates_of"), [({}, partial_key_candidates), (JAVA, java_partial_key_candidates)])
def test_partial_key_shares_a_key_evenly_between_its_two_tasks(conf, candidates_of):
    for key in ("a", "b", 7):
        network = Network(by_partial_key, tasks=5, conf=conf)
        one, other = (network.tasks()[index] for index in candidates_of([key], 5))
        assert Counter(task for _ in range(100) for task in network.send(key)) == {one: 50, other: 50}


@given(st.lists(st.sampled_from("aaaaaabc"), max_size=80))
def test_partial_key_takes_the_less_used_of_the_two_tasks(keys):
    network = Network(by_partial_key, tasks=5)
    sent = Counter()
    for key in keys:
        one, other = (network.tasks()[index] for index in partial_key_candidates([key], 5))
        (chosen,) = network.send(key)
        assert sent[chosen] == min(sent[one], sent[other])
        sent[chosen] += 1


def test_partial_key_with_one_task_sends_all_to_it():
    network = Network(by_partial_key, tasks=1)
    assert {*network.send("a"), *network.send("b")} == set(network.tasks())


def test_partial_key_without_fields_takes_the_first_value():
    network = Network(lambda declarer: declarer.partial_key_grouping("source"), tasks=97)
    assert len({task for n in range(50) for task in network.send("w", n)}) == 2
    with pytest.raises(EmitError, match=r"which is grouped on \['word'\]"):
        network.send(object())


# Direct.


def test_direct_sends_to_the_task_that_the_sender_names():
    network = Network(by_direct)
    task = network.tasks()[2]
    network.send_direct(task)
    network.mesh.settle()
    executed = {task.task_id: task.counted().executed for task in network.mesh.slots[0].bolts}
    assert executed == {**dict.fromkeys(network.tasks(), 0), task: 1}


@pytest.mark.parametrize("task", [0, -1, 10_000, None, "sink0", [2]], ids=shown)
def test_a_direct_emit_to_a_task_that_does_not_subscribe_is_refused(task):
    network = Network(by_direct, by_all)
    with pytest.raises(EmitError, match=r"'source' on stream 'direct' to task .*tasks that do: \[2, 3, 4, 5\]"):
        network.send_direct(task)


def test_a_direct_emit_to_a_task_that_listens_to_another_stream_is_refused():
    network = Network(by_direct, by_all)
    with pytest.raises(EmitError, match="does not subscribe to it by direct grouping"):
        network.send_direct(network.tasks(1)[0])


def test_a_direct_emit_to_task_none_is_refused():
    network = Network(by_all)
    with pytest.raises(EmitError, match="emit_direct of component 'source'"):
        network.collector().emit_direct(None, ["w", 0])


def test_a_regular_emit_on_a_stream_with_a_direct_subscriber_is_refused():
    network = Network(by_direct)
    with pytest.raises(EmitError, match=r"'source' cannot emit on stream 'direct'.*one of the tasks \[2, 3, 4, 5\]"):
        network.send("w", stream="direct")


# Custom.


class Chosen(CustomStreamGrouping):
    """Sends a tuple to the tasks at the positions that its second value lists."""

    def prepare(self, context, stream, target_tasks):
        self.context, self.stream, self.target_tasks = context, stream, target_tasks

    def choose_tasks(self, task_id, values):
        return [self.target_tasks[index] for index in values[1]]


class ChosenInJava(CustomStreamGrouping):
    def prepare(self, context, stream, target_tasks):
        self.target_tasks = target_tasks

    def chooseTasks(self, task_id, values):
        return [self.target_tasks[index] for index in values[1]]


class ChosenWithoutBase:
    def prepare(self, context, stream, target_tasks):
        self.target_tasks = target_tasks

    def chooseTasks(self, task_id, values):
        return [self.target_tasks[index] for index in values[1]]


@pytest.mark.parametrize("chooser", [Chosen(), ChosenInJava(), ChosenWithoutBase()], ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("positions", [[0], [3, 1], [0, 1, 2, 3]], ids=str)
def test_custom_sends_to_the_tasks_it_chooses(chooser, positions):
    network = Network(by_custom(chooser))
    assert network.send("w", positions) == [network.tasks()[index] for index in positions]


def test_custom_may_choose_no_task_and_the_tuple_is_acked():
    network = Network(by_custom(Chosen()))
    assert network.send("w", [], message_id="id") == []
    network.mesh.settle()
    assert network.mesh.spout("source").acked == ["id"]


class Answering(CustomStreamGrouping):
    def __init__(self, answer):
        self.answer = answer

    def choose_tasks(self, task_id, values):
        return self.answer


@pytest.mark.parametrize("answer", [[1], [2, 99], ["2"], [[2]], None, 2], ids=shown)
def test_a_custom_grouping_that_chooses_another_task_than_a_target_is_refused(answer):
    network = Network(by_custom(Answering(answer)))
    problem = r"custom grouping Answering of bolt 'sink0' chose .* for stream 'default' of 'source'; .* \[2, 3, 4, 5\]"
    with pytest.raises(EmitError, match=problem):
        network.send("w")


class Telling(CustomStreamGrouping):
    """Raises an exception with the arguments of its calls, for the test to read."""

    def prepare(self, context, stream, target_tasks):
        self.told = (context.this_component_id, context.this_task_id, stream, target_tasks)

    def choose_tasks(self, task_id, values):
        raise LookupError(*self.told, task_id, values)


def test_prepare_of_a_custom_grouping_gets_task_stream_and_targets():
    network = Network(by_custom(Telling()), sources=2)
    sender = network.mesh.tasks("source")[1]
    with pytest.raises(LookupError) as raised:
        network.send("w", 7, source=1)
    stream = GlobalStreamId("source", "default")
    assert raised.value.args == ("source", sender, stream, network.tasks(), sender, ["w", 7])


class Alternating(CustomStreamGrouping):
    def prepare(self, context, stream, target_tasks):
        self.left = list(target_tasks)

    def choose_tasks(self, task_id, values):
        return [self.left.pop(0)]


def test_every_source_task_has_its_own_copy_of_a_custom_grouping():
    network = Network(by_custom(Alternating()), sources=2)
    assert network.send("w", source=0) == network.send("w", source=1) == network.tasks()[:1]


# Several subscribers.


def test_two_subscribers_each_get_a_copy():
    network = Network(by_global, by_all)
    assert network.send("w") == [*network.tasks(0)[:1], *network.tasks(1)]


def test_two_fields_groupings_of_one_stream_keep_their_keys_apart():
    network = Network(by_word, by_both, tasks=97)
    alone = [Network(by_word, tasks=97), Network(by_both, tasks=97)]
    for word, n in [("a", 1), ("b", 2), ("a", 2), (("a", 1), 3)]:
        found = [network.tasks(number).index(task) for number, task in enumerate(network.send(word, n))]
        assert found == [other.tasks().index(other.send(word, n)[0]) for other in alone]


def test_an_emit_on_a_stream_without_subscribers_reaches_no_task():
    network = Network(by_all)
    assert network.send("w", stream="direct") == []


# Other processes.

SCRIPT = """
from tests.runtime.test_router import Network, by_partial_key, by_word
keys = ["a", b"a", 1, 2.5, None, ("a", 1), ["x"], {"k": "v"}, frozenset("abc"), *map(str, range(50))]
print([Network(by, tasks=7).send(key) for by in (by_word, by_partial_key) for key in keys])
"""


def test_a_key_has_the_same_task_in_every_process():
    root = Path(__file__).parents[2]
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    one, other = [run.communicate()[0] for run in runs]
    assert one.count("[") > 100
    assert one == other
