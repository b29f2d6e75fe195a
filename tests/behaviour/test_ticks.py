"""Tick tuples: a bolt's clock."""

import pytest

from pystorm_spark import BasicBolt, TickAwareBolt, TopologyBuilder, is_tick
from tests.behaviour.engine import LONG_TIME, STANDING_TIME, advance, chain, component, run, run_until_idle
from tests.behaviour.probes import Does, Fed, Rows, Sink, acks, fails, feed, holds, note, noted, numbers

EVERY_SECOND = {"topology.tick.tuple.freq.secs": 1}


def notes_ticks(bolt, tup):
    if is_tick(tup):
        note("ticks", (bolt.context.this_task_id, tup[0]))


@pytest.mark.local_only(STANDING_TIME)
def test_the_first_tick_comes_after_one_period(cluster):
    run(cluster, chain(numbers(0), Does(notes_ticks)), {"topology.tick.tuple.freq.secs": 5})

    advance(cluster, 4.9)
    assert noted("ticks") == []
    advance(cluster, 0.1)
    assert noted("ticks") == [(2, 5)]


@pytest.mark.local_only(STANDING_TIME)
def test_ticks_come_at_every_period(cluster):
    run(cluster, chain(numbers(0), Does(notes_ticks)), EVERY_SECOND)

    advance(cluster, 10)

    assert len(noted("ticks")) == 10


def test_every_task_of_a_bolt_gets_the_tick(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(0))
    builder.set_bolt("a", Does(notes_ticks), 3).shuffle_grouping("spout")
    run(cluster, builder.create_topology(), EVERY_SECOND)

    advance(cluster, 2)

    assert set(noted("ticks")) == {(2, 1), (3, 1), (4, 1)}


@pytest.mark.local_only(STANDING_TIME)
def test_a_bolt_may_have_ticks_of_its_own(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(0))
    quick = builder.set_bolt("quick", Does(notes_ticks)).shuffle_grouping("spout")
    quick.add_configuration("topology.tick.tuple.freq.secs", 2)
    builder.set_bolt("slow", Does(notes_ticks)).shuffle_grouping("spout")
    run(cluster, builder.create_topology(), {"topology.tick.tuple.freq.secs": 3})

    advance(cluster, 6)

    assert sorted(noted("ticks")) == [(2, 2), (2, 2), (2, 2), (3, 3), (3, 3)]


def test_a_bolt_may_ask_for_ticks_in_its_own_configuration(cluster):
    class Asks(Does):
        def component_configuration(self):
            return {"topology.tick.tuple.freq.secs": 0.5}

    run(cluster, chain(numbers(0), Asks(notes_ticks)))
    advance(cluster, 2)

    assert set(noted("ticks")) == {(2, 0.5)}


def test_the_declarers_tick_frequency_overrides_the_components_own(cluster):
    class Asks(Does):
        def component_configuration(self):
            return {"topology.tick.tuple.freq.secs": 0.1}

    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(0))
    bolt = builder.set_bolt("a", Asks(notes_ticks)).shuffle_grouping("spout")
    bolt.add_configurations({"topology.tick.tuple.freq.secs": 1})
    run(cluster, builder.create_topology())
    advance(cluster, 2)

    assert set(noted("ticks")) == {(2, 1)}


@pytest.mark.local_only(LONG_TIME)
def test_a_bolt_gets_no_ticks_unless_configured(cluster):
    run(cluster, chain(numbers(0), Does(notes_ticks)))

    advance(cluster, 1000)

    assert noted("ticks") == []


def test_a_tick_comes_from_the_system(cluster):
    def execute(bolt, tup):
        note("tick", (tup.source_component, tup.source_task, tup.source_stream_id, tup.fields.to_list(), tup.values))

    run(cluster, chain(numbers(0), Does(execute)), EVERY_SECOND)
    advance(cluster, 2)

    assert noted("tick")[0] == ("__system", -1, "__tick", ["rate_secs"], [1])


def test_data_is_not_a_tick(cluster):
    run(cluster, chain(numbers(2), Does(notes_ticks)))

    assert noted("ticks") == []


@pytest.mark.local_only(STANDING_TIME)
def test_a_tick_comes_behind_the_data_that_is_queued(cluster):
    def execute(bolt, tup):
        note("order", "tick" if is_tick(tup) else tup[0])
        bolt.collector.ack(tup)

    cluster.submit_topology("topology", EVERY_SECOND, chain(Fed(), Does(execute)))
    for number in range(3):
        feed("spout", [number], number)
    advance(cluster, 1)

    assert noted("order") == [0, 1, 2, "tick"]


@pytest.mark.parametrize("settle", [acks, fails, holds])
def test_acks_and_fails_of_ticks_are_not_counted(cluster, settle):
    run(cluster, chain(numbers(0), Does(settle)), EVERY_SECOND)

    advance(cluster, 3)

    info = component(cluster, "a")
    assert (info.executed, info.acked, info.failed) == (0, 0, 0)
    assert cluster.topology_info("topology").pending == 0
    assert info.errors == []


def test_a_basic_bolt_gets_ticks_too(cluster):
    class Notes(BasicBolt):
        def execute(self, tup, collector):
            note("ticks", is_tick(tup))

    run(cluster, chain(numbers(0), Notes()), EVERY_SECOND)
    advance(cluster, 2)

    assert set(noted("ticks")) == {True}
    assert component(cluster, "a").acked == 0


def test_a_tick_aware_bolt_has_a_method_for_each_kind(cluster):
    class Aware(TickAwareBolt):
        def process(self, tup):
            note("calls", ("process", tup[0]))

        def on_tick(self, tup):
            note("calls", ("on_tick", tup[0]))

    run(cluster, chain(Rows([["data"]]), Aware()), EVERY_SECOND)
    advance(cluster, 2)

    assert set(noted("calls")) == {("process", "data"), ("on_tick", 1)}
    assert noted("acked") == []


def test_a_tick_aware_bolt_need_not_define_on_tick(cluster):
    class Aware(TickAwareBolt):
        def prepare(self, conf, context, collector):
            self.collector = collector

        def process(self, tup):
            self.collector.ack(tup)

    run(cluster, chain(numbers(1), Aware()), EVERY_SECOND)
    advance(cluster, 3)

    assert noted("acked") == [0]
    assert component(cluster, "a").errors == []


@pytest.mark.parametrize("settle", [acks, fails])
def test_a_tuple_anchored_to_a_tick_is_untracked(cluster, settle):
    """A basic bolt that emits on ticks anchors to them, and ticks do not change the counts of either bolt."""

    class Emits(BasicBolt):
        outputs = ("value",)

        def execute(self, tup, collector):
            collector.emit(["from a tick"])

    run(cluster, chain(numbers(0), Emits(), Does(settle)), EVERY_SECOND)
    advance(cluster, 3)

    upstream, downstream = component(cluster, "a"), component(cluster, "b")
    assert (upstream.executed, upstream.acked, upstream.failed) == (0, 0, 0)
    assert min(upstream.emitted, downstream.acked + downstream.failed) >= 3
    assert cluster.topology_info("topology").pending == 0


@pytest.mark.parametrize("settle", [acks, fails])
def test_a_tuple_anchored_to_a_tick_and_to_data_belongs_to_the_tree_of_the_data(cluster, settle):
    def execute(bolt, tup):
        if not is_tick(tup):
            bolt.held.append(tup)
        elif bolt.held:
            data = bolt.held.pop()
            bolt.collector.emit(["both"], anchors=[tup, data])
            bolt.collector.ack(tup)
            bolt.collector.ack(data)

    run(cluster, chain(numbers(1), Does(execute, ["value"]), Does(settle)), EVERY_SECOND)
    advance(cluster, 2)

    assert (noted("acked"), noted("failed")) == (([0], []) if settle is acks else ([], [0]))
    assert component(cluster, "a").acked == 1


def test_a_bolt_that_raises_on_a_tick_gets_the_next_one(cluster):
    def execute(bolt, tup):
        note("ticks", 1)
        raise ValueError("no ticks here")

    run(cluster, chain(numbers(0), Does(execute)), EVERY_SECOND)
    advance(cluster, 2)

    assert len(noted("ticks")) >= 2
    info = component(cluster, "a")
    assert info.failed == 0
    assert len(info.errors) >= 2
    assert "rate_secs=1" in info.errors[0].input


def test_a_spout_gets_no_ticks_and_runs_on(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", Fed()).add_configuration("topology.tick.tuple.freq.secs", 1)
    builder.set_bolt("a", Sink()).shuffle_grouping("spout")
    run(cluster, builder.create_topology())
    advance(cluster, 2)
    feed("spout", ["still here"], 1)
    run_until_idle(cluster)

    assert noted("a") == [["still here"]]
    assert component(cluster, "spout").errors == []


def test_ticks_go_on_while_deactivated(cluster):
    run(cluster, chain(numbers(0), Does(notes_ticks)), EVERY_SECOND)
    cluster.deactivate("topology")

    advance(cluster, 3)

    assert len(noted("ticks")) >= 3
