"""Internal. Keying: how the keys of a state are assigned to tasks, as a manifest records it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pystorm_spark.checkpoint.manifest import Manifest

HASH_KEY = "topology.fields.grouping.hash"


@dataclass(frozen=True)
class Keying:
    """How fields groupings assign keys to the tasks of stateful bolts."""

    hash: str = "stable"  # the value of `HASH_KEY` in the topology's configuration
    # {bolt: the number of fields that its input is grouped on}, for bolts whose whole input is grouped on fields
    fields: Mapping[str, int] = field(default_factory=dict)

    def to_plain(self) -> dict[str, Any]:
        """The keys that a manifest holds in its extras."""
        return {"hash": self.hash, "fields": dict(self.fields)}

    @classmethod
    def of(cls, manifest: Manifest) -> Keying:
        """The keying that `manifest` records; the default if it records none."""
        return cls(manifest.extra.get("hash", "stable"), manifest.extra.get("fields", {}))


NO_KEYING = Keying()
