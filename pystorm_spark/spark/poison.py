"""Internal. Poison: tuples that slots were executing when their processes ended, as the driver keeps book of them.

A tuple is known by a key (see `Announcer`). One that a slot has executed and outlived is none, so that a tuple that was
only near when something else ended a process is soon forgotten.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

log = logging.getLogger(__name__)


class Poison:
    """Counts the deaths by each tuple: after `most` of them it is not executed any more; 0 keeps no book."""

    def __init__(self, most: int) -> None:
        self.is_known = most > 0
        self._most = most
        self._deaths: dict[str, int] = {}
        self.has_news = False  # there are fewer suspects than slots were told

    def note_death(self, keys: Iterable[str]) -> bool:
        """A process has ended while these were executed; whether one of them is not executed any more from now on."""
        condemned = False
        for key in sorted(set(filter(None, keys))) if self.is_known else ():
            self._deaths[key] = self._deaths.get(key, 0) + 1
            if self._deaths[key] == self._most:
                log.error("%s has ended its process %d times: from now on it fails unexecuted", key, self._most)
                condemned = True
        return condemned

    def note_survival(self, key: str) -> None:
        """A slot has executed a suspect, and still runs."""
        if self._deaths.get(key, 0) < self._most:
            self.has_news |= self._deaths.pop(key, None) is not None

    def told(self) -> dict[str, list[str]]:
        """What slots need to know of it."""
        deaths = list(self._deaths.items())  # the threads that listen to slots may change it
        return {
            "suspects": [key for key, count in deaths if count < self._most],
            "condemned": [key for key, count in deaths if count >= self._most],
        }
