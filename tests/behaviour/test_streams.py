"""Streams: declaring them, every way to emit on them, and what does not fit."""

import pytest

from pystorm_spark import (
    BasicBolt,
    EmitError,
    Fields,
    InvalidTopologyError,
    LambdaBolt,
    Spout,
    Stream,
    TopologyBuilder,
    Values,
)
from tests.behaviour.engine import ONE_PROCESS, chain, component, run
from tests.behaviour.probes import Does, Rows, Sink, Starts, attempt, note, noted, numbers
from tests.ids import shown

OUTPUTS = {"default": ["value"], "other": ["value"]}


def both_streams(component_, bolt_id="source"):
    """A topology whose component "source" emits on "default" and "other", each with a sink of that name."""
    builder = TopologyBuilder()
    if isinstance(component_, Spout):
        builder.set_spout(bolt_id, component_)
    else:
        builder.set_spout("spout", numbers(1))
        builder.set_bolt(bolt_id, component_).shuffle_grouping("spout")
    builder.set_bolt("default", Sink()).shuffle_grouping(bolt_id)
    builder.set_bolt("other", Sink()).shuffle_grouping(bolt_id, "other")
    return builder.create_topology()


# Every form of emit.

SPOUT_FORMS = {
    "values": (lambda c: c.emit(["v"]), "default", None),
    "values, id": (lambda c: c.emit(["v"], 7), "default", 7),
    "values, message_id": (lambda c: c.emit(["v"], message_id=7), "default", 7),
    "values, no id": (lambda c: c.emit(["v"], None), "default", None),
    "values, text as id": (lambda c: c.emit(["v"], "id"), "default", "id"),
    "values, list as id": (lambda c: c.emit(["v"], ["id"]), "default", ["id"]),
    "stream, values": (lambda c: c.emit("other", ["v"]), "other", None),
    "stream, values, id": (lambda c: c.emit("other", ["v"], 7), "other", 7),
    "stream, values, message_id": (lambda c: c.emit("other", ["v"], message_id=7), "other", 7),
    "values, stream=": (lambda c: c.emit(["v"], stream="other"), "other", None),
    "values, id, stream=": (lambda c: c.emit(["v"], 7, stream="other"), "other", 7),
    "all by name": (lambda c: c.emit(values=["v"], message_id=7, stream="other"), "other", 7),
    "a tuple": (lambda c: c.emit(("v",), message_id=7), "default", 7),
    "Values": (lambda c: c.emit(Values("v"), 7), "default", 7),
    "stream, Values, id": (lambda c: c.emit("other", Values("v"), 7), "other", 7),
}


@pytest.mark.parametrize("form", SPOUT_FORMS)
def test_a_spout_emits_by_every_form(cluster, form):
    emit, stream, message_id = SPOUT_FORMS[form]

    run(cluster, both_streams(Starts(lambda spout: note("tasks", emit(spout.collector)), OUTPUTS)))

    assert [list(values) for values in noted(stream)] == [["v"]]
    assert noted({"default": "other", "other": "default"}[stream]) == []
    assert noted("acked") == ([] if message_id is None else [message_id])
    # "__acker" 1, "default" 2, "other" 3.
    assert noted("tasks") == [[{"default": 2, "other": 3}[stream]]]


BOLT_FORMS = {
    "values": (lambda c, t: c.emit(["v"]), "default", False),
    "values, anchors=": (lambda c, t: c.emit(["v"], anchors=t), "default", True),
    "values, anchors=[]": (lambda c, t: c.emit(["v"], anchors=[t]), "default", True),
    "anchor, values": (lambda c, t: c.emit(t, ["v"]), "default", True),
    "anchors, values": (lambda c, t: c.emit([t], ["v"]), "default", True),
    "no anchor, values": (lambda c, t: c.emit(None, ["v"]), "default", False),
    "anchor, values, stream=": (lambda c, t: c.emit(t, ["v"], stream="other"), "other", True),
    "stream, values": (lambda c, t: c.emit("other", ["v"]), "other", False),
    "stream, values, anchors=": (lambda c, t: c.emit("other", ["v"], anchors=t), "other", True),
    "stream, anchor, values": (lambda c, t: c.emit("other", t, ["v"]), "other", True),
    "stream, anchors, values": (lambda c, t: c.emit("other", [t], ["v"]), "other", True),
    "stream, no anchor, values": (lambda c, t: c.emit("other", None, ["v"]), "other", False),
    "values, stream=": (lambda c, t: c.emit(["v"], stream="other"), "other", False),
    "values, anchors=, stream=": (lambda c, t: c.emit(["v"], anchors=t, stream="other"), "other", True),
    "all by name": (lambda c, t: c.emit(values=["v"], anchors=[t], stream="other"), "other", True),
    "a tuple": (lambda c, t: c.emit(("v",), anchors=t), "default", True),
    "anchor, Values": (lambda c, t: c.emit(t, Values("v")), "default", True),
    "anchor, a tuple": (lambda c, t: c.emit(t, ("v",)), "default", True),
    "stream, anchor, Values": (lambda c, t: c.emit("other", t, Values("v")), "other", True),
}


@pytest.mark.parametrize("form", BOLT_FORMS)
def test_a_bolt_emits_by_every_form(cluster, form):
    emit, stream, _ = BOLT_FORMS[form]

    def execute(bolt, tup):
        note("tasks", emit(bolt.collector, tup))
        bolt.collector.ack(tup)

    topology = both_streams(Does(execute, OUTPUTS))
    run(cluster, topology)

    assert [list(values) for values in noted(stream)] == [["v"]]
    assert noted({"default": "other", "other": "default"}[stream]) == []
    assert noted("tasks") == [[{"default": 2, "other": 3}[stream]]]


@pytest.mark.parametrize("form", BOLT_FORMS)
def test_a_bolt_anchors_by_every_form_that_names_an_anchor(cluster, form):
    emit, stream, anchored = BOLT_FORMS[form]

    def execute(bolt, tup):
        emit(bolt.collector, tup)
        bolt.collector.ack(tup)

    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(1))
    builder.set_bolt("a", Does(execute, OUTPUTS)).shuffle_grouping("spout")
    builder.set_bolt("b", LambdaBolt(fails_in_basic_bolt)).shuffle_grouping("a", stream)
    run(cluster, builder.create_topology())

    assert (noted("acked"), noted("failed")) == (([], [0]) if anchored else ([0], []))


def fails_in_basic_bolt(tup):
    raise ValueError("failed on purpose")


BASIC_FORMS = {
    "values": (lambda c: c.emit(["v"]), "default"),
    "stream, values": (lambda c: c.emit("other", ["v"]), "other"),
    "values, stream=": (lambda c: c.emit(["v"], stream="other"), "other"),
    "by name": (lambda c: c.emit(values=["v"], stream="other"), "other"),
    "a tuple": (lambda c: c.emit(("v",)), "default"),
    "Values": (lambda c: c.emit(Values("v")), "default"),
    "stream, Values": (lambda c: c.emit("other", Values("v")), "other"),
}


@pytest.mark.parametrize("form", BASIC_FORMS)
def test_a_basic_bolt_emits_by_every_form(cluster, form):
    emit, stream = BASIC_FORMS[form]

    class Emits(BasicBolt):
        outputs = OUTPUTS

        def execute(self, tup, collector):
            note("tasks", emit(collector))

    run(cluster, both_streams(Emits()))

    assert [list(values) for values in noted(stream)] == [["v"]]
    assert noted("tasks") == [[{"default": 2, "other": 3}[stream]]]


# Direct streams. Tasks: "__acker" 1, "a" 2, "spout" and others after it.

DIRECT = {"default": Stream(["value"], direct=True), "other": Stream(["value"], direct=True)}

SPOUT_DIRECT_FORMS = {
    "task, values": (lambda c: c.emit_direct(3, ["v"]), "default", None),
    "task, values, id": (lambda c: c.emit_direct(3, ["v"], 7), "default", 7),
    "task, values, message_id": (lambda c: c.emit_direct(3, ["v"], message_id=7), "default", 7),
    "task, stream, values": (lambda c: c.emit_direct(3, "other", ["v"]), "other", None),
    "task, stream, values, id": (lambda c: c.emit_direct(3, "other", ["v"], 7), "other", 7),
    "by name": (lambda c: c.emit_direct(3, ["v"], stream="other", message_id=7), "other", 7),
    "all by name": (lambda c: c.emit_direct(task_id=3, values=["v"], stream="other", message_id=7), "other", 7),
}


@pytest.mark.parametrize("form", SPOUT_DIRECT_FORMS)
def test_a_spout_emits_directly_by_every_form(cluster, form):
    emit, stream, message_id = SPOUT_DIRECT_FORMS[form]
    builder = TopologyBuilder()
    builder.set_spout("spout", Starts(lambda spout: emit(spout.collector), DIRECT))
    builder.set_bolt("a", Sink(), 3).direct_grouping("spout", stream)
    run(cluster, builder.create_topology())

    assert noted("a by task") == [(3, ["v"])]
    assert noted("acked") == ([] if message_id is None else [message_id])


BOLT_DIRECT_FORMS = {
    "task, values": (lambda c, t: c.emit_direct(3, ["v"]), "default", False),
    "task, anchor, values": (lambda c, t: c.emit_direct(3, t, ["v"]), "default", True),
    "task, anchors, values": (lambda c, t: c.emit_direct(3, [t], ["v"]), "default", True),
    "task, stream, values": (lambda c, t: c.emit_direct(3, "other", ["v"]), "other", False),
    "task, stream, anchor, values": (lambda c, t: c.emit_direct(3, "other", t, ["v"]), "other", True),
    "task, stream, anchors, values": (lambda c, t: c.emit_direct(3, "other", [t], ["v"]), "other", True),
    "task, no anchor, values": (lambda c, t: c.emit_direct(3, None, ["v"]), "default", False),
    "by name": (lambda c, t: c.emit_direct(3, ["v"], anchors=t, stream="other"), "other", True),
}


@pytest.mark.parametrize("form", BOLT_DIRECT_FORMS)
def test_a_bolt_emits_directly_by_every_form(cluster, form):
    emit, stream, anchored = BOLT_DIRECT_FORMS[form]

    def execute(bolt, tup):
        emit(bolt.collector, tup)
        bolt.collector.ack(tup)

    def notes_and_fails(bolt, tup):
        note("received", (bolt.context.this_task_id, tup.values))
        bolt.collector.fail(tup)

    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(1))
    builder.set_bolt("a", Does(notes_and_fails), 3).direct_grouping("b", stream)
    builder.set_bolt("b", Does(execute, DIRECT)).shuffle_grouping("spout")
    run(cluster, builder.create_topology())

    assert noted("received") == [(3, ["v"])]
    assert (noted("acked"), noted("failed")) == (([], [0]) if anchored else ([0], []))


@pytest.mark.parametrize("args", [(["v"],), ("other", ["v"])], ids=shown)
def test_a_basic_bolt_emits_directly(cluster, args):
    class Emits(BasicBolt):
        outputs = DIRECT

        def execute(self, tup, collector):
            collector.emit_direct(2, *args)

    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(1))
    builder.set_bolt("a", Sink()).direct_grouping("b").direct_grouping("b", "other")
    builder.set_bolt("b", Emits()).shuffle_grouping("spout")
    run(cluster, builder.create_topology())

    assert noted("a by task") == [(2, ["v"])]


def direct_and_regular(emit):
    """ "a" (task 2) subscribes directly, "b" (task 3) by shuffle to another stream, "spout" is task 4."""
    builder = TopologyBuilder()
    builder.set_spout("spout", Starts(lambda spout: attempt("emit", lambda: emit(spout.collector)), OUTPUTS))
    builder.set_bolt("a", Sink()).direct_grouping("spout")
    builder.set_bolt("b", Sink()).shuffle_grouping("spout", "other")
    return builder.create_topology()


@pytest.mark.parametrize("task_id", [3, 4, 1, 99, -1, "2", None, [2]], ids=shown)
def test_a_direct_emit_to_a_task_that_does_not_subscribe_directly_is_an_error(cluster, task_id):
    run(cluster, direct_and_regular(lambda collector: collector.emit_direct(task_id, ["v"], message_id=1)))

    (error,) = noted("emit")
    assert isinstance(error, EmitError)
    assert all(part in str(error) for part in ("'spout'", "'default'", repr(task_id), "[2]"))
    assert cluster.topology_info("topology").pending == 0


def test_a_direct_emit_on_a_stream_with_a_regular_subscriber_is_an_error(cluster):
    run(cluster, direct_and_regular(lambda collector: collector.emit_direct(3, "other", ["v"])))

    assert isinstance(noted("emit")[0], EmitError)
    assert noted("b") == []


def test_a_regular_emit_on_a_stream_with_a_direct_subscriber_is_an_error(cluster):
    run(cluster, direct_and_regular(lambda collector: collector.emit(["v"], message_id=1)))

    (error,) = noted("emit")
    assert isinstance(error, EmitError)
    assert all(part in str(error) for part in ("'spout'", "'default'", "emit_direct"))
    assert noted("a") == []
    assert component(cluster, "spout").emitted == 0


def test_a_direct_emit_reaches_no_other_task(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", Starts(lambda spout: spout.collector.emit_direct(4, ["v"])))
    builder.set_bolt("a", Sink(), 5).direct_grouping("spout")
    run(cluster, builder.create_topology())

    assert noted("a by task") == [(4, ["v"])]
    assert component(cluster, "spout").transferred == 1


# What does not fit.


def emitting(emit, outputs=OUTPUTS):
    return both_streams(Starts(lambda spout: attempt("emit", lambda: emit(spout.collector)), outputs))


@pytest.mark.parametrize("stream", ["othr", "", None, 5, ["other"], "__ack_init", "__tick", "__metrics"], ids=shown)
def test_emitting_on_an_undeclared_stream_is_an_error(cluster, stream):
    run(cluster, emitting(lambda collector: collector.emit(["v"], stream=stream, message_id=1)))

    (error,) = noted("emit")
    assert isinstance(error, EmitError)
    assert all(part in str(error) for part in ("'source'", repr(stream), "default, other"))


def test_a_misspelt_stream_is_an_error_with_a_suggestion(cluster):
    run(cluster, emitting(lambda collector: collector.emit("othr", ["v"])))

    assert "did you mean 'other'?" in str(noted("emit")[0])


@pytest.mark.parametrize("values", [[], ["a", "b"], (), Values(1, 2, 3)], ids=shown)
def test_the_wrong_number_of_values_is_an_error(cluster, values):
    run(cluster, emitting(lambda collector: collector.emit(values, message_id=1)))

    (error,) = noted("emit")
    assert isinstance(error, EmitError)
    assert all(part in str(error) for part in ("'source'", "'default'", "['value']", str(len(values))))
    assert cluster.topology_info("topology").pending == 0


@pytest.mark.parametrize("values", [None, 5, "v", {"value": 1}, {1}, iter([1]), b"v"], ids=lambda v: type(v).__name__)
def test_values_of_another_type_than_a_list_are_an_error(cluster, values):
    run(cluster, emitting(lambda collector: collector.emit(values)))

    (error,) = noted("emit")
    assert isinstance(error, EmitError)
    assert all(part in str(error) for part in ("'source'", "'default'", type(values).__name__))


def test_the_error_of_a_huge_value_is_short(cluster):
    run(cluster, emitting(lambda collector: collector.emit(["x" * 5_000_000, 1])))

    assert len(str(noted("emit")[0])) < 2000


def test_the_error_of_a_value_that_cannot_be_shown_is_an_emit_error(cluster):
    class Shy:
        def __repr__(self):
            raise RuntimeError("no")

    run(cluster, emitting(lambda collector: collector.emit([Shy(), Shy()])))

    assert isinstance(noted("emit")[0], EmitError)


@pytest.mark.parametrize("args", [(), (["a"], 1, 2, 3), ("other",), ("other", ["v"], 1, 2)], ids=shown)
def test_a_spouts_emit_with_the_wrong_arguments_is_an_error(cluster, args):
    run(cluster, emitting(lambda collector: collector.emit(*args)))

    assert isinstance(noted("emit")[0], (TypeError, EmitError))
    assert noted("default") == noted("other") == []


@pytest.mark.parametrize(
    "emit",
    [
        lambda c, t: c.emit(),
        lambda c, t: c.emit(t),
        lambda c, t: c.emit(["v"], t),
        lambda c, t: c.emit("other", ["v"], t),
        lambda c, t: c.emit("other", t, ["v"], 4),
        lambda c, t: c.emit(["v"], message_id=4),
    ],
)
def test_a_bolts_emit_with_the_wrong_arguments_is_an_error(cluster, emit):
    def execute(bolt, tup):
        attempt("emit", lambda: emit(bolt.collector, tup))
        bolt.collector.ack(tup)

    run(cluster, both_streams(Does(execute, OUTPUTS)))

    assert isinstance(noted("emit")[0], (TypeError, EmitError))
    assert noted("acked") == [0]
    assert noted("default") == noted("other") == []


def test_an_emit_error_fails_the_tuple_of_the_bolt_and_names_it(cluster):
    def execute(bolt, tup):
        bolt.collector.emit(["too", "many"], anchors=tup)

    run(cluster, both_streams(Does(execute, OUTPUTS)))

    assert noted("failed") == [0]
    (error,) = component(cluster, "source").errors
    assert "EmitError" in error.exception
    assert "value=0" in error.input


def test_an_emit_on_a_stream_without_subscribers_returns_no_tasks(cluster):
    run(cluster, chain(Starts(lambda spout: note("tasks", spout.collector.emit(["v"])))))

    assert noted("tasks") == [[]]
    info = component(cluster, "spout")
    assert (info.emitted, info.transferred) == (1, 0)


def test_a_component_without_outputs_cannot_emit(cluster):
    def execute(bolt, tup):
        bolt.collector.emit(["v"])

    run(cluster, chain(numbers(1), Does(execute)))

    assert "there is none" in component(cluster, "a").errors[0].exception


# Declaring.


def declares(function):
    class Declares(Spout):
        def declare_output_fields(self, declarer):
            function(declarer)

    builder = TopologyBuilder()
    builder.set_spout("spout", Declares())
    outputs = builder.create_topology().components["spout"].outputs
    return {id_: (stream.fields.to_list(), stream.direct) for id_, stream in outputs.items()}


@pytest.mark.parametrize("fields", [Fields("a", "b"), ["a", "b"], ("a", "b")], ids=shown)
def test_fields_may_be_declared_as_a_list_of_names(fields):
    assert declares(lambda declarer: declarer.declare(fields)) == {"default": (["a", "b"], False)}
    assert declares(lambda declarer: declarer.declare(True, fields)) == {"default": (["a", "b"], True)}
    assert declares(lambda declarer: declarer.declare_stream("s", fields)) == {"s": (["a", "b"], False)}
    assert declares(lambda declarer: declarer.declare_stream("s", True, fields)) == {"s": (["a", "b"], True)}
    assert declares(lambda declarer: declarer.declare_stream("s", False, fields)) == {"s": (["a", "b"], False)}


def test_one_name_may_stand_for_fields():
    assert declares(lambda declarer: declarer.declare("word")) == {"default": (["word"], False)}
    assert declares(lambda declarer: declarer.declare_stream("s", "word")) == {"s": (["word"], False)}


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        (None, {}),
        (["a"], {"default": (["a"], False)}),
        ("a", {"default": (["a"], False)}),
        (Fields("a"), {"default": (["a"], False)}),
        (Stream(["a"], direct=True), {"default": (["a"], True)}),
        ({"s": ["a", "b"], "t": Stream("c", direct=True)}, {"s": (["a", "b"], False), "t": (["c"], True)}),
    ],
    ids=shown,
)
def test_outputs_declares_streams(outputs, expected):
    builder = TopologyBuilder()
    builder.set_spout("spout", Starts(lambda spout: None, outputs))

    streams = builder.create_topology().components["spout"].outputs

    assert {id_: (stream.fields.to_list(), stream.direct) for id_, stream in streams.items()} == expected


@pytest.mark.parametrize(
    "declare",
    [
        lambda declarer: declarer.declare("word", "count"),
        lambda declarer: declarer.declare(["word"], True),
        lambda declarer: declarer.declare(),
        lambda declarer: declarer.declare(None),
        lambda declarer: declarer.declare(5),
        lambda declarer: declarer.declare([1, 2]),
        lambda declarer: declarer.declare(["a", "a"]),
        lambda declarer: [declarer.declare(["a"]), declarer.declare(["b"])],
        lambda declarer: declarer.declare_stream("s"),
        lambda declarer: declarer.declare_stream("", ["a"]),
        lambda declarer: declarer.declare_stream(None, ["a"]),
        lambda declarer: declarer.declare_stream(5, ["a"]),
        lambda declarer: declarer.declare_stream("__mine", ["a"]),
        lambda declarer: declarer.declare_stream("s", True, ["a"], "more"),
    ],
)
def test_a_wrong_declaration_names_the_component(declare):
    with pytest.raises(InvalidTopologyError, match="'spout'"):
        declares(declare)


def test_a_stream_without_fields_carries_empty_tuples(cluster):
    spout = Starts(lambda spout: spout.collector.emit([], message_id=1), {"default": []})

    run(cluster, chain(spout, Sink()))

    assert noted("a") == [[]]
    assert noted("acked") == [1]


# What arrives.


def test_a_tuple_knows_its_source(cluster):
    def execute(bolt, tup):
        origin = (tup.source_component, tup.source_task, tup.source_stream_id)
        note("origin", (origin, tup.fields, tuple(tup.source_global_stream_id)))

    builder = TopologyBuilder()
    builder.set_spout("spout", Starts(lambda spout: spout.collector.emit("s", [1, 2]), {"s": ["x", "y"]}))
    builder.set_bolt("a", Does(execute)).shuffle_grouping("spout", "s")
    run(cluster, builder.create_topology())

    assert noted("origin") == [(("spout", 3, "s"), Fields("x", "y"), ("spout", "s"))]


def test_tuples_from_one_task_to_another_keep_their_order_across_streams(cluster):
    def emit(spout):
        for number in range(6):
            spout.collector.emit([number], stream="default" if number % 2 else "other")

    builder = TopologyBuilder()
    builder.set_spout("spout", Starts(emit, OUTPUTS))
    builder.set_bolt("a", Sink()).shuffle_grouping("spout").shuffle_grouping("spout", "other")
    run(cluster, builder.create_topology())

    assert noted("a") == [[number] for number in range(6)]


def test_a_bolt_may_emit_in_prepare(cluster):
    class Eager(Does):
        def prepare(self, conf, context, collector):
            super().prepare(conf, context, collector)
            note("tasks", collector.emit(["early"]))

    run(cluster, chain(numbers(0), Eager(note, ["value"]), Sink()))

    assert noted("tasks") == [[3]]
    assert noted("b") == [["early"]]


@pytest.mark.parametrize("verb", ["emit", "ack", "fail"])
def test_emits_and_acks_in_cleanup_are_ignored(cluster, verb):
    class Tidy(Does):
        def cleanup(self):
            attempt("cleanup", lambda: getattr(self.collector, verb)(*self.held))

    run(
        cluster,
        chain(Rows([["a"]]), Tidy(lambda bolt, tup: bolt.held.append(["x"] if verb == "emit" else tup), ["v"]), Sink()),
    )
    cluster.kill_topology("topology")

    assert noted("cleanup") in ([None], [[3]])
    assert noted("b") == []


@pytest.mark.local_only(ONE_PROCESS)
def test_values_are_passed_by_reference(cluster):
    """Inside a process, as in Storm: the receiver sees changes that are made to a value after the emit."""

    def emit(spout):
        value = []
        spout.collector.emit([value])
        value.append("changed")

    run(cluster, chain(Starts(emit), Sink()))

    assert noted("a") == [[["changed"]]]


def test_tuples_with_equal_values_are_different_tuples(cluster):
    def execute(bolt, tup):
        bolt.held.append(tup)
        if len(bolt.held) == 2:
            first, second = bolt.held
            note("equal", (first == second, first == first, len({first, second})))

    run(cluster, chain(Rows([["same"], ["same"]]), Does(execute)))

    assert noted("equal") == [(False, True, 2)]
