"""Internal. The rows of an Arrow batch as lists of values, for columns of numbers, text and bytes.

Spark writes its rows as Arrow batches in a fraction of the time in which it pickles them, and it takes few lines to
read what is plain in them: nothing has to be installed for it. The names are those of Arrow's format: a message has
metadata, which is a FlatBuffer, and a body with the buffers of its columns.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from pystorm_spark.errors import SerializationError

# The kinds of columns, as one letter each: what `memoryview.cast` takes, and these.
BITS, TEXT, BYTES = "?", "s", "y"

PREFIX_SIZE = 8  # a mark, and the size of the metadata
RECORD_BATCH = 3
HEADER_TYPE, HEADER = 1, 2  # fields of a message
LENGTH, NODES, BUFFERS, COMPRESSION = 0, 1, 2, 3  # fields of a record batch


def row_count(message: bytes) -> int:
    """How many rows a message holds."""
    return _number("<q", message, _field(message, _record_batch(message), LENGTH))


def rows_of(message: bytes, kinds: str) -> list[list[Any]]:
    """The rows of a message whose columns are of `kinds`."""
    try:
        columns = _Columns(message)
        return list(map(list, zip(*[columns.take(number, kind) for number, kind in enumerate(kinds)], strict=True)))
    except (struct.error, TypeError, ValueError) as error:
        raise SerializationError(f"an Arrow batch of columns {kinds!r} cannot be read: {error}") from error


class _Columns:
    """The columns of a message, taken one after the other."""

    def __init__(self, message: bytes) -> None:
        batch = _record_batch(message)
        self._count = row_count(message)
        self._body = memoryview(message)[PREFIX_SIZE + _number("<i", message, 4) :]
        self._nodes = _pairs(message, _field(message, batch, NODES))  # (rows, those that are null) of each column
        self._buffers = iter(_pairs(message, _field(message, batch, BUFFERS)))  # (offset in the body, size)

    def take(self, number: int, kind: str) -> Sequence[Any]:
        valid = self._buffer()
        if kind == BITS:
            values: Sequence[Any] = [bit == "1" for bit in self._bits(self._buffer())]
        elif kind in (TEXT, BYTES):
            values = self._texts(self._buffer(), bytes(self._buffer()), kind)
        else:
            values = self._buffer().cast(kind).tolist()  # type: ignore[call-overload]
        if not self._nodes[number][1]:
            return values
        return [value if bit == "1" else None for value, bit in zip(values, self._bits(valid), strict=True)]

    def _buffer(self) -> memoryview:
        offset, size = next(self._buffers)
        return self._body[offset : offset + size]

    def _bits(self, buffer: memoryview) -> str:
        """One letter for each row."""
        return f"{int.from_bytes(buffer, 'little'):0{self._count}b}"[::-1][: self._count]

    def _texts(self, offsets: memoryview, data: bytes, kind: str) -> list[Any]:
        wide = len(offsets) >= 8 * (self._count + 1)  # Spark can be told to use them
        ends = pairwise(offsets.cast("q" if wide else "i").tolist()[: self._count + 1])
        if kind == BYTES:
            return [data[begin:end] for begin, end in ends]
        if data.isascii():
            text = data.decode("ascii")
            return [text[begin:end] for begin, end in ends]
        return [data[begin:end].decode("utf-8", "replace") for begin, end in ends]


def _record_batch(message: bytes) -> int:
    """Where the table of the record batch is."""
    table = PREFIX_SIZE + _number("<I", message, PREFIX_SIZE)
    header_type = _number("<B", message, _field(message, table, HEADER_TYPE))
    if header_type != RECORD_BATCH:
        raise SerializationError(f"an Arrow message of type {header_type} came where rows were expected")
    batch = _follow(message, _field(message, table, HEADER))
    if _field(message, batch, COMPRESSION):
        raise SerializationError("the rows came as a compressed Arrow batch, which cannot be read here")
    return batch


def _field(message: bytes, table: int, number: int) -> int:
    """Where a field of a table is; 0 if the table has no such field."""
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
