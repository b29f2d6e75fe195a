"""The benchmark of states by their size drives the checkpoint itself, as no topology does: it must keep up with it."""

from benchmarks import state_size


def test_commits_and_restores_are_measured():
    result = state_size.measure(quick=True)

    assert all(table.rows for table in result.tables)
