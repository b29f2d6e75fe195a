"""The pending limit of a spout task, and which timeouts count as failures of a message."""

from pystorm_spark.runtime.pending_limit import QUEUED, TIMED_OUT, PendingLimit


def narrowed(pending):
    limit = PendingLimit(1000, timeout_secs=10, adapts=True)
    limit.narrow(pending, "words:1")
    return limit


def test_a_timeout_halves_the_limit():
    assert [narrowed(pending).size for pending in (5000, 300, 3, 2)] == [500, 150, 1, 1]


def test_a_message_that_timed_out_alone_does_not_narrow_the_limit():
    assert narrowed(1).size == 1000


def test_a_narrowed_limit_grows_when_as_many_messages_as_it_allows_were_done_in_time():
    limit = narrowed(160)
    limit.note_done(79, emitted_at=1, now=2)
    assert limit.size == 80
    limit.note_done(1, emitted_at=1, now=2)
    assert limit.size == 90


def test_a_limit_never_grows_beyond_its_first_value():
    limit = narrowed(5000)
    for _ in range(100):
        limit.note_done(1000, emitted_at=1, now=2)
    assert limit.size == 1000


def test_a_timeout_behind_messages_that_are_being_done_does_not_count():
    limit = PendingLimit(1000, timeout_secs=10, adapts=True)
    limit.note_done(5, emitted_at=1, now=19)
    assert limit.why_timed_out(emitted_at=2, now=20) == QUEUED


def test_a_timeout_of_a_message_that_later_ones_overtook_counts():
    limit = PendingLimit(1000, timeout_secs=10, adapts=True)
    limit.note_done(5, emitted_at=3, now=19)
    assert limit.why_timed_out(emitted_at=2, now=20) == TIMED_OUT


def test_a_timeout_counts_when_no_message_was_done_recently():
    limit = PendingLimit(1000, timeout_secs=10, adapts=True)
    limit.note_done(5, emitted_at=1, now=15)
    assert limit.why_timed_out(emitted_at=2, now=20) == TIMED_OUT
