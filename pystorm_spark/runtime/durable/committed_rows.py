"""Internal. CommittedRows: the committed rows of a source's batches, which are not emitted again.

A batch may have any number of rows, and may take many commits. Rows are emitted in order, so the committed rows form a
few runs of consecutive numbers, and each commit can list all of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

import msgpack

RowId = tuple[str, int, int, int]  # component, batch, partition, number of the row in it
Place = tuple[int, int]  # batch, partition
Run = tuple[int, int]  # the first row, and one past the last


class Runs:
    """A set of integers, kept as runs that neither overlap nor touch."""

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        for run in runs:
            self.add(*run)

    def __iter__(self) -> Iterator[Run]:
        return zip(self._firsts, self._ends, strict=True)

    def add(self, first: int, end: int) -> None:
        at, behind = bisect_left(self._ends, first), bisect_right(self._firsts, end)
        if at < behind:  # these overlap with it or touch it
            first, end = min(first, self._firsts[at]), max(end, self._ends[behind - 1])
        self._firsts[at:behind] = [first]
        self._ends[at:behind] = [end]

    def gaps(self, first: int, end: int) -> Iterator[Run]:
        """The runs missing from `first` up to `end`."""
        for at in range(bisect_right(self._ends, first), bisect_left(self._firsts, end)):
            if first < self._firsts[at]:
                yield first, self._firsts[at]
            first = self._ends[at]
        if first < end:
            yield first, end


NO_RUNS = Runs()


class CommittedRows:
    """The committed rows of one spout, for every batch that the source may deliver again.

    All tasks of the spout in a slot share them: after a restart another task may get a row again.
    """

    def __init__(self) -> None:
        self._batch: int | None = None  # the batch being delivered
        self._runs: dict[Place, Runs] = {}

    def begin(self, batch: int) -> None:
        """The source delivers `batch`. Earlier batches are done, and never delivered again."""
        self._batch = batch
        self._runs = {place: runs for place, runs in self._runs.items() if place[0] == batch}

    def missing(self, batch: int, partition: int, first: int, end: int) -> list[Run]:
        """The rows from `first` up to `end` that are not committed."""
        return list(self._runs.get((batch, partition), NO_RUNS).gaps(first, end))

    def section(self, message_ids: Iterable[RowId]) -> bytes | None:
        """The bytes that a commit of these messages stores: their rows, and the rows committed before."""
        all_runs = {place: Runs(runs) for place, runs in self._runs.items()}
        _add(all_runs, _runs_of(message_ids))
        plain = [[*place, *run] for place, runs in all_runs.items() for run in runs]
        return msgpack.packb(plain) if plain else None

    def remember(self, txid: int, message_ids: list[RowId]) -> None:
        """Add messages of the commit `txid`."""
        _add(self._runs, _runs_of(message_ids))

    def restore(self, sections: Iterable[bytes]) -> None:
        """Add the rows of the last commit, whichever task emitted them."""
        for section in sections:
            _add(self._runs, (((batch, part), (first, end)) for batch, part, first, end in msgpack.unpackb(section)))
        if self._batch is not None:
            self._runs = {place: runs for place, runs in self._runs.items() if place[0] >= self._batch}


def _add(runs: dict[Place, Runs], found: Iterable[tuple[Place, Run]]) -> None:
    for place, run in found:
        runs.setdefault(place, Runs()).add(*run)


def _runs_of(message_ids: Iterable[RowId]) -> Iterator[tuple[Place, Run]]:
    """The runs of consecutive rows, in the order of the ids."""
    last_batch = last_partition = first = end = -1
    for _, batch, partition, number in message_ids:
        if number != end or partition != last_partition or batch != last_batch:
            if first < end:
                yield (last_batch, last_partition), (first, end)
            last_batch, last_partition, first = batch, partition, number
        end = number + 1
    if first < end:
        yield (last_batch, last_partition), (first, end)
