"""Task hooks and worker hooks."""

import pytest

from pystorm_spark import (
    FailedException,
    InvalidTopologyError,
    StormError,
    TaskHook,
    TopologyBuilder,
    WorkerHook,
    is_tick,
)
from tests.behaviour.engine import advance, chain, run
from tests.behaviour.probes import Does, Fed, Rows, Sink, acks, fails, holds, note, noted, numbers
from tests.ids import shown


class Notes(TaskHook):
    """Notes every call with its arguments."""

    def prepare(self, conf, context):
        note("hook", ("prepare", context.this_component_id, conf["topology.name"]))

    def cleanup(self):
        note("hook", ("cleanup",))

    def emit(self, info):
        note("hook", ("emit", info.values, info.stream, info.task_id, info.out_tasks))

    def spout_ack(self, info):
        note("hook", ("spout_ack", info.spout_task_id, info.message_id, info.complete_latency_ms))

    def spout_fail(self, info):
        note("hook", ("spout_fail", info.spout_task_id, info.message_id, info.fail_latency_ms))

    def bolt_execute(self, info):
        note("hook", ("bolt_execute", info.tuple.values, info.executing_task_id, info.execute_latency_ms))

    def bolt_ack(self, info):
        note("hook", ("bolt_ack", info.tuple.values, info.acking_task_id))

    def bolt_fail(self, info):
        note("hook", ("bolt_fail", info.tuple.values, info.failing_task_id))


class HookedSpout(Rows):
    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        context.add_task_hook(Notes())


class Hooked(Does):
    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        context.add_task_hook(Notes())


def calls(name):
    return [call for call in noted("hook") if call[0] == name]


# Tasks of a chain: "__acker" 1, "a" 2, "b" 3, "spout" the last.


def test_the_hook_of_a_spout_gets_emits_and_acks(cluster):
    run(cluster, chain(HookedSpout([["x"]], ids=["id"]), Does(acks)))

    *before, ack = noted("hook")
    assert before == [("prepare", "spout", "topology"), ("emit", ["x"], "default", 3, [2])]
    assert ack[:3] == ("spout_ack", 3, "id")
    assert ack[3] >= 0


def test_the_hook_of_a_spout_gets_fails(cluster):
    run(cluster, chain(HookedSpout([["x"]], ids=["id"]), Does(fails)))

    assert [call[:3] for call in calls("spout_fail")] == [("spout_fail", 3, "id")]
    assert calls("spout_ack") == []


def test_the_hook_of_a_spout_gets_timeouts_as_fails(cluster):
    run(cluster, chain(HookedSpout([["x"]], ids=["id"]), Does(holds)), {"topology.message.timeout.secs": 1})
    advance(cluster, 2)

    (fail,) = calls("spout_fail")
    assert fail[:3] == ("spout_fail", 3, "id")
    assert fail[3] >= 1000


def test_the_hook_of_a_bolt_gets_executes_emits_and_acks(cluster):
    def emits_and_acks(bolt, tup):
        bolt.collector.emit([tup[0] + 1], anchors=tup)
        bolt.collector.ack(tup)

    run(cluster, chain(numbers(1), Hooked(emits_and_acks, ["value"]), Sink()))

    *before, execute = noted("hook")
    assert before == [("prepare", "a", "topology"), ("emit", [1], "default", 2, [3]), ("bolt_ack", [0], 2)]
    assert execute[:3] == ("bolt_execute", [0], 2)
    assert execute[3] >= 0


def test_the_hook_of_a_bolt_gets_fails(cluster):
    run(cluster, chain(numbers(1), Hooked(fails)))

    assert calls("bolt_fail") == [("bolt_fail", [0], 2)]


def test_the_hook_of_a_bolt_gets_the_fail_of_an_exception(cluster):
    def execute(bolt, tup):
        raise FailedException

    run(cluster, chain(numbers(1), Hooked(execute)))

    assert len(calls("bolt_fail")) == len(calls("bolt_execute")) == 1


def test_hooks_get_tuples_of_user_streams_only(cluster):
    def acks_all(bolt, tup):
        bolt.collector.ack(tup)
        note("executed", is_tick(tup))

    run(cluster, chain(numbers(1), Hooked(acks_all)), {"topology.tick.tuple.freq.secs": 1})
    advance(cluster, 2)

    assert set(noted("executed")) == {False, True}
    assert len(calls("bolt_execute")) == len(calls("bolt_ack")) == 1


def test_the_hook_gets_a_direct_emit_with_its_task(cluster):
    def emits_directly(bolt, tup):
        bolt.collector.emit_direct(3, ["direct"])

    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(1))
    builder.set_bolt("a", Hooked(emits_directly, ["value"])).shuffle_grouping("spout")
    builder.set_bolt("b", Sink()).direct_grouping("a")
    run(cluster, builder.create_topology())

    assert calls("emit") == [("emit", ["direct"], "default", 2, [3])]


def test_the_hook_gets_an_emit_without_subscribers(cluster):
    run(cluster, chain(HookedSpout([["x"]])))

    assert calls("emit") == [("emit", ["x"], "default", 2, [])]
    assert len(calls("spout_ack")) == 1


def test_the_hook_does_not_get_an_ignored_second_ack(cluster):
    def acks_twice(bolt, tup):
        bolt.collector.ack(tup)
        bolt.collector.ack(tup)

    run(cluster, chain(numbers(1), Hooked(acks_twice)))

    assert len(calls("bolt_ack")) == 1


def test_a_hook_is_cleaned_up_before_its_component(cluster):
    class Closes(Hooked):
        def cleanup(self):
            note("hook", ("cleanup of the bolt",))

    run(cluster, chain(numbers(0), Closes(acks)))
    cluster.kill_topology("topology")

    assert noted("hook")[1:] == [("cleanup",), ("cleanup of the bolt",)]


def test_each_task_has_hooks_of_its_own(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(4))
    builder.set_bolt("a", Hooked(acks), 2).shuffle_grouping("spout")
    run(cluster, builder.create_topology())

    assert len(calls("prepare")) == 2
    assert len(calls("bolt_ack")) == 4


def test_several_hooks_are_called_in_the_order_they_were_added(cluster):
    class Named(TaskHook):
        def __init__(self, name):
            self.name = name

        def bolt_ack(self, info):
            note("hook", self.name)

    class Hooked(Does):
        def prepare(self, conf, context, collector):
            super().prepare(conf, context, collector)
            context.add_task_hook(Named("first"))
            context.add_task_hook(Named("second"))
            note("hooks", [hook.name for hook in context.hooks])

    run(cluster, chain(numbers(1), Hooked(acks)))

    assert noted("hook") == ["first", "second"]
    assert noted("hooks") == [["first", "second"]]


def test_hooks_can_be_named_in_the_configuration(cluster):
    """As dotted names: every task of the topology gets one."""
    run(cluster, chain(numbers(1), Does(acks)), {"topology.auto.task.hooks": [f"{__name__}.Notes"]})

    assert sorted(call[1] for call in calls("prepare")) == ["a", "spout"]
    assert len(calls("bolt_ack")) == len(calls("spout_ack")) == 1


@pytest.mark.parametrize("name", ["no.such.module.Hook", f"{__name__}.NoSuchHook", f"{__name__}:calls", "Hook"])
def test_a_hook_that_cannot_be_loaded_stops_the_submit(cluster, name):
    with pytest.raises(StormError, match=name.replace(".", r"\.")):
        cluster.submit_topology("topology", {"topology.auto.task.hooks": [name]}, chain(numbers(1)))


def test_without_ackers_the_hook_of_a_spout_gets_acks(cluster):
    run(cluster, chain(HookedSpout([["x"]]), Hooked(acks)), {"topology.acker.executors": 0})

    assert len(calls("emit")) == len(calls("spout_ack")) == len(calls("bolt_execute")) == 1
    assert calls("bolt_ack") == []


def test_a_hook_added_late_gets_later_events(cluster):
    def adds_a_hook(bolt, tup):
        if tup[0] == 1:
            bolt.context.add_task_hook(Notes())
        bolt.collector.ack(tup)

    run(cluster, chain(numbers(3), Does(adds_a_hook)))

    assert [call[1] for call in calls("bolt_ack")] == [[1], [2]]


class NotesWorker(WorkerHook):
    def start(self, conf):
        note("calls", ("start", conf["topology.name"]))

    def shutdown(self):
        note("calls", ("shutdown",))


def test_a_worker_hook_runs_before_and_after_everything(cluster):
    class Living(Sink):
        def prepare(self, conf, context):
            note("calls", ("prepare",))

        def cleanup(self):
            note("calls", ("cleanup",))

    builder = TopologyBuilder()
    builder.set_spout("spout", Fed())
    builder.set_bolt("a", Living()).shuffle_grouping("spout")
    builder.add_worker_hook(NotesWorker())
    run(cluster, builder.create_topology(), {"topology.workers": 1})
    cluster.kill_topology("topology")

    assert noted("calls") == [("start", "topology"), ("prepare",), ("cleanup",), ("shutdown",)]


def test_a_worker_hook_that_raises_at_the_end_is_logged(cluster, caplog):
    class Broken(WorkerHook):
        def shutdown(self):
            raise SystemExit("at the end")

    builder = TopologyBuilder()
    builder.set_spout("spout", Fed())
    builder.add_worker_hook(Broken())
    builder.add_worker_hook(NotesWorker())
    run(cluster, builder.create_topology())
    cluster.kill_topology("topology")

    assert "at the end" in caplog.text
    assert ("shutdown",) in noted("calls")


@pytest.mark.parametrize("wrong", [None, "hook", NotesWorker], ids=shown)
def test_an_object_that_is_not_a_worker_hook_is_refused(wrong):
    builder = TopologyBuilder()
    builder.set_spout("spout", Fed())
    builder.add_worker_hook(wrong)

    with pytest.raises(InvalidTopologyError, match="worker hook"):
        builder.create_topology()
