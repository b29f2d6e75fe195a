"""Internal. CommittedRows: the rows of a source's batches that are part of a commit, and need not be emitted again.

A batch may have any number of rows, and takes many commits. Rows are emitted in order: so those that are committed are
a few runs of rows that follow one another, and each commit can hold all of its batch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

import msgpack

RowId = tuple[str, int, int, int]  # component, batch, partition, number of the row in it
Place = tuple[int, int]  # batch, partition
Run = tuple[int, int]  # the first row, and the first one behind the last


class Runs:
    """Numbers, as runs that neither overlap nor touch."""

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
        """What is missing between `first` and `end`."""
        for at in range(bisect_right(self._ends, first), bisect_left(self._firsts, end)):
            if first < self._firsts[at]:
                yield first, self._firsts[at]
            first = self._ends[at]
        if first < end:
            yield first, end


NO_RUNS = Runs()


class CommittedRows:
    """The committed rows of one spout, as far as their batch may be given again.

    All of its tasks in a slot share them: a row that one has emitted may be given to another one after a restart.
    """

    def __init__(self) -> None:
        self._batch: int | None = None  # that is given now
        self._runs: dict[Place, Runs] = {}

    def begin(self, batch: int) -> None:
        """`batch` is given; so those before it are done, and will not be given again."""
        self._batch = batch
        self._runs = {place: runs for place, runs in self._runs.items() if place[0] == batch}

    def missing(self, batch: int, partition: int, first: int, end: int) -> list[Run]:
        """The rows from `first` up to `end` that are not committed."""
        return list(self._runs.get((batch, partition), NO_RUNS).gaps(first, end))

    def section(self, message_ids: Iterable[RowId]) -> bytes | None:
        """What a commit of these keeps: them, and the rows of their batch that were committed before."""
        all_runs = {place: Runs(runs) for place, runs in self._runs.items()}
        _add(all_runs, _runs_of(message_ids))
        plain = [[*place, *run] for place, runs in all_runs.items() for run in runs]
        return msgpack.packb(plain) if plain else None

    def remember(self, txid: int, message_ids: list[RowId]) -> None:
        """Some messages of the commit `txid`."""
        _add(self._runs, _runs_of(message_ids))

    def restore(self, sections: Iterable[bytes]) -> None:
        """These are committed, whoever has emitted them."""
        for section in sections:
            _add(self._runs, (((batch, part), (first, end)) for batch, part, first, end in msgpack.unpackb(section)))
        if self._batch is not None:
            self._runs = {place: runs for place, runs in self._runs.items() if place[0] >= self._batch}


def _add(runs: dict[Place, Runs], found: Iterable[tuple[Place, Run]]) -> None:
    for place, run in found:
        runs.setdefault(place, Runs()).add(*run)


def _runs_of(message_ids: Iterable[RowId]) -> Iterator[tuple[Place, Run]]:
    """The rows that follow one another, in the order of the ids."""
    last_batch = last_partition = first = end = -1
    for _, batch, partition, number in message_ids:
        if number != end or partition != last_partition or batch != last_batch:
            if first < end:
                yield (last_batch, last_partition), (first, end)
            last_batch, last_partition, first = batch, partition, number
        end = number + 1
    if first < end:
        yield (last_batch, last_partition), (first, end)
