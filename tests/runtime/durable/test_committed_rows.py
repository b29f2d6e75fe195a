"""The committed rows of batches, compared with plain sets of ids."""

from hypothesis import given
from hypothesis import strategies as st

from pystorm_spark.runtime.durable.committed_rows import CommittedRows

ROWS = 12
BATCH = 3

numbers = st.integers(0, ROWS - 1)
row_ids = st.tuples(st.just("rows"), st.just(BATCH), st.integers(0, 1), numbers)
commits = st.lists(st.lists(row_ids, max_size=8), max_size=5)


def ids(partition, *some, batch=BATCH):
    return [("rows", batch, partition, number) for number in some]


def missing(rows, partition=0, batch=BATCH):
    return rows.missing(batch, partition, 0, ROWS)


@given(commits, numbers, numbers)
def test_rows_that_were_never_committed_are_missing(made, one, other):
    rows = CommittedRows()
    for txid, message_ids in enumerate(made):
        rows.remember(txid, message_ids)
    first, end = sorted((one, other))

    committed = {(partition, number) for message_ids in made for _, _, partition, number in message_ids}
    for partition in (0, 1):
        runs = rows.missing(BATCH, partition, first, end)
        assert all(begin < behind for begin, behind in runs)
        found = [number for run in runs for number in range(*run)]
        assert found == [number for number in range(first, end) if (partition, number) not in committed]


@given(commits, st.lists(row_ids, max_size=8))
def test_a_section_holds_all_committed_rows_of_a_batch(made, last):
    rows, restored = CommittedRows(), CommittedRows()
    for txid, message_ids in enumerate(made):
        rows.remember(txid, message_ids)

    section = rows.section(last)
    rows.remember(len(made), last)
    restored.restore([section] if section is not None else [])

    assert [missing(restored, partition) for partition in (0, 1)] == [missing(rows, partition) for partition in (0, 1)]


def test_prepared_rows_are_missing_until_the_commit():
    rows = CommittedRows()
    rows.section(ids(0, 1, 2))
    assert missing(rows) == [(0, ROWS)]


def test_rows_in_order_are_kept_as_one_run_however_many_commits_they_take():
    rows = CommittedRows()
    for txid in range(100):
        rows.remember(txid, ids(0, *range(1000 * txid, 1000 * (txid + 1))))
    assert len(rows.section([])) < 20


def test_a_finished_batch_leaves_nothing():
    rows = CommittedRows()
    rows.remember(1, ids(0, 1, batch=BATCH))
    rows.begin(BATCH)
    assert missing(rows) == [(0, 1), (2, ROWS)]
    rows.begin(BATCH + 1)
    rows.restore([CommittedRows().section(ids(0, 5, batch=BATCH))])  # of an earlier commit
    assert rows.section([]) is None


def test_rows_committed_by_other_slots_are_restored_from_their_sections():
    ours, theirs = CommittedRows(), CommittedRows()
    ours.remember(1, ids(0, *range(4)))
    theirs.remember(1, ids(0, *range(4, 8)))
    ours.restore([theirs.section([])])
    assert missing(ours) == [(8, ROWS)]
