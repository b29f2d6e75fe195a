"""Internal. Keying: what a manifest says about which task a key belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pystorm_spark.checkpoint.manifest import Manifest

HASH_KEY = "topology.fields.grouping.hash"


@dataclass(frozen=True)
class Keying:
    """How fields groupings deal keys to the tasks of stateful bolts."""

    hash: str = "stable"  # what the topology has for `HASH_KEY`
    fields: Mapping[str, int] = field(default_factory=dict)  # {bolt whose whole input is grouped: on how many fields}

    def to_plain(self) -> dict[str, Any]:
        """This as what a manifest has among its extras."""
        return {"hash": self.hash, "fields": dict(self.fields)}

    @classmethod
    def of(cls, manifest: Manifest) -> Keying:
        """What `manifest` says; one that holds nothing says nothing."""
        return cls(manifest.extra.get("hash", "stable"), manifest.extra.get("fields", {}))


NO_KEYING = Keying()
