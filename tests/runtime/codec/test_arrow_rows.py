"""The rows of Arrow batches, as Spark writes them."""

from array import array
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystorm_spark.errors import SerializationError
from pystorm_spark.runtime.codec.arrow_rows import ArrowRows, _texts, row_count

# Three rows, ("a", 1), ("é", null), (null, 3), as Spark writes them.
MESSAGE = bytes.fromhex(
    "ffffffffc800000014000000000000000c0016000e001500100004000c0000004000000000000000000004001000000000030a00"
    "18000c00080004000a00000014000000680000000300000000000000000000000500000000000000000000000100000000000000"
    "08000000000000001000000000000000180000000000000003000000000000002000000000000000010000000000000028000000"
    "00000000180000000000000000000000020000000300000000000000010000000000000003000000000000000100000000000000"
    "03000000000000000000000001000000030000000300000061c3a900000000000500000000000000010000000000000000000000"
    "000000000300000000000000"
)


def rows_of(message, kinds):
    rows = ArrowRows(message, kinds)
    return rows.between(0, len(rows))


def test_a_message_knows_how_many_rows_it_holds():
    assert row_count(MESSAGE) == 3


def test_rows_are_lists_of_values_and_nulls():
    assert rows_of(MESSAGE, "sq") == [["a", 1], ["é", None], [None, 3]]


def test_a_truncated_batch_is_an_error():
    with pytest.raises(SerializationError, match="an Arrow batch of columns 'sq' cannot be read"):
        rows_of(MESSAGE[:-24], "sq")


def test_a_truncated_batch_of_a_single_column_is_an_error():
    rows = ArrowRows(MESSAGE, "sq")
    rows._columns = [lambda first, last: [1, 2]]
    with pytest.raises(SerializationError, match="there are 2 rows from 0 to 3"):
        rows.between(0, 3)


def test_rows_are_read_piece_by_piece():
    rows = ArrowRows(MESSAGE, "sq")
    assert [rows.between(number, number + 1) for number in range(3)] == [[row] for row in rows_of(MESSAGE, "sq")]
    assert rows.between(1, 3) == rows_of(MESSAGE, "sq")[1:]
    assert rows.between(1, 1) == []


@given(st.lists(st.one_of(st.text(), st.text("abc"), st.just("\ud800"))), st.sampled_from("iq"))
def test_both_cores_read_the_same_texts(texts, width):
    pieces = [text.encode("utf-8", "surrogatepass") for text in texts]
    ends = array(width, [0, *accumulate(map(len, pieces))])
    args = memoryview(ends), b"".join(pieces)
    assert _texts(*args) == getattr(_texts, "__wrapped__", _texts)(*args)


@pytest.mark.parametrize("ends", [[], [0], [3, 1], [-2, 2], [0, 9], [5, 9]])
def test_both_cores_read_the_same_from_wrong_offsets(ends):
    args = memoryview(array("i", ends)), b"text"
    assert _texts(*args) == getattr(_texts, "__wrapped__", _texts)(*args)
