"""The outcomes that wait for a commit, and the counts of failed messages."""

from types import SimpleNamespace

from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.runtime.durable import uncommitted
from pystorm_spark.runtime.durable.committed_ids import CommittedIds
from pystorm_spark.runtime.durable.uncommitted import UncommittedOutcomes


def failed(*message_ids):
    return [SimpleNamespace(message_id=message_id, emitted_at=0.0, why="it failed") for message_id in message_ids]


def test_the_oldest_failure_counts_are_forgotten_first(monkeypatch):
    monkeypatch.setattr(uncommitted, "MOST_FAILURES", 2)
    monkeypatch.setattr(uncommitted.Outcomes, "failed", lambda roots: uncommitted.Outcomes())
    outcomes = UncommittedOutcomes(CommittedIds("spout", ValueCodec()), is_exactly_once=True, most_replays=1)

    for message_id in ("a", "b", "a", "c"):
        outcomes.keep([], failed(message_id))

    assert [outcomes.is_new(message_id) for message_id in "abc"] == [False, True, False]
