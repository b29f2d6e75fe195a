"""Slots of one plan that exchange frames: trees that span slots, timeouts, order, and leaks."""

from __future__ import annotations

import random
from threading import Lock, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystorm_spark.errors import SerializationError
from pystorm_spark.runtime.frames import Frame
from pystorm_spark.topology.builder import TopologyBuilder
from pystorm_spark.topology.component import Bolt
from pystorm_spark.topology.tuple import is_tick
from tests.ids import shown

from .slots import TIMEOUT_SECS, HoldingBolt, Mesh, ScriptedSpout, ToNamedTasks, web_mesh


def told(mesh, index=0):
    return mesh.spout(index=index).told


def emit_to_bolts(mesh, *indexes, message_id="id", label="root", spout=0):
    """Have a spout emit to the bolt tasks with these numbers; with one task in each slot, these are slot numbers."""
    targets = [mesh.tasks("bolt")[index] for index in indexes]
    mesh.spout(index=spout).emit(label, *targets, message_id=message_id)
    mesh.settle()


def pass_on(mesh, index, label, child, *to):
    """Have a bolt emit `child` anchored to the tuple it holds, and ack that."""
    bolt = mesh.bolt(index=index)
    tup = bolt.take(label)
    bolt.emit(child, *(mesh.tasks("bolt")[target] for target in to), anchors=tup)
    bolt.collector.ack(tup)
    mesh.settle()


def ack(mesh, index, label):
    mesh.bolt(index=index).ack(label)
    mesh.settle()


def fail(mesh, index, label):
    mesh.bolt(index=index).fail(label)
    mesh.settle()


# Trees that span slots.


def test_a_tree_in_another_slot_is_acked_once():
    mesh = web_mesh(slots=2)
    emit_to_bolts(mesh, 1)
    assert told(mesh) == []
    ack(mesh, 1, "root")
    assert told(mesh) == [("ack", "id")]
    assert not mesh.leftovers()


def test_a_tree_in_all_slots_is_acked_when_the_last_of_them_is_done():
    mesh = web_mesh(slots=3)
    emit_to_bolts(mesh, 0, 1, 2)
    ack(mesh, 1, "root")
    ack(mesh, 0, "root")
    assert told(mesh) == []
    ack(mesh, 2, "root")
    assert told(mesh) == [("ack", "id")]


def test_a_tree_that_travels_through_all_slots_and_home_again_is_acked_once():
    mesh = web_mesh(slots=3)
    emit_to_bolts(mesh, 0)
    pass_on(mesh, 0, "root", "there", 1)
    pass_on(mesh, 1, "there", "further", 2)
    pass_on(mesh, 2, "further", "home", 0)
    assert told(mesh) == []
    ack(mesh, 0, "home")
    assert told(mesh) == [("ack", "id")]
    assert not mesh.leftovers()


def test_a_tuple_back_home_keeps_a_tree_pending_whose_first_tuples_are_acked():
    mesh = web_mesh(slots=2)
    emit_to_bolts(mesh, 0, 1)
    pass_on(mesh, 1, "root", "home", 0)
    ack(mesh, 0, "root")
    assert told(mesh) == []
    ack(mesh, 0, "home")
    assert told(mesh) == [("ack", "id")]


def test_a_drained_subtree_may_get_later_tuples():
    mesh = web_mesh(slots=2)
    emit_to_bolts(mesh, 0, 1)
    ack(mesh, 1, "root")
    pass_on(mesh, 0, "root", "later", 1)
    assert told(mesh) == []
    ack(mesh, 1, "later")
    assert told(mesh) == [("ack", "id")]
    assert not mesh.leftovers()


def test_an_unanchored_tuple_does_not_delay_the_tree():
    mesh = web_mesh(slots=2)
    emit_to_bolts(mesh, 0)
    mesh.bolt().emit("free", mesh.tasks("bolt")[1])
    ack(mesh, 0, "root")
    assert told(mesh) == [("ack", "id")]
    assert mesh.bolt(index=1).seen == ["free"]


def test_a_fail_in_another_slot_fails_the_root_once():
    mesh = web_mesh(slots=3)
    emit_to_bolts(mesh, 0, 1, 2)
    fail(mesh, 1, "root")
    assert told(mesh) == [("fail", "id")]
    fail(mesh, 2, "root")
    ack(mesh, 0, "root")
    assert told(mesh) == [("fail", "id")]
    assert not mesh.leftovers()


@pytest.mark.parametrize("slot", [0, 1], ids=["in its own slot", "in another slot"])
def test_a_spout_can_read_why_its_tuple_has_failed(slot):
    mesh = web_mesh(slots=2)
    bolt, collector = mesh.bolt(index=slot), mesh.task("spout").collector
    emit_to_bolts(mesh, slot)
    fail(mesh, slot, "root")
    assert collector.why == f"bolt:{bolt.task_id} failed it"

    emit_to_bolts(mesh, slot)
    try:
        raise ValueError("too large")
    except ValueError:
        fail(mesh, slot, "root")
    assert collector.why == f"bolt:{bolt.task_id} ValueError: too large"

    emit_to_bolts(mesh, slot)
    mesh.advance(TIMEOUT_SECS)
    mesh.advance(TIMEOUT_SECS)
    assert collector.why == "timed out"


def test_a_subtree_with_a_failed_and_an_acked_tuple_does_not_ack_the_tree():
    mesh = web_mesh(slots=2, bolts=4)
    emit_to_bolts(mesh, 1, 3)
    mesh.bolt(index=1).fail("root")
    mesh.bolt(index=3).ack("root")
    mesh.settle()
    assert told(mesh) == [("fail", "id")]
    assert not mesh.leftovers()


def test_an_exception_in_another_slot_fails_the_root():
    mesh = web_mesh(slots=2)
    mesh.bolt(index=1).held = None  # `execute` needs it
    emit_to_bolts(mesh, 1)
    assert told(mesh) == [("fail", "id")]
    assert not mesh.leftovers()


def test_each_tree_of_one_message_id_has_its_own_outcome():
    mesh = web_mesh(slots=2)
    emit_to_bolts(mesh, 1, label="first")
    emit_to_bolts(mesh, 1, label="second")
    fail(mesh, 1, "second")
    ack(mesh, 1, "first")
    assert told(mesh) == [("fail", "id"), ("ack", "id")]


def test_a_tracked_tuple_without_a_receiver_is_acked():
    mesh = web_mesh(slots=2)
    emit_to_bolts(mesh)
    assert told(mesh) == [("ack", "id")]


@pytest.mark.parametrize("message_id", [0, "", False, ()], ids=shown)
def test_a_falsy_message_id_is_an_id(message_id):
    mesh = web_mesh(slots=2)
    emit_to_bolts(mesh, 1, message_id=message_id)
    ack(mesh, 1, "root")
    assert told(mesh) == [("ack", message_id)]


# Several anchors.


def two_roots(mesh, at):
    """Emit roots in two slots, both held by one bolt; returns the mesh, that bolt and the two tuples."""
    for spout in (0, 1):
        emit_to_bolts(mesh, at, message_id=spout, label=f"root{spout}", spout=spout)
    bolt = mesh.bolt(index=at)
    return bolt, bolt.take("root0"), bolt.take("root1")


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("to", [(0,), (1,), (2,), (0, 1, 2)], ids=str)
def test_a_tuple_of_two_trees_keeps_both_pending_wherever_it_goes(at, to):
    mesh = web_mesh(slots=3, spouts=2)
    bolt, one, other = two_roots(mesh, at)
    bolt.emit("joint", *(mesh.tasks("bolt")[index] for index in to), anchors=[one, other])
    bolt.collector.ack(one)
    bolt.collector.ack(other)
    mesh.settle()
    for index in to:
        assert told(mesh, 0) == told(mesh, 1) == []
        ack(mesh, index, "joint")
    assert (told(mesh, 0), told(mesh, 1)) == ([("ack", 0)], [("ack", 1)])
    assert not mesh.leftovers()


@pytest.mark.parametrize("to", [0, 1, 2])
def test_a_tuple_of_two_trees_that_fails_fails_both(to):
    mesh = web_mesh(slots=3, spouts=2)
    bolt, one, other = two_roots(mesh, at=0)
    bolt.emit("joint", mesh.tasks("bolt")[to], anchors=[one, other])
    mesh.settle()
    fail(mesh, to, "joint")
    bolt.collector.ack(one)
    bolt.collector.ack(other)
    mesh.settle()
    assert (told(mesh, 0), told(mesh, 1)) == ([("fail", 0)], [("fail", 1)])
    assert not mesh.leftovers()


def test_the_child_of_a_tuple_of_two_trees_belongs_to_both():
    mesh = web_mesh(slots=3, spouts=2)
    bolt, one, other = two_roots(mesh, at=0)
    bolt.emit("joint", mesh.tasks("bolt")[1], anchors=[one, other])
    bolt.collector.ack(one)
    bolt.collector.ack(other)
    mesh.settle()
    pass_on(mesh, 1, "joint", "child", 1, 2)
    ack(mesh, 1, "child")
    assert told(mesh, 0) == told(mesh, 1) == []
    ack(mesh, 2, "child")
    assert (told(mesh, 0), told(mesh, 1)) == ([("ack", 0)], [("ack", 1)])


def test_a_tree_that_splits_and_joins_is_acked_once():
    mesh = web_mesh(slots=3)
    emit_to_bolts(mesh, 0)
    pass_on(mesh, 0, "root", "half", 1, 2)
    for index in (1, 2):
        pass_on(mesh, index, "half", f"half{index}", 0)
    home = mesh.bolt()
    home.emit("whole", mesh.tasks("bolt")[1], anchors=list(home.held))
    home.ack_all()
    mesh.settle()
    assert told(mesh) == []
    ack(mesh, 1, "whole")
    assert told(mesh) == [("ack", "id")]
    assert not mesh.leftovers()


def test_a_root_and_its_own_tuple_from_another_slot_may_anchor_together():
    mesh = web_mesh(slots=2)
    emit_to_bolts(mesh, 0, 1)
    pass_on(mesh, 1, "root", "home", 0)
    home = mesh.bolt()
    home.emit("both", mesh.tasks("bolt")[1], anchors=list(home.held))
    home.ack_all()
    mesh.settle()
    assert told(mesh) == []
    ack(mesh, 1, "both")
    assert told(mesh) == [("ack", "id")]
    assert not mesh.leftovers()


@pytest.mark.parametrize("to", [0, 1])
def test_an_anchor_that_is_given_twice_counts_once(to):
    mesh = web_mesh(slots=2)
    emit_to_bolts(mesh, 0)
    tup = mesh.bolt().take("root")
    mesh.bolt().emit("child", mesh.tasks("bolt")[to], anchors=[tup, tup])
    mesh.bolt().collector.ack(tup)
    mesh.settle()
    ack(mesh, to, "child")
    assert told(mesh) == [("ack", "id")]


def test_a_tuple_of_a_tree_and_of_none_belongs_to_the_tree():
    mesh = web_mesh(slots=2)
    emit_to_bolts(mesh, 0)
    emit_to_bolts(mesh, 0, message_id=None, label="untracked")
    bolt = mesh.bolt()
    bolt.emit("child", mesh.tasks("bolt")[1], anchors=list(bolt.held))
    bolt.ack_all()
    mesh.settle()
    assert told(mesh) == []
    ack(mesh, 1, "child")
    assert told(mesh) == [("ack", "id")]


# Trees that have ended.


def test_a_tuple_of_a_failed_tree_that_leaves_its_slot_later_leaves_nothing_behind():
    mesh = web_mesh(slots=2, bolts=3)
    emit_to_bolts(mesh, 0, 2)  # both in the slot of the spout
    fail(mesh, 0, "root")
    pass_on(mesh, 2, "root", "late", 1)
    ack(mesh, 1, "late")
    assert told(mesh) == [("fail", "id")]
    assert not mesh.leftovers()


@pytest.mark.parametrize("timeouts", [True, False])
def test_a_reset_of_a_failed_tree_leaves_nothing_behind(timeouts):
    mesh = web_mesh(slots=2, bolts=3, conf={"topology.enable.message.timeouts": timeouts})
    emit_to_bolts(mesh, 0, 1)
    fail(mesh, 1, "root")
    mesh.bolt().collector.reset_timeout(mesh.bolt().held[0])
    mesh.settle()
    assert not mesh.leftovers()


def test_reading_the_ids_of_a_failed_tree_leaves_nothing_behind():
    mesh = web_mesh(slots=2, bolts=3)
    emit_to_bolts(mesh, 0, 2)
    fail(mesh, 0, "root")
    assert len(mesh.bolt(index=2).held[0].message_id.anchors) == 1
    assert not mesh.leftovers()


def test_an_ack_after_the_timeout_is_ignored_and_does_not_affect_the_replay():
    mesh = web_mesh(slots=2)
    emit_to_bolts(mesh, 1, label="first")
    mesh.advance(TIMEOUT_SECS)
    mesh.advance(TIMEOUT_SECS)
    emit_to_bolts(mesh, 1, label="again")
    ack(mesh, 1, "first")
    assert told(mesh) == [("fail", "id")]
    ack(mesh, 1, "again")
    assert told(mesh) == [("fail", "id"), ("ack", "id")]
    assert not mesh.leftovers()


def test_a_fail_after_the_timeout_does_not_fail_the_root_twice():
    mesh = web_mesh(slots=2)
    emit_to_bolts(mesh, 1)
    mesh.advance(TIMEOUT_SECS)
    mesh.advance(TIMEOUT_SECS)
    fail(mesh, 1, "root")
    assert told(mesh) == [("fail", "id")]
    assert not mesh.leftovers()


# Timeouts.


@given(st.integers(0, 3 * TIMEOUT_SECS), st.integers(0, 1))
def test_an_unacked_tuple_fails_between_one_and_two_timeouts(emitted_at, at):
    mesh = web_mesh(slots=2)
    mesh.advance(0.5)
    for _ in range(emitted_at):
        mesh.advance(1)
    emit_to_bolts(mesh, at)
    waited = 0
    while not told(mesh):
        mesh.advance(1)
        waited += 1
    assert told(mesh) == [("fail", "id")]
    assert TIMEOUT_SECS <= waited <= 2 * TIMEOUT_SECS


def test_a_tuple_whose_frame_is_lost_fails():
    mesh = web_mesh(slots=2)
    mesh.spout().emit("root", mesh.tasks("bolt")[1], message_id="id")
    mesh.turn(0)
    mesh.wire.clear()
    mesh.advance(TIMEOUT_SECS)
    mesh.advance(TIMEOUT_SECS)
    assert told(mesh) == [("fail", "id")]
    assert not mesh.leftovers()


def test_a_tuple_whose_ack_is_lost_fails():
    mesh = web_mesh(slots=2)
    emit_to_bolts(mesh, 1)
    mesh.bolt(index=1).ack("root")
    mesh.turn(1)
    mesh.wire.clear()
    mesh.advance(TIMEOUT_SECS)
    mesh.advance(TIMEOUT_SECS)
    assert told(mesh) == [("fail", "id")]
    assert not mesh.leftovers()


def test_an_ack_that_arrives_with_the_last_moment_of_the_timeout_counts():
    mesh = web_mesh(slots=2)
    emit_to_bolts(mesh, 1)
    mesh.advance(TIMEOUT_SECS)
    mesh.bolt(index=1).ack("root")
    mesh.turn(1)
    mesh.move()
    mesh.advance(TIMEOUT_SECS)
    assert told(mesh) == [("ack", "id")]


def test_a_frame_that_comes_twice_makes_no_false_ack():
    mesh = web_mesh(slots=3)
    mesh.spout().emit("root", *mesh.tasks("bolt")[1:], message_id="id")
    mesh.turn(0)
    mesh.carry(mesh.wire[0])
    mesh.settle()
    for bolt in (mesh.bolt(index=1), mesh.bolt(index=2)):
        bolt.ack_all()
    mesh.settle()
    assert ("ack", "id") not in told(mesh)
    mesh.advance(TIMEOUT_SECS)
    mesh.advance(TIMEOUT_SECS)
    assert told(mesh) == [("fail", "id")]
    assert not mesh.leftovers()


def test_forgotten_tuples_are_neither_acked_nor_failed():
    mesh = web_mesh(slots=2)
    emit_to_bolts(mesh, 0, message_id="near")
    emit_to_bolts(mesh, 1, message_id="far")

    mesh.task("spout").forget_pending()
    ack(mesh, 0, "root")
    fail(mesh, 1, "root")
    mesh.advance(3 * TIMEOUT_SECS)

    assert told(mesh) == []
    assert not mesh.leftovers()


def test_new_tuples_of_a_delayed_slot_have_their_whole_timeout():
    mesh = web_mesh(slots=1)
    mesh.clock.now = 2 * TIMEOUT_SECS - 1  # There was no turn for that long, so the rotation is late.
    emit_to_bolts(mesh, 0)
    mesh.advance(TIMEOUT_SECS - 1)
    assert told(mesh) == []


def test_without_timeouts_a_tuple_is_pending_forever():
    mesh = web_mesh(slots=2, conf={"topology.enable.message.timeouts": False})
    emit_to_bolts(mesh, 1)
    for _ in range(10):
        mesh.advance(TIMEOUT_SECS)
    assert told(mesh) == []
    ack(mesh, 1, "root")
    assert told(mesh) == [("ack", "id")]


@pytest.mark.parametrize("at", [0, 1])
def test_a_reset_gives_the_tree_a_new_timeout(at):
    mesh = web_mesh(slots=2)
    emit_to_bolts(mesh, at)
    (tup,) = mesh.bolt(index=at).held
    for _ in range(5):
        mesh.bolt(index=at).collector.reset_timeout(tup)
        mesh.settle()
        mesh.advance(TIMEOUT_SECS)
    assert told(mesh) == []
    mesh.advance(TIMEOUT_SECS)
    assert told(mesh) == [("fail", "id")]


def test_a_reset_of_a_tuple_of_two_trees_keeps_both():
    mesh = web_mesh(slots=3, spouts=2)
    bolt, one, other = two_roots(mesh, at=2)
    bolt.emit("joint", mesh.tasks("bolt")[0], anchors=[one, other])
    mesh.settle()
    for _ in range(3):
        joint = mesh.bolt().held[0]
        mesh.bolt().collector.reset_timeout(joint)
        mesh.settle()
        mesh.advance(TIMEOUT_SECS)
    assert told(mesh, 0) == told(mesh, 1) == []


def test_tuples_that_outlive_the_entry_of_their_subtree_still_complete_the_tree():
    mesh = web_mesh(slots=2)
    emit_to_bolts(mesh, 1)
    (tup,) = mesh.bolt(index=1).held
    for _ in range(4):
        mesh.bolt(index=1).collector.reset_timeout(tup)
        mesh.settle()
        mesh.advance(TIMEOUT_SECS)
    pass_on(mesh, 1, "root", "child", 0, 1)  # comes back to the slot, whose subtree has expired
    ack(mesh, 0, "child")
    ack(mesh, 1, "child")
    assert told(mesh) == [("ack", "id")]
    assert not mesh.leftovers()


def test_subtrees_of_timed_out_trees_are_forgotten_although_their_tuples_are_held():
    mesh = web_mesh(slots=2)
    emit_to_bolts(mesh, 0, 1)
    mesh.advance(TIMEOUT_SECS)
    mesh.advance(TIMEOUT_SECS)
    assert len(mesh.bolt(index=1).held) == 1
    assert not mesh.leftovers()


# Order.


EMITS = st.tuples(
    st.integers(0, 3),
    st.sampled_from([(0,), (1,), (0, 1)]),
    st.sampled_from(["default", "side"]),
    st.sampled_from([None, 0, 1]),
)


@given(st.lists(EMITS, max_size=40))
def test_tuples_between_two_tasks_arrive_in_the_order_they_were_sent(emits):
    mesh = web_mesh(slots=2, spouts=2)
    sources = [mesh.spout(index=0), mesh.spout(index=1), mesh.bolt(index=0), mesh.bolt(index=1)]
    for number, (source, to, stream, turned) in enumerate(emits):
        sources[source].emit((source, number), *(mesh.tasks("bolt")[index] for index in to), stream=stream)
        if turned is not None:
            mesh.turn(turned)
    mesh.settle()
    for index in range(2):
        sent = [(source, number) for number, (source, to, *_) in enumerate(emits) if index in to]
        assert by_source(mesh.bolt(index=index).seen) == by_source(sent)


def by_source(labels):
    return [[number for source, number in labels if source == wanted] for wanted in range(4)]


def test_nothing_leaves_a_slot_before_its_turn_ends():
    mesh = web_mesh(slots=2)
    mesh.spout().emit("a", mesh.tasks("bolt")[1])
    mesh.spout().emit("b", mesh.tasks("bolt")[1], stream="side")
    assert mesh.slots[0].take() == []
    mesh.settle()
    assert mesh.bolt(index=1).seen == ["a", "b"]


def test_values_arrive_in_another_slot_as_they_were():
    mesh = web_mesh(slots=2)
    value = {"a": [1, (2.5, None)], "b": b"\x00", "c": {1, 2}}
    emit_to_bolts(mesh, 1, label=value)
    (tup,) = mesh.bolt(index=1).held
    assert tup["label"] == value
    assert (tup.source_component, tup.source_task, tup.source_stream_id) == ("spout", mesh.spout().task_id, "default")
    assert tup.fields.to_list() == ["label", "targets"]


def test_a_frame_for_a_task_that_is_not_in_the_slot_is_refused():
    mesh = web_mesh(slots=2)
    mesh.spout().emit("root", mesh.tasks("bolt")[1])
    mesh.turn(0)
    mesh.slots[0].deliver(mesh.wire)
    with pytest.raises(SerializationError, match="a frame came for task 4, which is not in this slot"):
        mesh.slots[0].turn()


def test_a_damaged_frame_is_refused():
    mesh = web_mesh(slots=2)
    mesh.spout().emit("root", mesh.tasks("bolt")[1])
    mesh.turn(0)
    (frame,) = mesh.wire
    mesh.slots[1].deliver([Frame(frame.target, frame.payload[:-1])])
    with pytest.raises(SerializationError, match="damaged"):
        mesh.slots[1].turn()


# Values that cannot be packed.

PROBLEM = r"component '{}' emits on stream 'default' in field 'label' a value that cannot be packed: .*lock"


def test_a_spouts_value_that_cannot_be_packed_is_refused_at_the_emit_and_goes_nowhere():
    mesh = web_mesh(slots=2)
    with pytest.raises(SerializationError, match=PROBLEM.format("spout")):
        mesh.spout().emit(Lock(), *mesh.tasks("bolt"), message_id="id")
    mesh.settle()
    assert (mesh.bolt(index=0).seen, mesh.bolt(index=1).seen) == ([], [])
    assert mesh.task("spout").counted().emitted == 0
    assert not mesh.leftovers()


def test_a_value_that_cannot_be_packed_may_go_to_a_task_in_the_same_slot():
    mesh = web_mesh(slots=2)
    lock = Lock()
    emit_to_bolts(mesh, 0, label=lock)
    assert mesh.bolt().seen == [lock]


class BreaksOnArrival:
    def __reduce__(self):
        return __import__, ("no_such_module_at_all",)


def test_a_value_that_cannot_be_unpacked_in_another_slot_fails_its_tuple_and_no_other():
    mesh = web_mesh(slots=2)
    for message_id, label in enumerate(["before", BreaksOnArrival(), "behind"]):
        mesh.spout().emit(label, mesh.tasks("bolt")[1], message_id=message_id)
    mesh.settle()
    assert told(mesh) == [("fail", 1)]
    assert mesh.bolt(index=1).seen == ["before", "behind"]
    (error,) = mesh.task("bolt", index=1).errors
    assert "no_such_module_at_all" in error.exception
    mesh.bolt(index=1).ack_all()
    mesh.settle()
    assert not mesh.leftovers()


def test_a_tuple_that_cannot_be_unpacked_in_the_middle_of_a_run_fails_its_tree_once():
    mesh = web_mesh(slots=2, bolts=3)
    emit_to_bolts(mesh, 0)
    bolt, far = mesh.bolt(index=0), mesh.tasks("bolt")[1]
    (root,) = bolt.held
    for label in ("before", BreaksOnArrival(), "behind"):
        bolt.emit(label, far, anchors=[root])
    bolt.ack_all()
    mesh.settle()
    assert told(mesh) == [("fail", "id")]
    assert mesh.bolt(index=1).seen == ["before", "behind"]
    mesh.bolt(index=1).ack_all()
    mesh.settle()
    assert told(mesh) == [("fail", "id")]
    assert not mesh.leftovers()


class LockSendingBolt(HoldingBolt):
    """Emits a lock when it receives the label "lock", and holds everything else."""

    def execute(self, tup):
        super().execute(tup)
        if tup["label"] == "lock":
            self.emit(Lock(), *tup["targets"][1:], anchors=tup)


def lock_sending_mesh():
    builder = TopologyBuilder()
    builder.set_spout("spout", ScriptedSpout())
    declarer = builder.set_bolt("bolt", LockSendingBolt(), 2)
    declarer.custom_grouping("spout", ToFirstTask())
    declarer.custom_grouping("bolt", ToNamedTasks())
    return Mesh(builder.create_topology(), 2)


class ToFirstTask(ToNamedTasks):
    def choose_tasks(self, task_id, values):
        return values[1][:1]


def test_a_bolts_value_that_cannot_be_packed_fails_its_tuple_and_no_other():
    mesh = lock_sending_mesh()
    here, there = mesh.tasks("bolt")
    for label in ("before", "lock", "behind"):
        mesh.spout().emit(label, here, there, message_id=label)
    mesh.settle()
    assert told(mesh) == [("fail", "lock")]
    (error,) = mesh.task("bolt").errors
    assert "in field 'label' a value that cannot be packed" in error.exception
    assert mesh.bolt().seen == ["before", "lock", "behind"]
    assert mesh.bolt(index=1).seen == []


@pytest.mark.parametrize("to", [(1,), (0, 1)], ids=str)
def test_a_bolt_may_catch_the_refusal_and_ack_its_anchors(to):
    mesh = web_mesh(slots=2, spouts=2)
    bolt, one, other = two_roots(mesh, at=0)
    with pytest.raises(SerializationError, match=PROBLEM.format("bolt")):
        bolt.emit(Lock(), *(mesh.tasks("bolt")[index] for index in to), anchors=[one, other])
    bolt.collector.ack(one)
    bolt.collector.ack(other)
    mesh.settle()
    assert (told(mesh, 0), told(mesh, 1)) == ([("ack", 0)], [("ack", 1)])
    assert not mesh.leftovers()


def test_with_try_serialize_a_refused_tuple_of_two_trees_leaves_both_complete():
    mesh = web_mesh(slots=1, spouts=2, conf={"topology.testing.always.try.serialize": True})
    bolt, one, other = two_roots(mesh, at=0)
    with pytest.raises(SerializationError, match=PROBLEM.format("bolt")):
        bolt.emit(Lock(), *mesh.tasks("bolt"), anchors=[one, other])
    bolt.collector.ack(one)
    bolt.collector.ack(other)
    mesh.settle()
    assert (told(mesh, 0), told(mesh, 1)) == ([("ack", 0)], [("ack", 1)])


@pytest.mark.parametrize("component", ["spout", "bolt"])
def test_an_emit_of_a_value_that_cannot_be_packed_raises_in_the_thread(component):
    mesh = web_mesh(slots=2)
    source = mesh.spout() if component == "spout" else mesh.bolt()
    heard = []

    def emit():
        with pytest.raises(SerializationError, match=PROBLEM.format(component)):
            source.emit(Lock(), mesh.tasks("bolt")[1])
        heard.append(True)

    thread = Thread(target=emit)
    thread.start()
    thread.join()
    mesh.settle()
    assert heard == [True]


def test_a_tree_that_a_thread_passes_on_to_another_slot_is_acked():
    mesh = web_mesh(slots=2, spouts=2)
    bolt, one, other = two_roots(mesh, at=0)

    def work():
        bolt.emit("joint", mesh.tasks("bolt")[1], anchors=[one, other])
        bolt.collector.ack(one)
        bolt.collector.ack(other)

    thread = Thread(target=work)
    thread.start()
    thread.join()
    mesh.settle()
    assert told(mesh, 0) == told(mesh, 1) == []
    ack(mesh, 1, "joint")
    assert (told(mesh, 0), told(mesh, 1)) == ([("ack", 0)], [("ack", 1)])
    assert not mesh.leftovers()


# Ids.


def test_edges_inside_a_slot_draw_no_ids():
    mesh = web_mesh(slots=2, bolts=3)
    before = mesh.rng.draws
    emit_to_bolts(mesh, 0, 2)
    pass_on(mesh, 0, "root", "child", 2, 0)
    mesh.bolt(index=2).ack_all()
    mesh.bolt(index=0).ack_all()
    mesh.settle()
    assert told(mesh) == [("ack", "id")]
    assert mesh.rng.draws == before


def test_only_tuples_that_leave_a_slot_draw_ids():
    mesh = web_mesh(slots=2, bolts=3)
    emit_to_bolts(mesh, 0)
    before = mesh.rng.draws
    pass_on(mesh, 0, "root", "child", 2, 1, 0)
    assert mesh.rng.draws == before + 2  # the root's, and a supply of edge ids
    pass_on(mesh, 1, "child", "home", 0, 2)
    assert mesh.rng.draws == before + 3  # the supply of edge ids of the other slot


class ScriptedRandom(random.Random):
    """A source of random ids that starts with the numbers of `script`."""

    script = ()

    def getrandbits(self, bits):
        if self.script and bits == 64:
            return self.script.pop(0)
        return super().getrandbits(bits)


@pytest.mark.parametrize("stuck", [1, 7, 2**64 - 1, 0])
def test_roots_that_draw_the_same_id_are_kept_apart(stuck):
    mesh = web_mesh(slots=2, rng=ScriptedRandom(1))
    mesh.rng.script = [stuck] * 4
    for label in range(4):
        mesh.spout().emit(label, mesh.tasks("bolt")[1], message_id=label)
    mesh.settle()
    assert (stuck or 1) in mesh.task("spout")._left
    for label in (2, 0, 3, 1):
        told(mesh).clear()
        ack(mesh, 1, label)
        assert told(mesh) == [("ack", label)]
    assert not mesh.leftovers()


# Untracked.


def test_an_untracked_tuple_has_no_outcome_and_leaves_nothing_behind():
    mesh = web_mesh(slots=2)
    emit_to_bolts(mesh, 0, 1, message_id=None)
    before = mesh.rng.draws
    pass_on(mesh, 1, "root", "child", 0, 1)
    fail(mesh, 0, "root")
    ack(mesh, 0, "child")
    for _ in range(3):
        mesh.advance(TIMEOUT_SECS)
    assert told(mesh) == []
    assert mesh.rng.draws == before
    assert not mesh.leftovers()


def test_without_ackers_a_tuple_is_acked_at_its_emit_and_not_tracked():
    mesh = web_mesh(slots=2, conf={"topology.acker.executors": 0})
    mesh.spout().emit("root", *mesh.tasks("bolt"), message_id="id")
    assert told(mesh) == [("ack", "id")]
    mesh.settle()
    fail(mesh, 1, "root")
    for _ in range(3):
        mesh.advance(TIMEOUT_SECS)
    assert told(mesh) == [("ack", "id")]
    assert not mesh.leftovers()


# Calls and counts of spouts and bolts.


class ReplayingSpout(ScriptedSpout):
    def fail(self, message_id):
        super().fail(message_id)
        self.emit("again", self.target, message_id=message_id)


def test_a_tuple_that_is_emitted_again_in_fail_has_the_latency_of_its_own_emit():
    builder = TopologyBuilder()
    builder.set_spout("spout", ReplayingSpout())
    builder.set_bolt("bolt", HoldingBolt()).custom_grouping("spout", ToNamedTasks())
    mesh = Mesh(builder.create_topology(), 1)
    mesh.spout().target = mesh.tasks("bolt")[0]
    emit_to_bolts(mesh, 0)
    mesh.clock.now = 100 * TIMEOUT_SECS
    fail(mesh, 0, "root")
    ack(mesh, 0, "again")
    assert mesh.task("spout").counted().complete_secs == 0


class TickingBolt(Bolt):
    """Emits a tuple anchored to each tick, then acks or fails the tick."""

    outputs = ("label", "targets")
    fails = False

    def component_configuration(self):
        return {"topology.tick.tuple.freq.secs": 1}

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        assert is_tick(tup)
        if self.fails:
            self.collector.fail(tup)
            return
        self.collector.emit(["child", []], anchors=tup)
        self.collector.ack(tup)


def ticking_mesh(slots):
    builder = TopologyBuilder()
    builder.set_spout("spout", ScriptedSpout())
    builder.set_bolt("ticking", TickingBolt()).shuffle_grouping("spout")
    builder.set_bolt("bolt", HoldingBolt(), slots).all_grouping("ticking")
    return Mesh(builder.create_topology(), slots)


def test_a_tick_that_fails_is_not_counted():
    mesh = ticking_mesh(slots=1)
    mesh.bolt("ticking").fails = True
    mesh.advance(1)
    stats = mesh.task("ticking").counted()
    assert (stats.executed, stats.acked, stats.failed) == (0, 0, 0)


@pytest.mark.parametrize("slots", [1, 2])
def test_ticks_are_not_counted_whatever_becomes_of_their_children(slots):
    mesh = ticking_mesh(slots)
    mesh.advance(1)
    for index in range(slots):
        fail(mesh, index, "child")
    stats = mesh.task("ticking").counted()
    assert (stats.executed, stats.acked, stats.failed) == (0, 0, 0)
    assert mesh.task("bolt").counted().failed == 1


def test_a_thousand_trees_of_any_fate_leave_nothing_behind():
    mesh, rng = web_mesh(slots=3, spouts=2), random.Random(5)
    for number in range(1000):
        source = mesh.spout(index=number % 2)
        source.emit(number, *rng.sample(mesh.tasks("bolt"), rng.randint(0, 3)), message_id=number)
        if number % 100 == 99:
            mesh.settle()
            settle_at_random(mesh, rng)
            mesh.advance(TIMEOUT_SECS / 5)
    mesh.advance(TIMEOUT_SECS)
    mesh.advance(TIMEOUT_SECS)
    assert sorted(message_id for index in range(2) for _, message_id in told(mesh, index)) == list(range(1000))
    assert not mesh.leftovers()


def settle_at_random(mesh, rng):
    """Pass on some held tuples with several anchors, ack most, fail some and forget some."""
    for index in range(3):
        bolt = mesh.bolt(index=index)
        for tup in list(bolt.held):
            if rng.random() < 0.3:
                bolt.emit(-1, rng.choice(mesh.tasks("bolt")), anchors=[tup, *rng.sample(bolt.held, 1)])
        for tup in bolt.held:
            if rng.random() < 0.95:
                (bolt.collector.fail if rng.random() < 0.1 else bolt.collector.ack)(tup)
        bolt.held.clear()
    mesh.settle()


def test_a_tuple_that_is_too_large_for_another_slot_is_refused_at_the_emit_with_its_largest_field(monkeypatch):
    monkeypatch.setattr("pystorm_spark.runtime.task.MOST_ROW_BYTES", 500)
    mesh = web_mesh(slots=2)
    emit_to_bolts(mesh, 1, label="x" * 400)
    ack(mesh, 1, "x" * 400)

    with pytest.raises(SerializationError, match=r"'spout' emits on stream 'default' .* in field 'label'; .* 500"):
        emit_to_bolts(mesh, 1, label="x" * 500)

    mesh.settle()
    assert told(mesh) == [("ack", "id")]
    assert not mesh.leftovers()


def test_calls_of_user_code_are_announced_beforehand():
    mesh = web_mesh(slots=1)
    slot = mesh.slots[0]
    calls = []
    slot.before_calls(lambda task, tup: calls.append((task.component_id, tup["label"] if tup else None)))
    slot.active = True
    emit_to_bolts(mesh, 0)
    slot.before_calls(None)
    emit_to_bolts(mesh, 0, label="untold")

    assert ("bolt", "root") in calls
    assert ("spout", None) in calls
    assert ("bolt", "untold") not in calls


# Quiescing.


class NotesActivation(ScriptedSpout):
    def activate(self):
        self.told.append("activate")

    def deactivate(self):
        self.told.append("deactivate")


def test_spouts_can_be_deactivated_without_a_turn():
    builder = TopologyBuilder()
    builder.set_spout("spout", NotesActivation())
    builder.set_bolt("bolt", HoldingBolt()).all_grouping("spout")
    mesh = Mesh(builder.create_topology(), slots=1)
    mesh.spout().emit("root")
    mesh.slots[0].set_active(False)

    assert told(mesh) == ["activate", "deactivate"]
    assert mesh.bolt().seen == []


def test_a_threads_emit_waits_until_the_slot_is_no_longer_quiescing():
    mesh = web_mesh(slots=1)
    (slot,) = mesh.slots
    slot.quiescing = True
    thread = Thread(target=mesh.spout().emit, args=("root", mesh.tasks("bolt")[0]), kwargs={"message_id": "id"})
    thread.start()
    thread.join()
    mesh.settle()
    assert mesh.bolt().seen == []
    slot.quiescing = False
    mesh.settle()
    assert mesh.bolt().seen == ["root"]


def test_a_slot_is_woken_for_emits_of_threads_while_it_was_quiescing():
    mesh = web_mesh(slots=1)
    (slot,) = mesh.slots
    slot.quiescing = True
    slot.slot_context.post_beginning(lambda: None)
    woken = []
    slot.on_wake(lambda: woken.append(True))
    slot.quiescing = False
    assert woken


@pytest.mark.parametrize("of", ["spout", "bolt"])
def test_emits_of_threads_are_dropped_after_the_slot_is_closed(of):
    mesh = web_mesh(1)
    slot, component = mesh.slots[0], getattr(mesh, of)()
    slot.close()

    thread = Thread(target=component.emit, args=("late", mesh.tasks("bolt")[0]))
    thread.start()
    thread.join()

    assert not slot.slot_context.has_posted()
