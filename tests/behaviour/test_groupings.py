"""Groupings: which tasks of a bolt get a tuple."""

import datetime
import decimal
import math
from collections import Counter, defaultdict

import pytest

from pystorm_spark import CustomStreamGrouping, EmitError, Fields, GlobalStreamId, InvalidTopologyError, TopologyBuilder
from tests.behaviour.engine import component, run
from tests.behaviour.probes import Does, Rows, Sink, Starts, attempt, note, noted, numbers, passes_on
from tests.ids import shown

EQUALLY_NEAR = {"topology.workers": 1}  # shuffle prefers the tasks in the same process


def tasks_of(component_id):
    """{task of the sink: the values it got}."""
    found = defaultdict(list)
    for task, values in noted(f"{component_id} by task"):
        found[task].append(values)
    return found


def one_bolt(spout, parallelism, subscribe, spouts=1):
    """Build a spout "spout" and a `Sink` "a" of `parallelism`, subscribed by `subscribe(declarer)`."""
    builder = TopologyBuilder()
    builder.set_spout("spout", spout, spouts)
    subscribe(builder.set_bolt("a", Sink(), parallelism))
    return builder.create_topology()


def rows(*values):
    return Rows([[value] for value in values])


# Groupings that ignore the values.


@pytest.mark.parametrize("grouping", ["shuffle_grouping", "local_or_shuffle_grouping"])
def test_shuffle_is_even(cluster, grouping):
    run(cluster, one_bolt(numbers(12), 4, lambda bolt: getattr(bolt, grouping)("spout")), EQUALLY_NEAR)

    assert [len(got) for got in tasks_of("a").values()] == [3, 3, 3, 3]


def test_shuffle_is_even_for_each_task_that_emits(cluster):
    run(cluster, one_bolt(numbers(6), 3, lambda bolt: bolt.shuffle_grouping("spout"), spouts=2), EQUALLY_NEAR)

    assert [len(got) for got in tasks_of("a").values()] == [4, 4, 4]


def test_none_grouping_sends_each_tuple_to_some_task(cluster):
    run(cluster, one_bolt(numbers(200), 4, lambda bolt: bolt.none_grouping("spout")))

    assert sorted(noted("a")) == [[number] for number in range(200)]
    assert len(tasks_of("a")) == 4


def test_all_grouping_sends_a_copy_to_every_task(cluster):
    run(cluster, one_bolt(numbers(3), 4, lambda bolt: bolt.all_grouping("spout")))

    assert list(tasks_of("a").values()) == [[[0], [1], [2]]] * 4
    assert noted("acked") == [0, 1, 2]


def test_global_grouping_sends_everything_to_the_lowest_task(cluster):
    run(cluster, one_bolt(numbers(8), 4, lambda bolt: bolt.global_grouping("spout"), spouts=2))

    (task,) = tasks_of("a")
    # "__acker" has task 1, "a" has 2 to 5.
    assert task == 2
    assert len(noted("a")) == 16


# By value.


def test_equal_keys_go_to_one_task(cluster):
    words = [f"word {number % 10}" for number in range(100)]

    run(cluster, one_bolt(rows(*words), 4, lambda bolt: bolt.fields_grouping("spout", Fields("value"))))

    places = {(values[0], task) for task, got in tasks_of("a").items() for values in got}
    assert len(places) == 10
    assert len(tasks_of("a")) > 1


def test_a_key_goes_to_one_task_from_every_source(cluster):
    builder = TopologyBuilder()
    builder.set_spout("left", Rows([[key, 1] for key in range(50)], ["key", "other"]), 2)
    builder.set_spout("right", Rows([["x", key] for key in range(50)], ["other", "id"]))
    builder.set_bolt("join", Does(notes_key_and_task), 5).fields_grouping("left", ["key"]).fields_grouping(
        "right", "id"
    )
    run(cluster, builder.create_topology())

    assert len(set(noted("place"))) == 50


def notes_key_and_task(bolt, tup):
    key = tup["key"] if tup.contains("key") else tup["id"]
    note("place", (key, bolt.context.this_task_id))
    bolt.collector.ack(tup)


def test_all_fields_of_a_grouping_make_the_key(cluster):
    pairs = [[x, y] for x in range(6) for y in range(6)] * 2
    topology = one_bolt(Rows(pairs, ["x", "y"]), 7, lambda bolt: bolt.fields_grouping("spout", Fields("y", "x")))

    run(cluster, topology)

    places = {(*values, task) for task, got in tasks_of("a").items() for values in got}
    assert len(places) == 36
    assert len(tasks_of("a")) > 3


@pytest.mark.parametrize(
    "keys",
    [
        (1, 1.0, True, decimal.Decimal(1)),
        (0, 0.0, -0.0, False),
        ([1, "a"], (1, "a")),
        (math.nan, -math.nan),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({3, 1, 2}, frozenset((1, 2, 3))),
        (2**70, float(2**70)),
        (datetime.date(2024, 1, 1), datetime.date(2024, 1, 1)),
        (b"abc", bytearray(b"abc")),
    ],
    ids=shown,
)
def test_keys_that_are_equal_values_go_to_one_task(cluster, keys):
    run(cluster, one_bolt(rows(*keys), 16, lambda bolt: bolt.fields_grouping("spout", "value")))

    assert len(tasks_of("a")) == 1
    assert len(noted("acked")) == len(keys)


def test_any_mixture_of_values_can_be_a_key(cluster):
    keys = [
        None,
        "",
        "text",
        "\ud800",
        b"bytes",
        1,
        -1,
        10**30,
        1.5,
        math.inf,
        (),
        [],
        {},
        [None, {"a": [1]}],
        {1, "a"},
    ]

    run(cluster, one_bolt(rows(*keys, *keys), 4, lambda bolt: bolt.fields_grouping("spout", "value")))

    assert len(noted("acked")) == 2 * len(keys)
    places = {(repr(values[0]), task) for task, got in tasks_of("a").items() for values in got}
    assert len(places) == len(keys)


@pytest.mark.parametrize("grouping", ["fields_grouping", "partial_key_grouping"])
def test_a_key_that_cannot_be_hashed_is_an_error_at_the_emit(cluster, grouping):
    def emit(spout):
        attempt("emit", lambda: spout.collector.emit([object()], message_id=1))
        spout.collector.emit(["good"], message_id=2)

    run(cluster, one_bolt(Starts(emit), 3, lambda bolt: getattr(bolt, grouping)("spout", "value")))

    (error,) = noted("emit")
    assert isinstance(error, EmitError)
    assert all(part in str(error) for part in ("'spout'", "'default'", "'value'", "object"))
    assert noted("acked") == [2]
    assert component(cluster, "spout").emitted == 1


@pytest.mark.parametrize(("key", "index"), [("a", 0), ("hello", 1), (7, 2), (None, 3), (True, 2), (1.0, 3)])
def test_keys_can_be_routed_as_java_storm_routes_them(cluster, key, index):
    """The index is floorMod(Arrays.deepHashCode([key]), 4) with Java's hashes: 31 + hash(key)."""
    conf = {"topology.fields.grouping.hash": "java"}

    run(cluster, one_bolt(rows(key), 4, lambda bolt: bolt.fields_grouping("spout", "value")), conf)

    # "__acker" has task 1, "a" has 2 to 5.
    assert list(tasks_of("a")) == [2 + index]


def test_partial_key_grouping_splits_a_key_over_two_tasks(cluster):
    run(cluster, one_bolt(rows(*["hot"] * 100), 5, lambda bolt: bolt.partial_key_grouping("spout", Fields("value"))))

    assert [len(got) for got in tasks_of("a").values()] == [50, 50]


def test_partial_key_grouping_balances_many_keys(cluster):
    keys = [number % 20 for number in range(1000)]

    run(cluster, one_bolt(rows(*keys), 4, lambda bolt: bolt.partial_key_grouping("spout", "value")))

    tasks_by_key = defaultdict(set)
    for task, got in tasks_of("a").items():
        for values in got:
            tasks_by_key[values[0]].add(task)
    assert all(len(tasks) <= 2 for tasks in tasks_by_key.values())
    assert max(len(got) for got in tasks_of("a").values()) < 400


def test_partial_key_grouping_without_fields_takes_the_first_value(cluster):
    topology = one_bolt(
        Rows([["k", number] for number in range(10)], ["key", "n"]), 6, lambda bolt: bolt.partial_key_grouping("spout")
    )

    run(cluster, topology)

    assert len(tasks_of("a")) == 2


def test_a_bolt_of_one_task_gets_every_key(cluster):
    run(cluster, one_bolt(rows("a", "b"), 1, lambda bolt: bolt.fields_grouping("spout", "value")))

    assert noted("a") == [["a"], ["b"]]


# Several subscriptions.


def test_every_subscriber_gets_its_own_copy(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(4))
    builder.set_bolt("a", Sink(), 2).shuffle_grouping("spout")
    builder.set_bolt("b", Sink(), 2).all_grouping("spout")
    builder.set_bolt("c", Sink(), 2).global_grouping("spout")
    run(cluster, builder.create_topology())

    assert [len(noted(bolt)) for bolt in "abc"] == [4, 8, 4]
    assert component(cluster, "spout").emitted == 4
    assert component(cluster, "spout").transferred == 16


def test_a_second_subscription_to_a_stream_replaces_the_first(cluster):
    run(cluster, one_bolt(numbers(2), 3, lambda bolt: bolt.all_grouping("spout").shuffle_grouping("spout")))

    assert len(noted("a")) == 2


def test_subscriptions_to_two_streams_of_a_component_are_both_kept(cluster):
    def emit(spout):
        spout.collector.emit(["x"], message_id=1)
        spout.collector.emit(["y"], message_id=2, stream="other")

    spout = Starts(emit, {"default": ["value"], "other": ["value"]})
    run(cluster, one_bolt(spout, 1, lambda bolt: bolt.shuffle_grouping("spout").shuffle_grouping("spout", "other")))

    assert sorted(noted("a")) == [["x"], ["y"]]


def test_an_emit_returns_the_tasks_of_all_subscribers(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", Starts(lambda spout: note("tasks", spout.collector.emit(["x"]))))
    builder.set_bolt("a", Sink(), 2).all_grouping("spout")
    builder.set_bolt("b", Sink(), 2).global_grouping("spout")
    run(cluster, builder.create_topology())

    # "__acker" 1, "a" 2 and 3, "b" 4 and 5.
    assert sorted(noted("tasks")[0]) == [2, 3, 4]


# Custom groupings.


class ByParity(CustomStreamGrouping):
    """Sends even numbers to the first task, odd ones to the second, those above 9 to no task, negative ones to all."""

    def __init__(self, topic):
        self.topic = topic

    def prepare(self, context, stream, target_tasks):
        note(self.topic, (context.this_component_id, stream, target_tasks))
        self.targets = target_tasks

    def choose_tasks(self, task_id, values):
        note("task that emits", task_id)
        if values[0] > 9:
            return []
        return self.targets if values[0] < 0 else [self.targets[values[0] % 2]]


def test_a_custom_grouping_chooses_the_tasks(cluster):
    run(cluster, one_bolt(rows(0, 1, 2, 3), 3, lambda bolt: bolt.custom_grouping("spout", ByParity("prepared"))))

    assert [sorted(got) for _, got in sorted(tasks_of("a").items())] == [[[0], [2]], [[1], [3]]]


def test_a_custom_grouping_may_choose_none_or_many(cluster):
    run(cluster, one_bolt(rows(10, -1), 3, lambda bolt: bolt.custom_grouping("spout", ByParity("prepared"))))

    assert noted("a") == [[-1]] * 3
    assert sorted(noted("acked")) == [0, 1]


def test_a_custom_grouping_is_prepared_with_context_stream_and_targets(cluster):
    run(cluster, one_bolt(rows(0), 3, lambda bolt: bolt.custom_grouping("spout", ByParity("prepared"))))

    # "__acker" 1, "a" 2 to 4, "spout" 5.
    assert noted("prepared") == [("spout", GlobalStreamId("spout", "default"), [2, 3, 4])]
    assert noted("task that emits") == [5]


def test_each_task_that_emits_has_a_custom_grouping_of_its_own(cluster):
    class Counts(CustomStreamGrouping):
        count = 0

        def prepare(self, context, stream, target_tasks):
            self.targets = target_tasks

        def choose_tasks(self, task_id, values):
            self.count += 1
            note("count", self.count)
            return self.targets[:1]

    run(cluster, one_bolt(numbers(2), 2, lambda bolt: bolt.custom_grouping("spout", Counts()), spouts=2))

    assert sorted(noted("count")) == [1, 1, 2, 2]


@pytest.mark.parametrize("chosen", [[99], [0], ["2"], None, 2, [[2]], [None]], ids=shown)
def test_a_custom_grouping_that_chooses_another_task_than_a_target_is_an_emit_error(cluster, chosen):
    class Wrong(CustomStreamGrouping):
        def choose_tasks(self, task_id, values):
            return chosen

    spout = Starts(lambda spout: attempt("emit", lambda: spout.collector.emit(["x"], message_id=1)))
    run(cluster, one_bolt(spout, 2, lambda bolt: bolt.custom_grouping("spout", Wrong())))

    (error,) = noted("emit")
    assert isinstance(error, EmitError)
    assert all(part in str(error) for part in ("Wrong", "'a'", "'spout'", "'default'", "[2, 3]"))
    assert noted("a") == []
    assert cluster.topology_info("topology").pending == 0


def test_a_bad_choice_at_a_bolt_fails_its_tuple(cluster):
    class Wrong(CustomStreamGrouping):
        def choose_tasks(self, task_id, values):
            return [99]

    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(1))
    builder.set_bolt("a", Does(passes_on, ["value"])).shuffle_grouping("spout")
    builder.set_bolt("b", Sink()).custom_grouping("a", Wrong())
    run(cluster, builder.create_topology())

    assert noted("failed") == [0]
    assert "EmitError" in component(cluster, "a").errors[0].exception


# Declaring them.


def test_fields_grouping_takes_stream_and_fields_in_either_order(cluster):
    spout = Starts(lambda spout: None, {"s": ["x"]})
    builder = TopologyBuilder()
    builder.set_spout("spout", spout)
    grouping = ByParity("prepared")
    source = GlobalStreamId("spout", "s")
    for bolt_id, subscribe in {
        "python fields": lambda bolt: bolt.fields_grouping("spout", Fields("x"), "s"),
        "java fields": lambda bolt: bolt.fields_grouping("spout", "s", Fields("x")),
        "java list": lambda bolt: bolt.fields_grouping("spout", "s", ["x"]),
        "keyword": lambda bolt: bolt.fields_grouping("spout", ["x"], stream_id="s"),
        "python partial": lambda bolt: bolt.partial_key_grouping("spout", Fields("x"), "s"),
        "java partial": lambda bolt: bolt.partial_key_grouping("spout", "s", Fields("x")),
        "python custom": lambda bolt: bolt.custom_grouping("spout", grouping, "s"),
        "java custom": lambda bolt: bolt.custom_grouping("spout", "s", grouping),
        "shuffle": lambda bolt: bolt.shuffle_grouping("spout", "s"),
        "all": lambda bolt: bolt.all_grouping("spout", stream_id="s"),
        "direct": lambda bolt: bolt.direct_grouping("spout", "s"),
    }.items():
        subscribe(builder.set_bolt(bolt_id, Sink()))

    components = builder.create_topology().components

    assert all(list(components[id_].inputs) == [source] for id_ in components if id_ != "spout")
    kinds = Counter(type(spec.inputs[source]).__name__ for spec in components.values() if spec.inputs)
    assert (kinds["FieldsGrouping"], kinds["PartialKeyGrouping"], kinds["CustomGrouping"]) == (4, 2, 2)


@pytest.mark.parametrize("grouping", ["fields_grouping", "partial_key_grouping"])
def test_a_grouping_field_must_exist_in_the_subscribed_stream(grouping):
    spout = Starts(lambda spout: None, {"default": ["word"], "other": ["count"]})

    with pytest.raises(InvalidTopologyError, match=r"'a'.*'count'.*'spout'.*\['word'\]"):
        one_bolt(spout, 1, lambda bolt: getattr(bolt, grouping)("spout", "count"))


def test_an_object_that_is_not_a_grouping_is_refused_when_the_topology_is_created():
    for wrong in (object(), ByParity, "shuffle"):
        with pytest.raises(InvalidTopologyError, match="'a'"):
            one_bolt(numbers(1), 1, lambda bolt, wrong=wrong: bolt.custom_grouping("spout", wrong))
        with pytest.raises(InvalidTopologyError, match="'a'"):
            one_bolt(numbers(1), 1, lambda bolt, wrong=wrong: bolt.grouping(GlobalStreamId("spout"), wrong))


def test_fields_grouping_without_fields_is_a_global_grouping(cluster):
    run(cluster, one_bolt(numbers(4), 3, lambda bolt: bolt.fields_grouping("spout", Fields())))

    assert list(tasks_of("a")) == [2]
