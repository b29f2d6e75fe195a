import functools
import logging

import cloudpickle
import pytest

from pystorm_spark import (
    BasicBolt,
    Bolt,
    FailedException,
    Fields,
    InvalidTopologyError,
    LambdaBolt,
    LambdaSpout,
    LocalCluster,
    OutputFieldsDeclarer,
    ReportedFailedException,
    Spout,
    Stream,
    TickAwareBolt,
    TopologyBuilder,
)
from pystorm_spark.testing import RecordingCollector, make_tuple


def declared(component):
    declarer = OutputFieldsDeclarer()
    component.declare_output_fields(declarer)
    return declarer.streams


def with_outputs(outputs, base):
    return type("Component", (base,), {"outputs": outputs})()


@pytest.mark.parametrize("base", [Spout, Bolt, BasicBolt, TickAwareBolt])
class TestOutputs:
    @pytest.mark.parametrize("outputs", [["word"], ("word",), Fields("word"), "word", Stream("word")])
    def test_outputs_may_be_one_stream(self, base, outputs):
        assert declared(with_outputs(outputs, base)) == {"default": Stream(["word"])}

    def test_outputs_may_be_several_fields(self, base):
        assert declared(with_outputs(["word", "count"], base)) == {"default": Stream(["word", "count"])}

    def test_outputs_may_be_several_streams(self, base):
        outputs = {"default": ["word"], "counts": Fields("count"), "errors": Stream(["error"], direct=True), "one": "x"}
        assert declared(with_outputs(outputs, base)) == {
            "default": Stream(["word"]),
            "counts": Stream(["count"]),
            "errors": Stream(["error"], direct=True),
            "one": Stream(["x"]),
        }

    @pytest.mark.parametrize("outputs", [None, {}])
    def test_outputs_may_be_empty(self, base, outputs):
        assert declared(with_outputs(outputs, base)) == {}

    def test_an_instance_may_have_outputs_of_its_own(self, base):
        component = with_outputs(["word"], base)
        component.outputs = ["count"]
        assert declared(component) == {"default": Stream(["count"])}

    def test_a_stream_may_have_no_fields(self, base):
        assert declared(with_outputs([], base)) == {"default": Stream([])}

    def test_declare_output_fields_overrides_outputs(self, base):
        class Component(base):
            outputs = ["word"]

            def declare_output_fields(self, declarer):
                declarer.declare(["count"])

        assert declared(Component()) == {"default": Stream(["count"])}

    def test_wrong_outputs_are_refused(self, base):
        with pytest.raises(InvalidTopologyError, match="a field name must be a string, got 5"):
            declared(with_outputs([5], base))


class TestDefaults:
    def test_a_spout_needs_to_define_nothing(self):
        spout = Spout()
        calls = [spout.open({}, None, None), spout.next_tuple(), spout.ack(1), spout.fail(1), spout.close()]
        assert [*calls, spout.activate(), spout.deactivate(), spout.component_configuration()] == [None] * 8

    def test_a_bolt_needs_to_define_nothing(self):
        bolt = Bolt()
        calls = [bolt.prepare({}, None, None), bolt.execute(None), bolt.cleanup(), bolt.component_configuration()]
        assert calls == [None] * 4

    def test_a_bolt_runs_as_itself(self):
        bolt = Bolt()
        assert bolt.as_bolt() is bolt


class JavaSpout(Spout):
    def declareOutputFields(self, declarer):
        declarer.declare(Fields("word"))

    def getComponentConfiguration(self):
        return {"mine": 1}

    def nextTuple(self):
        return "java"


class TestJavaNames:
    def test_a_component_may_define_java_names(self):
        spout = JavaSpout()
        assert (spout.next_tuple(), spout.component_configuration()) == ("java", {"mine": 1})
        assert declared(spout) == {"default": Stream(["word"])}

    def test_a_component_answers_to_java_names(self):
        class Python(Spout):
            def next_tuple(self):
                return "python"

        assert Python().nextTuple() == "python"

    @pytest.mark.parametrize("call", ["nextTuple", "next_tuple"])
    def test_super_answers_to_either_name(self, call):
        class Sub(JavaSpout):
            def next_tuple(self):
                return f"sub of {getattr(super(), call)()}"

        assert Sub().nextTuple() == "sub of java"

    def test_super_of_the_first_subclass_answers_to_java_names(self):
        class Sub(Spout):
            def nextTuple(self):
                return super().nextTuple()

        assert Sub().next_tuple() is None

    def test_a_subclass_may_change_the_spelling(self):
        class Sub(JavaSpout):
            def next_tuple(self):
                return "sub"

        class SubSub(Sub):
            def nextTuple(self):
                return "subsub"

        assert [cls().next_tuple() for cls in (JavaSpout, Sub, SubSub)] == ["java", "sub", "subsub"]
        assert [cls().nextTuple() for cls in (JavaSpout, Sub, SubSub)] == ["java", "sub", "subsub"]

    def test_a_mixin_may_define_java_names(self):
        class Mixin:
            def nextTuple(self):
                return "mixin"

        class Mixed(Mixin, Spout):
            pass

        assert Mixed().next_tuple() == "mixin"

    def test_a_mixin_before_a_java_spout_overrides_it(self):
        class Mixin:
            def next_tuple(self):
                return f"mixin over {super().next_tuple()}"

        class Mixed(Mixin, JavaSpout):
            pass

        assert Mixed().nextTuple() == "mixin over java"

    def test_a_mixin_that_comes_last_is_overridden(self):
        class Mixin:
            def nextTuple(self):
                return "mixin"

        class Mixed(JavaSpout, Mixin):
            pass

        assert Mixed().next_tuple() == "java"

    @pytest.mark.parametrize("base", [Bolt, BasicBolt])
    def test_a_bolt_may_declare_by_the_java_name(self, base):
        class Java(base):
            def declareOutputFields(self, declarer):
                declarer.declareStream("s", Fields("a"))

        assert declared(Java()) == {"s": Stream(["a"])}


class Forgetful(Spout):
    """Has a constructor that takes arguments and does not call `super().__init__()`."""

    outputs = ["value"]

    def __init__(self, limit):
        self.left = limit

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        if self.left:
            self.left -= 1
            self.collector.emit([self.left], message_id=self.left)


class ForgetfulBolt(Bolt):
    outputs = ["value"]

    def __init__(self, factor):
        self.factor = factor

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.collector.emit(tup, [self.factor * tup[0]])
        self.collector.ack(tup)


class ForgetfulBasic(BasicBolt):
    def __init__(self, offset):
        self.offset = offset

    def execute(self, tup, collector):
        SEEN.append(self.offset + tup[0])


class ForgetfulTicks(TickAwareBolt):
    def __init__(self, name):
        self.name = name

    def process(self, tup):
        SEEN.append(self.name)


SEEN = []


def run(builder, secs=1, conf=None):
    """Return what the components put into `SEEN` within some seconds, and the topology's status after that."""
    SEEN.clear()
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit_topology("test", conf, builder.create_topology())
        cluster.advance_time(secs)
        info = cluster.topology_info("test")
    return list(SEEN), info


def test_no_constructor_needs_to_call_super():
    builder = TopologyBuilder()
    builder.set_spout("spout", Forgetful(2))
    builder.set_bolt("bolt", ForgetfulBolt(factor=10)).shuffle_grouping("spout")
    builder.set_bolt("basic", ForgetfulBasic(offset=5)).shuffle_grouping("bolt")
    seen, info = run(builder)
    assert seen == [15, 5]
    assert info.components["spout"].acked == 2


def test_a_tick_aware_bolt_needs_no_constructor_either():
    builder = TopologyBuilder()
    builder.set_spout("spout", Forgetful(1))
    builder.set_bolt("ticks", ForgetfulTicks("named")).shuffle_grouping("spout")
    assert run(builder)[0] == ["named"]


class Choosy(BasicBolt):
    outputs = ["value"]

    def execute(self, tup, collector):
        collector.emit([tup[0]])
        if tup[0] is not None:
            raise tup[0]


def executed(values):
    """A collector that recorded what a basic bolt did with one tuple."""
    collector = RecordingCollector()
    bolt = Choosy().as_bolt()
    bolt.prepare({}, None, collector)
    tup = make_tuple(values, ["value"])
    try:
        bolt.execute(tup)
    finally:
        assert [emitted.anchors for emitted in collector.emitted] == [[tup]]
    return collector


class TestBasicBolt:
    def test_its_input_is_acked_when_it_returns(self):
        collector = executed([None])
        assert (len(collector.acked), collector.failed, collector.errors) == (1, [], [])

    def test_a_failed_exception_fails_its_input_quietly(self):
        collector = executed([FailedException("bad row")])
        assert (collector.acked, len(collector.failed), collector.errors) == ([], 1, [])

    def test_a_reported_failed_exception_is_reported(self):
        failure = ReportedFailedException("bad row")
        collector = executed([failure])
        assert (collector.acked, len(collector.failed), collector.errors) == ([], 1, [failure])

    def test_any_other_exception_reaches_the_engine(self):
        with pytest.raises(ZeroDivisionError):
            executed([ZeroDivisionError()])

    def test_the_wrapper_declares_configures_and_cleans_up_as_the_bolt(self):
        calls = []

        class Configured(Choosy):
            def component_configuration(self):
                return {"mine": 1}

            def cleanup(self):
                calls.append("cleanup")

        wrapper = Configured().as_bolt()
        wrapper.cleanup()
        assert (declared(wrapper), wrapper.component_configuration()) == ({"default": Stream(["value"])}, {"mine": 1})
        assert calls == ["cleanup"]


def ticking(cls):
    tick = make_tuple([2], ["rate_secs"], component="__system", stream="__tick", task=-1)
    bolt, collector = cls(), RecordingCollector()
    bolt.prepare({}, None, collector)
    bolt.execute(make_tuple(["data"], ["value"]))
    bolt.execute(tick)
    return bolt.seen, collector


class TestTickAwareBolt:
    class Python(TickAwareBolt):
        def prepare(self, conf, context, collector):
            self.seen = []

        def process(self, tup):
            self.seen.append(("process", tup[0]))

        def on_tick(self, tup):
            self.seen.append(("tick", tup[0]))

    class Java(Python):
        def onTickTuple(self, tup):
            self.seen.append(("java tick", tup[0]))

    class Deaf(TickAwareBolt):
        seen = ()

    def test_data_goes_to_process_and_ticks_to_on_tick(self):
        assert ticking(self.Python)[0] == [("process", "data"), ("tick", 2)]

    def test_on_tick_may_have_javas_name(self):
        assert ticking(self.Java)[0] == [("process", "data"), ("java tick", 2)]

    def test_neither_data_nor_ticks_are_acked(self):
        collector = ticking(self.Python)[1]
        assert (collector.acked, collector.failed) == ([], [])

    def test_neither_method_is_required(self):
        assert ticking(self.Deaf)[1].emitted == []


class TestLambdaSpout:
    def polled(self, supplier):
        spout, collector = LambdaSpout(supplier), RecordingCollector()
        spout.open({}, None, collector)
        spout.next_tuple()
        return collector.emitted

    @pytest.mark.parametrize("value", ["a", 0, "", False, [1, 2]])
    def test_the_result_of_the_function_is_emitted_untracked(self, value):
        [emitted] = self.polled(lambda: value)
        assert (emitted.values, emitted.message_id, emitted.stream) == ([value], None, "default")

    def test_a_returned_none_is_not_emitted(self):
        assert self.polled(lambda: None) == []

    def test_the_field_of_a_lambda_spout_is_called_lambda(self):
        assert declared(LambdaSpout(lambda: 1)) == {"default": Stream(["lambda"])}


def of_default(tup, collector=None):
    return (tup, collector)


def of_keyword(tup, *, collector=None):
    return (tup, collector)


class Method:
    def one(self, tup):
        pass

    def two(self, tup, collector):
        pass


def wrapped(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


def arguments(function, fields=()):
    """Return the arguments with which a lambda bolt calls `function`: "tuple", or "tuple and collector"."""
    calls = []

    tup, collector = make_tuple(["a"], ["value"]), RecordingCollector()
    bolt = LambdaBolt(function, fields)
    bolt.function = lambda *args: calls.append(args)
    bolt.execute(tup, collector)
    return {(tup,): "tuple", (tup, collector): "tuple and collector"}[calls[0]]


class TestLambdaBolt:
    @pytest.mark.parametrize("fields", [(), ["value"]])
    @pytest.mark.parametrize("function", [lambda tup: 1, of_keyword, Method().one, [].append, wrapped(lambda tup: 1)])
    def test_a_function_of_one_argument_gets_the_tuple(self, function, fields):
        assert arguments(function, fields) == "tuple"

    @pytest.mark.parametrize("fields", [(), ["value"]])
    @pytest.mark.parametrize(
        "function", [lambda tup, collector: 1, lambda tup, collector, limit=3: 1, Method().two, wrapped(Method().two)]
    )
    def test_a_function_of_two_gets_the_collector_too(self, function, fields):
        assert arguments(function, fields) == "tuple and collector"

    @pytest.mark.parametrize("function", [print, of_default, lambda *args: 1, logging.getLogger().info, next])
    def test_a_function_of_one_or_two_gets_the_collector_only_if_it_emits(self, function):
        assert arguments(function) == "tuple"
        assert arguments(function, ["value"]) == "tuple and collector"

    @pytest.mark.parametrize("fields", ["a", ["a"], ("a",), Fields("a")])
    def test_a_lambda_bolt_declares_its_fields(self, fields):
        assert declared(LambdaBolt(of_default, fields)) == {"default": Stream(["a"])}

    @pytest.mark.parametrize("fields", [(), [], Fields()])
    def test_a_lambda_bolt_without_fields_has_no_stream(self, fields):
        assert declared(LambdaBolt(of_default, fields)) == {}

    def test_a_lambda_bolt_emits_anchored_and_acks(self):
        collector, tup = RecordingCollector(), make_tuple(["a"], ["value"])
        bolt = LambdaBolt(lambda tup, out: out.emit([tup[0] * 2]), ["double"]).as_bolt()
        bolt.prepare({}, None, collector)
        bolt.execute(tup)
        assert [(emitted.values, emitted.anchors) for emitted in collector.emitted] == [(["aa"], [tup])]
        assert collector.acked == [tup]

    def test_a_lambda_bolt_can_be_pickled(self):
        limit, collector = 3, RecordingCollector()
        bolt = cloudpickle.loads(cloudpickle.dumps(LambdaBolt(lambda tup, out: out.emit([limit]), "limit")))
        bolt.execute(make_tuple(["a"]), collector)
        assert [emitted.values for emitted in collector.emitted] == [[3]]


def test_functions_make_a_topology():
    builder = TopologyBuilder()
    rows = iter(["storm", "spark"])
    builder.set_spout("words", functools.partial(next, rows, None))
    builder.set_bolt("double", lambda tup, collector: collector.emit([tup[0] * 2]), 2, "word").shuffle_grouping("words")
    builder.set_bolt("measure", len).global_grouping("double")
    _, info = run(builder)
    assert (info.components["double"].executed, info.components["measure"].acked) == (2, 2)
