"""Internal. Shelf: rows that a task keeps, packed, until a Spark job has fetched them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pystorm_spark.runtime.codec import ValueCodec

CHUNK_ROWS = 1000
CHUNK_BYTES = 8 << 20


class Shelf:
    """Rows in the order in which they were put there; one thread adds to it, others may read what is sealed."""

    def __init__(self, codec: ValueCodec) -> None:
        self.count = 0
        self._codec = codec
        self._open: list[bytes] = []
        self._open_bytes = 0
        self._chunks: list[tuple[int, bytes]] = []

    def add(self, row: Sequence[Any]) -> None:
        """Keep `row` as it is now; a `SerializationError` if it cannot be packed."""
        packed = self._codec.pack(row)
        self._open.append(packed)
        self._open_bytes += len(packed)
        self.count += 1
        if len(self._open) == CHUNK_ROWS or self._open_bytes > CHUNK_BYTES:
            self.seal()

    def seal(self) -> None:
        """Make all rows readable."""
        if self._open:
            self._chunks.append((len(self._open), b"".join(self._open)))
            self._open, self._open_bytes = [], 0

    def take(self, other: Shelf) -> None:
        """Keep the rows of `other`, too."""
        other.seal()
        self._chunks += other._chunks
        self.count += other.count

    def chunk(self, number: int) -> tuple[int, bytes]:
        """The rows that follow one another in a chunk, and how many they are; none after the last chunk."""
        return self._chunks[number] if number < len(self._chunks) else (0, b"")
