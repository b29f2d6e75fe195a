"""Internal. Restarts: counts the deaths of slots: how many are borne, and how long to wait before the next start."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pystorm_spark.errors import SlotLostError
from pystorm_spark.spark.driver.link import SlotLink
from pystorm_spark.spark.driver.poison import Poison
from pystorm_spark.spark.driver.slots import Slots
from pystorm_spark.spark.protocol.messages import Calm, PoisonKeys

log = logging.getLogger(__name__)

FIRST_PAUSE_SECS, LONGEST_PAUSE_SECS = 0.1, 5.0  # before a slot that died again is started again


class Restarts:
    """Counts the deaths of each slot since the last commit, or the last batch that it lived through."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._limits = slots.limits
        self._now = slots.changed.monotonic
        self._deaths = dict.fromkeys(slots.links, 0)
        self._explained: set[int] = set()  # slots whose death was by a tuple that is not executed again
        self.poison = Poison(slots.limits.poison_deaths)

    # Called with the lock held, in the threads that listen.

    def note_death(self, link: SlotLink) -> None:
        if self.poison.note_death(link.executing.values(), self._now()):
            self._explained.add(link.slot)

    def note_survival(self, link: SlotLink, key: str) -> None:
        link.note_survival(key)
        self.poison.note_survival(key)

    def take_explained(self) -> set[int]:
        """The slots that have died of a condemned tuple since the last epoch."""
        explained, self._explained = self._explained, set()
        return explained

    # Called by the loop.

    def has_died(self, slot: int) -> bool:
        """Whether a slot has died since the last commit, or the last batch that it lived through."""
        return self._deaths[slot] > 0

    def has_any_died(self) -> bool:
        return any(map(self.has_died, self._deaths))

    def count(self, lost: Mapping[int, str], explained: set[int]) -> None:
        """Count these deaths; raises a `SlotLostError` if a slot has died too often in a row."""
        for slot, why in lost.items():
            self._deaths[slot] = 1 if slot in explained else self._deaths[slot] + 1  # it does not go on like that
            if self._deaths[slot] > self._limits.max_restarts:
                times = f" {self._deaths[slot]} times in a row; the last time" if self._limits.max_restarts else ""
                raise SlotLostError(f"slot {slot} died{times}: {why}")
            log.warning("slot %d is lost (%s); it is started anew, what was in flight is failed", slot, why)

    def pause_secs(self, lost: list[int]) -> float:
        """How long to wait before these slots are started again."""
        again = max(self._deaths[slot] for slot in lost)
        return min(LONGEST_PAUSE_SECS, FIRST_PAUSE_SECS * 2 ** (again - 2)) if again > 1 else 0.0

    def forgive(self) -> None:
        """All slots have come on: the next death of each is the first one in a row."""
        if self.has_any_died():
            for link in self._slots.there():
                if self.poison.is_known or self.has_died(link.slot):
                    link.tell(Calm())
        self._deaths = dict.fromkeys(self._deaths, 0)

    def beware(self) -> None:
        """After a death: what has killed a slot may come to another one next time."""
        if self.poison.is_known:
            self._tell_poison()
            self._slots.be_careful()

    def forget_suspects(self) -> None:
        """Forget suspects that have not come again for long, and tell slots of it."""
        self.poison.forget(self._now() - self._limits.suspicion_secs)
        if self.poison.has_news:
            self._tell_poison()

    def _tell_poison(self) -> None:
        self.poison.has_news = False
        self._slots.tell_all(PoisonKeys(**self.poison.told()))
