"""Tuple trees: when the engine calls `ack` of a spout, when `fail`, and when neither."""

import pytest

from pystorm_spark import BasicBolt, EmitError, FailedException, ReportedFailedException, TopologyBuilder
from tests.behaviour.engine import OTHER_FRAMES, chain, component, run, run_until_idle
from tests.behaviour.probes import (
    Does,
    Fed,
    Holder,
    Replaying,
    Rows,
    Sink,
    Starts,
    acks,
    attempt,
    fails,
    feed,
    holds,
    note,
    noted,
    numbers,
    passes_on,
)
from tests.ids import shown

VALUE = ["value"]

# Trees must not depend on how their tuples travel: by the shortest way, with debug logs or hooks, or packed.
WAYS = {"plain": {}, "watched": {"topology.debug": True}, "packed": {"topology.testing.always.try.serialize": True}}


@pytest.fixture(params=WAYS)
def cluster(cluster, request, monkeypatch):
    submit = cluster.submit_topology
    way = WAYS[request.param]
    monkeypatch.setattr(
        cluster, "submit_topology", lambda name, conf, *rest: submit(name, {**way, **(conf or {})}, *rest)
    )
    return cluster


def branches_into(count):
    def execute(bolt, tup):
        for _ in range(count):
            bolt.collector.emit(tup.values, anchors=tup)
        bolt.collector.ack(tup)

    return Does(execute, VALUE)


def gathers(count):
    """Emits one tuple for `count` that it received, anchored to all of them."""

    def execute(bolt, tup):
        bolt.held.append(tup)
        if len(bolt.held) == count:
            bolt.collector.emit(["gathered"], anchors=bolt.held)
            for held in bolt.held:
                bolt.collector.ack(held)
            bolt.held.clear()

    return Does(execute, VALUE)


def feed_and_run(cluster, spout_id, message_id):
    feed(spout_id, [message_id], message_id)
    run_until_idle(cluster)


def test_a_tree_is_acked_when_every_branch_of_it_is(cluster):
    builder = TopologyBuilder()
    for spout_id in ("one", "two", "three"):
        builder.set_spout(spout_id, Fed())
    builder.set_bolt("twice", branches_into(2)).shuffle_grouping("one")
    builder.set_bolt("four times", branches_into(4)).shuffle_grouping("two")
    builder.set_bolt("once", branches_into(1)).shuffle_grouping("three")
    gathering = builder.set_bolt("gather", gathers(3))
    for bolt_id in ("twice", "four times", "once"):
        gathering.shuffle_grouping(bolt_id)
    builder.set_bolt("twice more", branches_into(2)).shuffle_grouping("gather")
    builder.set_bolt("end", Does(acks)).shuffle_grouping("twice more")
    run(cluster, builder.create_topology())

    feed_and_run(cluster, "one", "1a")
    assert noted("acked by one") == []
    feed_and_run(cluster, "one", "1b")
    assert noted("acked by one") == ["1a"]
    feed_and_run(cluster, "one", "1c")
    assert sorted(noted("acked by one")) == ["1a", "1b", "1c"]
    feed_and_run(cluster, "two", "2a")
    feed_and_run(cluster, "three", "3a")
    assert noted("acked by two") == noted("acked by three") == []
    feed_and_run(cluster, "three", "3b")
    assert noted("acked by two") == ["2a"]
    assert sorted(noted("acked by three")) == ["3a", "3b"]


def test_two_subscribers_are_two_branches_of_a_tree(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", Fed())
    builder.set_bolt("left", Does(passes_on, VALUE)).shuffle_grouping("spout")
    builder.set_bolt("right", Does(passes_on, VALUE)).shuffle_grouping("spout")
    builder.set_bolt("end", gathers(4)).shuffle_grouping("left").shuffle_grouping("right")
    run(cluster, builder.create_topology())

    feed_and_run(cluster, "spout", 1)
    assert noted("acked by spout") == []
    feed_and_run(cluster, "spout", 2)
    assert sorted(noted("acked by spout")) == [1, 2]


def test_a_tuple_anchored_twice_to_one_input_completes(cluster):
    def execute(bolt, tup):
        bolt.collector.emit(tup.values, anchors=[tup, tup])
        bolt.collector.ack(tup)

    run(cluster, chain(numbers(3), Does(execute, VALUE), Does(acks)))

    assert noted("acked") == [0, 1, 2]


def test_a_tuple_that_is_not_acked_keeps_its_tree_pending(cluster):
    run(cluster, chain(numbers(1), Does(passes_on, VALUE), Does(holds)))

    assert noted("acked") == noted("failed") == []
    assert cluster.topology_info("topology").pending == 1


def test_a_failed_leaf_fails_its_root(cluster):
    run(cluster, chain(numbers(1), Does(passes_on, VALUE), Does(fails)))

    assert noted("failed") == [0]
    assert noted("acked") == []


def test_a_failed_tuple_with_two_roots_fails_both_once(cluster):
    run(cluster, chain(numbers(2), gathers(2), Does(fails)))

    assert sorted(noted("failed")) == [0, 1]
    assert noted("acked") == []


def test_a_tuple_with_two_roots_completes_both(cluster):
    run(cluster, chain(numbers(2), gathers(2), Does(passes_on, VALUE), Does(acks)))

    assert sorted(noted("acked")) == [0, 1]


def test_a_tuple_with_two_roots_keeps_both_pending(cluster):
    run(cluster, chain(numbers(2), gathers(2), Does(holds)))

    assert noted("acked") == []
    assert cluster.topology_info("topology").pending == 2


@pytest.mark.every_case(OTHER_FRAMES)
@pytest.mark.parametrize("holding", [0, 1])
def test_a_tuple_with_two_roots_waits_for_every_task_that_got_it(cluster, holding):
    def holds_in_the_last_task(bolt, tup):
        if not holding or bolt.context.this_task_index < 2:
            bolt.collector.ack(tup)

    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(2))
    builder.set_bolt("gather", gathers(2)).shuffle_grouping("spout")
    builder.set_bolt("a", Does(holds_in_the_last_task), 3).all_grouping("gather")
    run(cluster, builder.create_topology())

    assert sorted(noted("acked")) == ([] if holding else [0, 1])


def test_a_tuple_with_two_roots_and_no_subscriber_delays_neither(cluster):
    run(cluster, chain(numbers(2), gathers(2)))

    assert sorted(noted("acked")) == [0, 1]


def test_anchors_that_share_roots_count_each_root_once(cluster):
    """Both inputs of the last gathering belong to the same two roots."""
    topology = chain(numbers(2), gathers(2), branches_into(2), gathers(2))

    run(cluster, topology)

    assert sorted(noted("acked")) == [0, 1]


def test_a_root_fails_once_however_many_of_its_tuples_fail(cluster):
    run(cluster, chain(numbers(1), branches_into(5), Does(fails)))

    assert noted("failed") == [0]
    assert component(cluster, "b").failed == 5
    assert component(cluster, "spout").failed == 1


def test_the_siblings_of_a_failed_tuple_run_on(cluster):
    def fails_the_first(bolt, tup):
        note("executed", tup[0])
        (bolt.collector.ack if bolt.held else bolt.collector.fail)(tup)
        bolt.held.append(tup)

    run(cluster, chain(numbers(1), branches_into(3), Does(fails_the_first)))

    assert noted("executed") == [0, 0, 0]
    assert (noted("acked"), noted("failed")) == ([], [0])


def test_an_unanchored_tuple_is_not_part_of_the_tree(cluster):
    def execute(bolt, tup):
        bolt.collector.emit(tup.values)
        bolt.collector.ack(tup)

    run(cluster, chain(numbers(2), Does(execute, VALUE), Does(fails)))

    assert noted("acked") == [0, 1]
    assert component(cluster, "b").failed == 2


@pytest.mark.parametrize("anchors", [[], (), None, set()], ids=shown)
def test_an_emit_with_empty_anchors_is_unanchored(cluster, anchors):
    def execute(bolt, tup):
        bolt.collector.emit(tup.values, anchors=anchors)
        bolt.collector.ack(tup)

    run(cluster, chain(numbers(1), Does(execute, VALUE), Does(holds)))

    assert noted("acked") == [0]


@pytest.mark.parametrize("collection", [list, tuple, set, iter, lambda held: (tup for tup in held)])
def test_anchors_may_be_any_collection(cluster, collection):
    def execute(bolt, tup):
        bolt.held.append(tup)
        if len(bolt.held) == 2:
            bolt.collector.emit(["both"], anchors=collection(bolt.held))
            for held in bolt.held:
                bolt.collector.ack(held)

    run(cluster, chain(numbers(2), Does(execute, VALUE), Does(fails)))

    assert sorted(noted("failed")) == [0, 1]


def test_an_anchor_kept_from_an_earlier_execute_still_counts(cluster):
    def execute(bolt, tup):
        if bolt.held:
            bolt.collector.emit(["late"], anchors=bolt.held[0])
            bolt.collector.ack(bolt.held[0])
            bolt.collector.ack(tup)
        bolt.held.append(tup)

    run(cluster, chain(numbers(2), Does(execute, VALUE), Does(fails)))

    assert (noted("acked"), noted("failed")) == ([1], [0])


@pytest.mark.parametrize(("first", "second"), [("ack", "ack"), ("ack", "fail"), ("fail", "ack"), ("fail", "fail")])
def test_a_second_ack_or_fail_is_ignored_with_a_warning(cluster, caplog, first, second):
    def execute(bolt, tup):
        getattr(bolt.collector, first)(tup)
        getattr(bolt.collector, second)(tup)

    run(cluster, chain(numbers(1), Does(execute)))

    told = {"ack": (1, 0), "fail": (0, 1)}[first]
    assert (len(noted("acked")), len(noted("failed"))) == told
    assert (component(cluster, "a").acked, component(cluster, "a").failed) == told
    assert len([record for record in caplog.records if "already acked or failed" in record.getMessage()]) == 1


def test_a_second_ack_does_not_complete_a_pending_tree(cluster):
    def execute(bolt, tup):
        bolt.collector.emit(tup.values, anchors=tup)
        bolt.collector.ack(tup)
        bolt.collector.ack(tup)

    run(cluster, chain(numbers(1), Does(execute, VALUE), Does(holds)))

    assert noted("acked") == []
    assert cluster.topology_info("topology").pending == 1


def test_a_second_ack_after_the_tree_is_complete_leaves_other_trees_alone(cluster):
    def execute(bolt, tup):
        for held in bolt.held:
            bolt.collector.ack(held)
        bolt.held.append(tup)

    run(cluster, chain(numbers(3), Does(execute)))

    assert noted("acked") == [0, 1]
    assert cluster.topology_info("topology").pending == 1


def test_emitting_anchored_to_an_acked_tuple_is_an_error(cluster):
    def execute(bolt, tup):
        bolt.collector.ack(tup)
        for anchors in (tup, [tup]):
            attempt("emit", lambda anchors=anchors: bolt.collector.emit(tup.values, anchors=anchors))

    run(cluster, chain(numbers(1), Does(execute, VALUE), Sink()))

    assert [type(outcome) for outcome in noted("emit")] == [EmitError, EmitError]
    assert "'a'" in str(noted("emit")[0])
    assert noted("b") == []
    assert noted("acked") == [0]
    assert component(cluster, "a").emitted == 0


def test_emitting_anchored_to_a_failed_tuple_is_an_error(cluster):
    def execute(bolt, tup):
        bolt.collector.fail(tup)
        bolt.collector.emit(tup.values, anchors=tup)

    run(cluster, chain(numbers(1), Does(execute, VALUE), Sink()))

    (error,) = component(cluster, "a").errors
    assert "EmitError" in error.exception
    assert noted("failed") == [0]


def test_an_emit_refused_for_one_settled_anchor_adds_nothing_to_other_trees(cluster):
    """The tree of the unsettled anchor must not wait for a tuple that was never sent."""

    def execute(bolt, tup):
        bolt.held.append(tup)
        if len(bolt.held) == 2:
            bolt.collector.ack(bolt.held[0])
            attempt("emit", lambda: bolt.collector.emit(["x"], anchors=[bolt.held[1], bolt.held[0]]))
            bolt.collector.ack(bolt.held[1])

    run(cluster, chain(numbers(2), Does(execute, VALUE), Sink()))

    assert isinstance(noted("emit")[0], EmitError)
    assert sorted(noted("acked")) == [0, 1]


def test_an_ack_before_an_exception_stands(cluster):
    def execute(bolt, tup):
        bolt.collector.ack(tup)
        raise ValueError("after the ack")

    run(cluster, chain(numbers(1), Does(execute)))

    assert (noted("acked"), noted("failed")) == ([0], [])
    (error,) = component(cluster, "a").errors
    assert error.exception == "ValueError: after the ack"


def test_an_exception_fails_the_tuple_and_its_emitted_tuples_go_on(cluster):
    def execute(bolt, tup):
        bolt.collector.emit(tup.values, anchors=tup)
        raise ValueError("after the emit")

    run(cluster, chain(numbers(1), Does(execute, VALUE), Sink()))

    assert noted("b") == [[0]]
    assert (noted("acked"), noted("failed")) == ([], [0])


def test_one_message_id_emitted_twice_is_two_trees_with_two_callbacks(cluster):
    run(cluster, chain(Rows([["a"], ["b"]], ids=["same", "same"]), Does(acks)))

    assert noted("acked") == ["same", "same"]


def test_one_of_two_trees_with_the_same_id_may_fail(cluster):
    def fails_b(bolt, tup):
        (bolt.collector.fail if tup[0] == "b" else bolt.collector.ack)(tup)

    run(cluster, chain(Rows([["a"], ["b"]], ids=["same", "same"]), Does(fails_b)))

    assert (noted("acked"), noted("failed")) == (["same"], ["same"])


@pytest.mark.parametrize("message_id", [0, "", False, 0.0, (), b"", [], {}], ids=shown)
def test_a_falsy_message_id_is_an_id(cluster, message_id):
    run(cluster, chain(Rows([["a"]], ids=[message_id]), Does(acks)))

    assert noted("acked") == [message_id]


def test_a_message_id_comes_back_as_the_same_object(cluster):
    def emit(spout):
        spout.message_id = {"offset": [1]}
        spout.collector.emit(["a"], message_id=spout.message_id)

    class Compares(Starts):
        def ack(self, message_id):
            note("same", message_id is self.message_id)

    run(cluster, chain(Compares(emit), Does(acks)))

    assert noted("same") == [True]


def test_a_tracked_tuple_without_a_subscriber_is_acked(cluster):
    run(cluster, chain(numbers(2)))

    assert noted("acked") == [0, 1]
    assert cluster.topology_info("topology").pending == 0


def test_an_ack_without_a_subscriber_comes_after_emit_has_returned(cluster):
    def emit(spout):
        spout.collector.emit(["a"], message_id=1)
        note("acked", "not yet")

    run(cluster, chain(Starts(emit)))

    assert noted("acked") == ["not yet", 1]


@pytest.mark.parametrize("settle", [acks, fails, holds])
def test_an_untracked_tuple_has_no_callback_and_is_not_pending(cluster, settle):
    run(cluster, chain(Rows([["a"]], ids=[None]), Does(passes_on, VALUE), Does(settle)))

    assert noted("acked") == noted("failed") == []
    assert cluster.topology_info("topology").pending == 0


def test_without_ackers_ack_is_called_inside_emit(cluster):
    def emit(spout):
        spout.collector.emit(["a"], message_id=1)
        note("acked", "emit has returned")

    run(cluster, chain(Starts(emit), Does(holds)), {"topology.acker.executors": 0})

    assert noted("acked") == [1, "emit has returned"]


def test_without_ackers_acks_and_fails_of_bolts_do_nothing(cluster):
    def execute(bolt, tup):
        bolt.collector.fail(tup)
        bolt.collector.ack(tup)
        bolt.collector.emit(tup.values, anchors=tup)

    run(cluster, chain(numbers(2), Does(execute, VALUE), Sink()), {"topology.acker.executors": 0})

    assert (noted("acked"), noted("failed")) == ([0, 1], [])
    assert noted("b") == [[0], [1]]
    info = component(cluster, "a")
    assert (info.executed, info.acked, info.failed) == (2, 0, 0)


def test_without_ackers_max_spout_pending_does_not_pause_spouts(cluster):
    conf = {"topology.acker.executors": 0, "topology.max.spout.pending": 1}

    run(cluster, chain(numbers(5), Does(holds)), conf)

    assert component(cluster, "a").executed == 5


def test_each_task_of_a_spout_gets_the_acks_of_its_own_tuples(cluster):
    class Owned(Rows):
        def open(self, conf, context, collector):
            super().open(conf, context, collector)
            self.left[0] = (["a"], context.this_task_id)

        def ack(self, message_id):
            note("own", message_id == self.context.this_task_id)

    builder = TopologyBuilder()
    builder.set_spout("spout", Owned([["a"]]), 3)
    builder.set_bolt("a", Does(acks), 2).shuffle_grouping("spout")
    run(cluster, builder.create_topology())

    assert noted("own") == [True, True, True]


def test_a_failed_tuple_is_lost_unless_the_spout_emits_it_again(cluster):
    run(cluster, chain(numbers(1), Does(fails)))

    assert component(cluster, "a").executed == 1


def test_a_replayed_tuple_is_acked(cluster):
    def fails_twice(bolt, tup):
        bolt.held.append(tup)
        (bolt.collector.fail if len(bolt.held) <= 2 else bolt.collector.ack)(tup)

    run(cluster, chain(Replaying([["a"]]), Does(fails_twice)))

    assert (noted("failed"), noted("acked")) == ([0, 0], [0])


def test_a_tree_of_many_children_is_acked_once(cluster):
    run(cluster, chain(numbers(1), branches_into(5_000), Does(acks)))

    assert noted("acked") == [0]
    assert component(cluster, "b").acked == 5_000


def test_a_held_tuple_completes_its_tree_when_it_is_acked(cluster):
    topology = chain(Rows([["x"], ["y"], ["ack"]]), Holder())

    run(cluster, topology)

    assert noted("acked") == [0, 1, 2]


def test_a_basic_bolt_anchors_and_acks(cluster):
    class Doubles(BasicBolt):
        outputs = VALUE

        def execute(self, tup, collector):
            collector.emit([2 * tup[0]])

    run(cluster, chain(numbers(2), Doubles(), Does(fails)))

    assert noted("failed") == [0, 1]
    assert component(cluster, "a").acked == 2


@pytest.mark.parametrize(("error", "reported"), [(FailedException, 0), (ReportedFailedException, 1)])
def test_a_basic_bolt_fails_its_input_by_exception(cluster, error, reported):
    class Fails(BasicBolt):
        def execute(self, tup, collector):
            raise error("no good")

    run(cluster, chain(numbers(1), Fails()))

    assert noted("failed") == [0]
    assert len(component(cluster, "a").errors) == reported


def test_another_exception_of_a_basic_bolt_fails_its_input_and_is_reported(cluster):
    class Fails(BasicBolt):
        def execute(self, tup, collector):
            raise LookupError("nowhere")

    run(cluster, chain(numbers(1), Fails()))

    assert (noted("failed"), noted("acked")) == ([0], [])
    assert len(component(cluster, "a").errors) == 1


def test_a_failed_exception_of_a_rich_bolt_is_an_error_like_any_other(cluster):
    def execute(bolt, tup):
        raise FailedException("not special here")

    run(cluster, chain(numbers(1), Does(execute)))

    assert noted("failed") == [0]
    assert len(component(cluster, "a").errors) == 1


def test_a_tuple_has_the_ids_of_its_roots(cluster):
    def execute(bolt, tup):
        note("roots", len(tup.message_id.anchors))
        bolt.collector.ack(tup)
        note("roots after the ack", len(tup.message_id.anchors))

    run(cluster, chain(numbers(2), gathers(2), Does(execute)))

    assert (noted("roots"), noted("roots after the ack")) == ([2], [0])
    assert sorted(noted("acked")) == [0, 1]


@pytest.mark.parametrize("wrong", [None, 7, "tuple", ["a"]], ids=shown)
@pytest.mark.parametrize("verb", ["ack", "fail", "reset_timeout"])
def test_acking_or_failing_another_type_than_a_tuple_is_a_type_error(cluster, verb, wrong):
    def execute(bolt, tup):
        attempt("outcome", lambda: getattr(bolt.collector, verb)(wrong))
        bolt.collector.ack(tup)

    run(cluster, chain(numbers(1), Does(execute)))

    (outcome,) = noted("outcome")
    assert isinstance(outcome, TypeError)
    assert verb in str(outcome)
    assert repr(wrong) in str(outcome)


@pytest.mark.parametrize("wrong", [7, "abc", ["a"], [None]], ids=shown)
def test_anchoring_to_another_type_than_a_tuple_is_an_emit_error(cluster, wrong):
    def execute(bolt, tup):
        attempt("outcome", lambda: bolt.collector.emit(["x"], anchors=wrong))
        bolt.collector.ack(tup)

    run(cluster, chain(numbers(1), Does(execute, VALUE), Sink()))

    assert isinstance(noted("outcome")[0], EmitError)
    assert noted("b") == []
    assert noted("acked") == [0]
