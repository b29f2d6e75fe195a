import pytest

from pystorm_spark import (
    BasicBolt,
    Bolt,
    EmitError,
    LocalCluster,
    OutputCollector,
    Spout,
    SpoutOutputCollector,
    TopologyBuilder,
)
from pystorm_spark.testing import RecordingCollector, make_tuple
from pystorm_spark.topology.collector import BasicOutputCollector, anchor_tuples, bolt_emit, spout_emit
from tests.ids import shown

TUP = make_tuple(["a"], ["value"])
OTHER = make_tuple(["b"], ["value"])
VALUES = ["word", 1]


def of(*args, **kwargs):
    return args, kwargs


# {call: (stream, anchors)}; the values are always VALUES.
BOLT_FORMS = [
    (of(VALUES), ("default", None)),
    (of(values=VALUES), ("default", None)),
    (of(VALUES, stream="s"), ("s", None)),
    (of(VALUES, anchors=TUP), ("default", TUP)),
    (of(VALUES, anchors=[TUP, OTHER], stream="s"), ("s", [TUP, OTHER])),
    (of(TUP, VALUES), ("default", TUP)),
    (of([TUP, OTHER], VALUES), ("default", [TUP, OTHER])),
    (of([], VALUES), ("default", [])),
    (of(None, VALUES), ("default", None)),
    (of(TUP, VALUES, stream="s"), ("s", TUP)),
    (of("s", VALUES), ("s", None)),
    (of("s", VALUES, anchors=TUP), ("s", TUP)),
    (of("s", TUP, VALUES), ("s", TUP)),
    (of("s", [TUP, OTHER], VALUES), ("s", [TUP, OTHER])),
    (of("s", None, VALUES), ("s", None)),
    (of("s", values=VALUES), ("s", None)),
    (of(TUP, values=VALUES), ("default", TUP)),
]

# {call: (stream, message id)}; the values are always VALUES.
SPOUT_FORMS = [
    (of(VALUES), ("default", None)),
    (of(values=VALUES), ("default", None)),
    (of(VALUES, 7), ("default", 7)),
    (of(VALUES, None), ("default", None)),
    (of(VALUES, 0), ("default", 0)),
    (of(VALUES, ""), ("default", "")),
    (of(VALUES, "id"), ("default", "id")),
    (of(VALUES, ["an", "id"]), ("default", ["an", "id"])),
    (of(VALUES, message_id=7), ("default", 7)),
    (of(VALUES, message_id=0, stream="s"), ("s", 0)),
    (of("s", VALUES), ("s", None)),
    (of("s", VALUES, 7), ("s", 7)),
    (of("s", VALUES, "id"), ("s", "id")),
    (of("s", VALUES, message_id=7), ("s", 7)),
    (of(VALUES, 7, stream="s"), ("s", 7)),
]

WRONG_BOLT_CALLS = [
    of(),
    of("s", TUP, VALUES, 7),
    of(TUP, OTHER, VALUES),
    of(VALUES, message_id=7),
    of(VALUES, anchor=TUP),
    of(VALUES, stream_id="s"),
    of(TUP, VALUES, anchors=OTHER),
    of("s", VALUES, stream="other"),
    of(stream="s"),
]

WRONG_SPOUT_CALLS = [
    of(),
    of("s", VALUES, 7, 8),
    of(VALUES, 7, 8),
    of(VALUES, anchors=TUP),
    of(VALUES, id=7),
    of(VALUES, 7, message_id=8),
    of("s", VALUES, stream="other"),
    of(message_id=7),
]


def bolt_forms(test):
    return pytest.mark.parametrize(("call", "expected"), BOLT_FORMS, ids=lambda case: repr(case)[:60])(test)


def spout_forms(test):
    return pytest.mark.parametrize(("call", "expected"), SPOUT_FORMS, ids=lambda case: repr(case)[:60])(test)


class Delegate:
    """Records every call that a collector passes on."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        def call(*args):
            self.calls.append((name, *args))
            return [4, 5]

        return call


class TestBoltForms:
    @bolt_forms
    def test_every_form_is_understood(self, call, expected):
        args, kwargs = call
        assert bolt_emit("emit", args, **kwargs) == (*expected, VALUES)

    @bolt_forms
    def test_the_collector_passes_on_stream_anchors_and_values(self, call, expected):
        delegate, (args, kwargs) = Delegate(), call
        assert OutputCollector(delegate).emit(*args, **kwargs) == [4, 5]
        assert delegate.calls == [("emit", *expected, VALUES)]

    @pytest.mark.parametrize("method", ["emit_direct", "emitDirect"])
    @bolt_forms
    def test_a_direct_emit_takes_the_task_first(self, method, call, expected):
        delegate, (args, kwargs) = Delegate(), call
        assert getattr(OutputCollector(delegate), method)(9, *args, **kwargs) is None
        assert delegate.calls == [("emit_direct", 9, *expected, VALUES)]

    @pytest.mark.parametrize("call", WRONG_BOLT_CALLS, ids=lambda case: repr(case)[:60])
    def test_a_wrong_call_is_a_type_error_that_shows_the_right_ones(self, call):
        args, kwargs = call
        with pytest.raises(TypeError) as caught:
            bolt_emit("emit", args, **kwargs)
        assert str(caught.value).startswith(
            "emit takes values, anchors and a stream: emit(values, anchors=tup, stream='default') or "
            f'emit("stream", tup, values), each at most once; got {len(args)} positional arguments'
        )

    def test_an_unknown_argument_is_named(self):
        with pytest.raises(TypeError, match="got 1 positional arguments, 'anchor', 'message_id'"):
            bolt_emit("emit_direct", (VALUES,), anchor=TUP, message_id=7)

    @pytest.mark.parametrize("args", [(TUP,), (VALUES, TUP), ("s", VALUES, TUP), ("s", TUP)])
    def test_an_anchor_in_the_place_of_the_values_is_named(self, args):
        with pytest.raises(EmitError, match=r"got a tuple where the values belong; write emit\(values, anchors=tup\)"):
            bolt_emit("emit", args)


class TestSpoutForms:
    @spout_forms
    def test_every_form_is_understood(self, call, expected):
        (args, kwargs), (stream, message_id) = call, expected
        assert spout_emit("emit", args, **kwargs) == (stream, VALUES, message_id)

    @spout_forms
    def test_the_collector_passes_on_stream_message_id_and_values(self, call, expected):
        delegate, (args, kwargs), (stream, message_id) = Delegate(), call, expected
        assert SpoutOutputCollector(delegate).emit(*args, **kwargs) == [4, 5]
        assert delegate.calls == [("emit", stream, VALUES, message_id)]

    @pytest.mark.parametrize("method", ["emit_direct", "emitDirect"])
    @spout_forms
    def test_a_direct_emit_takes_the_task_first(self, method, call, expected):
        delegate, (args, kwargs), (stream, message_id) = Delegate(), call, expected
        assert getattr(SpoutOutputCollector(delegate), method)(9, *args, **kwargs) is None
        assert delegate.calls == [("emit_direct", 9, stream, VALUES, message_id)]

    @pytest.mark.parametrize("call", WRONG_SPOUT_CALLS, ids=lambda case: repr(case)[:60])
    def test_a_wrong_call_is_a_type_error_that_shows_the_right_ones(self, call):
        args, kwargs = call
        with pytest.raises(TypeError) as caught:
            spout_emit("emit", args, **kwargs)
        assert str(caught.value).startswith(
            "emit takes values, a message id and a stream: emit(values, message_id=7, stream='default') or "
            f'emit("stream", values, 7), each at most once; got {len(args)} positional arguments'
        )


class TestOtherCalls:
    @pytest.mark.parametrize(
        ("method", "handed_on"),
        [
            ("ack", "ack"),
            ("fail", "fail"),
            ("reset_timeout", "reset_timeout"),
            ("resetTimeout", "reset_timeout"),
            ("report_error", "report_error"),
            ("reportError", "report_error"),
        ],
    )
    def test_calls_of_a_bolt_are_passed_on(self, method, handed_on):
        delegate = Delegate()
        getattr(OutputCollector(delegate), method)(TUP)
        assert delegate.calls == [(handed_on, TUP)]

    @pytest.mark.parametrize("method", ["report_error", "reportError"])
    def test_errors_of_a_spout_are_passed_on(self, method):
        delegate, error = Delegate(), ValueError()
        getattr(SpoutOutputCollector(delegate), method)(error)
        assert delegate.calls == [("report_error", error)]

    @pytest.mark.parametrize("method", ["pending_count", "getPendingCount"])
    def test_pending_count_is_that_of_the_delegate(self, method):
        assert getattr(SpoutOutputCollector(Delegate()), method)() == [4, 5]

    @pytest.mark.parametrize("cls", [OutputCollector, SpoutOutputCollector])
    def test_flush_is_passed_on(self, cls):
        delegate = Delegate()
        cls(delegate).flush()
        assert delegate.calls == [("flush",)]


class TestBasic:
    def collector(self):
        recording = RecordingCollector([4, 5])
        basic = BasicOutputCollector(recording)
        basic.set_context(TUP)
        return basic, recording

    @pytest.mark.parametrize(
        ("call", "stream"),
        [
            (of(VALUES), "default"),
            (of(values=VALUES), "default"),
            (of(VALUES, stream="s"), "s"),
            (of("s", VALUES), "s"),
            (of(TUP, VALUES), "default"),
            (of("s", TUP, VALUES), "s"),
        ],
    )
    def test_every_emit_is_anchored_to_the_input(self, call, stream):
        (basic, recording), (args, kwargs) = self.collector(), call
        assert basic.emit(*args, **kwargs) == [4, 5]
        assert [(e.stream, e.values, e.anchors) for e in recording.emitted] == [(stream, VALUES, [TUP])]

    @pytest.mark.parametrize("method", ["emit_direct", "emitDirect"])
    @pytest.mark.parametrize(("args", "stream"), [((VALUES,), "default"), (("s", VALUES), "s")])
    def test_every_direct_emit_is_anchored_to_the_input(self, method, args, stream):
        basic, recording = self.collector()
        getattr(basic, method)(9, *args)
        assert [(e.task, e.stream, e.anchors) for e in recording.emitted] == [(9, stream, [TUP])]

    @pytest.mark.parametrize("anchors", [OTHER, [TUP, OTHER], [TUP]])
    def test_other_anchors_are_refused(self, anchors):
        basic, recording = self.collector()
        for emit in (basic.emit, lambda *args: basic.emit_direct(9, *args)):
            with pytest.raises(EmitError, match="can anchor only to the tuple that it executes"):
                emit(anchors, VALUES)
        assert recording.emitted == []

    def test_a_basic_collector_has_no_ack_and_no_fail(self):
        assert not {"ack", "fail"} & set(dir(BasicOutputCollector))

    def test_errors_and_timeouts_are_passed_on(self):
        (basic, recording), error = self.collector(), ValueError()
        basic.reportError(error)
        basic.resetTimeout(TUP)
        assert (recording.errors, recording.timeouts_reset) == ([error], [TUP])

    def test_set_context_answers_to_javas_name(self):
        basic, recording = self.collector()
        basic.setContext(OTHER)
        basic.emit(VALUES)
        assert recording.emitted[0].anchors == [OTHER]


class TestAnchors:
    @pytest.mark.parametrize(
        ("anchors", "expected"),
        [
            (None, ()),
            (TUP, (TUP,)),
            ([], ()),
            ([TUP, OTHER], (TUP, OTHER)),
            ((TUP, TUP), (TUP, TUP)),
            ({TUP: 1}, (TUP,)),
            (iter([TUP]), (TUP,)),
        ],
        ids=shown,
    )
    def test_anchors_may_be_one_several_or_none(self, anchors, expected):
        assert tuple(anchor_tuples(anchors)) == expected

    @pytest.mark.parametrize("anchors", [7, "abc", [TUP, None], [TUP, VALUES], object()])
    def test_anchors_of_another_type_are_refused(self, anchors):
        with pytest.raises(EmitError, match=r"anchors must be tuples that this bolt received, got .* of type "):
            anchor_tuples(anchors)


SEEN = []


def noting(call):
    """Make `call`, and append its result or its exception to `SEEN`."""
    try:
        SEEN.append(call())
    except Exception as exc:
        SEEN.append(exc)


class Emitter(Spout):
    """Calls `script(collector)` once."""

    outputs = {"default": ["word", "count"], "s": ["word", "count"], "direct": ["word", "count"]}

    def __init__(self, script):
        self.script = script

    def open(self, conf, context, collector):
        self.collector, self.target = collector, context.component_tasks("bolt")[0]

    def next_tuple(self):
        script, self.script = self.script, None
        if script:
            script(self)


class Executor(Bolt):
    outputs = Emitter.outputs

    def __init__(self, script):
        self.script = script

    def prepare(self, conf, context, collector):
        self.collector, self.target = collector, context.component_tasks("sink")[0]

    def execute(self, tup):
        if self.script:
            self.script(self, tup)


class Sink(BasicBolt):
    def execute(self, tup, collector):
        SEEN.append((tup.source_component, tup.source_stream_id, tup.values))


def run(spout_script, bolt_script=None):
    """Run a spout and a bolt; return what their collectors did, and the tuples that arrived behind the bolt."""
    SEEN.clear()
    builder = TopologyBuilder()
    builder.set_spout("spout", Emitter(spout_script))
    builder.set_bolt("bolt", Executor(bolt_script)).shuffle_grouping("spout").shuffle_grouping(
        "spout", "s"
    ).direct_grouping("spout", "direct")
    builder.set_bolt("sink", Sink()).shuffle_grouping("bolt").shuffle_grouping("bolt", "s").direct_grouping(
        "bolt", "direct"
    )
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit_topology("test", None, builder.create_topology())
        cluster.wait_until_idle()
        info = cluster.topology_info("test")
    return list(SEEN), info


class TestInTheEngine:
    """The engine's collectors have a fast `emit` of their own, which must accept the same forms."""

    @pytest.mark.parametrize(
        "call", [of(*args, **kwargs) for (args, kwargs), _ in SPOUT_FORMS], ids=lambda c: str(c)[:60]
    )
    def test_a_spouts_emit_has_every_form(self, call):
        args, kwargs = call
        _, info = run(lambda spout: spout.collector.emit(*args, **kwargs))
        assert (info.components["bolt"].executed, info.components["spout"].errors) == (1, [])

    @pytest.mark.parametrize("args", [(VALUES, 7), ("s", VALUES, 0), ("s", VALUES, "")])
    def test_a_message_id_makes_the_tuple_pending(self, args):
        def emit(spout):
            spout.collector.emit(*args)
            noting(lambda: (spout.collector.pending_count(), spout.collector.getPendingCount()))

        assert run(emit)[0] == [(1, 1)]

    @pytest.mark.parametrize("call", WRONG_SPOUT_CALLS, ids=lambda case: repr(case)[:60])
    def test_a_spouts_wrong_call_is_a_type_error(self, call):
        args, kwargs = call
        seen, _ = run(lambda spout: noting(lambda: spout.collector.emit(*args, **kwargs)))
        assert [type(found) for found in seen] == [TypeError]

    def test_a_bolts_emit_has_every_form(self):
        forms = [
            lambda out, tup: out.emit(VALUES),
            lambda out, tup: out.emit(VALUES, anchors=tup),
            lambda out, tup: out.emit(VALUES, anchors=[tup, tup], stream="s"),
            lambda out, tup: out.emit(values=VALUES, stream="s"),
            lambda out, tup: out.emit(tup, VALUES),
            lambda out, tup: out.emit([tup], VALUES),
            lambda out, tup: out.emit(None, VALUES),
            lambda out, tup: out.emit([], VALUES),
            lambda out, tup: out.emit("s", VALUES),
            lambda out, tup: out.emit("s", tup, VALUES),
            lambda out, tup: out.emit("s", [tup, tup], VALUES),
            lambda out, tup: out.emit(tup, VALUES, stream="s"),
        ]
        seen, _ = run(
            lambda spout: spout.collector.emit(VALUES, 7),
            lambda bolt, tup: [form(bolt.collector, tup) for form in forms],
        )
        assert sorted(stream for _, stream, _ in seen) == ["default"] * 6 + ["s"] * 6

    @pytest.mark.parametrize("call", WRONG_BOLT_CALLS, ids=lambda case: repr(case)[:60])
    def test_a_bolts_wrong_call_is_a_type_error(self, call):
        args, kwargs = call
        seen, _ = run(
            lambda spout: spout.collector.emit(VALUES),
            lambda bolt, tup: noting(lambda: bolt.collector.emit(*args, **kwargs)),
        )
        assert [type(found) for found in seen] == [TypeError]

    @pytest.mark.parametrize("method", ["emit_direct", "emitDirect"])
    def test_emit_direct_answers_to_either_name(self, method):
        seen, _ = run(
            lambda spout: getattr(spout.collector, method)(spout.target, "direct", VALUES, 7),
            lambda bolt, tup: getattr(bolt.collector, method)(bolt.target, "direct", tup, VALUES),
        )
        assert seen == [("bolt", "direct", VALUES)]

    @pytest.mark.parametrize("method", ["report_error", "reportError"])
    def test_report_error_answers_to_either_name(self, method):
        def report(component, *_):
            getattr(component.collector, method)(ValueError("told"))

        _, info = run(lambda spout: (report(spout), spout.collector.emit(VALUES)), report)
        errors = [info.components[id_].errors[0].exception for id_ in ("spout", "bolt")]
        assert errors == ["ValueError: told", "ValueError: told"]

    @pytest.mark.parametrize("method", ["reset_timeout", "resetTimeout"])
    def test_reset_timeout_answers_to_either_name(self, method):
        seen, _ = run(
            lambda spout: spout.collector.emit(VALUES, 7),
            lambda bolt, tup: noting(lambda: getattr(bolt.collector, method)(tup)),
        )
        assert seen == [None]
