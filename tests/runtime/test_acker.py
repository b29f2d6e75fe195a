"""The ledger of the acker: messages in any order have the outcome of Storm's rules."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from pystorm_spark.runtime.acker import BUCKETS, AckLedger, Outcome

SPOUT = 3
ROOT = 7


def acked(root=ROOT):
    return Outcome(root, SPOUT, acked=True)


def failed(root=ROOT):
    return Outcome(root, SPOUT, acked=False)


def test_acker_waits_for_init_when_ack_arrives_first():
    ledger = AckLedger()
    assert ledger.ack(root=7, edges=0b01) is None
    assert ledger.init(root=7, edges=0b01, spout_task=3) == Outcome(7, spout_task=3, acked=True)


def test_acker_waits_for_init_when_fail_arrives_first():
    ledger = AckLedger()
    assert ledger.fail(ROOT) is None
    assert ledger.init(ROOT, 0b01, SPOUT) == failed()


def test_a_reset_may_arrive_before_the_init():
    ledger = AckLedger()
    ledger.reset_timeout(ROOT)
    assert ledger.init(ROOT, 0b01, SPOUT) is None
    assert ledger.ack(ROOT, 0b01) == acked()


def test_a_root_without_edges_is_acked_at_once():
    assert AckLedger().init(ROOT, 0, SPOUT) == acked()


def test_a_tree_is_acked_only_when_every_edge_has_been_acked():
    ledger = AckLedger()
    assert ledger.init(ROOT, 0b001, SPOUT) is None
    assert ledger.ack(ROOT, 0b001 ^ 0b010 ^ 0b100) is None
    assert ledger.ack(ROOT, 0b010) is None
    assert ledger.ack(ROOT, 0b100) == acked()


def test_an_edge_sum_of_zero_acks_a_failed_tree():
    ledger = AckLedger()
    ledger.fail(ROOT)
    ledger.ack(ROOT, 0b01)
    assert ledger.init(ROOT, 0b01, SPOUT) == acked()


def test_a_fail_ends_a_tree_that_is_not_complete():
    ledger = AckLedger()
    ledger.init(ROOT, 0b11, SPOUT)
    ledger.ack(ROOT, 0b01)
    assert ledger.fail(ROOT) == failed()
    assert len(ledger) == 0


def test_a_second_fail_has_no_outcome():
    ledger = AckLedger()
    ledger.init(ROOT, 0b01, SPOUT)
    ledger.fail(ROOT)
    assert ledger.fail(ROOT) is None


def test_roots_are_independent():
    ledger = AckLedger()
    ledger.init(1, 0b01, SPOUT)
    ledger.init(2, 0b01, SPOUT)
    assert ledger.fail(2) == failed(2)
    assert ledger.ack(1, 0b01) == acked(1)


def test_an_entry_without_init_expires():
    ledger = AckLedger()
    ledger.ack(1, 0b01)
    ledger.fail(2)
    ledger.reset_timeout(3)
    for _ in range(BUCKETS - 1):
        ledger.rotate()
    assert len(ledger) == 3
    ledger.rotate()
    assert len(ledger) == 0


def test_an_entry_outlives_the_two_rotations_that_time_it_out_at_the_spout():
    ledger = AckLedger()
    ledger.init(ROOT, 0b01, SPOUT)
    ledger.rotate()
    ledger.rotate()
    assert ledger.ack(ROOT, 0b01) == acked()


def test_a_message_other_than_reset_does_not_make_an_entry_younger():
    ledger = AckLedger()
    ledger.init(ROOT, 0b11, SPOUT)
    for _ in range(BUCKETS):
        ledger.ack(ROOT, 0)
        ledger.rotate()
    assert len(ledger) == 0


def test_a_reset_keeps_an_entry_for_the_whole_time_again():
    ledger = AckLedger()
    ledger.init(ROOT, 0b11, SPOUT)
    for _ in range(BUCKETS):
        ledger.rotate()
        ledger.reset_timeout(ROOT)
    assert ledger.ack(ROOT, 0b11) == acked()


def test_a_forgotten_root_leaves_nothing():
    ledger = AckLedger()
    ledger.init(ROOT, 0b01, SPOUT)
    ledger.forget(ROOT)
    assert len(ledger) == 0
    assert ledger.ack(ROOT, 0b01) is None


def test_a_hundred_thousand_failing_roots_leave_the_ledger_empty():
    ledger = AckLedger()
    outcomes = 0
    for root in range(1, 100_001):
        ledger.init(root, root, SPOUT)
        outcomes += ledger.fail(root) is not None
        ledger.ack(root, root)  # the sibling that was still in flight
        if root % 10_000 == 0:
            ledger.rotate()
    for _ in range(BUCKETS):
        ledger.rotate()
    assert (outcomes, len(ledger)) == (100_000, 0)


class Model:
    """Storm's rules without optimization: keeps all messages of a root and recomputes the outcome."""

    def __init__(self):
        self.said = {}

    def hear(self, verb, root, edges):
        said = self.said.setdefault(root, [])
        said.append((verb, edges))
        verbs = {verb for verb, _ in said}
        if "init" not in verbs:
            return None
        value = 0
        for verb, edges in said:
            value ^= edges if verb in ("init", "ack") else 0
        if value and "fail" not in verbs:
            return None
        del self.said[root]
        return Outcome(root, SPOUT, acked=not value)


def tell(ledger, verb, root, edges):
    if verb == "init":
        return ledger.init(root, edges, SPOUT)
    if verb == "ack":
        return ledger.ack(root, edges)
    return getattr(ledger, verb)(root)


# Few roots and edges, so that messages often concern the same ones.
MESSAGES = st.tuples(st.sampled_from(["init", "ack", "fail", "reset_timeout"]), st.integers(1, 2), st.integers(0, 1))


@settings(max_examples=150)
@given(st.lists(MESSAGES, max_size=20))
def test_any_messages_in_any_order_have_the_outcome_of_storms_rules(messages):
    ledger, model = AckLedger(), Model()
    for verb, root, edges in messages:
        assert tell(ledger, verb, root, edges) == (model.hear(verb, root, edges) if verb != "reset_timeout" else None)


def messages_of_a_tree(seed, size):
    """Draw the init and the acks of a random tree of `size` tuples."""
    rng = random.Random(seed)
    edges = [rng.getrandbits(64) for _ in range(size)]
    values = list(edges)  # An ack holds the edge into the tuple XOR the edges out of it.
    for child in range(1, size):
        values[rng.randrange(child)] ^= edges[child]
    return [("init", ROOT, edges[0]), *(("ack", ROOT, value) for value in values)]


@given(st.data(), st.integers(0, 1000), st.integers(1, 12))
def test_a_tree_is_acked_by_its_last_message_whatever_the_order(data, seed, size):
    messages = data.draw(st.permutations(messages_of_a_tree(seed, size)))
    ledger = AckLedger()
    outcomes = [tell(ledger, *message) for message in messages]
    assert outcomes == [None] * size + [acked()]


@given(st.data(), st.integers(0, 1000), st.integers(2, 12))
def test_an_ack_that_comes_twice_never_makes_a_false_ack(data, seed, size):
    messages = messages_of_a_tree(seed, size)
    twice = data.draw(st.sampled_from(messages[1:]))
    ledger = AckLedger()
    outcomes = [tell(ledger, *message) for message in data.draw(st.permutations([*messages, twice]))]
    # The second ack undoes the first: the tree completes only if all the others come before the second.
    assert acked() not in outcomes[:size]
