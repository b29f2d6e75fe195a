"""What a component may ask of the engine, or be asked: hand-overs, idleness, reasons of failures, and more."""

import threading

import pytest

from pystorm_spark import (
    Bolt,
    Config,
    DelegatingCollector,
    InvalidConfigError,
    StormError,
    TopologyBuilder,
)
from pystorm_spark.state import StatefulBolt
from tests.behaviour.engine import LONG_TIME, advance, chain, component, run
from tests.behaviour.probes import Does, Rows, Sink, Starts, acks, fails, holds, note, noted, numbers

SOON = {"topology.state.checkpoint.interval.ms": 100}
EXACTLY_ONCE = {**SOON, "topology.state.guarantee": "exactly-once"}


# run


def hands_over(component, count, **emitting):
    def emits(number, collector):
        note("same thread", threading.get_ident() == component.thread)
        collector.emit([number], **emitting)

    def hand_over():
        for number in range(count):
            component.collector.run(lambda collector, number=number: emits(number, collector))

    component.thread = threading.get_ident()
    thread = threading.Thread(target=hand_over)
    thread.start()
    thread.join()


def test_calls_that_a_thread_hands_over_run_in_the_tasks_thread_in_order(cluster):
    run(cluster, chain(Starts(lambda spout: hands_over(spout, 100)), Sink()))
    advance(cluster, 0.5)

    assert noted("a") == [[number] for number in range(100)]
    assert set(noted("same thread")) == {True}


def test_a_bolt_hands_over_emits_and_acks_at_once(cluster):
    def in_a_thread(bolt, tup):
        def both(collector):
            collector.emit([tup[0]], anchors=tup)
            collector.ack(tup)

        threading.Thread(target=lambda: bolt.collector.run(both)).start()

    run(cluster, chain(numbers(5), Does(in_a_thread, ["value"]), Sink()))
    for _ in range(20):
        advance(cluster, 0.2)
        if len(noted("acked")) == 5:
            break

    assert sorted(noted("acked")) == [0, 1, 2, 3, 4]
    assert sorted(noted("b")) == [[0], [1], [2], [3], [4]]


def test_what_is_handed_over_is_called_between_two_executes_one_after_the_other(cluster):
    def hands_over_many(bolt, tup):
        def emits_twice(number, collector):
            collector.emit([2 * number])
            note("emitted", 2 * number)
            collector.emit([2 * number + 1])
            note("emitted", 2 * number + 1)

        def hand_over():
            for number in range(1, 500):
                bolt.collector.run(lambda collector, number=number: emits_twice(number, collector))

        thread = threading.Thread(target=hand_over)
        thread.start()
        thread.join()
        emits_twice(0, bolt.collector)
        bolt.collector.ack(tup)

    run(cluster, chain(numbers(1), Does(hands_over_many, ["value"]), Sink()))
    advance(cluster, 1)

    assert noted("emitted") == list(range(1000))
    assert noted("b") == [[number] for number in range(1000)]
    assert component(cluster, "a").errors == []


def test_an_exception_in_a_handed_over_call_is_reported(cluster):
    run(cluster, chain(numbers(1), Does(lambda bolt, tup: (bolt.collector.run(lambda _: 1 / 0), acks(bolt, tup)))))
    advance(cluster, 0.5)

    assert [error.exception for error in component(cluster, "a").errors] == ["ZeroDivisionError: division by zero"]
    assert noted("acked") == [0]


# idle


class Idles(Bolt):
    def prepare(self, conf, context, collector):
        self.collector = collector
        self.is_told = False

    def execute(self, tup):
        note("calls", tup[0])
        self.collector.ack(tup)

    def idle(self):
        if not self.is_told:
            self.is_told = True
            note("calls", "idle")


class IdlingSpout(Rows):
    def idle(self):
        if not self.left:
            self.left.extend(zip(self.rows[:1], [99], strict=True))
            self.rows = []
            note("idle", "spout")


def test_an_idle_bolt_is_notified(cluster):
    run(cluster, chain(numbers(3), Idles()))
    advance(cluster, 0.5)

    assert "idle" in noted("calls")
    assert sorted(call for call in noted("calls") if call != "idle") == [0, 1, 2]


def test_an_idle_spout_is_notified(cluster):
    run(cluster, chain(IdlingSpout([[7]]), Sink()))
    advance(cluster, 0.5)

    assert noted("a") == [[7], [7]]
    assert sorted(noted("acked")) == [0, 99]


def test_an_attribute_of_the_name_of_a_hook_is_none(cluster):
    class Remembers(Idles):
        idle = 3

    run(cluster, chain(numbers(1), Remembers()))
    advance(cluster, 0.2)

    assert noted("acked") == [0]


# failed


class TellsWhy(Rows):
    def failed(self, message_id, reason):
        note("reasons", reason)


def raises(bolt, tup):
    raise ValueError("a bad word")


@pytest.mark.parametrize(("deed", "reason"), [(fails, "failed"), (raises, "ValueError: a bad word")])
def test_a_spout_gets_the_reason_of_a_failure(cluster, deed, reason):
    run(cluster, chain(TellsWhy([[1]]), Does(deed)))
    advance(cluster, 0.2)

    assert noted("reasons") == [reason]
    assert noted("failed") == []


def test_a_spout_gets_the_reason_of_a_timeout(cluster):
    run(cluster, chain(TellsWhy([[1]]), Does(holds)), {"topology.message.timeout.secs": 1})
    advance(cluster, 3)

    assert noted("reasons") == ["timeout"]


def test_a_spout_gets_the_reason_of_a_recovery(cluster):
    once = {**EXACTLY_ONCE, "topology.message.timeout.secs": 10}
    builder = TopologyBuilder()
    builder.set_spout("spout", TellsWhy([["held"], ["bad"]]))
    builder.set_bolt("a", FailsBad()).shuffle_grouping("spout")
    run(cluster, builder.create_topology(), once)
    advance(cluster, 0.5)

    assert sorted(noted("reasons")) == ["failed", "recovery"]


class FailsBad(StatefulBolt):
    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        (fails if tup[0] == "bad" else acks)(self, tup)


# task_for


@pytest.mark.parametrize("how", ["stable", "java"])
def test_task_for_is_the_task_that_fields_grouping_chooses(cluster, how):
    def tells_targets(spout):
        for word in ("storm", "spark", "heron"):
            note("chosen", [word, spout.context.task_for("a", [word])])
            spout.collector.emit([word])

    builder = TopologyBuilder()
    builder.set_spout("spout", Starts(tells_targets))
    builder.set_bolt("a", Sink(), 4).fields_grouping("spout", "value")
    run(cluster, builder.create_topology(), {"topology.fields.grouping.hash": how})
    advance(cluster, 0.2)

    assert sorted([values[0], task] for task, values in noted("a by task")) == sorted(noted("chosen"))


def test_task_for_an_unknown_component_is_refused(cluster):
    def asks(bolt, tup):
        try:
            bolt.context.task_for("nobody", ["storm"])
        except StormError as exc:
            note("told", str(exc))

    run(cluster, chain(numbers(1), Does(asks)))

    assert "component 'nobody' does not exist" in noted("told")[0]


# add_configurations


def test_a_topology_brings_its_configuration_along(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(0))
    builder.set_bolt("a", Sink()).shuffle_grouping("spout")
    builder.add_configurations({"topology.max.spout.pending": 7, "topology.message.timeout.secs": 11, "mine": [1]})
    cluster.submit_topology("topology", {"topology.message.timeout.secs": 12}, builder.create_topology())

    conf = cluster.topology_info("topology").conf
    assert [conf[key] for key in ("topology.max.spout.pending", "topology.message.timeout.secs", "mine")] == [
        7,
        12,
        [1],
    ]


@pytest.mark.local_only(LONG_TIME)
def test_a_configuration_that_is_wrong_is_refused_where_it_is_added(cluster):
    with pytest.raises(InvalidConfigError, match=r"topology\.workers"):
        TopologyBuilder().add_configurations({Config.TOPOLOGY_WORKERS: "many"})


# DelegatingCollector


class Noting(DelegatingCollector):
    def emit_to(self, stream, anchors, values, task):
        note("emits", (stream, [] if anchors is None else [anchors[0]], values, task))
        return super().emit_to(stream, anchors, values, task)

    def ack(self, tup):
        note("settled", "ack")
        super().ack(tup)


def test_every_form_of_emit_arrives_at_one_method(cluster):
    def emits(bolt, tup):
        collector = Noting(bolt.collector)
        collector.emit([1])
        collector.emit(tup, [2])
        collector.emit("default", tup, [3])
        collector.emit([4], anchors=tup, stream="default")
        collector.emit_direct(bolt.context.component_tasks("c")[0], "direct", [5])
        collector.run(lambda inner: note("settled", type(inner).__name__))
        collector.ack(tup)

    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(1))
    builder.set_bolt("a", EmitsDirectly(emits)).shuffle_grouping("spout")
    builder.set_bolt("b", Sink()).shuffle_grouping("a")
    builder.set_bolt("c", Sink()).direct_grouping("a", "direct")
    run(cluster, builder.create_topology())
    advance(cluster, 0.2)

    assert [(stream, values) for stream, _, values, _ in noted("emits")] == [
        ("default", [1]),
        ("default", [2]),
        ("default", [3]),
        ("default", [4]),
        ("direct", [5]),
    ]
    assert [anchors for _, anchors, _, _ in noted("emits")] == [[], [0], [0], [0], []]
    assert sorted(noted("b")) == [[1], [2], [3], [4]]
    assert noted("c") == [[5]]
    assert sorted(noted("settled")) == ["Noting", "ack"]
    assert noted("acked") == [0]


class EmitsDirectly(Does):
    def declare_output_fields(self, declarer):
        declarer.declare(["value"])
        declarer.declare_stream("direct", True, ["value"])


# Gauges


def test_a_gauge_is_read_when_metrics_are_collected(cluster):
    class Gauges(Bolt):
        def prepare(self, conf, context, collector):
            self.collector = collector
            self.count = 0
            note("gauge", context.register_gauge("count", lambda: self.count).get_value_and_reset())

        def execute(self, tup):
            self.count += 1
            self.collector.ack(tup)

    run(cluster, chain(numbers(3), Gauges()))

    assert noted("gauge") == [0]


# Bolts with state


class Hears(StatefulBolt):
    """Notes what it is told; fails "bad" once."""

    outputs = ("value",)

    def prepare(self, conf, context, collector):
        self.context, self.collector = context, collector

    def init_state(self, state):
        self.state = state

    def execute(self, tup):
        self.state.put(tup[0], self.state.get(tup[0], 0) + 1)
        if tup[0] == "bad" and not noted("failed once"):
            note("failed once", 1)
            self.collector.fail(tup)
        else:
            self.collector.ack(tup)

    def pre_rollback(self):
        note("hooks", ("pre_rollback", sorted(key for key, _ in self.state)))

    def post_rollback(self):
        note("hooks", ("post_rollback", sorted(key for key, _ in self.state)))


def test_post_rollback_finds_the_last_commit(cluster):
    run(cluster, chain(Replays([["bad"]]), Hears()), EXACTLY_ONCE)
    advance(cluster, 1)

    assert noted("hooks") == [("pre_rollback", ["bad"]), ("post_rollback", [])]
    assert cluster.read_state("topology", "a") == {"bad": 1}


class Replays(Rows):
    def fail(self, message_id):
        self.left.append((self.rows[message_id], message_id))


class Touches(Hears):
    def execute(self, tup):
        self.state.touch()
        self.collector.ack(tup)

    def pre_commit(self, txid):
        note("commits", txid)


def test_a_touched_state_wants_a_commit(cluster):
    run(cluster, chain(Starts(lambda spout: spout.collector.emit(["untracked"])), Touches()), SOON)
    advance(cluster, 1)

    assert noted("commits") == [1]


class EmitsAtCommit(Hears):
    def execute(self, tup):
        self.state.put("executed", True)
        self.collector.ack(tup)

    def pre_commit(self, txid):
        if txid == 1:
            self.collector.emit(["committed"])


@pytest.mark.parametrize("conf", [SOON, EXACTLY_ONCE], ids=["at-least-once", "exactly-once"])
def test_emits_during_a_commit_belong_to_the_next_one(cluster, conf):
    run(cluster, chain(numbers(1), EmitsAtCommit(), Hears()), conf)
    advance(cluster, 1.5)

    assert cluster.read_state("topology", "b") == {"committed": 1}
    assert noted("acked") == [0]
