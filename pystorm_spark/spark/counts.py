"""Internal. Counts: what the tasks of a run have counted, of slots that live and of slots that are gone."""

from __future__ import annotations

import itertools
import threading

from pystorm_spark.cluster.info import Tally
from pystorm_spark.metrics.stats import ErrorInfo, TaskStats
from pystorm_spark.spark.driver.link import SlotLink
from pystorm_spark.spark.driver.slots import Slots
from pystorm_spark.spark.protocol.messages import AskStats, Stats

STATS_SECS = 2.0  # how long a question for the latest counts waits for a slot that is held up


class Counts:
    """Asks the slots for their counts. `past` holds those of slots that are gone, also of earlier runs."""

    def __init__(self, slots: Slots, past: Tally) -> None:
        self.past = past
        self._slots = slots
        self._numbers = itertools.count(1)
        self._answers: dict[int, set[int]] = {}  # {question: slots that have answered it}
        self._answered = threading.Condition()
        self._counting = threading.Lock()

    def on_stats(self, link: SlotLink, message: Stats) -> None:
        """A slot has sent its counts."""
        if message.asked is not None:
            with self._answered:
                self._answers.get(message.asked, set()).add(link.slot)
                self._answered.notify_all()

    def add_to(self, tally: Tally) -> None:
        """Add what all tasks have counted, as of now for those whose slot answers."""
        self.ask()
        with self._counting:
            tally.add_all(self.past)
            for link in self._slots.there():
                for component, counted, errors in link.tasks:
                    tally.add(component, TaskStats(**counted), [ErrorInfo(*error) for error in errors])

    def keep(self, link: SlotLink) -> None:
        """What a slot that is gone had counted still counts."""
        with self._counting:
            tasks, link.tasks = link.tasks, []
            for component, counted, errors in tasks:
                self.past.add_ended(component, TaskStats(**counted), [ErrorInfo(*error) for error in errors])

    def ask(self) -> None:
        """Have every slot tell how it stands, and wait for it for a while."""
        asked = next(self._numbers)
        ready = {link.slot for link in self._slots.ready()}
        with self._answered:
            answered = self._answers[asked] = set()
        for link in self._slots.there():
            link.tell(AskStats(asked))
        with self._answered:
            self._answered.wait_for(lambda: answered >= ready, STATS_SECS)
            del self._answers[asked]
