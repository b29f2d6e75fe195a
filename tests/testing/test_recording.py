"""RecordingCollector and make_tuple: one component under test, no cluster."""

import logging

import pytest

from pystorm_spark import (
    BasicBolt,
    Bolt,
    EmitError,
    FailedException,
    Fields,
    OutputCollector,
    Spout,
    StormError,
    UnknownFieldError,
    Values,
    is_tick,
)
from pystorm_spark.testing import Emitted, RecordingCollector, make_tuple


@pytest.fixture
def collector():
    return RecordingCollector()


@pytest.fixture
def tup():
    return make_tuple(["storm", 1], ["word", "n"])


# make_tuple


def test_a_made_tuple_has_values_and_fields(tup):
    assert (tup.values, tup["word"], tup.get_integer(1), list(tup.fields)) == (["storm", 1], "storm", 1, ["word", "n"])


def test_a_made_tuple_comes_from_source_task_1_on_the_default_stream(tup):
    assert (tup.source_component, tup.source_task, tup.source_stream_id) == ("source", 1, "default")


def test_a_made_tuple_has_the_given_source():
    tup = make_tuple(Values(1), Fields("n"), component="spout", stream="errors", task=7)
    assert (tup.source_component, tup.source_task, tup.source_stream_id) == ("spout", 7, "errors")


def test_fields_are_numbered_if_none_are_given():
    assert make_tuple(["a", "b"]).select(["field1", "field0"]) == ["b", "a"]


def test_a_tick_can_be_made():
    assert is_tick(make_tuple([5], ["rate_secs"], component="__system", stream="__tick", task=-1))


def test_wrong_arity_of_a_made_tuple_is_an_error():
    with pytest.raises(EmitError, match=r"make_tuple got 1 values for 2 fields \['word', 'n'\]: \['storm'\]"):
        make_tuple(["storm"], ["word", "n"])


def test_the_error_of_a_huge_row_is_short():
    with pytest.raises(EmitError) as caught:
        make_tuple(["x" * 1_000_000], ["a", "b"])
    assert len(str(caught.value)) < 200


def test_text_instead_of_a_list_is_refused():
    with pytest.raises(EmitError, match="make_tuple got 'storm' of type str"):
        make_tuple("storm")


def test_a_made_tuple_does_not_change_with_the_list_it_was_made_from():
    values = ["a"]
    tup = make_tuple(values)
    values[0] = "b"
    assert tup.values == ["a"]


# Bolts


def test_an_emit_is_recorded_with_its_defaults(collector):
    collector.emit(["a"])
    assert collector.emitted == [Emitted(["a"], "default", [], None, None)]


@pytest.mark.parametrize(
    "emit",
    [
        lambda collector, tup: collector.emit(["a"], anchors=tup, stream="s"),
        lambda collector, tup: collector.emit(("a",), anchors=[tup], stream="s"),
        lambda collector, tup: collector.emit(values=["a"], anchors={tup}, stream="s"),
        lambda collector, tup: collector.emit(tup, Values("a"), stream="s"),
        lambda collector, tup: collector.emit([tup], ["a"], stream="s"),
        lambda collector, tup: collector.emit("s", tup, ["a"]),
        lambda collector, tup: collector.emit("s", (tup,), ["a"]),
        lambda collector, tup: collector.emit("s", ["a"], anchors=tup),
    ],
)
def test_every_form_of_a_bolts_emit_is_the_same(collector, tup, emit):
    emit(collector, tup)
    assert collector.emitted == [Emitted(["a"], "s", [tup])]


@pytest.mark.parametrize(
    "emit",
    [
        lambda collector: collector.emit("s", ["a"]),
        lambda collector: collector.emit("s", None, ["a"]),
        lambda collector: collector.emit("s", [], ["a"]),
        lambda collector: collector.emit([], ["a"], stream="s"),
        lambda collector: collector.emit(["a"], anchors=(), stream="s"),
    ],
)
def test_every_form_without_anchors_is_the_same(collector, emit):
    emit(collector)
    assert collector.emitted == [Emitted(["a"], "s")]


def test_an_emit_with_several_anchors_records_all(collector, tup):
    other = make_tuple([2])
    collector.emit([tup, other], ["a"])
    assert collector.emitted[0].anchors == [tup, other]


@pytest.mark.parametrize(
    "emit",
    [
        lambda collector, tup: collector.emit_direct(7, ["a"], anchors=tup, stream="s"),
        lambda collector, tup: collector.emit_direct(7, "s", tup, ["a"]),
        lambda collector, tup: collector.emitDirect(7, "s", [tup], ["a"]),
    ],
)
def test_a_direct_emit_records_its_task(collector, tup, emit):
    emit(collector, tup)
    assert collector.emitted == [Emitted(["a"], "s", [tup], task=7)]


def test_acks_fails_errors_and_resets_are_recorded_in_order(collector):
    first, second, third, error = make_tuple([1]), make_tuple([2]), make_tuple([3]), ValueError("x")
    collector.reset_timeout(first)
    collector.ack(second)
    collector.ack(first)
    collector.fail(third)
    collector.report_error(error)
    assert (collector.acked, collector.failed) == ([second, first], [third])
    assert (collector.errors, collector.timeouts_reset) == ([error], [first])


def test_javas_names_record_too(collector, tup):
    error = ValueError("x")
    collector.resetTimeout(tup)
    collector.reportError(error)
    assert (collector.timeouts_reset, collector.errors, collector.getPendingCount()) == ([tup], [error], 0)


@pytest.mark.parametrize("second", ["ack", "fail"])
@pytest.mark.parametrize("first", ["ack", "fail"])
def test_a_second_ack_or_fail_is_ignored_with_a_warning(collector, tup, first, second, caplog):
    getattr(collector, first)(tup)
    with caplog.at_level(logging.WARNING):
        getattr(collector, second)(tup)
    assert len(collector.acked) + len(collector.failed) == 1
    assert f"{second} of {tup!r} is ignored: it was already acked or failed" in caplog.text


def test_an_emit_anchored_to_a_settled_tuple_is_an_error(collector, tup):
    collector.ack(tup)
    with pytest.raises(EmitError, match="already acked or failed; emit first, then ack"):
        collector.emit(["a"], anchors=[make_tuple([1]), tup])
    assert collector.emitted == []


def test_anchors_of_another_type_than_tuples_are_an_error(collector):
    with pytest.raises(EmitError, match="anchors must be tuples"):
        collector.emit(["a"], anchors="tup")


def test_a_tuple_in_the_place_of_the_values_is_an_error(collector, tup):
    with pytest.raises(EmitError, match="got a tuple where the values belong"):
        collector.emit(tup)


def test_values_of_another_type_than_a_list_are_an_error(collector):
    with pytest.raises(EmitError, match="emit got 'storm' of type str; values must be a list or a tuple"):
        collector.emit("storm")


@pytest.mark.parametrize("verb", ["ack", "fail", "reset_timeout"])
def test_acking_or_failing_another_type_than_a_tuple_is_an_error(collector, verb):
    with pytest.raises(TypeError, match=f"{verb} takes a tuple that the bolt received, got 7 of type int"):
        getattr(collector, verb)(7)


def test_a_reported_object_that_is_not_an_exception_becomes_one(collector):
    collector.report_error("broken")
    assert isinstance(collector.errors[0], StormError)


def test_an_emit_returns_the_task_ids_it_was_given():
    assert RecordingCollector().emit(["a"]) == [1]
    assert RecordingCollector(task_ids=[4, 5]).emit(["a"]) == [4, 5]


def test_recorded_values_do_not_change_with_the_emitted_list(collector):
    values = ["a"]
    collector.emit(values)
    values[0] = "b"
    assert collector.emitted == [Emitted(["a"])]


class Split(Bolt):
    def prepare(self, conf, context, collector):
        assert isinstance(collector, OutputCollector)
        self.collector = collector

    def execute(self, tup):
        for word in tup["sentence"].split():
            self.collector.emit(tup, [word])
        self.collector.ack(tup)


def test_a_bolt_can_be_tested_with_a_recording_collector(collector):
    bolt, tup = Split(), make_tuple(["big data"], ["sentence"])
    bolt.prepare({}, None, collector)
    bolt.execute(tup)
    assert collector.emitted == [Emitted(["big"], anchors=[tup]), Emitted(["data"], anchors=[tup])]
    assert collector.acked == [tup]


def test_an_unknown_field_in_a_bolt_under_test_names_the_known_ones(collector):
    bolt = Split()
    bolt.prepare({}, None, collector)
    with pytest.raises(UnknownFieldError, match="'sentence' does not exist; did you mean 'sentences'"):
        bolt.execute(make_tuple(["big data"], ["sentences"]))


# Basic bolts


class Upper(BasicBolt):
    def execute(self, tup, collector):
        if not tup[0]:
            raise FailedException("empty")
        collector.emit([tup[0].upper()])
        collector.emit("copies", [tup[0]])


def test_a_basic_bolt_takes_a_recording_collector(collector):
    Upper().execute(make_tuple(["a"]), collector)
    assert collector.emitted == [Emitted(["A"]), Emitted(["a"], "copies")]


def test_a_basic_bolt_that_is_run_as_the_engine_does_anchors_and_acks(collector):
    bolt, tup = Upper().as_bolt(), make_tuple(["a"])
    bolt.prepare({}, None, collector)
    bolt.execute(tup)
    assert collector.emitted == [Emitted(["A"], anchors=[tup]), Emitted(["a"], "copies", [tup])]
    assert collector.acked == [tup]


def test_a_basic_bolt_that_raises_failed_exception_fails_its_input(collector):
    bolt, tup = Upper().as_bolt(), make_tuple([""])
    bolt.prepare({}, None, collector)
    bolt.execute(tup)
    assert (collector.acked, collector.failed, collector.errors) == ([], [tup], [])


def test_emits_after_set_context_are_anchored_to_it(collector, tup):
    collector.set_context(tup)
    collector.emit(["a"])
    assert collector.emitted == [Emitted(["a"], anchors=[tup])]


# Spouts


@pytest.mark.parametrize(
    "emit",
    [
        lambda collector: collector.emit(["a"], message_id=7, stream="s"),
        lambda collector: collector.emit(values=["a"], message_id=7, stream="s"),
        lambda collector: collector.emit(["a"], 7, stream="s"),
        lambda collector: collector.emit("s", Values("a"), 7),
        lambda collector: collector.emit("s", ("a",), message_id=7),
    ],
)
def test_every_form_of_a_spouts_emit_is_the_same(collector, emit):
    emit(collector)
    assert collector.emitted == [Emitted(["a"], "s", message_id=7)]


@pytest.mark.parametrize("message_id", [0, "", ("partition", 3), [1], {"offset": 1}])
def test_any_message_id_may_follow_the_values(collector, message_id):
    collector.emit(["a"], message_id)
    assert collector.emitted == [Emitted(["a"], message_id=message_id)]


def test_a_message_id_may_follow_empty_values(collector):
    collector.emit([], "id")
    assert collector.emitted == [Emitted([], message_id="id")]


def test_a_spouts_direct_emit_records_task_and_message_id(collector):
    collector.emit_direct(3, ["a"], 7)
    assert collector.emitted == [Emitted(["a"], message_id=7, task=3)]


def test_pending_count_is_that_of_emits_with_a_message_id(collector):
    collector.emit(["a"], message_id=0)
    collector.emit(["b"])
    assert collector.pending_count() == 1


def test_an_emit_cannot_have_both_anchors_and_a_message_id(collector, tup):
    with pytest.raises(TypeError, match="anchors"):
        collector.emit(["a"], anchors=tup, message_id=7)


class Numbers(Spout):
    def open(self, conf, context, collector):
        self.collector, self.next = collector, 0

    def next_tuple(self):
        self.collector.emit([self.next], self.next)
        self.next += 1


def test_a_spout_can_be_tested_with_a_recording_collector(collector):
    spout = Numbers()
    spout.open({}, None, collector)
    spout.next_tuple()
    spout.next_tuple()
    assert collector.emitted == [Emitted([0], message_id=0), Emitted([1], message_id=1)]
