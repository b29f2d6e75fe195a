"""Shelves: rows that a task keeps until a Spark job has fetched them."""

import resource
from contextlib import contextmanager

import pytest

from pystorm_spark.errors import SerializationError
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.spark.slot.shelf import CHUNK_BYTES, CHUNK_ROWS, FileShelf, Shelf

CODEC = ValueCodec()


@pytest.fixture(params=[Shelf, FileShelf])
def shelf(request):
    made = request.param(CODEC)
    yield made
    if isinstance(made, FileShelf):
        made.close()


def rows_of(shelf):
    """The rows, chunk by chunk."""
    number, found = 0, []
    while (chunk := shelf.chunk(number))[0]:
        found.append(CODEC.unpack_rows(chunk[1], chunk[0]))
        number += 1
    return found


def test_rows_come_back_in_chunks_in_their_order(shelf):
    rows = [[number, f"row {number}"] for number in range(2 * CHUNK_ROWS + 1)]
    for row in rows:
        shelf.add(row)
    shelf.seal()

    assert shelf.count == len(rows)
    assert rows_of(shelf) == [rows[:CHUNK_ROWS], rows[CHUNK_ROWS:-1], rows[-1:]]


def test_a_row_is_kept_as_it_was_when_it_came(shelf):
    row = ["before"]
    shelf.add(row)
    row[0] = "after"
    shelf.seal()

    assert rows_of(shelf) == [[["before"]]]


def test_a_chunk_of_large_rows_is_small():
    shelf = Shelf(CODEC)
    for _ in range(4):
        shelf.add([bytes(5 << 20)])
    shelf.seal()

    assert [len(rows) for rows in rows_of(shelf)] == [2, 2]


@contextmanager
def files_of_at_most(size):
    """As on a disk with so much room: it takes what has room in it, and then refuses."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_row_for_which_there_is_no_room_is_not_kept_and_those_before_it_are():
    shelf, large = FileShelf(CODEC), bytes(CHUNK_BYTES // 2)
    for name in ("one", "two"):
        shelf.add([name, large])
    shelf.seal()
    shelf.add(["three", large])

    with files_of_at_most(3 * CHUNK_BYTES // 2), pytest.raises(OSError, match="File too large"):
        shelf.add(["four", large])
    assert shelf.count == 3
    shelf.add(["four again", large])
    shelf.seal()

    names = [name for rows in rows_of(shelf) for name, _ in rows]
    assert names == ["one", "two", "three", "four again"]
    assert shelf.count == 4
    shelf.close()


def test_a_row_that_cannot_be_packed_leaves_the_others():
    shelf = Shelf(ValueCodec(fall_back_on_pickle=False))
    shelf.add([1])
    with pytest.raises(SerializationError):
        shelf.add([object()])
    shelf.seal()

    assert rows_of(shelf) == [[[1]]]


def test_a_shelf_takes_the_rows_of_another():
    shelf, other = Shelf(CODEC), Shelf(CODEC)
    shelf.add([1])
    shelf.seal()
    other.add([2])
    shelf.take(other)

    assert shelf.count == 2
    assert rows_of(shelf) == [[[1]], [[2]]]


def test_a_shelf_goes_back_to_a_mark_and_on_from_there(shelf):
    for word in "ab":
        shelf.add([word])
    mark = shelf.mark()
    for number in range(CHUNK_ROWS + 1):
        shelf.add([number])
    shelf.roll_back(mark)
    shelf.add(["c"])
    shelf.seal()

    assert shelf.count == 3
    assert rows_of(shelf) == [[["a"], ["b"]], [["c"]]]
