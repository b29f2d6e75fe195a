"""The outbox of a slot: tuples and acks become frames, in the order in which they were sent."""

from __future__ import annotations

import random
from array import array
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystorm_spark.runtime.codec.codec import AckFrame, TupleFrame, ValueCodec, decode
from pystorm_spark.runtime.frames import LARGE_BYTES, MOST_ROWS, Outbox, TupleBuffer
from pystorm_spark.runtime.trees import UNTRACKED, Branch, join

VALUES = ValueCodec()


class Scripted(random.Random):
    """A source of random ids that returns given numbers."""

    def __new__(cls, *numbers):
        return super().__new__(cls)

    def __init__(self, *numbers):
        super().__init__(0)
        self.numbers = list(numbers)

    def randbytes(self, count):
        assert self.numbers, "nothing more shall be drawn"
        numbers, self.numbers = self.numbers, []
        return array("Q", numbers).tobytes()


@pytest.fixture
def outbox():
    return Outbox(random.Random(1), VALUES)


def send(outbox, buffer, *values, tree=UNTRACKED):
    outbox.send(buffer, VALUES.pack(list(values)), tree)


def taken(outbox):
    outbox.seal()
    return [decode(frame.payload, VALUES) for frame in outbox.take()]


def branch_of(outbox, root_id, home=5):
    return Branch(root_id, home, outbox)


def test_tuples_for_one_task_on_one_stream_travel_in_one_frame(outbox):
    buffer = TupleBuffer(target=4, source=2, stream="words")
    send(outbox, buffer, "a", 1)
    send(outbox, buffer, "b", 2)
    (frame,) = taken(outbox)
    assert (frame.target, frame.source, frame.stream, frame.rows) == (4, 2, "words", [["a", 1], ["b", 2]])


def test_every_target_has_its_own_frame(outbox):
    for target in (4, 6):
        send(outbox, TupleBuffer(target, 2, "default"), target)
    outbox.seal()
    frames = outbox.take()
    assert (
        [frame.target for frame in frames] == [decode(frame.payload, ValueCodec()).target for frame in frames] == [4, 6]
    )


def test_an_unsealed_outbox_gives_no_frames(outbox):
    send(outbox, TupleBuffer(4, 2, "default"), "a")
    assert outbox.take() == []


def test_a_frame_is_taken_once(outbox):
    send(outbox, TupleBuffer(4, 2, "default"), "a")
    assert len(taken(outbox)) == 1
    assert taken(outbox) == []


def test_a_sealed_buffer_can_be_filled_again(outbox):
    buffer = TupleBuffer(4, 2, "default")
    for word in "ab":
        send(outbox, buffer, word, tree=branch_of(outbox, root_id=7))
        (frame,) = taken(outbox)
        assert (frame.rows, list(frame.roots)) == ([[word]], [7])


def test_frames_of_several_turns_are_taken_in_order(outbox):
    buffer = TupleBuffer(4, 2, "default")
    for number in range(3):
        send(outbox, buffer, number)
        outbox.seal()
    assert [frame.rows for frame in taken(outbox)] == [[[0]], [[1]], [[2]]]


def test_each_tuple_has_an_edge_for_each_of_its_trees(outbox):
    one, two = branch_of(outbox, 1, home=5), branch_of(outbox, 2, home=6)
    buffer = TupleBuffer(4, 2, "default")
    for tree in (UNTRACKED, join([one, two])):
        send(outbox, buffer, "x", tree=tree)
    (frame,) = taken(outbox)
    assert not frame.in_runs
    assert list(frame.counts) == [0, 2]
    assert (list(frame.roots), list(frame.homes)) == ([1, 2], [5, 6])
    assert len(set(frame.edges)) == 2


def test_an_edge_is_noted_in_the_tree_that_it_leaves(outbox):
    tree, other = branch_of(outbox, 7), branch_of(outbox, 8)
    buffer = TupleBuffer(4, 2, "default")
    for leaving in (tree, other, tree):
        send(outbox, buffer, "a", tree=leaving)
    (frame,) = taken(outbox)
    assert tree.edge == frame.edges[0] ^ frame.edges[2]


def test_tuples_of_one_tree_that_follow_one_another_share_an_edge(outbox):
    one, two = branch_of(outbox, 7), branch_of(outbox, 8)
    buffer = TupleBuffer(4, 2, "default")
    for number, tree in enumerate([one, one, two, one]):
        send(outbox, buffer, number, tree=tree)
    (frame,) = taken(outbox)
    assert frame.in_runs
    assert (frame.rows, list(frame.counts), list(frame.roots)) == ([[0], [1], [2], [3]], [2, 1, 1], [7, 8, 7])
    assert one.edge == frame.edges[0] ^ frame.edges[2]


def test_a_run_ends_with_its_frame(outbox):
    tree = branch_of(outbox, 7)
    buffer = TupleBuffer(4, 2, "default")
    edges = []
    for _ in range(2):
        send(outbox, buffer, "a", tree=tree)
        edges += taken(outbox)[0].edges
    assert tree.edge == edges[0] ^ edges[1]
    assert edges[0] != edges[1]


def test_tuples_of_one_tree_and_of_several_keep_their_order(outbox):
    one, two = branch_of(outbox, 7), branch_of(outbox, 8)
    buffer = TupleBuffer(4, 2, "default")
    for number, tree in enumerate([one, UNTRACKED, join([one, two]), two, two]):
        send(outbox, buffer, number, tree=tree)
    frames = taken(outbox)
    assert [frame.rows for frame in frames] == [[[0]], [[1], [2]], [[3], [4]]]
    assert [frame.in_runs for frame in frames] == [True, False, True]


def test_many_tuples_of_one_turn_become_several_frames(outbox):
    tree = branch_of(outbox, 7)
    buffer = TupleBuffer(4, 2, "default")
    for number in range(MOST_ROWS + 1):
        send(outbox, buffer, number, tree=tree)
    one, other = taken(outbox)
    assert one.rows + other.rows == [[number] for number in range(MOST_ROWS + 1)]
    assert tree.edge == one.edges[0] ^ other.edges[0]


def test_a_large_tuple_is_the_last_one_of_its_frame(outbox):
    buffer = TupleBuffer(4, 2, "default")
    for value in ("a", "b" * (LARGE_BYTES + 1), "c"):
        send(outbox, buffer, value)
    assert [len(frame.rows) for frame in taken(outbox)] == [2, 1]


def test_no_empty_frame_is_sealed(outbox):
    send(outbox, TupleBuffer(4, 2, "default"), "b" * (LARGE_BYTES + 1))
    send(outbox, TupleBuffer(4, 2, "other"), "c")
    assert [frame.stream for frame in taken(outbox)] == ["default", "other"]


def test_taking_stops_once_there_are_enough_frames(outbox):
    buffer = TupleBuffer(4, 2, "default")
    for number in range(3):
        send(outbox, buffer, number)
        outbox.seal()
    size = outbox.waiting_bytes() // 3
    assert [len(outbox.take(size + 1)), len(outbox.take(size + 1))] == [2, 1]
    assert outbox.waiting_bytes() == 0


@pytest.mark.parametrize("odd", [1 << 70, "\ud800", {"a": 1}])
def test_rows_that_cannot_be_packed_together_are_packed_one_by_one(outbox, odd):
    buffer = TupleBuffer(4, 2, "default")
    for value in ("a", odd, "b"):
        row = [value]
        outbox.send(buffer, row if type(value) is not dict else VALUES.pack(row), UNTRACKED)
    assert taken(outbox)[0].rows == [["a"], [odd], ["b"]]


def test_a_tuple_of_many_trees_keeps_them_all(outbox):
    branches = [branch_of(outbox, number) for number in range(1, 301)]
    send(outbox, TupleBuffer(4, 2, "default"), "a", tree=join(branches))
    (frame,) = taken(outbox)
    assert (list(frame.counts), list(frame.roots)) == ([300], list(range(1, 301)))


def test_an_edge_id_is_never_zero():
    assert Outbox(Scripted(0, 0, 9), VALUES).edge_id() == 9


def test_untracked_tuples_draw_no_ids():
    outbox = Outbox(Scripted(), VALUES)
    send(outbox, TupleBuffer(4, 2, "default"), "a")
    assert list(taken(outbox)[0].edges) == []


def test_acks_fails_and_resets_of_one_spout_task_travel_in_one_frame(outbox):
    acked = branch_of(outbox, 1)
    acked.edge = 0b11
    outbox.close(acked)
    outbox.fail(branch_of(outbox, 2))
    outbox.reset(branch_of(outbox, 3))
    (frame,) = taken(outbox)
    assert (frame.target, list(frame.acked_roots), list(frame.acked_edges)) == (5, [1], [0b11])
    assert (list(frame.failed_roots), list(frame.reset_roots)) == ([2], [3])


def test_every_spout_task_gets_the_outcomes_of_its_own_roots(outbox):
    outbox.fail(branch_of(outbox, 1, home=5))
    outbox.fail(branch_of(outbox, 2, home=6))
    assert [(frame.target, list(frame.failed_roots)) for frame in taken(outbox)] == [(5, [1]), (6, [2])]


def test_acks_come_behind_the_tuples(outbox):
    outbox.fail(branch_of(outbox, 1))
    send(outbox, TupleBuffer(4, 2, "default"), "a")
    assert [type(frame) for frame in taken(outbox)] == [TupleFrame, AckFrame]


def test_tuples_of_two_streams_between_two_tasks_keep_their_order(outbox):
    words, counts = TupleBuffer(4, 2, "words"), TupleBuffer(4, 2, "counts")
    send(outbox, words, "a")
    send(outbox, counts, 1)
    send(outbox, words, "b")
    assert [(frame.stream, frame.rows) for frame in taken(outbox)] == [
        ("words", [["a"]]),
        ("counts", [[1]]),
        ("words", [["b"]]),
    ]


def test_streams_between_other_tasks_do_not_cut_a_frame_short(outbox):
    mine, from_another, to_another = TupleBuffer(4, 2, "a"), TupleBuffer(4, 3, "b"), TupleBuffer(6, 2, "b")
    for buffer in (mine, from_another, to_another, mine):
        send(outbox, buffer, "x")
    assert [len(frame.rows) for frame in taken(outbox)] == [2, 1, 1]


LANES = st.tuples(st.sampled_from([4, 6]), st.sampled_from([2, 3]), st.sampled_from(["a", "b"]))


@given(st.lists(LANES | st.none(), max_size=60))
def test_tuples_between_two_tasks_keep_their_order_among_any_others(lanes):
    outbox, buffers, sent = Outbox(random.Random(1), VALUES), {}, []
    for number, lane in enumerate(lanes):
        if lane is None:
            outbox.seal()
        else:
            send(outbox, buffers.setdefault(lane, TupleBuffer(*lane)), number)
            sent.append((lane[:2], number))
    received = [((frame.target, frame.source), row[0]) for frame in taken(outbox) for row in frame.rows]
    by_pair = [[list(group) for _, group in groupby(sorted(seq, key=pair), pair)] for seq in (sent, received)]
    assert by_pair[0] == by_pair[1]


def pair(item):
    return item[0]
