"""Internal. SlotCheckpoint: what one slot reads from a checkpoint, and writes to it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pystorm_spark.checkpoint.envelope import ForeignError
from pystorm_spark.checkpoint.files import Files
from pystorm_spark.checkpoint.merging import merge_parts, to_merge
from pystorm_spark.checkpoint.part import Part, read_part, read_sections, write_part
from pystorm_spark.checkpoint.section import keys_of
from pystorm_spark.checkpoint.store import WAY_BACK
from pystorm_spark.errors import CheckpointError
from pystorm_spark.topology.durable import StateCodec, TaskKey

PART_NAME = re.compile(r"(?:state-[0-9]+|acked-[0-9]+|merged)-([0-9]+)-")  # with the number of the slot that wrote it


@dataclass(frozen=True)
class Assignment:
    """What a slot needs of the last commit."""

    needed: tuple[Part, ...] = ()  # the parts that make up the state of its tasks
    own: tuple[Part, ...] | None = ()  # the parts that only this slot uses; None if slots had other tasks then
    schemas: Mapping[str, int] = field(default_factory=dict)
    acked: tuple[Part, ...] = ()

    def to_plain(self) -> list[Any]:
        """The assignment as values that msgpack can pack."""
        own = None if self.own is None else [part.to_plain() for part in self.own]
        needed, acked = ([part.to_plain() for part in parts] for parts in (self.needed, self.acked))
        return [needed, own, dict(self.schemas), acked]

    @classmethod
    def from_plain(cls, plain: Iterable[Any]) -> Assignment:
        """The inverse of `to_plain`."""
        needed, own, schemas, acked = plain
        return cls(_parts(needed), None if own is None else _parts(own), schemas, _parts(acked))


@dataclass(frozen=True)
class Written:
    """The parts that a slot contributes to a commit."""

    parts: tuple[Part, ...]  # all parts that make up the state of its tasks
    acked: tuple[Part, ...]  # with the message ids of this commit

    def to_plain(self) -> list[Any]:
        return [[part.to_plain() for part in parts] for parts in (self.parts, self.acked)]

    @classmethod
    def from_plain(cls, plain: Iterable[Any]) -> Written:
        return cls(*map(_parts, plain))


class SlotCheckpoint:
    """The parts of one slot. `write` proposes parts for a commit, `settle` accepts them once it is made."""

    def __init__(self, files: Files, slot: int, assignment: Assignment, codec: StateCodec) -> None:
        self._files = files
        self._codec = codec
        self._slot = slot
        self._assignment = assignment
        self._parts = assignment.own or ()  # committed, or merged from committed ones
        self._proposed: Written | None = None
        self._merged: tuple[Sequence[Part], Part] | None = None  # parts, and the one that replaces them
        self.is_full_next = assignment.own is None  # then the first write must hold the whole state

    def sections(self, tasks: Collection[TaskKey]) -> dict[TaskKey, list[bytes]]:
        """The sections of `tasks` as of the last commit, oldest first."""
        with _way_back_named():
            return read_sections(self._files, self._assignment.needed, tasks)

    @property
    def schemas(self) -> Mapping[str, int]:
        """{component: the version of its state} as of the last commit."""
        return self._assignment.schemas

    def acked(self, components: Collection[str], last: Assignment | None = None) -> dict[str, list[bytes]]:
        """{component: sections} with the committed message ids, as of the slot's start or of a later `last`."""
        found: dict[str, list[bytes]] = {}
        for part in (last or self._assignment).acked:
            tasks = [task for task in part.tasks if task.component in components]
            with _way_back_named():
                sections = read_part(self._files, part, tasks)
            for task, section in sections.items():
                found.setdefault(task.component, []).append(section)
        return found

    def write(
        self, txid: int, sections: Mapping[TaskKey, bytes], acked: Mapping[TaskKey, bytes], is_full: bool
    ) -> Written:
        """Write this slot's parts of a commit: the changes, or with `is_full` the whole state.

        Parts that were written before and never committed are removed first.
        """
        if self._proposed is not None:
            self._give_up(self._proposed)
        if self._merged is not None:
            self._put_merged(*self._merged)
        base = () if is_full else self._parts
        added = self._added(f"state-{txid}", sections, is_full)
        self._proposed = Written((*base, *added), ())  # noted now, in case the write of the ids fails
        self._proposed = Written(self._proposed.parts, self._added(f"acked-{txid}", acked, is_full=True))
        return self._proposed

    def settle(self) -> None:
        """The commit is made: accept the parts that were written last."""
        if self._proposed is not None:
            self._parts, self._proposed = self._proposed.parts, None
            self.is_full_next = False

    def merge(self) -> None:
        """Merge parts if enough of them are worth merging. Another thread may call it; commits do not wait for it."""
        if self._merged is not None:
            return
        parts = self._parts  # read after `_merged`: a write may have just replaced some of them by the merged part
        chosen = to_merge(parts)
        if chosen is not None:
            run = parts[chosen]
            is_full = chosen.start == 0
            merged = merge_parts(self._files, f"merged-{self._slot}", run, is_full, key_of=keys_of(self._codec))
            self._merged = run, merged

    def _put_merged(self, run: Sequence[Part], merged: Part) -> None:
        self._merged = None
        at = self._parts.index(run[0])
        self._parts = (*self._parts[:at], merged, *self._parts[at + len(run) :])

    def _added(self, name: str, sections: Mapping[TaskKey, bytes], is_full: bool) -> tuple[Part, ...]:
        return (write_part(self._files, f"{name}-{self._slot}", sections, is_full),) if sections else ()

    def _give_up(self, proposed: Written) -> None:
        for part in {*proposed.parts, *proposed.acked}.difference(self._parts):
            self._files.remove(part.name)
        self._proposed = None


@contextmanager
def _way_back_named() -> Iterator[None]:
    try:
        yield
    except ForeignError:
        raise
    except CheckpointError as exc:
        raise CheckpointError(f"{exc}; {WAY_BACK}") from exc


def written_by(name: str) -> int | None:
    """The slot that wrote the file `name`; None if no slot did."""
    found = PART_NAME.match(name)
    return int(found[1]) if found else None


def _parts(plain: Sequence[Any]) -> tuple[Part, ...]:
    return tuple(map(Part.from_plain, plain))
