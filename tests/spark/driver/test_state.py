"""What the driver has to do next: each transition of its state, without a lock, a thread or a clock."""

import pytest

from pystorm_spark.spark.driver.state import RETRY_SECS, DriverState, Last, Pending, Phase


@pytest.fixture
def state():
    return DriverState(commit_secs=1.0)


def test_nothing_is_to_be_done_at_the_beginning(state):
    assert (state.phase, state.pending, state.last) == (Phase.IDLE, Pending.NOTHING, Last.UNASKED)


def test_what_is_more_urgent_comes_first(state):
    phases = []
    for happen in (
        lambda: state.ask_last("no time", 0.0),
        state.begin_commit,
        lambda: state.note_frames(0),
        state.note_broken,
        state.end,
    ):
        happen()
        phases.append(state.phase)
    assert phases == [Phase.FINISHING, Phase.COMMITTING, Phase.EXCHANGING, Phase.RECOVERING, Phase.ENDED]


def test_a_commit_is_due_an_interval_after_the_first_change(state):
    state.note_uncommitted(10.0)
    state.note_uncommitted(10.5)
    assert not state.is_due(10.9)
    assert state.is_due(11.0)


def test_an_urgent_commit_is_due_at_once(state):
    state.note_uncommitted(10.0, is_urgent=True)
    state.note_uncommitted(10.1)
    assert state.is_due(10.1)


def test_what_comes_during_a_commit_waits_for_the_next_one(state):
    state.note_uncommitted(10.0)
    state.begin_commit()
    state.note_uncommitted(11.0)
    assert not state.is_due(99.0)
    state.end_commit(True, 12.0)
    assert state.is_due(12.0)


def test_a_commit_that_is_not_made_is_pending_again(state):
    state.begin_commit()
    state.end_commit(False, 10.0)
    assert (state.phase, state.pending, state.due()) == (Phase.IDLE, Pending.DUE, 11.0)


def test_an_epoch_begins_with_nothing_to_do(state):
    state.note_frames(0)
    state.note_uncommitted(1.0, is_urgent=True)
    state.begin_commit()
    state.note_broken()
    state.note_lost(1, "it died")

    assert state.begin_epoch(is_active=True) == {1: "it died"}

    assert (state.phase, state.pending, state.is_committing) == (Phase.IDLE, Pending.NOTHING, False)


def test_a_rollback_counts_unless_a_slot_is_lost(state):
    state.note_broken()
    state.note_rollback()
    state.note_lost(0, "it died")
    state.note_rollback()
    assert state.rollbacks == 1


# The last commit.


@pytest.fixture
def finishing(state):
    state.note_uncommitted(9.0)
    state.ask_last("no time", 10.0)
    return state


def test_a_last_commit_is_due_at_once_and_then_made(finishing):
    assert finishing.is_due(10.0)
    finishing.begin_commit()
    finishing.note_made()
    finishing.end_commit(True, 10.1)
    assert finishing.is_finish_over()
    assert finishing.unfinished is None


def test_a_last_commit_that_is_not_made_is_tried_again_soon(finishing):
    finishing.begin_commit()
    finishing.end_commit(False, 10.0)
    assert (finishing.last, finishing.due()) == (Last.ASKED, 10.0 + RETRY_SECS)
    assert finishing.unfinished == "no time"


def test_a_commit_that_was_under_way_is_not_the_last_one(state):
    state.begin_commit()
    state.ask_last("no time", 10.0)
    state.note_made()
    state.end_commit(True, 10.1)
    assert (state.last, state.unfinished) == (Last.ASKED, "no time")
    assert state.is_due(10.1)


def test_there_is_nothing_to_finish_where_nothing_is_pending(state):
    state.ask_last("no time", 10.0)
    assert state.has_nothing_to_finish()
    state.give_up_last(None)
    assert (state.last, state.unfinished) == (Last.UNASKED, None)


@pytest.mark.parametrize("begins", [True, False], ids=["under way", "asked"])
def test_a_last_commit_that_is_rolled_back_waits_for_the_replay(finishing, begins):
    if begins:
        finishing.begin_commit()
    finishing.note_broken()
    finishing.begin_epoch(is_active=True)
    assert finishing.last is Last.REPLAYED
    assert not finishing.has_nothing_to_finish()
    finishing.note_uncommitted(11.0)
    finishing.begin_commit()
    assert finishing.last is Last.UNDER_WAY


def test_nobody_plays_a_last_commit_again_where_spouts_are_inactive(finishing):
    finishing.note_broken()
    finishing.begin_epoch(is_active=False)
    assert finishing.unfinished == "all that was not committed was rolled back"
    assert finishing.is_finish_over()


def test_an_epoch_without_anything_to_roll_back_leaves_the_last_commit_asked(state):
    state.ask_last("no time", 10.0)
    state.begin_epoch(is_active=True)
    assert state.last is Last.ASKED


def test_a_lost_slot_takes_the_last_commit_with_it(finishing):
    finishing.note_lost(0, "it died")
    assert finishing.is_finish_over()
    finishing.begin_epoch(is_active=True)
    assert (finishing.last, finishing.unfinished) == (Last.UNASKED, "a slot was lost")


def test_a_slot_that_dies_when_the_last_commit_is_durable_takes_nothing_with_it(finishing):
    finishing.begin_commit()
    finishing.note_made()
    finishing.note_lost(0, "it died")
    finishing.note_loss_at_end()
    assert (finishing.last, finishing.unfinished) == (Last.UNASKED, None)


def test_an_error_ends_the_wait_for_the_last_commit(finishing):
    finishing.fail(OSError("the disk is gone"))
    assert finishing.is_finish_over()
