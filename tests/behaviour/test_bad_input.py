"""Mistakes of users, and values that are hard to pack: errors come early, name the cause, and affect nothing else."""

import collections
import importlib
import math
import threading

import pytest

from pystorm_spark import (
    BasicBolt,
    Bolt,
    CustomStreamGrouping,
    Fields,
    InvalidConfigError,
    InvalidTopologyError,
    LambdaBolt,
    SerializationError,
    Spout,
    StormError,
    TopologyBuilder,
    UnknownFieldError,
)
from tests.behaviour.engine import ONE_PROCESS, OTHER_NAMES, OTHER_ORDERS, advance, chain, component, run
from tests.behaviour.probes import Does, Fed, Rows, Sink, acks, attempt, holds, note, noted, numbers, passes_on
from tests.ids import shown

SERIALIZE = {"topology.testing.always.try.serialize": True}
BY_REFERENCE_AND_PACKED = pytest.mark.parametrize("conf", [None, SERIALIZE], ids=["by reference", "packed"])

# Values.

Point = collections.namedtuple("Point", "x y")


class Tagged(dict):
    """A dict with a class of its own."""


VALUES = {
    "None": None,
    "empty text": "",
    "NUL": "a\0b",
    "lone surrogate": "\ud800 and \udfff",
    "emoji": "👩‍👩‍👧 e\u0301",
    "huge int": 10**400,
    "negative huge int": -(2**200),
    "64 bits": 2**64 - 1,
    "infinity": math.inf,
    "negative zero": -0.0,
    "True": True,
    "bytes": bytes(range(256)),
    "tuple in list": [(1, 2), [3]],
    "mixed keys": {1: "a", "1": "b", None: "c", (1, 2): "d", 1.5: "e"},
    "set": {1, "a", None},
    "namedtuple": Point(1, 2),
    "dict subclass": Tagged(a=1),
    "deep": [[[[[[[[[[["bottom"]]]]]]]]]]],
    "type": dict,
    "function": len,
}


@BY_REFERENCE_AND_PACKED
@pytest.mark.parametrize("name", VALUES)
def test_a_value_arrives_as_it_was(cluster, name, conf):
    run(cluster, chain(Rows([[VALUES[name]]]), Sink()), conf)

    ((value,),) = noted("a")
    assert value == VALUES[name]
    assert type(value) is type(VALUES[name])
    if not isinstance(value, set | frozenset):  # sets have no guaranteed order
        assert repr(value) == repr(VALUES[name])
    assert noted("acked") == [0]


@BY_REFERENCE_AND_PACKED
def test_nan_arrives_as_nan(cluster, conf):
    run(cluster, chain(Rows([[math.nan]]), Sink()), conf)

    assert math.isnan(noted("a")[0][0])


@BY_REFERENCE_AND_PACKED
def test_a_value_of_many_megabytes_travels(cluster, conf):
    text, data = "x" * 20_000_000, bytes(20_000_000)

    run(cluster, chain(Rows([[text, data]], ["text", "data"]), Does(passes_on, ["text", "data"]), Sink()), conf)

    assert noted("b") == [[text, data]]
    assert noted("acked") == [0]


@BY_REFERENCE_AND_PACKED
def test_a_value_that_holds_itself_travels(cluster, conf):
    value = []
    value.append(value)

    run(cluster, chain(Rows([[value]]), Does(looks_inside)), conf)

    assert noted("is inside itself") == [True]


def looks_inside(bolt, tup):
    note("is inside itself", tup[0][0] is tup[0])
    bolt.collector.ack(tup)


def test_packed_values_are_copies(cluster):
    def emit_and_change(bolt, tup):
        value = ["before"]
        bolt.collector.emit([value], anchors=tup)
        value[0] = "after"
        bolt.collector.ack(tup)

    run(cluster, chain(numbers(1), Does(emit_and_change, ["value"]), Sink()), SERIALIZE)

    assert noted("b") == [[["before"]]]


UNPACKABLE = {
    "lock": threading.Lock,
    "lock in a dict in a list": lambda: [{"key": threading.Lock()}],
    "generator": lambda: (number for number in range(3)),
    "open file": lambda: open(__file__),  # noqa: SIM115 - an open one is wanted
    "thread": threading.current_thread,
}


@pytest.mark.parametrize("name", UNPACKABLE)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_value_that_cannot_be_packed_is_an_error_that_names_component_stream_and_field(cluster, name):
    def execute(bolt, tup):
        if tup[0] == 1:
            bolt.collector.emit("side", tup, ["fine", UNPACKABLE[name]()])
        bolt.collector.emit("side", tup, ["fine", tup[0]])
        bolt.collector.ack(tup)

    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(3))
    builder.set_bolt("maker", Does(execute, {"side": ["good", "bad"]})).shuffle_grouping("spout")
    builder.set_bolt("a", Sink()).shuffle_grouping("maker", "side")
    run(cluster, builder.create_topology(), SERIALIZE)

    (error,) = component(cluster, "maker").errors
    assert all(part in error.exception for part in ("SerializationError", "'maker'", "'side'", "'bad'"))
    assert (noted("acked"), noted("failed")) == ([0, 2], [1])
    assert noted("a") == [["fine", 0], ["fine", 2]]


def test_a_value_that_cannot_be_packed_can_be_caught_at_the_emit(cluster):
    """The refused emit adds nothing: the trees of its anchors complete without it."""

    def execute(bolt, tup):
        bolt.held.append(tup)
        for anchors in (tup, bolt.held):
            attempt("emit", lambda anchors=anchors: bolt.collector.emit([threading.Lock()], anchors=anchors))
        if len(bolt.held) == 2:
            for held in bolt.held:
                bolt.collector.ack(held)

    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(2))
    builder.set_bolt("a", Does(execute, ["value"])).shuffle_grouping("spout")
    builder.set_bolt("b", Sink(), 2).all_grouping("a")
    run(cluster, builder.create_topology(), SERIALIZE)

    assert {type(error) for error in noted("emit")} == {SerializationError}
    assert sorted(noted("acked")) == [0, 1]
    assert component(cluster, "a").emitted == 0


def test_a_spout_goes_on_after_an_emit_that_cannot_be_packed(cluster):
    class EmitsALock(Rows):
        def next_tuple(self):
            if self.left and self.left[0][0] == ["lock"]:
                self.left.popleft()
                self.collector.emit([threading.Lock()], message_id="lock")
            super().next_tuple()

    run(cluster, chain(EmitsALock([["a"], ["lock"], ["b"]]), Sink()), SERIALIZE)
    advance(cluster, 2)

    assert noted("a") == [["a"], ["b"]]
    assert "'value'" in component(cluster, "spout").errors[0].exception
    assert cluster.topology_info("topology").pending == 0


@pytest.mark.local_only(ONE_PROCESS)
def test_any_object_can_be_a_value_by_reference(cluster):
    run(cluster, chain(Emits(threading.Lock), Does(lambda bolt, tup: note("type", type(tup[0]).__name__))))

    assert noted("type") == ["lock"]


class Emits(Rows):
    """Emits one value, made by `make` in its task."""

    def __init__(self, make):
        super().__init__([["made"]])
        self.make = make

    def next_tuple(self):
        if self.left:
            self.left.popleft()
            self.collector.emit([self.make()], message_id=0)


class Plain:
    """A class without a wire format of its own."""


def test_pickle_can_be_forbidden_for_values(cluster):
    conf = {**SERIALIZE, "topology.fall.back.on.pickle": False}

    run(cluster, chain(Emits(Plain), Sink()), conf)

    (error,) = component(cluster, "spout").errors
    assert all(part in error.exception for part in ("SerializationError", "Plain", "topology.fall.back.on.pickle"))
    assert noted("a") == []


def test_a_value_that_can_be_packed_but_not_unpacked_fails_its_own_tuple_only(cluster):
    """In one process the emit raises. Between processes the error comes at the receiver, and the tuple fails."""
    run(cluster, chain(Emits(BreaksOnArrival), Sink()), SERIALIZE)

    errors = component(cluster, "spout").errors + component(cluster, "a").errors
    assert ["SerializationError" in error.exception for error in errors] == [True]
    assert noted("a") == noted("acked") == []
    assert cluster.topology_info("topology").pending == 0


class BreaksOnArrival:
    def __reduce__(self):
        return importlib.import_module, ("no_such_module_at_all",)


# Fields.


@pytest.mark.parametrize(
    "access",
    [
        lambda tup: tup["wrod"],
        lambda tup: tup.get_value_by_field("wrod"),
        lambda tup: tup.get_string_by_field("wrod"),
        lambda tup: tup.field_index("wrod"),
        lambda tup: tup.select(Fields("word", "wrod")),
        lambda tup: tup.select(["wrod"]),
        lambda tup: tup.select("wrod"),
    ],
)
def test_an_unknown_field_is_an_error_with_a_suggestion(cluster, access):
    def execute(bolt, tup):
        access(tup)

    run(cluster, chain(Rows([["a", 1]], ["word", "count"]), Does(execute)))

    (error,) = component(cluster, "a").errors
    assert all(part in error.exception for part in ("UnknownFieldError", "'wrod'", "did you mean 'word'?", "count"))
    assert noted("failed") == [0]


def test_an_unknown_field_is_also_a_key_error():
    assert issubclass(UnknownFieldError, KeyError)
    assert issubclass(UnknownFieldError, StormError)


@pytest.mark.parametrize("fields", [["a", "a"], ["a", "b", "a"]], ids=shown)
def test_a_field_that_is_declared_twice_is_refused(fields):
    with pytest.raises(InvalidTopologyError, match=r"'spout'.*duplicate field 'a'"):
        chain(Rows([], fields))


# Components that cannot travel.


class Attribute:
    def __init__(self, make):
        self.connection = make()


class BadSpout(Attribute, Rows):
    outputs = ("value",)


class BadBolt(Attribute, Bolt):
    pass


class BadBasicBolt(Attribute, BasicBolt):
    pass


class SlottedBolt(Bolt):
    __slots__ = ("connection",)

    def __init__(self, make):
        self.connection = make()


@pytest.mark.parametrize("make", [threading.Lock, lambda: (x for x in ())], ids=["lock", "generator"])
def test_a_spout_that_cannot_be_pickled_is_refused_with_its_attribute(cluster, make):
    with pytest.raises(SerializationError, match=r"'spout'.*'connection'"):
        cluster.submit_topology("topology", None, chain(BadSpout(make)))
    assert cluster.list_topologies() == []


@pytest.mark.parametrize("bolt", [BadBolt, BadBasicBolt])
def test_a_bolt_that_cannot_be_pickled_is_refused_with_its_attribute(cluster, bolt):
    with pytest.raises(SerializationError, match=r"'a'.*'connection'"):
        cluster.submit_topology("topology", None, chain(numbers(1), bolt(threading.Lock)))


def test_a_bolt_with_slots_that_cannot_be_pickled_is_refused(cluster):
    with pytest.raises(SerializationError, match="'a'"):
        cluster.submit_topology("topology", None, chain(numbers(1), SlottedBolt(threading.Lock)))


def test_a_function_that_cannot_be_pickled_is_refused(cluster):
    lock = threading.Lock()

    with pytest.raises(SerializationError, match=r"'a'.*'function'"):
        cluster.submit_topology("topology", None, chain(numbers(1), LambdaBolt(lambda tup: lock)))


def test_a_grouping_that_cannot_be_pickled_is_refused_before_anything_runs(cluster):
    class Grouping(CustomStreamGrouping):
        def __init__(self):
            self.connection = threading.Lock()

        def choose_tasks(self, task_id, values):
            return []

    class Opens(Fed):
        def open(self, conf, context, collector):
            note("calls", "open")

    builder = TopologyBuilder()
    builder.set_spout("spout", Opens())
    builder.set_bolt("a", Sink()).custom_grouping("spout", Grouping())

    with pytest.raises(SerializationError, match=r"'a'.*'connection'"):
        cluster.submit_topology("topology", None, builder.create_topology(), active=False)
    assert noted("calls") == []


def test_objects_made_in_open_and_prepare_need_not_be_picklable(cluster):
    class Opens(Rows):
        def open(self, conf, context, collector):
            super().open(conf, context, collector)
            self.lock = threading.Lock()

    class Prepares(Sink):
        def prepare(self, conf, context):
            super().prepare(conf, context)
            self.lock = threading.Lock()

    run(cluster, chain(Opens([["a"]]), Prepares()))

    assert noted("acked") == [0]


class NeedsModule(Rows):
    def __reduce__(self):
        return importlib.import_module, ("no_such_module_at_all",)


class BreaksWhenLoaded(Rows):
    def __setstate__(self, state):
        raise ValueError("not here")


@pytest.mark.every_case(OTHER_ORDERS)
@pytest.mark.parametrize("active", [True, False])
def test_a_component_whose_module_is_missing_is_refused_with_its_name(cluster, active):
    with pytest.raises(SerializationError, match=r"'spout'.*'no_such_module_at_all'"):
        cluster.submit_topology("topology", None, chain(NeedsModule([])), active=active)
    assert cluster.list_topologies() == []


def test_a_component_that_cannot_be_unpickled_is_refused_with_its_name(cluster):
    with pytest.raises(SerializationError, match=r"'spout'.*ValueError: not here"):
        cluster.submit_topology("topology", None, chain(BreaksWhenLoaded([])))


def test_super_init_is_never_required(cluster):
    class NoSuper(Spout):
        outputs = ("value",)

        def __init__(self, word):
            self.word = word

        def open(self, conf, context, collector):
            collector.emit([self.word])

    class NoSuperBolt(BasicBolt):
        def __init__(self, topic):
            self.topic = topic

        def execute(self, tup, collector):
            note(self.topic, tup[0])

    run(cluster, chain(NoSuper("x"), NoSuperBolt("seen")))

    assert noted("seen") == ["x"]


# Invalid topologies.


@pytest.mark.parametrize("parallelism", [0, -1, 1.5, True, False, 10**9, "2", [2], 2.0, math.nan], ids=shown)
@pytest.mark.parametrize("kind", ["spout", "bolt"])
def test_an_impossible_parallelism_is_refused(kind, parallelism):
    builder = TopologyBuilder()
    builder.set_spout("the spout", numbers(1), parallelism if kind == "spout" else 1)
    builder.set_bolt("the bolt", Sink(), parallelism if kind == "bolt" else 1).shuffle_grouping("the spout")

    with pytest.raises(InvalidTopologyError) as raised:
        builder.create_topology()

    assert f"'the {kind}'" in str(raised.value)
    assert repr(parallelism) in str(raised.value)


@pytest.mark.parametrize("number", [0, -1, 1.5, True, 10**9, "2"], ids=shown)
@pytest.mark.parametrize("setter", ["set_num_tasks", "set_max_task_parallelism"])
def test_an_impossible_number_of_tasks_is_refused(setter, number):
    builder = TopologyBuilder()
    getattr(builder.set_spout("spout", numbers(1)), setter)(number)

    with pytest.raises(InvalidTopologyError, match="'spout'"):
        builder.create_topology()


@pytest.mark.parametrize("key", ["topology.tasks", "topology.max.task.parallelism"])
@pytest.mark.parametrize("number", [-1, 1.5, 10**9, "2"], ids=shown)
def test_an_impossible_number_of_tasks_in_a_components_own_configuration_is_refused(key, number):
    class Configured(Sink):
        def component_configuration(self):
            return {key: number}

    with pytest.raises(InvalidTopologyError, match="'a'"):
        chain(numbers(1), Configured())


def test_a_component_without_parallelism_has_one_task(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(1), None)
    run(cluster, builder.create_topology())

    assert component(cluster, "spout").tasks == 1


@pytest.mark.parametrize("id_", ["", "__mine", None, 5, b"bytes", ["list"]], ids=shown)
def test_an_impossible_component_id_is_refused(id_):
    builder = TopologyBuilder()
    builder.set_spout(id_, numbers(1))

    with pytest.raises(InvalidTopologyError) as raised:
        builder.create_topology()
    assert repr(id_) in str(raised.value)


@pytest.mark.every_case(OTHER_NAMES)
@pytest.mark.parametrize("id_", ["with space", "Ünïcode", "a.b/c:d", "_x", "$x", "x" * 300])
def test_any_other_component_id_is_accepted(cluster, id_):
    builder = TopologyBuilder()
    builder.set_spout(id_, numbers(1))
    run(cluster, builder.create_topology())

    assert component(cluster, id_).emitted == 1


def test_a_second_component_of_an_id_is_refused():
    builder = TopologyBuilder()
    builder.set_spout("same", numbers(1))
    builder.set_bolt("same", Sink()).shuffle_grouping("same")

    with pytest.raises(InvalidTopologyError, match="'same' is already declared"):
        builder.create_topology()


@pytest.mark.parametrize("wrong", [None, "spout", 5, Sink(), Rows, Sink], ids=shown)
def test_an_object_that_is_not_a_spout_is_refused(wrong):
    builder = TopologyBuilder()
    builder.set_spout("spout", wrong)

    with pytest.raises(InvalidTopologyError, match="'spout'"):
        builder.create_topology()


@pytest.mark.parametrize("wrong", [None, "bolt", 5, numbers(1), Sink], ids=shown)
def test_an_object_that_is_not_a_bolt_is_refused(wrong):
    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(1))
    builder.set_bolt("the bolt", wrong).shuffle_grouping("spout")

    with pytest.raises(InvalidTopologyError, match="'the bolt'"):
        builder.create_topology()


def test_a_topology_without_a_spout_is_refused():
    with pytest.raises(InvalidTopologyError, match="spout"):
        TopologyBuilder().create_topology()


def test_a_bolt_without_inputs_is_refused():
    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(1))
    builder.set_bolt("lonely", Sink())

    with pytest.raises(InvalidTopologyError, match="'lonely' has no inputs"):
        builder.create_topology()


def test_a_subscription_to_an_unknown_component_names_both_ends():
    builder = TopologyBuilder()
    builder.set_spout("sentences", numbers(1))
    builder.set_bolt("split", Sink()).shuffle_grouping("sentence")

    with pytest.raises(InvalidTopologyError, match=r"'split'.*'sentence'.*did you mean 'sentences'"):
        builder.create_topology()


def test_a_subscription_to_an_unknown_stream_names_both_ends():
    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(1))
    builder.set_bolt("split", Sink()).shuffle_grouping("spout", "defalt")

    with pytest.raises(InvalidTopologyError, match=r"'split'.*'defalt'.*'spout'.*did you mean 'default'"):
        builder.create_topology()


def test_all_errors_are_reported_at_once():
    builder = TopologyBuilder()
    builder.set_spout("one", numbers(1), 0)
    builder.set_spout("__two", numbers(1))
    builder.set_bolt("three", Sink()).shuffle_grouping("nobody")
    builder.set_bolt("four", Sink())

    with pytest.raises(InvalidTopologyError) as raised:
        builder.create_topology()
    assert all(part in str(raised.value) for part in ("'one'", "'__two'", "'nobody'", "'four'"))


def test_a_cycle_is_accepted_with_a_warning_and_runs(cluster, caplog):
    def counts_down(bolt, tup):
        if tup[0] > 0:
            bolt.collector.emit([tup[0] - 1], anchors=tup)
        note("seen", tup[0])
        bolt.collector.ack(tup)

    builder = TopologyBuilder()
    builder.set_spout("spout", Rows([[3]]))
    builder.set_bolt("a", Does(counts_down, ["value"])).shuffle_grouping("spout").shuffle_grouping("a")
    topology = builder.create_topology()
    run(cluster, topology)

    assert "cycle" in caplog.text
    assert noted("seen") == [3, 2, 1, 0]
    assert noted("acked") == [0]


def test_a_bolt_that_never_acks_stalls_only_its_own_trees(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(5))
    builder.set_spout("other", Fed())
    builder.set_bolt("lazy", Does(holds)).shuffle_grouping("spout")
    builder.set_bolt("a", Does(acks)).shuffle_grouping("other")
    run(cluster, builder.create_topology(), {"topology.message.timeout.secs": 1})
    advance(cluster, 2)

    assert noted("failed") == [0, 1, 2, 3, 4]
    assert cluster.topology_info("topology").pending == 0


# Configuration.


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("topology.message.timeout.secs", "30"),
        ("topology.message.timeout.secs", 0),
        ("topology.message.timeout.secs", -1),
        ("topology.message.timeout.secs", None),
        ("topology.message.timeout.secs", math.nan),
        ("topology.message.timeout.secs", math.inf),
        ("topology.message.timeout.secs", True),
        ("topology.max.spout.pending", 0),
        ("topology.max.spout.pending", -1),
        ("topology.max.spout.pending", 1.5),
        ("topology.max.spout.pending", "10"),
        ("topology.acker.executors", -1),
        ("topology.acker.executors", "1"),
        ("topology.workers", 0),
        ("topology.workers", 2.5),
        ("topology.debug", "yes"),
        ("topology.debug", 1),
        ("topology.tick.tuple.freq.secs", 0),
        ("topology.tick.tuple.freq.secs", -5),
        ("topology.bolt.on.error", "explode"),
        ("topology.fields.grouping.hash", "md5"),
        ("topology.metrics.consumer.register", "a.Consumer"),
        ("topology.auto.task.hooks", "a.Hook"),
        ("my.own", {1, 2}),
        ("my.own", object()),
        ("my.own", b"bytes"),
        ("my.own", math.nan),
        ("my.own", [{"deep": {1: 2}}]),
    ],
    ids=shown,
)
def test_a_wrong_configuration_value_is_refused_with_its_key(cluster, key, value):
    with pytest.raises(InvalidConfigError) as raised:
        cluster.submit_topology("topology", {key: value}, chain(numbers(1)))

    assert key in str(raised.value)
    assert cluster.list_topologies() == []


@pytest.mark.parametrize("key", [5, None, ("a", "b")], ids=shown)
def test_a_configuration_key_must_be_text(cluster, key):
    with pytest.raises(InvalidConfigError, match="key"):
        cluster.submit_topology("topology", {key: 1}, chain(numbers(1)))


def test_a_wrong_value_in_a_components_own_configuration_names_component_and_key(cluster):
    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers(1)).set_max_spout_pending("many")

    with pytest.raises(InvalidConfigError, match=r"'numbers'.*topology\.max\.spout\.pending"):
        cluster.submit_topology("topology", None, builder.create_topology())


def test_a_configuration_that_holds_itself_is_refused(cluster):
    conf = {"my.own": []}
    conf["my.own"].append(conf["my.own"])

    with pytest.raises(InvalidConfigError, match=r"my\.own"):
        cluster.submit_topology("topology", conf, chain(numbers(1)))


def test_fractions_of_seconds_and_unknown_keys_are_accepted(cluster):
    conf = {"topology.message.timeout.secs": 0.5, "topology.tick.tuple.freq.secs": 0.1, "my.own": {"a": [1, None]}}

    run(cluster, chain(numbers(1)), conf)

    assert cluster.topology_info("topology").conf["my.own"] == {"a": [1, None]}
