"""Internal. SpoutPosition: how far a durable spout has come, as a part of each commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgpack import ExtType, packb, unpackb

from pystorm_spark.topology.durable import PACKED, DurableSpout

if TYPE_CHECKING:
    from pystorm_spark.runtime.spout_task import SpoutTask

KEY = "position"  # the one key of the section, which looks like that of any state


class SpoutPosition:
    """The position of one task of a durable spout: the last commit's, and what is prepared for the next one."""

    def __init__(self, task: SpoutTask, spout: DurableSpout) -> None:
        self._task = task
        self._spout = spout
        self._committed: bytes | None = None  # packed
        self._prepared: bytes | None = None
        self.rollbacks = 0
        self._seen: tuple[int, ...] | None = None  # what the task had emitted and heard at the last prepare

    def restore(self, sections: Sequence[bytes]) -> None:
        """Begin with what the last commit held: the newest section says all."""
        if sections:
            _, packed = unpackb(sections[-1], ext_hook=ExtType)
            self._committed = packed.data

    def open(self) -> None:
        """Tell the spout where it begins."""
        self._spout.init_position(self._value())

    def has_changed(self) -> bool:
        """Whether a commit is wanted: the first one, and after whatever was emitted, acked or failed."""
        return self._seen != self._heard()

    def prepare(self, settled: Sequence[Any]) -> bytes:
        """The section of a commit that holds what the trees of `settled` have changed."""
        self._seen = self._heard()
        self._spout.settled(settled)
        packed = self._task.slot_context.codec.pack_value(self._spout.position())
        self._prepared = packed
        section: bytes = packb([KEY, ExtType(PACKED, packed)])
        return section

    def commit(self) -> None:
        """What was prepared is committed."""
        if self._prepared is not None:
            self._committed, self._prepared = self._prepared, None

    def rollback(self) -> None:
        """Have the spout emit again whatever came after the last commit."""
        self._prepared = self._seen = None
        self.rollbacks += 1
        self._task.guard(lambda: self._spout.rollback_position(self._value()), "rollback_position")

    def _heard(self) -> tuple[int, ...]:
        return self._task.collector.emits, self._task.stats.acked, self._task.stats.failed

    def _value(self) -> Any:
        if self._committed is None:
            return None
        return self._task.slot_context.codec.unpack_rows(self._committed, 1)[0][0]
