"""Internal. BackPressure: which spouts of a slot may emit. A spout is paused while a bolt that it feeds is overloaded.

A spout feeds the bolts that its tuples may reach, directly or through other bolts. Bolts that it does not feed never
pause it, however slow they are. Bolts are never paused, because a bolt in a cycle could wait for itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from pystorm_spark.runtime.arrivals import BACKLOG, Arrivals
from pystorm_spark.runtime.bolt_task import BoltTask
from pystorm_spark.runtime.plan import Plan

OUTBOX_BYTES = 8 << 20  # sealed frames not yet taken; above this no spout is polled


class BackPressure:
    """Decides which spouts are paused, by the queues of this slot and by the full components of all slots."""

    def __init__(self, plan: Plan, spouts: Iterable[str], bolts: list[BoltTask], arrivals: Arrivals) -> None:
        self.full: frozenset[str] = frozenset()  # components that overload the inbox of some slot
        self._arrivals = arrivals
        self._reached = {spout: plan.reached[spout] for spout in spouts}
        self._fed = {spout: [bolt for bolt in bolts if bolt.component_id in plan.reached[spout]] for spout in spouts}

    def with_room(self, outbox_bytes: int) -> set[str]:
        """The spouts that may emit: no bolt that they feed is overloaded."""
        if outbox_bytes > OUTBOX_BYTES or self._arrivals.is_waiting():
            return set()
        full = self.full.union(self._arrivals.backlogged())
        return {spout for spout, reached in self._reached.items() if full.isdisjoint(reached) and self._has_room(spout)}

    def _has_room(self, spout: str) -> bool:
        return sum(task.waiting() for task in self._fed[spout]) < BACKLOG
