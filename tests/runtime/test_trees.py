"""Subtrees: their counts, when they are drained, and the acks that they send to the spout's slot then."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from pystorm_spark.runtime.codec.codec import ValueCodec, decode
from pystorm_spark.runtime.frames import Outbox
from pystorm_spark.runtime.trees import UNTRACKED, Branch, Joint, join

from .slots import web_mesh

HOME = 5


class Post:
    """An outbox, and what it has sent home: acks, fails and resets for one spout task."""

    def __init__(self):
        self.outbox = Outbox(random.Random(1), ValueCodec())

    def branch(self, root_id, edge):
        """Make a branch that one tuple has entered along `edge`."""
        branch = Branch(root_id, HOME, self.outbox)
        branch.edge ^= edge
        branch.unsettled += 1
        self.outbox.branches.put(root_id, branch)
        return branch

    def sent(self):
        """Return ([(root, edges)] acked, failed roots, reset roots)."""
        self.outbox.seal()
        frames = [decode(frame.payload, ValueCodec()) for frame in self.outbox.take()]
        acked = [pair for frame in frames for pair in zip(frame.acked_roots, frame.acked_edges, strict=True)]
        failed = [root for frame in frames for root in frame.failed_roots]
        reset = [root for frame in frames for root in frame.reset_roots]
        return acked, failed, reset


NOTHING = ([], [], [])


def close(tree):
    tree.unsettled -= 1
    if not tree.unsettled:
        tree.drained()


# Branches.


def test_a_drained_branch_sends_home_the_edge_it_came_along():
    post = Post()
    close(post.branch(7, 0b01))
    assert post.sent() == ([(7, 0b01)], [], [])


def test_a_branch_sends_nothing_before_its_last_tuple_is_acked():
    post = Post()
    branch = post.branch(7, 0b01)
    branch.unsettled += 1
    close(branch)
    assert post.sent() == NOTHING
    close(branch)
    assert post.sent() == ([(7, 0b01)], [], [])


def test_a_branch_sends_home_the_edges_in_and_out_as_one_value():
    post = Post()
    branch = post.branch(7, 0b001)
    assert branch.leave(0b010) == 7
    branch.leave(0b100)
    close(branch)
    assert post.sent() == ([(7, 0b111)], [], [])


def test_a_drained_branch_is_forgotten():
    post = Post()
    branch = post.branch(7, 0b01)
    close(branch)
    assert len(post.outbox.branches) == 0


def test_a_failed_branch_sends_one_fail_and_no_ack():
    post = Post()
    branch = post.branch(7, 0b01)
    branch.unsettled += 1
    branch.fail()
    branch.fail()
    close(branch)
    close(branch)
    assert post.sent() == ([], [7], [])
    assert len(post.outbox.branches) == 0


def test_a_branch_whose_edges_cancel_sends_nothing():
    post = Post()
    branch = post.branch(7, 0b01)
    branch.edge ^= 0b01  # the same frame came twice
    close(branch)
    assert post.sent() == NOTHING


def test_a_branch_sends_its_reset_home():
    post = Post()
    post.branch(7, 0b01).reset_timeout()
    assert post.sent() == ([], [], [7])


def test_a_branch_knows_its_root_and_its_home():
    branch = Post().branch(7, 0b01)
    assert (branch.edges(), branch.home()) == ({7: 0}, HOME)


# Joints.


def test_a_late_drain_waits_for_tuples_that_a_frame_brought_meanwhile():
    post = Post()
    branch = post.branch(7, 0b01)
    branch.unsettled -= 1  # as by another thread, which posts the drain
    branch.edge ^= 0b10
    branch.unsettled += 1
    branch.drained()
    assert post.sent() == NOTHING
    close(branch)
    assert post.sent() == ([(7, 0b11)], [], [])


def test_a_branch_sends_its_edges_home_once_however_often_it_is_drained():
    post = Post()
    branch = post.branch(7, 0b01)
    close(branch)
    branch.drained()
    assert post.sent() == ([(7, 0b01)], [], [])


def test_a_branch_that_drains_after_it_expired_leaves_the_later_one_in_its_place():
    post = Post()
    early, late = post.branch(7, 0b01), post.branch(7, 0b10)
    early.unsettled -= 1
    early.drained()
    assert post.outbox.branches.get(7) is late


def test_a_joint_keeps_every_parent_unsettled_until_all_its_tuples_are_acked():
    post = Post()
    one, two = post.branch(1, 0b01), post.branch(2, 0b10)
    joint = join([one, two])
    joint.unsettled += 2
    close(one)
    close(two)
    close(joint)
    assert post.sent() == NOTHING
    close(joint)
    assert post.sent() == ([(1, 0b01), (2, 0b10)], [], [])


def test_a_joint_that_drains_first_leaves_its_parents_unsettled():
    post = Post()
    one, two = post.branch(1, 0b01), post.branch(2, 0b10)
    joint = join([one, two])
    joint.unsettled += 1
    close(joint)
    assert (one.unsettled, two.unsettled, post.sent()) == (1, 1, NOTHING)


def test_a_fail_or_reset_of_a_joint_reaches_all_its_parents():
    post = Post()
    joint = join([post.branch(1, 0b01), post.branch(2, 0b10)])
    joint.fail()
    joint.reset_timeout()
    assert post.sent() == ([], [1, 2], [1, 2])


def test_a_joint_has_the_roots_of_all_its_parents():
    post = Post()
    assert join([post.branch(1, 0b01), post.branch(2, 0b10)]).edges() == {1: 0, 2: 0}


def test_a_joint_of_joints_counts_once_in_each_tree():
    post = Post()
    one, two, three = (post.branch(number, number) for number in (1, 2, 3))
    joint = join([join([one, two]), join([two, three]), one])
    assert joint.members() == (one, two, three)
    assert (one.unsettled, two.unsettled, three.unsettled) == (3, 4, 3)


def test_anchors_of_one_tree_need_no_joint():
    branch = Post().branch(1, 0b01)
    assert join([branch, branch]) is branch
    assert branch.unsettled == 1


def test_untracked_anchors_add_nothing():
    branch = Post().branch(1, 0b01)
    assert join([]) is UNTRACKED
    assert join([UNTRACKED, UNTRACKED]) is UNTRACKED
    assert join([UNTRACKED, branch]) is branch


@given(st.lists(st.sets(st.integers(0, 3), min_size=1), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_joints_settled_in_any_order_leave_every_count_at_zero(groups, rng):
    post = Post()
    branches = [post.branch(number + 1, 1 << number) for number in range(4)]
    trees = [join([branches[number] for number in group]) for group in groups]
    for tree in trees:
        tree.unsettled += 1
    places = [*branches, *trees]
    rng.shuffle(places)
    for place in places:
        close(place)
    assert [branch.unsettled for branch in branches] == [0, 0, 0, 0]
    assert sorted(post.sent()[0]) == [(1, 1), (2, 2), (3, 4), (4, 8)]


# Roots in the slot of their spout task.


def emitted(*targets, mesh=None):
    """Emit a root in a mesh of two slots; the targets are numbers of the bolt's tasks."""
    mesh = mesh or web_mesh()
    mesh.spout().emit("label", *(mesh.tasks("bolt")[index] for index in targets), message_id="id")
    (root,) = mesh.task("spout").pending
    return mesh, root


def test_a_root_counts_its_tuples_and_has_no_id_while_it_stays_in_its_slot():
    _, root = emitted(0)
    assert (root.unsettled, root.root_id) == (1, 0)


def test_a_root_has_an_id_once_a_tuple_leaves_the_slot():
    _, root = emitted(0, 1)
    assert root.unsettled == 1
    assert root.root_id != 0


def test_a_root_whose_id_is_read_keeps_it():
    mesh, root = emitted(0)
    mesh.settle()
    (tup,) = mesh.bolt().held
    (root_id,) = tup.message_id.anchors
    mesh.bolt().emit("child", mesh.tasks("bolt")[1], anchors=tup)
    assert root.root_id == root_id != 0
    assert tup.message_id.anchors_to_ids == {root_id: 0}


def test_a_root_whose_id_was_only_read_is_acked():
    mesh, _ = emitted(0)
    mesh.settle()
    assert mesh.bolt().held[0].message_id.anchors
    mesh.bolt().ack_all()
    mesh.settle()
    assert mesh.spout().acked == ["id"]
    assert not mesh.leftovers()


def test_two_roots_have_two_ids():
    mesh = web_mesh()
    for number in range(2):
        mesh.spout().emit(number, mesh.tasks("bolt")[0], message_id=number)
    mesh.settle()
    one, other = mesh.bolt().held
    assert len(one.message_id.anchors | other.message_id.anchors) == 2


def test_a_tuple_has_the_ids_of_all_its_roots_in_every_slot():
    mesh = web_mesh()
    here, there = mesh.tasks("bolt")
    for number in range(2):
        mesh.spout().emit(number, here, message_id=number)
    mesh.settle()
    anchors = list(mesh.bolt().held)
    mesh.bolt().emit("joint", there, anchors=anchors)
    mesh.settle()
    (joint,) = mesh.bolt(index=1).held
    assert joint.message_id.anchors == anchors[0].message_id.anchors | anchors[1].message_id.anchors


def test_an_untracked_and_a_settled_tuple_have_no_ids():
    mesh, _ = emitted(0)
    mesh.spout().emit("untracked", mesh.tasks("bolt")[0])
    mesh.settle()
    tracked, untracked = mesh.bolt().held
    mesh.bolt().collector.ack(tracked)
    assert tracked.message_id.anchors == untracked.message_id.anchors == frozenset()


def test_a_joint_of_trees_of_two_slots_is_a_joint_in_both():
    mesh = web_mesh()
    here, there = mesh.tasks("bolt")
    for number in range(2):
        mesh.spout().emit(number, here, message_id=number)
    mesh.settle()
    mesh.bolt().emit("joint", here, there, anchors=list(mesh.bolt().held))
    mesh.settle()
    found = [mesh.bolt(index=index).held[-1]._tree for index in range(2)]
    assert [type(tree) for tree in found] == [Joint, Joint]
