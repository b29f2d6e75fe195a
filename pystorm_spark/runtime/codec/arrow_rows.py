"""Internal. The rows of an Arrow batch as lists of values, for columns of numbers, text and bytes.

Spark writes its rows as Arrow batches in a fraction of the time in which it pickles them, and it takes few lines to
read what is plain in them: nothing has to be installed for it. The names are those of Arrow's format: a message has
metadata, which is a FlatBuffer, and a body with the buffers of its columns.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from pystorm_spark.core import compiled
from pystorm_spark.errors import SerializationError

# The kinds of columns, as one letter each: what `memoryview.cast` takes, and these.
BITS, STRING_KIND, BYTES = "?", "s", "y"

PREFIX_SIZE = 8  # a mark, and the size of the metadata
RECORD_BATCH = 3
HEADER_TYPE, HEADER = 1, 2  # fields of a message
LENGTH, NODES, BUFFERS, COMPRESSION = 0, 1, 2, 3  # fields of a record batch
UNREADABLE = (struct.error, IndexError, TypeError, ValueError)

Column = Callable[[int, int], list[Any]]  # its values from a row up to another


def row_count(message: bytes) -> int:
    """How many rows a message holds."""
    return _number("<q", message, _field(message, _record_batch(message), LENGTH))


class ArrowRows:
    """The rows of a message whose columns have these `kinds`, read on request."""

    def __init__(self, message: bytes, kinds: str) -> None:
        self._kinds = kinds
        try:
            batch = _record_batch(message)
            self._count = row_count(message)
            body = memoryview(message)[PREFIX_SIZE + _number("<i", message, 4) :]
            places = _pairs(message, _field(message, batch, BUFFERS))  # (offset in the body, size)
            buffers = deque(body[offset : offset + size] for offset, size in places)
            nodes = _pairs(message, _field(message, batch, NODES))  # (rows, those that are null) of each column
            self._columns = [
                _column(kind, buffers, self._count, nulls > 0) for kind, (_, nulls) in zip(kinds, nodes, strict=True)
            ]
        except UNREADABLE as error:
            raise self._unreadable(error) from error

    def __len__(self) -> int:
        return self._count

    def between(self, first: int, last: int) -> list[list[Any]]:
        """The rows from `first` up to, but without, `last`."""
        try:
            rows = _rows([column(first, last) for column in self._columns])
        except UNREADABLE as error:
            raise self._unreadable(error) from error
        if len(rows) != last - first:
            raise self._unreadable(f"there are {len(rows)} rows from {first} to {last}")
        return rows

    def _unreadable(self, why: object) -> SerializationError:
        return SerializationError(f"an Arrow batch of columns {self._kinds!r} cannot be read: {why}")


def _column(kind: str, buffers: deque[memoryview], count: int, has_nulls: bool) -> Column:
    """The next column, which consumes its buffers."""
    valid, content = buffers.popleft(), buffers.popleft()
    if kind in (STRING_KIND, BYTES):
        is_wide = len(content) >= 8 * (count + 1)  # Spark can be told to use them
        ends, data = content.cast("q" if is_wide else "i"), bytes(buffers.popleft())
        pieces = _texts if kind == STRING_KIND else _pieces
        column: Column = lambda first, last: pieces(ends[first : last + 1], data)  # noqa: E731
    elif kind == BITS:
        bits = _bits(content, count)
        column = lambda first, last: [bit == "1" for bit in bits[first:last]]  # noqa: E731
    else:
        numbers = content.cast(kind)  # type: ignore[call-overload]
        column = lambda first, last: numbers[first:last].tolist()  # noqa: E731
    return _with_nulls(column, _bits(valid, count)) if has_nulls else column


def _with_nulls(column: Column, valid: str) -> Column:
    def values(first: int, last: int) -> list[Any]:
        pairs = zip(column(first, last), valid[first:last], strict=True)
        return [value if bit == "1" else None for value, bit in pairs]

    return values


def _bits(buffer: memoryview, count: int) -> str:
    """The bits of a column as text, one character for each row."""
    if 8 * len(buffer) < count:
        raise ValueError(f"{len(buffer)} bytes for {count} bits")
    return f"{int.from_bytes(buffer, 'little'):0{count}b}"[::-1][:count]


def _pieces(ends: memoryview, data: bytes) -> list[bytes]:
    return [data[begin:end] for begin, end in pairwise(ends.tolist())]


@compiled
def _texts(ends: memoryview, data: bytes) -> list[str]:
    if data.isascii():
        text = data.decode("ascii")
        return [text[begin:end] for begin, end in pairwise(ends.tolist())]
    return [piece.decode("utf-8", "replace") for piece in _pieces(ends, data)]


@compiled
def _rows(columns: list[list[Any]]) -> list[list[Any]]:
    return list(map(list, zip(*columns, strict=True)))


def _record_batch(message: bytes) -> int:
    """The offset of the record batch's table."""
    table = PREFIX_SIZE + _number("<I", message, PREFIX_SIZE)
    header_type = _number("<B", message, _field(message, table, HEADER_TYPE))
    if header_type != RECORD_BATCH:
        raise SerializationError(f"an Arrow message of type {header_type} came where rows were expected")
    batch = _follow(message, _field(message, table, HEADER))
    if _field(message, batch, COMPRESSION):
        raise SerializationError("the rows came as a compressed Arrow batch, which cannot be read here")
    return batch


def _field(message: bytes, table: int, number: int) -> int:
    """The offset of a field of a table; 0 if the table has none."""
    layout = table - _number("<i", message, table)
    if 4 + 2 * number >= _number("<H", message, layout):
        return 0
    offset = _number("<H", message, layout + 4 + 2 * number)
    return table + offset if offset else 0


def _follow(message: bytes, at: int) -> int:
    return at + _number("<I", message, at)


def _pairs(message: bytes, at: int) -> list[tuple[int, int]]:
    """A vector of structs that are two numbers each."""
    vector = _follow(message, at)
    count = _number("<I", message, vector)
    numbers = struct.unpack_from(f"<{2 * count}q", message, vector + 4)
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _number(kind: str, message: bytes, at: int) -> int:
    number: int = struct.unpack_from(kind, message, at)[0]
    return number
