"""Journals, and sets of numbers with few gaps, in which the workloads of the torture keep records."""

import itertools
import pickle

from hypothesis import given
from hypothesis import strategies as st

from tests.torture import ranges
from tests.torture.journal import Journal, Tail


def test_a_tail_gives_each_number_once(tmp_path):
    journal, tail = Journal(tmp_path), Tail(tmp_path, "acked")
    assert list(tail.fresh()) == []
    journal.note("acked", 1)
    journal.note("failed", 9)
    assert list(tail.fresh()) == [1]
    journal.note("acked", 2**63)
    assert list(tail.fresh()) == [2**63]
    assert list(tail.fresh()) == []


def test_an_incomplete_entry_is_read_once_it_is_complete(tmp_path):
    Journal(tmp_path).note("acked", 1)
    (path,) = tmp_path.iterdir()
    tail = Tail(tmp_path, "acked")
    with path.open("ab", buffering=0) as file:
        file.write(b"\x02\0\0")
        assert list(tail.fresh()) == [1]
        file.write(b"\0\0\0\0\0")
    assert list(tail.fresh()) == [2]


def test_a_journal_travels(tmp_path):
    journal = Journal(tmp_path)
    journal.note("acked", 1)
    pickle.loads(pickle.dumps(journal)).note("acked", 2)
    assert list(journal.noted("acked")) == [1, 2]


@given(st.lists(st.integers(0, 30)))
def test_ranges_are_a_set(numbers):
    found, known = [], set()
    for number in numbers:
        assert ranges.add(found, number) == (number not in known)
        known.add(number)
    assert [n for first, last in found for n in range(first, last + 1)] == sorted(known)
    assert all(after[0] > before[1] + 1 for before, after in itertools.pairwise(found))
    assert list(ranges.missing(found, 31)) == sorted({*range(31)} - known)
