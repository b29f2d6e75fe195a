"""How many messages of a spout task may be under way, and whose fault it is if one times out."""

from pystorm_spark.runtime.pending_limit import QUEUED, TIMED_OUT, PendingLimit


def narrowed(under_way):
    limit = PendingLimit(1000, timeout_secs=10, adapts=True)
    limit.narrow(under_way, "words:1")
    return limit


def test_a_room_that_was_too_wide_for_the_time_holds_half_of_what_was_under_way():
    assert [narrowed(under_way).size for under_way in (5000, 300, 3, 2)] == [500, 150, 1, 1]


def test_a_message_that_timed_out_alone_is_no_reason_for_less_room():
    assert narrowed(1).size == 1000


def test_a_narrow_room_grows_when_as_many_messages_as_it_holds_were_done_in_time():
    limit = narrowed(160)
    limit.note_done(79, emitted_at=1, now=2)
    assert limit.size == 80
    limit.note_done(1, emitted_at=1, now=2)
    assert limit.size == 90


def test_a_room_never_grows_beyond_what_it_was():
    limit = narrowed(5000)
    for _ in range(100):
        limit.note_done(1000, emitted_at=1, now=2)
    assert limit.size == 1000


def test_a_message_behind_others_that_are_done_one_by_one_is_not_to_blame():
    limit = PendingLimit(1000, timeout_secs=10, adapts=True)
    limit.note_done(5, emitted_at=1, now=19)
    assert limit.why_timed_out(emitted_at=2, now=20) == QUEUED


def test_a_message_that_later_ones_have_overtaken_is_to_blame():
    limit = PendingLimit(1000, timeout_secs=10, adapts=True)
    limit.note_done(5, emitted_at=3, now=19)
    assert limit.why_timed_out(emitted_at=2, now=20) == TIMED_OUT


def test_a_message_is_to_blame_where_nothing_moves():
    limit = PendingLimit(1000, timeout_secs=10, adapts=True)
    limit.note_done(5, emitted_at=1, now=15)
    assert limit.why_timed_out(emitted_at=2, now=20) == TIMED_OUT
