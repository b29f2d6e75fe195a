"""Internal. CommitRound: one commit of all slots, question by question. Exchanges go on meanwhile."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pystorm_spark.errors import CheckpointError
from pystorm_spark.spark.driver.control import SlotLink

log = logging.getLogger(__name__)


class Keeper(Protocol):
    """Where commits are kept; a simulator can be put in its place."""

    interval_secs: float
    is_exactly_once: bool

    @property
    def txid(self) -> int:
        """Of the last commit."""
        ...

    def begin(self) -> None:
        """Raise a `CheckpointError` while no commit can be begun."""
        ...

    def make_commit(self, txid: int, replies: Mapping[int, dict[str, Any]]) -> bool:
        """Make what every slot has prepared the last commit, or raise a `CheckpointError`; False if a slot is lost."""
        ...

    def acked(self) -> list[Any]:
        """What slots that go on when another one is started have to know of the last commit."""
        ...

    def forget(self, slot: int) -> None:
        """A slot's process is gone, and with it what it has written for a commit that will not be made."""
        ...


@dataclass
class Question:
    """What slots were told to do, and which of them have done it.

    Listening threads add replies while the driver's loop looks who has not replied: nothing here is iterated that
    another thread changes.
    """

    asked: frozenset[SlotLink]
    kind: str = ""
    until: float = math.inf  # when a slot that has not answered is given up, if others cannot go on without it
    replies: dict[int, dict[str, Any]] = field(default_factory=dict)  # {slot: what it answered}

    def is_answered(self) -> bool:
        """Whether every slot that is still there has answered."""
        return not self.open_slots()

    def open_slots(self) -> list[int]:
        return sorted(link.slot for link in self.unanswered() if link.state == "ready")

    def unanswered(self) -> Iterator[SlotLink]:
        return (link for link in self.asked if link.slot not in self.replies)


Ask = Callable[..., Question]


class CommitRound:
    """One commit.

    All slots first mark what is complete, and only when all have done so they prepare: whatever a tree that is acked by
    this commit has changed, in any slot, is then part of it. If it `drains`, nothing is in flight by then: always with
    exactly-once, and as far as that does not take long in the last commit of all.
    """

    def __init__(self, ask: Ask, keeper: Keeper, slots: int, drains: bool) -> None:
        self._ask = ask
        self._slots = slots
        self._keeper = keeper
        self.txid = keeper.txid + 1
        self.failure: str | None = None  # what user code raised
        self.is_made = False
        self.is_resting = drains  # waits until nothing is in flight
        self._steps = iter(("rest", "mark", "prepare") if drains else ("mark", "prepare"))
        self._question = self._ask(next(self._steps), txid=self.txid)

    def is_answered(self) -> bool:
        """Whether there is a next step to be made."""
        return self._question.is_answered()

    def advance(self) -> bool:
        """Make the next step if all slots have made the last one; whether the round has come to its end."""
        if not self._question.is_answered():
            return False
        if self.is_made or len(self._question.replies) < self._slots:  # or a slot is gone, and with it this commit
            return True
        failed = [reply["failed"] for reply in self._question.replies.values() if "failed" in reply]
        if failed:
            self.failure = failed[0]
            return True
        return not (self.take_next_step() or self._make())

    def end_overdue(self, now: float) -> None:
        """Kill the slots that keep the commit waiting for too long; user code is not what holds them up."""
        question = self._question
        if now >= question.until:
            for link in question.unanswered():
                if link.state == "ready":
                    link.reason = f"it has not answered {question.kind!r} of commit {self.txid} in time"
                    link.kill()

    def take_next_step(self) -> bool:
        """Ask for the next step, whether the last one has been made or not; False if there is none."""
        self.is_resting = False
        step = next(self._steps, None)
        if step is not None:
            self._question = self._ask(step, txid=self.txid)
        return step is not None

    def _make(self) -> bool:
        try:
            self.is_made = self._keeper.make_commit(self.txid, self._question.replies)
        except CheckpointError as exc:
            log.error("the commit %d is not made, and will be tried again: %s", self.txid, exc)
        if self.is_made:
            self._question = self._ask("commit", txid=self.txid)
        return self.is_made
