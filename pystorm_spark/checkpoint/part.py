"""Internal. Part: one file with the state of some tasks, or its changes; a section of bytes for each."""

from __future__ import annotations

import secrets
import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgpack

from pystorm_spark.checkpoint.envelope import checksum_of, opened, sealed
from pystorm_spark.checkpoint.files import Files, ReadableFiles
from pystorm_spark.errors import CheckpointError
from pystorm_spark.topology.durable import TaskKey

PART_MAGIC = b"PSSP"
HEADER_LENGTH = struct.Struct(">I")  # bytes of the header


@dataclass(frozen=True, slots=True)
class Part:
    """A file of sections, as a manifest lists it."""

    name: str
    size: int
    checksum: bytes
    tasks: tuple[TaskKey, ...]
    is_full: bool  # holds the whole state of its tasks, which supersedes all older parts of them

    def to_plain(self) -> list[Any]:
        """The part as values that msgpack can pack."""
        return [self.name, self.size, self.checksum, [[*task] for task in self.tasks], self.is_full]

    @classmethod
    def from_plain(cls, plain: Iterable[Any]) -> Part:
        """The inverse of `to_plain`."""
        name, size, checksum, tasks, is_full = plain
        return cls(name, size, checksum, tuple(TaskKey(*task) for task in tasks), is_full)


def write_part(files: Files, name: str, sections: Mapping[TaskKey, bytes], is_full: bool) -> Part:
    """Write `sections` to a new file. Its name begins with `name` and ends with random digits."""
    header = msgpack.packb([[*task, len(section)] for task, section in sections.items()])
    file = sealed(PART_MAGIC, [HEADER_LENGTH.pack(len(header)), header, *sections.values()])
    part = Part(f"{name}-{secrets.token_hex(4)}.part", len(file), checksum_of(file), tuple(sections), is_full)
    files.write(part.name, file)
    return part


def read_part(files: ReadableFiles, part: Part, tasks: Collection[TaskKey]) -> dict[TaskKey, bytes]:
    """{task: section} for those of `tasks` that the part holds."""
    content = opened(PART_MAGIC, _verified(files, part), files.path(part.name))
    end = HEADER_LENGTH.size + HEADER_LENGTH.unpack_from(content)[0]
    sections = {}
    for component, index, size in msgpack.unpackb(content[HEADER_LENGTH.size : end]):
        task = TaskKey(component, index)
        if task in tasks:
            sections[task] = bytes(content[end : end + size])
        end += size
    return sections


def _verified(files: ReadableFiles, part: Part) -> bytes:
    path = files.path(part.name)
    size = files.size(part.name)  # first, so that a wrong file does not fill the memory
    if size != part.size:
        raise CheckpointError(f"the checkpoint file {path!r} is damaged: it has {size} bytes instead of {part.size}")
    file = files.read(part.name)
    if checksum_of(file) != part.checksum:
        raise CheckpointError(f"the checkpoint file {path!r} is damaged, or is not the one that was committed")
    return file


def read_sections(
    files: ReadableFiles, parts: Iterable[Part], tasks: Collection[TaskKey]
) -> dict[TaskKey, list[bytes]]:
    """{task: its sections, oldest first} of `tasks` in `parts`, without superseded ones."""
    found: dict[TaskKey, list[bytes]] = {}
    for part in parts:
        for task, section in read_part(files, part, tasks).items():
            if part.is_full:
                found[task] = [section]
            else:
                found.setdefault(task, []).append(section)
    return found
