"""Internal. Manifest: one commit, as the list of the parts that make up the state."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import msgpack

from pystorm_spark.checkpoint.envelope import FORMAT_VERSION, opened, sealed
from pystorm_spark.checkpoint.part import Part
from pystorm_spark.errors import CheckpointError
from pystorm_spark.topology.durable import TaskKey

MANIFEST_MAGIC = b"PSSM"
MAX_MANIFEST_BYTES = 1 << 28  # far more than any topology needs


@dataclass(frozen=True)
class Manifest:
    """The state of a topology after the commit `txid`."""

    topology: str
    txid: int
    parts: tuple[Part, ...] = ()  # oldest first
    tasks: dict[str, int] = field(default_factory=dict)  # {stateful component: number of its tasks}
    schemas: dict[str, int] = field(default_factory=dict)  # {stateful component: version of its state}
    acked: tuple[Part, ...] = ()  # message ids that this commit acks, and older ones whose acks spouts may have missed
    extra: dict[str, Any] = field(default_factory=dict)  # a few plain values
    version: int = FORMAT_VERSION

    def needed(self, tasks: Collection[TaskKey]) -> tuple[Part, ...]:
        """The parts, oldest first, that make up the state of `tasks`.

        A part may also hold sections of other tasks, and sections that a later full part supersedes. `read_sections`
        leaves both out.
        """
        wanted = set(tasks)
        chosen = []
        for part in reversed(self.parts):
            if not wanted.isdisjoint(part.tasks):
                chosen.append(part)
                if part.is_full:
                    wanted.difference_update(part.tasks)
        return tuple(reversed(chosen))

    def file_names(self) -> set[str]:
        """The names of the parts that this commit needs."""
        return {part.name for part in (*self.parts, *self.acked)}

    def to_bytes(self) -> bytes:
        """The content of the manifest's file."""
        parts, acked = ([part.to_plain() for part in some] for some in (self.parts, self.acked))
        plain = [self.topology, self.txid, parts, self.tasks, self.schemas, acked, self.extra]
        return sealed(MANIFEST_MAGIC, [msgpack.packb(plain, unicode_errors="surrogatepass")])

    @classmethod
    def from_bytes(cls, file: bytes, path: str) -> Manifest:
        """The manifest in `file`; `path` is for error messages."""
        content = opened(MANIFEST_MAGIC, file, path)
        try:
            plain = msgpack.unpackb(content, unicode_errors="surrogatepass", strict_map_key=False)
            topology, txid, parts, tasks, schemas, acked, extra = plain
            read, done = (tuple(map(Part.from_plain, some)) for some in (parts, acked))
        except (ValueError, TypeError, msgpack.UnpackException) as exc:
            raise CheckpointError(f"the manifest {path!r} cannot be understood: {exc}") from exc
        return cls(topology, txid, read, tasks, schemas, done, extra)
