"""Spouts: when `next_tuple` is called, and when it is not."""

import pytest

from pystorm_spark import LambdaSpout, Spout, TopologyBuilder, is_tick
from tests.behaviour.engine import (
    LONG_TIME,
    NEVER_IDLE,
    OTHER_FRAMES,
    STANDING_TIME,
    advance,
    chain,
    component,
    run,
    run_until_idle,
)
from tests.behaviour.probes import (
    Does,
    Fed,
    Holder,
    Rows,
    Sink,
    Starts,
    acks,
    feed,
    holds,
    note,
    noted,
    numbers,
)


class Endless(Spout):
    """Emits at every call; untracked if told so."""

    outputs = ("value",)

    def __init__(self, tracked=True):
        self.tracked = tracked

    def open(self, conf, context, collector):
        self.collector = collector
        self.count = 0

    def next_tuple(self):
        self.count += 1
        self.collector.emit([self.count], message_id=self.count if self.tracked else None)


class Lifecycle(Spout):
    """Notes every call of its life."""

    outputs = ("value",)

    def open(self, conf, context, collector):
        note("calls", "open")

    def activate(self):
        note("calls", "activate")

    def next_tuple(self):
        note("calls", "next_tuple")

    def deactivate(self):
        note("calls", "deactivate")

    def close(self):
        note("calls", "close")


def distinct(calls):
    """Return `calls` without consecutive repeats."""
    return [call for before, call in zip([None, *calls], calls, strict=False) if call != before]


# How many may be pending.


def test_max_spout_pending_limits_the_pending_roots(cluster):
    run(cluster, chain(Endless(), Does(holds)), {"topology.max.spout.pending": 7})

    assert component(cluster, "spout").emitted == 7
    assert cluster.topology_info("topology").pending == 7


def test_an_ack_lets_a_spout_at_max_spout_pending_emit_again(cluster):
    def holds_odd(bolt, tup):
        if tup[0] % 2 == 0:
            bolt.collector.ack(tup)

    run(cluster, chain(Endless(), Does(holds_odd)), {"topology.max.spout.pending": 3})

    assert cluster.topology_info("topology").pending == 3
    assert component(cluster, "spout").emitted in (5, 6)


def test_max_spout_pending_is_counted_for_each_task(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", Endless(), 3)
    builder.set_bolt("a", Does(holds)).shuffle_grouping("spout")

    run(cluster, builder.create_topology(), {"topology.max.spout.pending": 2})

    assert component(cluster, "spout").emitted == 6


def test_max_spout_pending_can_be_set_for_one_spout(cluster):
    builder = TopologyBuilder()
    builder.set_spout("few", Endless()).set_max_spout_pending(2)
    builder.set_spout("more", Endless())
    builder.set_bolt("a", Does(holds)).shuffle_grouping("few").shuffle_grouping("more")

    run(cluster, builder.create_topology(), {"topology.max.spout.pending": 5})

    assert (component(cluster, "few").emitted, component(cluster, "more").emitted) == (2, 5)


def test_one_call_of_next_tuple_may_exceed_max_spout_pending(cluster):
    def emit_ten(spout):
        for number in range(10):
            spout.collector.emit([number], message_id=number)

    run(cluster, chain(Starts(emit_ten), Does(holds)), {"topology.max.spout.pending": 3})

    assert cluster.topology_info("topology").pending == 10


def test_untracked_tuples_do_not_count_as_pending(cluster):
    topology = chain(Rows([[number] for number in range(10)], ids=[None] * 10), Does(holds))

    run(cluster, topology, {"topology.max.spout.pending": 3})

    assert component(cluster, "a").executed == 10


def test_a_spout_below_max_spout_pending_again_is_called_again(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", Endless()).set_max_spout_pending(4)
    builder.set_spout("control", Fed())
    builder.set_bolt("a", Holder()).shuffle_grouping("spout").shuffle_grouping("control")
    run(cluster, builder.create_topology())
    feed("control", ["ack"], None)

    run_until_idle(cluster)

    assert component(cluster, "spout").emitted == 8


def test_a_spout_knows_how_many_of_its_tuples_are_pending(cluster):
    def emit_three(spout):
        note("pending", spout.collector.pending_count())
        for number in range(3):
            spout.collector.emit([number], message_id=number)
        spout.collector.emit(["untracked"])
        note("pending", spout.collector.pending_count())

    run(cluster, chain(Starts(emit_three), Does(holds)))

    assert noted("pending") == [0, 3]


# Its life.


def test_a_spout_is_opened_activated_and_then_called(cluster):
    run(cluster, chain(Lifecycle()))

    assert distinct(noted("calls")) == ["open", "activate", "next_tuple"]


def test_a_deactivated_spout_is_not_called_until_it_is_activated(cluster):
    run(cluster, chain(Lifecycle()))
    cluster.deactivate("topology")
    run_until_idle(cluster)
    calls = len(noted("calls"))
    advance(cluster, 1)
    assert len(noted("calls")) == calls
    cluster.activate("topology")
    run_until_idle(cluster)

    assert distinct(noted("calls")) == ["open", "activate", "next_tuple", "deactivate", "activate", "next_tuple"]


def test_activating_an_active_topology_changes_nothing(cluster):
    run(cluster, chain(Lifecycle()))
    cluster.activate("topology")
    run_until_idle(cluster)

    assert noted("calls").count("activate") == 1
    assert noted("calls").count("open") == 1


def test_deactivating_twice_calls_deactivate_once(cluster):
    run(cluster, chain(Lifecycle()))
    for _ in range(2):
        cluster.deactivate("topology")
        run_until_idle(cluster)

    assert noted("calls").count("deactivate") == 1


def test_a_killed_spout_is_deactivated_before_it_is_closed(cluster):
    run(cluster, chain(Lifecycle()))
    cluster.kill_topology("topology")

    assert distinct(noted("calls"))[-2:] == ["deactivate", "close"]


def test_a_topology_submitted_inactive_opens_nothing(cluster):
    class Prepared(Sink):
        def prepare(self, conf, context):
            note("calls", "prepare")

    cluster.submit_topology("topology", None, chain(Lifecycle(), Prepared()), active=False)
    advance(cluster, 1)

    assert noted("calls") == []
    assert cluster.topology_info("topology").status == "INACTIVE"


def test_a_topology_submitted_inactive_starts_when_activated(cluster):
    cluster.submit_topology("topology", None, chain(Lifecycle()), active=False)
    cluster.activate("topology")
    run_until_idle(cluster)

    assert distinct(noted("calls")) == ["open", "activate", "next_tuple"]
    assert cluster.topology_info("topology").status == "ACTIVE"


def test_a_topology_killed_before_it_was_activated_closes_nothing(cluster):
    cluster.submit_topology("topology", None, chain(Lifecycle()), active=False)
    cluster.kill_topology("topology")

    assert noted("calls") == []


@pytest.mark.every_case(OTHER_FRAMES)
@pytest.mark.parametrize(("settle", "told"), [("ack", "acked"), ("fail", "failed")])
def test_a_deactivated_spout_gets_acks_and_fails(cluster, settle, told):
    def settles_on_tick(bolt, tup):
        if is_tick(tup):
            for held in bolt.held:
                getattr(bolt.collector, settle)(held)
            bolt.held.clear()
        else:
            bolt.held.append(tup)

    run(cluster, chain(numbers(1), Does(settles_on_tick)), {"topology.tick.tuple.freq.secs": 1})
    cluster.deactivate("topology")
    advance(cluster, 1)

    assert noted(told) == [0]


def test_tuples_in_flight_go_on_while_deactivated(cluster):
    def emits_on_tick(bolt, tup):
        if is_tick(tup):
            bolt.collector.emit(["tick"])

    run(cluster, chain(numbers(1), Does(emits_on_tick, ["value"]), Sink()), {"topology.tick.tuple.freq.secs": 1})
    cluster.deactivate("topology")
    advance(cluster, 2)

    assert ["tick"] in noted("b")


# What it does.


class Troubled(Rows):
    """Raises at its second call, once."""

    def next_tuple(self):
        note("calls", "next_tuple")
        if len(noted("calls")) == 2:
            raise ConnectionError("the broker is away")
        super().next_tuple()


@pytest.mark.local_only(STANDING_TIME)
def test_a_spout_whose_next_tuple_raises_is_not_called_again_at_once(cluster):
    run(cluster, chain(Troubled([["a"], ["b"]]), Sink()))

    assert noted("a") == [["a"]]


def test_a_spout_whose_next_tuple_raises_is_called_again_after_a_pause(cluster):
    run(cluster, chain(Troubled([["a"], ["b"]]), Sink()))
    advance(cluster, 2)

    assert noted("a") == [["a"], ["b"]]
    (error,) = component(cluster, "spout").errors
    assert error.exception == "ConnectionError: the broker is away"
    assert error.input == ""


@pytest.mark.local_only(LONG_TIME)
def test_a_spout_that_always_raises_is_not_called_in_a_busy_loop(cluster):
    class Broken(Spout):
        outputs = ("value",)

        def next_tuple(self):
            note("calls", 1)
            raise ConnectionError("for good")

    run(cluster, chain(Broken(), Sink()))
    advance(cluster, 60)

    assert 5 < len(noted("calls")) < 60


def test_a_tuple_emitted_before_next_tuple_raised_arrives(cluster):
    def emit_and_raise(spout):
        spout.collector.emit(["a"], message_id=1)
        raise ValueError("after the emit")

    run(cluster, chain(Starts(emit_and_raise), Sink()))

    assert noted("a") == [["a"]]
    assert noted("acked") == [1]


def test_the_other_spouts_go_on_while_one_is_paused(cluster):
    class Broken(Spout):
        outputs = ("value",)

        def next_tuple(self):
            raise ConnectionError("for good")

    builder = TopologyBuilder()
    builder.set_spout("broken", Broken())
    builder.set_spout("spout", numbers(3))
    builder.set_bolt("a", Sink()).shuffle_grouping("spout").shuffle_grouping("broken")
    run(cluster, builder.create_topology())

    assert noted("acked") == [0, 1, 2]


def test_a_spout_may_emit_very_many_tuples_in_one_call(cluster):
    def emit_many(spout):
        for number in range(100_000):
            spout.collector.emit([number], message_id=number)

    run(cluster, chain(Starts(emit_many), Does(acks)))

    assert component(cluster, "a").executed == 100_000
    assert len(noted("acked")) == 100_000


def test_tuples_from_one_task_to_another_keep_their_order(cluster):
    run(cluster, chain(numbers(5000), Sink()))

    assert noted("a") == [[number] for number in range(5000)]


def test_a_spout_may_emit_in_open_and_activate_and_ack(cluster):
    class Eager(Fed):
        def open(self, conf, context, collector):
            super().open(conf, context, collector)
            collector.emit(["open"], message_id="open")

        def activate(self):
            self.collector.emit(["activate"])

        def ack(self, message_id):
            self.collector.emit([f"ack of {message_id}"])

    run(cluster, chain(Eager(), Sink()))

    assert noted("a") == [["open"], ["activate"], ["ack of open"]]


@pytest.mark.local_only(NEVER_IDLE)
def test_several_spouts_take_turns(cluster):
    builder = TopologyBuilder()
    builder.set_spout("endless", Endless())
    builder.set_spout("spout", numbers(3))
    builder.set_bolt("a", Does(acks)).shuffle_grouping("endless").shuffle_grouping("spout")
    cluster.submit_topology("topology", {"topology.max.spout.pending": 10}, builder.create_topology())

    advance(cluster, 0.001)

    assert noted("acked") == [0, 1, 2]


@pytest.mark.local_only(NEVER_IDLE)
def test_time_goes_on_while_a_spout_always_emits(cluster):
    def notes_ticks(bolt, tup):
        if is_tick(tup):
            note("ticks", tup[0])

    topology = chain(Endless(tracked=False), Does(notes_ticks))
    cluster.submit_topology("topology", {"topology.tick.tuple.freq.secs": 1}, topology)

    advance(cluster, 3)

    assert noted("ticks") == [1, 1, 1]


def test_a_lambda_spout_emits_the_results_of_its_function_untracked(cluster):
    values = iter([1, None, 0, ""])
    pulled = list(values)

    topology = chain(LambdaSpout(lambda: pulled.pop(0) if pulled else None), Sink())
    run(cluster, topology)

    assert noted("a") == [[1], [0], [""]]
    assert topology.components["spout"].outputs["default"].fields.to_list() == ["lambda"]
    assert component(cluster, "spout").acked == 0


def test_a_plain_function_becomes_a_spout(cluster):
    pulled = ["x"]
    builder = TopologyBuilder()
    builder.set_spout("spout", lambda: pulled.pop() if pulled else None)
    builder.set_bolt("a", Sink()).shuffle_grouping("spout")

    run(cluster, builder.create_topology())

    assert noted("a") == [["x"]]


def test_a_spout_with_ack_that_emits_without_ids_is_warned_once(cluster, caplog):
    run(cluster, chain(Rows([["a"], ["b"], ["c"]], ids=[None] * 3), Sink()))

    warnings = [record.getMessage() for record in caplog.records if "message id" in record.getMessage()]
    assert len(warnings) == 1
    assert "spout" in warnings[0]


def test_a_spout_without_ack_and_fail_is_not_warned(cluster, caplog):
    run(cluster, chain(LambdaSpout(iter([1, 2, None, None, None, None]).__next__), Sink()))

    assert not [record for record in caplog.records if "message id" in record.getMessage()]


def test_constructor_arguments_reach_every_task(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", Rows([["given"]]), 3)
    builder.set_bolt("a", Sink()).shuffle_grouping("spout")

    run(cluster, builder.create_topology())

    assert noted("a") == [["given"]] * 3


def test_each_task_has_an_instance_of_its_own(cluster):
    class Counts(Sink):
        def __init__(self):
            self.seen = []

        def execute(self, tup, collector):
            self.seen.append(tup[0])
            note("seen", len(self.seen))

    counts = Counts()
    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(4))
    builder.set_bolt("a", counts, 4).all_grouping("spout")
    run(cluster, builder.create_topology())

    assert sorted(noted("seen")) == [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4]
    assert counts.seen == []
