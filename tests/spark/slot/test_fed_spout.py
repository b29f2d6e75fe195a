"""A spout that is fed by Spark tasks, turned by hand: what it takes, what it emits, and when it is done."""

import pytest

from pystorm_spark import LocalCluster, TopologyBuilder
from pystorm_spark.errors import StormError
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.runtime.durable.committed_rows import CommittedRows
from pystorm_spark.runtime.durable.uncommitted import IN_FLIGHT
from pystorm_spark.runtime.pending_limit import QUEUED
from pystorm_spark.spark.protocol.messages import Settled
from pystorm_spark.spark.slot.fed_spout import Chunk, FedSpout
from pystorm_spark.testing import RecordingCollector


class Context:
    this_component_id = "rows"
    this_task_id = 7


def packed(*rows, first=0):
    codec = ValueCodec()
    return Chunk(first, len(rows), codec.pack_rows([codec.pack(row) for row in rows]))


class Fed:
    """A fed spout, its collector, and what it has told the driver."""

    def __init__(self, max_replays=1):
        self.told = []
        self.spout = FedSpout(["n"])
        self.forgotten = 0
        self.committed = CommittedRows()
        self.spout.connect(self.told.append, self.forget, self.committed)
        self.collector = RecordingCollector()
        self.collector.why = "bolt:1 failed it"
        self.spout.open({"topology.max.replays": max_replays}, Context, self.collector)

    def forget(self):
        self.forgotten += 1

    def emitted(self):
        for _ in range(10):
            self.spout.next_tuple()
        found = [(emitted.message_id, emitted.values) for emitted in self.collector.emitted]
        self.collector.emitted.clear()
        return found


@pytest.fixture
def fed():
    return Fed()


def test_rows_are_emitted_once_they_are_released_with_ids_that_say_where_they_come_from(fed):
    fed.spout.stage(1, 3, 100, 0, packed([10], [11]))
    assert fed.emitted() == []

    fed.spout.release(5, 1, [(3, 100, 1)])

    assert fed.emitted() == [(("rows", 5, 3, 0), [10]), (("rows", 5, 3, 1), [11])]


def test_rows_come_in_the_order_of_partitions_and_chunks(fed):
    fed.spout.stage(1, 1, 100, 4, packed([3], first=20))
    fed.spout.stage(1, 1, 100, 2, packed([2], first=10))
    fed.spout.stage(1, 0, 101, 0, packed([1]))

    fed.spout.release(0, 1, [(1, 100, 2), (0, 101, 1)])

    assert [values for _, values in fed.emitted()] == [[1], [2], [3]]


def test_what_another_attempt_of_a_task_has_brought_is_not_emitted(fed):
    fed.spout.stage(1, 0, 100, 0, packed([1]))
    fed.spout.stage(1, 0, 101, 0, packed([1]))
    fed.spout.stage(1, 0, 101, 0, packed([1]))  # asked again over another connection

    fed.spout.release(0, 1, [(0, 101, 1)])

    assert len(fed.emitted()) == 1


def test_what_belongs_to_an_older_round_is_refused(fed):
    assert fed.spout.stage(2, 0, 100, 0, packed([1]))

    assert not fed.spout.stage(1, 0, 100, 1, packed([1]))


def test_a_release_of_what_has_not_come_is_an_error(fed):
    fed.spout.stage(1, 0, 100, 0, packed([1]))

    with pytest.raises(StormError, match="not what was put aside"):
        fed.spout.release(0, 1, [(0, 100, 2)])


def test_a_release_that_is_handled_after_rows_of_a_newer_round_have_come_is_void(fed):
    fed.spout.stage(1, 0, 100, 0, packed([1]))
    fed.spout.stage(2, 0, 200, 0, packed([2]))

    fed.spout.release(0, 1, [(0, 100, 1)])
    assert fed.emitted() == []
    fed.spout.release(0, 2, [(0, 200, 1)])

    assert [values for _, values in fed.emitted()] == [[2]]


def test_the_driver_is_told_when_every_row_is_acked(fed):
    fed.spout.stage(1, 0, 100, 0, packed([1], [2]))
    fed.spout.release(0, 1, [(0, 100, 1)])
    ids = [row_id for row_id, _ in fed.emitted()]

    fed.spout.ack(ids[0])
    assert fed.told == []
    fed.spout.ack(ids[1])

    assert fed.told == [Settled(7, 1, 0)]


def test_acks_may_come_many_at_once(fed):
    fed.spout.stage(1, 0, 100, 0, packed([1], [2], [3]))
    fed.spout.release(0, 1, [(0, 100, 1)])
    ids = [row_id for row_id, _ in fed.emitted()]

    fed.spout.acked(ids)

    assert fed.told == [Settled(7, 1, 0)]


def test_no_more_rows_are_emitted_than_there_is_room_for(fed):
    fed.spout.stage(1, 0, 100, 0, packed([1], [2]))
    fed.spout.stage(1, 0, 100, 1, packed([3], first=2))
    fed.spout.release(0, 1, [(0, 100, 2)])

    assert fed.spout.next_tuples(1)
    assert len(fed.collector.emitted) == 1
    assert not fed.spout.next_tuples(64)
    assert [emitted.values for emitted in fed.collector.emitted] == [[1], [2], [3]]


def test_a_failed_row_is_found_among_the_chunks_and_comes_before_new_ones(fed):
    fed.spout.stage(1, 0, 100, 0, packed([10], [11]))
    fed.spout.stage(1, 0, 100, 5, packed([60], [61], first=50))
    fed.spout.stage(1, 2, 101, 0, packed([20], [21]))
    fed.spout.release(0, 1, [(0, 100, 2), (2, 101, 1)])
    fed.spout.next_tuples(5)
    fed.collector.emitted.clear()

    for row_id in (("rows", 0, 0, 51), ("rows", 0, 2, 0), ("rows", 0, 0, 0)):
        fed.spout.fail(row_id)

    assert [values for _, values in fed.emitted()] == [[61], [20], [10], [21]]


def test_a_row_that_was_changed_by_whoever_got_it_is_emitted_again_as_it_came(fed):
    fed.spout.stage(1, 0, 100, 0, packed([1]))
    fed.spout.release(0, 1, [(0, 100, 1)])
    ((row_id, values),) = fed.emitted()
    values.append("mine")

    fed.spout.fail(row_id)

    assert fed.emitted() == [(row_id, [1])]


def test_a_list_in_a_row_that_was_changed_is_emitted_again_and_buried_as_it_came(fed):
    fed.spout.stage(1, 0, 100, 0, packed([[1, 2]]))
    fed.spout.release(0, 1, [(0, 100, 1)])

    for _ in range(2):
        ((row_id, values),) = fed.emitted()
        assert values == [[1, 2]]
        values[0].append("mine")
        fed.spout.fail(row_id)

    count, data = fed.spout.dead_rows(1).chunk(0)
    assert ValueCodec().unpack_rows(data, count)[0][-1] == [[1, 2]]


def test_what_is_pending_of_a_round_in_vain_is_forgotten(fed):
    fed.spout.stage(1, 0, 100, 0, packed([1]))
    fed.spout.release(0, 1, [(0, 100, 1)])
    fed.emitted()
    assert fed.forgotten == 0

    fed.spout.stage(2, 0, 101, 0, packed([2]))
    fed.spout.release(0, 2, [(0, 101, 1)])

    assert fed.forgotten == 1
    assert fed.emitted() == [(("rows", 0, 0, 0), [2])]


def test_rows_that_are_committed_are_done_and_not_emitted_again(fed):
    fed.committed.remember(1, [("rows", 4, 0, number) for number in (1, 2, 9, 11)])
    fed.spout.stage(1, 0, 100, 0, packed([0], [1], [2], [3]))
    fed.spout.stage(1, 0, 100, 1, packed([9], first=9))
    fed.spout.stage(1, 0, 100, 2, packed([10], [11], [12], first=10))
    fed.spout.release(4, 1, [(0, 100, 3)])

    emitted = fed.emitted()
    fed.spout.acked([row_id for row_id, _ in emitted])

    assert emitted == [(("rows", 4, 0, number), [number]) for number in (0, 3, 10, 12)]
    assert fed.told == [Settled(7, 1, 0)]


def test_a_batch_that_is_committed_as_a_whole_is_done_at_once(fed):
    fed.committed.remember(1, [("rows", 4, 0, 0), ("rows", 4, 0, 1)])
    fed.spout.stage(1, 0, 100, 0, packed([0], [1]))
    fed.spout.release(4, 1, [(0, 100, 1)])

    assert fed.emitted() == []
    assert fed.told == [Settled(7, 1, 0)]


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_row_that_cannot_be_emitted_is_a_dead_letter(fed, monkeypatch, error):
    def emit(values, message_id):
        raise error("no task for it")

    monkeypatch.setattr(fed.collector, "emit", emit)
    fed.spout.stage(1, 0, 100, 0, packed([1]))
    fed.spout.release(0, 1, [(0, 100, 1)])

    fed.spout.next_tuple()

    assert fed.told == [Settled(7, 1, 1)]


class OfAModule:
    """A value whose class can be missing where it is unpacked."""


def test_a_row_that_cannot_be_read_is_a_dead_letter_and_the_others_are_emitted(fed, monkeypatch):
    chunk = packed([1], [OfAModule()], [3])
    monkeypatch.delattr(f"{__name__}.OfAModule")
    fed.spout.stage(1, 0, 100, 0, chunk)
    fed.spout.release(4, 1, [(0, 100, 1)])

    emitted = fed.emitted()
    assert emitted == [(("rows", 4, 0, 0), [1]), (("rows", 4, 0, 2), [3])]
    fed.spout.fail(emitted[1][0])
    assert fed.emitted() == emitted[1:]
    fed.spout.acked([row_id for row_id, _ in emitted])

    assert fed.told == [Settled(7, 1, 1)]
    ((*where, why, row),) = ValueCodec().unpack_rows(*reversed(fed.spout.dead_rows(1).chunk(0)))
    assert (where, row) == (["rows", 4, 0, 1], None)
    assert "OfAModule" in why


def test_a_row_that_fails_too_often_is_a_dead_letter_and_counts_as_done(fed):
    fed.spout.stage(1, 0, 100, 0, packed([1]))
    fed.spout.release(4, 1, [(0, 100, 1)])
    ((row_id, _),) = fed.emitted()

    fed.spout.fail(row_id)
    assert fed.emitted() == [(row_id, [1])]
    fed.spout.fail(row_id)

    assert fed.emitted() == []
    assert fed.told == [Settled(7, 1, 1)]
    count, data = fed.spout.dead_rows(1).chunk(0)
    assert ValueCodec().unpack_rows(data, count) == [["rows", 4, 0, 0, "bolt:1 failed it", [1]]]
    assert fed.spout.dead_rows(2) is None


@pytest.mark.parametrize("why", [IN_FLIGHT, QUEUED])
def test_what_is_no_fault_of_a_row_does_not_count_against_it(fed, why):
    fed.spout.stage(1, 0, 100, 0, packed([1]))
    fed.spout.release(0, 1, [(0, 100, 1)])
    fed.collector.why = why

    for _ in range(5):
        ((row_id, _),) = fed.emitted()
        fed.spout.fail(row_id)

    assert fed.told == []


def test_without_a_limit_a_row_is_emitted_again_and_again():
    fed = Fed(max_replays=None)
    fed.spout.stage(1, 0, 100, 0, packed([1]))
    fed.spout.release(0, 1, [(0, 100, 1)])

    for _ in range(20):
        ((row_id, _),) = fed.emitted()
        fed.spout.fail(row_id)

    assert fed.told == []


def test_a_local_cluster_is_refused_and_told_of_what_would_do():
    builder = TopologyBuilder()
    builder.set_spout("rows", FedSpout(["n"]))

    with LocalCluster() as cluster, pytest.raises(StormError, match="'rows' is fed by Spark and needs a SparkCluster"):
        cluster.submit_topology("local", None, builder.create_topology())
