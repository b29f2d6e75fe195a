"""Internal. RotatingMap: a dict whose entries expire after some rotations. The caller's timer rotates it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from pystorm_spark.core import laid_out

K = TypeVar("K")
V = TypeVar("V")


@laid_out
class RotatingMap(Generic[K, V]):
    """A dict in `count` buckets. With a rotation every T seconds an entry expires between (count-1)·T and count·T."""

    __slots__ = ("_buckets", "newest")

    def __init__(self, count: int) -> None:
        self._buckets: list[dict[K, V]] = [{} for _ in range(count)]  # newest first
        self.newest = self._buckets[0]

    def put(self, key: K, value: V) -> None:
        """Put `value` into the newest bucket, whatever bucket the key was in."""
        self.pop(key)
        self.newest[key] = value

    def get(self, key: K) -> V | None:
        for bucket in self._buckets:
            value = bucket.get(key)
            if value is not None:
                return value
        return None

    def pop(self, key: K) -> V | None:
        for bucket in self._buckets:
            if key in bucket:
                return bucket.pop(key)
        return None

    def rotate(self) -> dict[K, V]:
        """Start a new bucket; return the oldest one, whose entries have expired, in the order they came."""
        expired = self._buckets.pop()
        self.newest = {}
        self._buckets.insert(0, self.newest)
        return expired

    def __len__(self) -> int:
        return sum(map(len, self._buckets))

    def __iter__(self) -> Iterator[K]:
        """Oldest first."""
        for bucket in reversed(self._buckets):
            yield from list(bucket)  # other threads may add to it meanwhile
