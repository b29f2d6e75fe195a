"""Exceptions of every kind from every callback, and how they are reported."""

import logging
import threading
import traceback

import pytest

from pystorm_spark import (
    BasicBolt,
    Bolt,
    CustomStreamGrouping,
    InvalidTopologyError,
    Metric,
    MetricsConsumer,
    ReportedFailedException,
    SlotLostError,
    Spout,
    StormError,
    TaskHook,
    TopologyBuilder,
    WorkerHook,
)
from tests.behaviour.engine import STANDING_TIME, advance, chain, component, run, run_until_idle
from tests.behaviour.probes import Does, Replaying, Rows, Sink, Starts, acks, note, noted, numbers, passes_on
from tests.ids import shown

KINDS = [ValueError, SystemExit, KeyboardInterrupt, StopIteration, GeneratorExit, RecursionError, MemoryError]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


class Raises:
    """A function that raises; pickles."""

    def __init__(self, kind, text="on purpose"):
        self.kind = kind
        self.text = text

    def __call__(self, *args, **kwargs):
        raise self.kind(self.text)


# While the topology is built and submitted: the error names the component, and nothing is left running.


@every_kind
@pytest.mark.parametrize("method", ["declare_output_fields", "component_configuration"])
@pytest.mark.parametrize("base", [Spout, Bolt, BasicBolt])
def test_an_exception_while_building_names_component_and_method(base, method, kind):
    broken = type("Broken", (base,), {method: Raises(kind)})()
    builder = TopologyBuilder()
    builder.set_spout("numbers", broken if base is Spout else numbers(1))
    if base is not Spout:
        builder.set_bolt("numbers 2", broken).shuffle_grouping("numbers")

    with pytest.raises(InvalidTopologyError, match=f"{method} of 'numbers.*'.*{kind.__name__}: on purpose"):
        builder.create_topology()


@pytest.mark.parametrize("conf", [["a"], "topology.debug", 5, [("topology.debug", True)]], ids=shown)
def test_a_component_configuration_that_is_not_a_mapping_names_the_component(conf):
    class Wrong(Sink):
        def component_configuration(self):
            return conf

    with pytest.raises(InvalidTopologyError, match="'a'"):
        chain(numbers(1), Wrong())


class OpensAndCloses(Rows):
    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        note("calls", "open")

    def close(self):
        note("calls", "close")


class Prepares(Sink):
    def prepare(self, conf, context):
        super().prepare(conf, context)
        note("calls", "prepare")

    def cleanup(self):
        note("calls", "cleanup")


@every_kind
def test_an_exception_in_open_stops_the_submit_and_names_the_spout(cluster, kind):
    class Broken(Rows):
        open = Raises(kind)

    with pytest.raises(StormError, match=f"open of 'spout'.*{kind.__name__}: on purpose") as raised:
        cluster.submit_topology("topology", None, chain(Broken([]), Prepares()))

    assert isinstance(raised.value.__cause__, kind)
    assert noted("calls") in (["prepare", "cleanup"], [])  # the other slot may not have opened its tasks yet
    assert cluster.list_topologies() == []


@every_kind
def test_an_exception_in_prepare_stops_the_submit_and_names_the_bolt(cluster, kind):
    class Broken(Bolt):
        prepare = Raises(kind)

    with pytest.raises(StormError, match=f"prepare of 'a'.*{kind.__name__}: on purpose"):
        cluster.submit_topology("topology", None, chain(OpensAndCloses([]), Broken()))

    assert noted("calls").count("open") == noted("calls").count("close")
    assert cluster.list_topologies() == []


def test_the_name_is_free_after_a_submit_that_failed(cluster):
    class Broken(Rows):
        open = Raises(ValueError)

    with pytest.raises(StormError):
        cluster.submit_topology("topology", None, chain(Broken([])))
    run(cluster, chain(numbers(1), Sink()))

    assert noted("acked") == [0]


def test_an_exception_in_open_is_raised_by_activate_and_the_next_activate_opens_new_tasks(cluster):
    class OnceBroken(Rows):
        def open(self, conf, context, collector):
            super().open(conf, context, collector)
            context.register_metric("count", Metric())
            note("opened", 1)
            if len(noted("opened")) == 1:
                raise ValueError("not yet")

    cluster.submit_topology("topology", None, chain(OnceBroken([["a"]]), Sink()), active=False)
    with pytest.raises(StormError, match="open of 'spout'"):
        cluster.activate("topology")
    cluster.activate("topology")
    run_until_idle(cluster)

    assert noted("a") == [["a"]]


@every_kind
def test_an_exception_in_the_prepare_of_a_grouping_stops_the_submit_and_names_the_bolt(cluster, kind):
    class Broken(CustomStreamGrouping):
        prepare = Raises(kind)

    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(1))
    builder.set_bolt("a", Prepares()).custom_grouping("spout", Broken())

    with pytest.raises(StormError, match=f"(?s)(Broken|grouping).*'a'.*{kind.__name__}: on purpose"):
        cluster.submit_topology("topology", None, builder.create_topology())

    assert noted("calls").count("prepare") == noted("calls").count("cleanup")
    assert cluster.list_topologies() == []


class BrokenHook(TaskHook):
    """Raises in everything but `prepare`."""

    def __init__(self, kind):
        self.cleanup = self.emit = self.spout_ack = self.spout_fail = Raises(kind)
        self.bolt_execute = self.bolt_ack = self.bolt_fail = Raises(kind)


@every_kind
def test_an_exception_in_the_prepare_of_a_hook_stops_the_submit_and_names_the_component(cluster, kind):
    class Hooked(Sink):
        def prepare(self, conf, context):
            hook = TaskHook()
            hook.prepare = Raises(kind)
            context.add_task_hook(hook)

    with pytest.raises(StormError, match=f"prepare of 'a'.*{kind.__name__}: on purpose"):
        cluster.submit_topology("topology", None, chain(numbers(1), Hooked()))


@every_kind
def test_an_exception_in_the_start_of_a_worker_hook_stops_the_submit(cluster, kind):
    class Broken(WorkerHook):
        start = Raises(kind)

    class Fine(WorkerHook):
        def start(self, conf):
            note("calls", "start")

        def shutdown(self):
            note("calls", "shutdown")

    builder = TopologyBuilder()
    builder.set_spout("spout", OpensAndCloses([]))
    builder.add_worker_hook(Fine())
    builder.add_worker_hook(Broken())

    with pytest.raises(StormError, match=f"Broken.*{kind.__name__}: on purpose"):
        cluster.submit_topology("topology", None, builder.create_topology())

    assert noted("calls").count("start") == noted("calls").count("shutdown") > 0
    assert cluster.list_topologies() == []


# While it runs: an exception is reported, and affects nothing else.


@every_kind
def test_an_exception_in_execute_fails_only_its_tuple(cluster, kind):
    def execute(bolt, tup):
        if tup[0] == 1:
            raise kind("on purpose")
        bolt.collector.ack(tup)

    run(cluster, chain(numbers(3), Does(execute)))

    assert (noted("acked"), noted("failed")) == ([0, 2], [1])
    (error,) = component(cluster, "a").errors
    assert error.exception == f"{kind.__name__}: on purpose"
    assert component(cluster, "a").executed == 3


@every_kind
def test_an_exception_in_a_basic_bolt_fails_only_its_tuple(cluster, kind):
    class Broken(BasicBolt):
        def execute(self, tup, collector):
            if tup[0] == 1:
                raise kind("on purpose")

    run(cluster, chain(numbers(3), Broken()))

    assert (noted("acked"), noted("failed")) == ([0, 2], [1])


def test_an_endless_recursion_fails_only_its_tuple(cluster):
    def recurses(bolt, tup):
        if tup[0] == 0:
            recurses(bolt, tup)
        bolt.collector.ack(tup)

    run(cluster, chain(numbers(2), Does(recurses)))

    assert (noted("acked"), noted("failed")) == ([1], [0])


def test_a_stop_iteration_in_a_generator_that_execute_drains_is_a_failure(cluster):
    def execute(bolt, tup):
        next(iter(()))

    run(cluster, chain(numbers(2), Does(execute)))

    assert noted("failed") == [0, 1]


@every_kind
def test_an_exception_in_next_tuple_is_reported_and_the_spout_is_called_again(cluster, kind):
    class Broken(Rows):
        def next_tuple(self):
            note("calls", 1)
            if len(noted("calls")) == 1:
                raise kind("on purpose")
            super().next_tuple()

    run(cluster, chain(Broken([["a"]]), Sink()))
    advance(cluster, 2)

    assert noted("acked") == [0]
    assert [error.exception for error in component(cluster, "spout").errors] == [f"{kind.__name__}: on purpose"]


@every_kind
@pytest.mark.parametrize("method", ["ack", "fail"])
def test_an_exception_in_ack_or_fail_is_reported_and_the_next_ones_are_called(cluster, method, kind):
    class Broken(Rows):
        def told(self, message_id):
            note("told", message_id)
            if message_id == 1:
                raise kind("on purpose")

        ack = fail = told

    def settles(bolt, tup):
        getattr(bolt.collector, method)(tup)

    run(cluster, chain(Broken([["a"], ["b"], ["c"]]), Does(settles)))

    assert noted("told") == [0, 1, 2]
    assert len(component(cluster, "spout").errors) == 1
    assert cluster.topology_info("topology").pending == 0


@every_kind
def test_an_exception_in_ack_without_ackers_does_not_reach_the_emit(cluster, kind):
    class Broken(Rows):
        ack = Raises(kind)

    run(cluster, chain(Broken([["a"], ["b"]]), Sink()), {"topology.acker.executors": 0})

    assert noted("a") == [["a"], ["b"]]
    assert len(component(cluster, "spout").errors) == 2


@every_kind
def test_an_exception_in_activate_is_reported_and_the_spout_runs(cluster, kind):
    class Broken(Rows):
        activate = Raises(kind)

    run(cluster, chain(Broken([["a"]]), Sink()))

    assert noted("acked") == [0]
    assert len(component(cluster, "spout").errors) == 1


@every_kind
def test_an_exception_in_deactivate_is_reported_and_the_spout_is_not_polled(cluster, kind):
    class Broken(Rows):
        deactivate = Raises(kind)

        def next_tuple(self):
            note("calls", 1)

    run(cluster, chain(Broken([])))
    cluster.deactivate("topology")
    run_until_idle(cluster)
    calls = len(noted("calls"))
    advance(cluster, 1)

    assert len(noted("calls")) == calls
    assert len(component(cluster, "spout").errors) == 1


@every_kind
def test_an_exception_in_close_or_cleanup_is_logged_and_the_others_are_closed(cluster, caplog, kind):
    class BrokenSpout(Rows):
        close = Raises(kind, "in close")

    class BrokenBolt(Sink):
        cleanup = Raises(kind, "in cleanup")

    run(cluster, closing(BrokenSpout([]), BrokenBolt()))
    cluster.kill_topology("topology")

    assert sorted(noted("calls")) == ["cleanup", "close", "open", "prepare"]
    assert "in close" in caplog.text
    assert "in cleanup" in caplog.text


def closing(broken_spout, broken_bolt):
    """Build a broken spout and a broken bolt, each followed by a working one."""
    builder = TopologyBuilder()
    builder.set_spout("broken spout", broken_spout)
    builder.set_spout("fine spout", OpensAndCloses([]))
    builder.set_bolt("broken bolt", broken_bolt).shuffle_grouping("broken spout")
    builder.set_bolt("fine bolt", Prepares()).shuffle_grouping("fine spout")
    return builder.create_topology()


@every_kind
def test_an_exception_in_a_hook_is_reported_and_the_tuple_goes_on(cluster, kind):
    class HookedSpout(Rows):
        def open(self, conf, context, collector):
            super().open(conf, context, collector)
            context.add_task_hook(BrokenHook(kind))

    class HookedBolt(Sink):
        def prepare(self, conf, context):
            super().prepare(conf, context)
            context.add_task_hook(BrokenHook(kind))

    run(cluster, chain(HookedSpout([["a"], ["b"]]), HookedBolt()))
    cluster.deactivate("topology")

    assert noted("a") == [["a"], ["b"]]
    assert noted("acked") == [0, 1]
    assert len(component(cluster, "spout").errors) == 4
    assert len(component(cluster, "a").errors) == 4


@every_kind
def test_an_exception_in_a_custom_grouping_is_raised_by_the_emit(cluster, kind):
    class Broken(CustomStreamGrouping):
        def prepare(self, context, stream, target_tasks):
            self.targets = target_tasks

        def choose_tasks(self, task_id, values):
            if values[0] == 1:
                raise kind("on purpose")
            return self.targets

    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(3))
    builder.set_bolt("a", Does(passes_on, ["value"])).shuffle_grouping("spout")
    builder.set_bolt("b", Sink()).custom_grouping("a", Broken())
    run(cluster, builder.create_topology())

    assert (noted("acked"), noted("failed")) == ([0, 2], [1])
    assert [error.exception for error in component(cluster, "a").errors] == [f"{kind.__name__}: on purpose"]


class BrokenMetric(Metric):
    kind = ValueError

    def get_value_and_reset(self):
        raise self.kind("on purpose")


class CountsPoints(MetricsConsumer):
    def handle_data_points(self, task_info, data_points):
        note("points", [point.name for point in data_points])


class BrokenConsumer(MetricsConsumer):
    def handle_data_points(self, task_info, data_points):
        note("handled", 1)
        raise SystemExit("on purpose")


@every_kind
def test_an_exception_in_a_metric_is_reported_and_the_others_are_read(cluster, kind):
    class Measured(Sink):
        def prepare(self, conf, context):
            super().prepare(conf, context)
            broken = BrokenMetric()
            broken.kind = kind
            context.register_metric("broken", broken, 1)
            context.register_gauge("fine", lambda: 1)

    conf = {
        "topology.metrics.consumer.register": [{"class": f"{__name__}.CountsPoints", "parallelism.hint": 1}],
        "topology.builtin.metrics.bucket.size.secs": 1,
    }
    run(cluster, chain(numbers(1), Measured()), conf)
    advance(cluster, 1)

    assert any("fine" in names for names in noted("points"))
    assert {error.exception for error in component(cluster, "a").errors} == {f"{kind.__name__}: on purpose"}
    assert noted("acked") == [0]


def test_an_exception_in_a_metrics_consumer_leaves_other_consumers_alone(cluster):
    class Measured(Sink):
        def prepare(self, conf, context):
            super().prepare(conf, context)
            context.register_metric("count", Counts(), 1)

    conf = {"topology.metrics.consumer.register": [{"class": f"{__name__}.BrokenConsumer", "parallelism.hint": 1}]}
    run(cluster, chain(numbers(1), Measured()), conf)
    advance(cluster, 3)

    assert len(noted("handled")) >= 3
    assert noted("acked") == [0]


class Counts(Metric):
    def get_value_and_reset(self):
        return 1


# What a report contains.


def fails_deep_down(value):
    raise KeyError(f"no {value}")


def test_an_error_has_time_task_exception_traceback_and_input(cluster):
    def execute(bolt, tup):
        fails_deep_down(tup[0])

    run(cluster, chain(Rows([["apple"]], ["fruit"]), Does(execute)))

    (error,) = component(cluster, "a").errors
    assert error.task == 2
    assert error.exception == "KeyError: 'no apple'"
    assert error.input == "Tuple(fruit='apple'; from spout:3 stream default)"
    assert isinstance(error.time, float)


def test_a_huge_error_is_cut_in_the_middle(cluster):
    def execute(bolt, tup):
        raise ValueError(f"first{'x' * 1_000_000}last")

    run(cluster, chain(Rows([["y" * 1_000_000]], ["fruit"]), Does(execute)))

    (error,) = component(cluster, "a").errors
    assert error.exception.startswith("ValueError: firstxxx")
    assert error.exception.endswith("xxxlast")
    assert "characters left out" in error.exception
    assert max(map(len, (error.exception, error.traceback, error.input))) < 30_000


def test_the_traceback_begins_with_the_users_own_code(cluster):
    class Broken(Bolt):
        def execute(self, tup):
            fails_deep_down(tup[0])

    run(cluster, chain(numbers(1), Broken()))

    lines = component(cluster, "a").errors[0].traceback.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "test_errors.py" in lines[1]
    assert lines[1].endswith("in execute")
    assert lines[-1] == "KeyError: 'no 0'"
    assert not any("pystorm_spark" in line for line in lines)


def test_the_error_of_a_submit_shows_first_where_the_users_code_raised(cluster):
    class Broken(Rows):
        def open(self, conf, context, collector):
            fails_deep_down("source")

    with pytest.raises(StormError) as raised:
        cluster.submit_topology("topology", None, chain(Broken([])))

    shown = "".join(traceback.format_exception(raised.value))
    assert shown.index("in fails_deep_down") < shown.index("in submit_topology")


@pytest.mark.parametrize("base", [Bolt, BasicBolt])
def test_the_traceback_of_a_refused_emit_begins_with_the_users_own_code(cluster, base):
    class Broken(base):
        outputs = ("value",)

        def prepare(self, conf, context, collector=None):
            self.collector = collector

        def execute(self, tup, collector=None):
            (collector or self.collector).emit(["too", "many"])

    run(cluster, chain(numbers(1), Broken()))

    assert "test_errors.py" in component(cluster, "a").errors[0].traceback.splitlines()[1]


def test_a_cause_is_part_of_the_traceback(cluster):
    def execute(bolt, tup):
        try:
            fails_deep_down("cause")
        except KeyError as exc:
            raise ValueError("effect") from exc

    run(cluster, chain(numbers(1), Does(execute)))

    text = component(cluster, "a").errors[0].traceback
    assert "no cause" in text
    assert text.rstrip().endswith("ValueError: effect")


def test_an_exception_that_cannot_be_shown_is_reported(cluster):
    class UnspeakableError(Exception):
        def __str__(self):
            raise RuntimeError("no")

    def execute(bolt, tup):
        raise UnspeakableError

    run(cluster, chain(numbers(1), Does(execute)))

    assert "UnspeakableError" in component(cluster, "a").errors[0].exception
    assert noted("failed") == [0]


class Unshowable:
    def __repr__(self):
        raise SystemExit("no repr")


@pytest.mark.parametrize("method", ["ack", "fail"])
def test_an_exception_is_reported_for_a_message_id_that_cannot_be_shown(cluster, method):
    class Broken(Rows):
        ack = fail = Raises(ValueError)

    def settles(bolt, tup):
        getattr(bolt.collector, method)(tup)

    run(cluster, chain(Broken([["a"], ["b"]], ids=[Unshowable(), 1]), Does(settles)))

    assert len(component(cluster, "spout").errors) == 2
    assert cluster.topology_info("topology").pending == 0


def test_values_that_cannot_be_shown_can_be_debugged(cluster, caplog):
    caplog.set_level(logging.INFO)
    run(cluster, chain(Rows([[Unshowable()]]), Does(passes_on, ["value"]), Does(acks)), {"topology.debug": True})

    assert noted("acked") == [0]


def test_the_last_fifty_errors_are_kept_newest_last(cluster):
    def execute(bolt, tup):
        raise ValueError(tup[0])

    run(cluster, chain(numbers(60), Does(execute)))

    errors = component(cluster, "a").errors
    assert [error.exception for error in errors] == [f"ValueError: {number}" for number in range(10, 60)]


def test_errors_of_all_tasks_are_in_the_order_of_time(cluster):
    def execute(bolt, tup):
        raise ValueError(bolt.context.this_task_id)

    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(0))
    builder.set_bolt("a", Does(execute), 2).shuffle_grouping("spout")
    run(cluster, builder.create_topology(), {"topology.tick.tuple.freq.secs": 1})
    advance(cluster, 3)

    errors = component(cluster, "a").errors
    assert [error.time for error in errors] == sorted(error.time for error in errors)
    assert {error.task for error in errors} == {2, 3}


def test_report_error_shows_the_error_and_fails_nothing(cluster):
    def execute(bolt, tup):
        bolt.collector.report_error(ValueError("just so you know"))
        bolt.collector.ack(tup)

    run(cluster, chain(numbers(1), Does(execute)))

    assert noted("acked") == [0]
    assert [error.exception for error in component(cluster, "a").errors] == ["ValueError: just so you know"]


def test_a_spout_and_a_basic_bolt_can_report_errors(cluster):
    class Reports(BasicBolt):
        def execute(self, tup, collector):
            collector.report_error(ValueError("from a basic bolt"))

    def emit(spout):
        spout.collector.report_error(ValueError("from a spout"))
        spout.collector.emit(["a"], message_id=1)

    run(cluster, chain(Starts(emit), Reports()))

    assert component(cluster, "spout").errors[0].exception == "ValueError: from a spout"
    assert component(cluster, "a").errors[0].exception == "ValueError: from a basic bolt"
    assert noted("acked") == [1]


@pytest.mark.parametrize("wrong", ["text", None, 5, ValueError], ids=shown)
def test_report_error_accepts_objects_that_are_not_exceptions(cluster, wrong):
    def execute(bolt, tup):
        bolt.collector.report_error(wrong)
        bolt.collector.ack(tup)

    run(cluster, chain(numbers(1), Does(execute)))

    assert noted("acked") == [0]
    assert repr(wrong) in component(cluster, "a").errors[0].exception


def test_a_thread_may_report_an_exception_that_cannot_be_shown(cluster):
    def execute(bolt, tup):
        thread = threading.Thread(target=bolt.collector.report_error, args=[Unshowable()])
        thread.start()
        thread.join()
        bolt.collector.ack(tup)

    run(cluster, chain(numbers(1), Does(execute)))

    assert noted("acked") == [0]
    assert "report_error got <Unshowable" in component(cluster, "a").errors[0].exception


@pytest.mark.local_only(STANDING_TIME)
def test_report_error_is_throttled(cluster):
    def execute(bolt, tup):
        bolt.collector.report_error(ValueError("again"))
        bolt.collector.ack(tup)

    conf = {"topology.max.error.report.per.interval": 3, "topology.error.throttle.interval.secs": 10}
    run(cluster, chain(Rows([[1]] * 20), Does(execute)), {**conf, "topology.tick.tuple.freq.secs": 10})
    assert len(component(cluster, "a").errors) == 3
    advance(cluster, 20)

    # One more for each of the two ticks, each in an interval of its own.
    assert len(component(cluster, "a").errors) == 5
    assert len(noted("acked")) == 20


def test_a_reported_failed_exception_names_the_input(cluster):
    class Fails(BasicBolt):
        def execute(self, tup, collector):
            raise ReportedFailedException("too dry")

    run(cluster, chain(Rows([["apple"]]), Fails()))

    (error,) = component(cluster, "a").errors
    assert error.input == "Tuple(value='apple'; from spout:3 stream default)"
    assert noted("failed") == [0]


def test_a_reported_failed_exception_fails_its_tuple_although_the_report_is_throttled(cluster):
    class Fails(BasicBolt):
        def execute(self, tup, collector):
            raise ReportedFailedException("again")

    run(cluster, chain(numbers(20), Fails()))

    assert len(noted("failed")) == 20
    assert len(component(cluster, "a").errors) == 5


def test_the_log_of_exceptions_is_throttled_but_their_count_is_not(cluster, caplog):
    def execute(bolt, tup):
        raise ValueError("again")

    with caplog.at_level(logging.ERROR):
        run(cluster, chain(numbers(30), Does(execute)))

    assert len(component(cluster, "a").errors) == 30
    assert caplog.text.count("ValueError: again") <= 10


# Fail-fast, on request.

RESTART = {"topology.bolt.on.error": "restart", "topology.slot.max.restarts": 2, "topology.workers": 1}


def test_on_request_an_exception_in_execute_restarts_the_slot(cluster):
    def raises_once(bolt, tup):
        note("executed", tup[0])
        if len(noted("executed")) == 1:
            raise ValueError("once")
        bolt.collector.ack(tup)

    run(cluster, chain(OpensAndCloses([["a"]]), Does(raises_once)), RESTART)

    assert noted("calls") == ["open", "open"]
    assert noted("executed") == ["a", "a"]
    assert noted("acked") == [0]


def test_a_restart_loses_the_pending_tuples_without_ack_or_fail(cluster):
    def raises_once(bolt, tup):
        note("executed", tup[0])
        if len(noted("executed")) == 1:
            raise ValueError("once")

    run(cluster, chain(Rows([["a"]]), Does(raises_once)), RESTART)

    assert noted("acked") == noted("failed") == []
    assert cluster.topology_info("topology").pending == 1


def test_a_restart_keeps_counts_and_errors(cluster):
    def raises_once(bolt, tup):
        note("executed", tup[0])
        if len(noted("executed")) == 2:
            raise ValueError("once")
        bolt.collector.ack(tup)

    run(cluster, chain(numbers(2), Does(raises_once)), RESTART)

    info = component(cluster, "a")
    assert noted("executed") == [0, 1, 0, 1]
    assert (info.executed, info.acked, len(info.errors)) == (4, 3, 1)
    assert component(cluster, "spout").emitted == 4


def test_too_many_restarts_end_the_topology_with_an_error_that_names_component_and_tuple(cluster):
    def always_raises(bolt, tup):
        raise ValueError("poison")

    handle = run(cluster, chain(Replaying([["apple"]]), Does(always_raises)), RESTART)

    with pytest.raises(SlotLostError, match=r"a:2 raised ValueError: poison on Tuple.*apple") as raised:
        handle.await_termination(timeout=30)
    assert isinstance(raised.value.__cause__, ValueError)
    assert cluster.list_topologies() == []


def test_too_many_restarts_by_an_exception_that_cannot_be_shown_end_the_topology(cluster):
    class UnspeakableError(Exception):
        def __str__(self):
            raise RuntimeError("no")

    def always_raises(bolt, tup):
        raise UnspeakableError

    handle = run(cluster, chain(Replaying([["apple"]]), Does(always_raises)), RESTART)

    with pytest.raises(SlotLostError, match=r"a:2 raised UnspeakableError: .* on Tuple.*apple"):
        handle.await_termination(timeout=30)


def test_a_topology_survives_as_many_restarts_as_allowed(cluster):
    def always_raises(bolt, tup):
        raise ValueError("poison")

    run(cluster, chain(OpensAndCloses([["a"]]), Does(always_raises)), RESTART)

    assert noted("calls").count("open") == 3


def test_without_allowed_restarts_the_first_crash_ends_the_topology(cluster):
    def always_raises(bolt, tup):
        raise ValueError("poison")

    conf = {**RESTART, "topology.slot.max.restarts": 0}
    handle = run(cluster, chain(OpensAndCloses([["a"]]), Does(always_raises)), conf)

    with pytest.raises(SlotLostError):
        handle.await_termination(timeout=30)
    assert noted("calls").count("open") == 1


def test_a_topology_that_ends_leaves_other_topologies_alone(cluster):
    def always_raises(bolt, tup):
        raise ValueError("poison")

    cluster.submit_topology("poisoned", RESTART, chain(Rows([["a"]]), Does(always_raises)))
    run(cluster, chain(numbers(2), Sink()))

    assert noted("a") == [[0], [1]]
    assert [info.name for info in cluster.list_topologies()] == ["topology"]


def test_a_poison_tuple_does_not_stop_the_others(cluster):
    """The default: the slot lives on, and the poison comes back as often as the spout replays it."""

    def refuses_poison(bolt, tup):
        if tup[0] == "poison" and len(noted("failed")) < 5:
            raise ValueError("poison")
        bolt.collector.ack(tup)

    run(cluster, chain(Replaying([["poison"], ["good"], ["better"]]), Does(refuses_poison)))

    assert noted("failed") == [0] * 5
    assert sorted(noted("acked")) == [0, 1, 2]
