"""Internal. BackPressure: which spouts of a slot may emit. One rests while a bolt that it feeds has too much to do.

A spout feeds the bolts that its tuples may come to, directly or through others. Those that it does not feed are no
reason for it to rest, however slow they are. Bolts never rest, so tuples that go round in a cycle come to an end.
"""

from __future__ import annotations

from collections.abc import Iterable

from pystorm_spark.runtime.arrivals import BACKLOG, Arrivals
from pystorm_spark.runtime.bolt_task import BoltTask
from pystorm_spark.runtime.plan import Plan

OUTBOX_BYTES = 8 << 20  # sealed and not taken, above which no spout is polled


class BackPressure:
    """What holds spouts back: the queues of this slot, and what other slots have more of than they can take."""

    def __init__(self, plan: Plan, spouts: Iterable[str], bolts: list[BoltTask], arrivals: Arrivals) -> None:
        self.full: frozenset[str] = frozenset()  # components of which some slot has more than it can take
        self._arrivals = arrivals
        self._reached = {spout: plan.reached[spout] for spout in spouts}
        self._fed = {spout: [bolt for bolt in bolts if bolt.component_id in plan.reached[spout]] for spout in spouts}

    def with_room(self, outbox_bytes: int) -> set[str]:
        """The spouts that may emit: no bolt that they feed has more than it can take."""
        if outbox_bytes > OUTBOX_BYTES or self._arrivals.is_waiting():
            return set()
        full = self.full.union(self._arrivals.backlogged())
        return {spout for spout, reached in self._reached.items() if full.isdisjoint(reached) and self._has_room(spout)}

    def _has_room(self, spout: str) -> bool:
        return sum(task.waiting() for task in self._fed[spout]) < BACKLOG
