"""Internal. Shelf: rows that a task keeps, packed, until a Spark job has fetched them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from typing import Any

from pystorm_spark.runtime.codec.codec import ValueCodec

CHUNK_ROWS = 1000
CHUNK_BYTES = 8 << 20


class Shelf:
    """Rows in the order in which they were put there; one thread adds to it, others may read what is sealed."""

    def __init__(self, codec: ValueCodec) -> None:
        self.count = 0
        self._codec = codec
        self._open: list[bytes] = []
        self._open_bytes = 0
        self._chunks: list[tuple[int, Any]] = []  # how many rows, and what `_keep` has made of them

    def add(self, row: Sequence[Any]) -> None:
        """Keep `row` as it is now; a `SerializationError` if it cannot be packed. What raises has kept nothing."""
        packed = self._codec.pack(row)
        self._open.append(packed)
        self._open_bytes += len(packed)
        self.count += 1
        if len(self._open) >= CHUNK_ROWS or self._open_bytes > CHUNK_BYTES:
            try:
                self.seal()
            except OSError:
                self._open.pop()
                self._open_bytes -= len(packed)
                self.count -= 1
                raise

    def seal(self) -> None:
        """Make all rows readable."""
        if self._open:
            self._chunks.append((len(self._open), self._keep(b"".join(self._open))))
            self._open, self._open_bytes = [], 0

    def take(self, other: Shelf) -> None:
        """Keep the rows of `other`, too."""
        other.seal()
        self._chunks += other._chunks
        self.count += other.count

    def mark(self) -> int:
        """The end of the rows that are here now, for `roll_back`."""
        self.seal()
        return len(self._chunks)

    def roll_back(self, mark: int) -> None:
        """Discard the rows that came after `mark`."""
        self._open, self._open_bytes = [], 0
        del self._chunks[mark:]
        self.count = sum(count for count, _ in self._chunks)

    def chunk(self, number: int) -> tuple[int, bytes]:
        """The rows that follow one another in a chunk, and how many they are; none after the last chunk."""
        if number >= len(self._chunks):
            return 0, b""
        count, kept = self._chunks[number]
        return count, self._read(kept)

    def _keep(self, data: bytes) -> Any:
        return data

    def _read(self, kept: Any) -> bytes:
        data: bytes = kept
        return data


class FileShelf(Shelf):
    """A shelf for many rows, in an anonymous file."""

    def __init__(self, codec: ValueCodec) -> None:
        super().__init__(codec)
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - see `close`
        self._size = 0

    def close(self) -> None:
        """Close the file, which discards all rows."""
        self._file.close()

    def _keep(self, data: bytes) -> tuple[int, int]:
        left = memoryview(data)
        while left:  # a disk that is about to be full takes some of it
            left = left[os.pwrite(self._file.fileno(), left, self._size + len(data) - len(left)) :]
        self._size += len(data)
        return self._size - len(data), len(data)

    def _read(self, kept: tuple[int, int]) -> bytes:
        offset, size = kept
        return os.pread(self._file.fileno(), size, offset)
