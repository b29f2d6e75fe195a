"""Internal. Poison: the driver's list of tuples that were executing when slot processes died.

A tuple is known by a key (see `Announcer`). A suspect that a slot executes and outlives is removed from the list, so
that a tuple is soon forgotten if something else ended the process.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

log = logging.getLogger(__name__)


class Poison:
    """Counts the deaths by each tuple: after `most` of them it is no longer executed; 0 for no limit.

    Several deaths in one epoch count once: a machine may die with several slots that execute equal tuples.
    """

    def __init__(self, most: int) -> None:
        self.is_known = most > 0
        self._most = most
        self._deaths: dict[str, set[int]] = {}  # {tuple: the epochs in which it was begun, and a process ended}
        self._noted_at: dict[str, float] = {}  # {suspect: when it was seen last}
        self.has_news = False  # there are fewer suspects than slots were told

    def note_death(self, executing: Iterable[tuple[str, int]], now: float) -> bool:
        """Count a death for each tuple that was executing; whether one of them is condemned now."""
        condemned = False
        for key, epoch in sorted((key, epoch) for key, epoch in executing if key and self.is_known):
            epochs = self._deaths.setdefault(key, set())
            if len(epochs) < self._most <= len(epochs | {epoch}):
                log.error("%s has ended its process %d times: from now on it fails unexecuted", key, self._most)
            epochs.add(epoch)
            self._noted_at[key] = now
            condemned |= len(epochs) >= self._most
        return condemned

    def note_survival(self, key: str) -> None:
        """A slot has executed a suspect, and still runs."""
        if len(self._deaths.get(key, ())) < self._most:
            self.has_news |= self._deaths.pop(key, None) is not None
            self._noted_at.pop(key, None)

    def forget(self, before: float) -> None:
        """Remove suspects that have ended no process since `before`: looking for them slows all slots down."""
        for key, noted_at in list(self._noted_at.items()):
            if noted_at < before:
                self.note_survival(key)

    def told(self) -> dict[str, list[str]]:
        """The suspects and the condemned tuples, for slots."""
        deaths = list(self._deaths.items())  # the threads that listen to slots may change it
        return {
            "suspects": [key for key, epochs in deaths if len(epochs) < self._most],
            "condemned": [key for key, epochs in deaths if len(epochs) >= self._most],
        }
