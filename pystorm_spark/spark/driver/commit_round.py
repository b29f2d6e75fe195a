"""Internal. CommitRound: one commit of all slots, question by question. Exchanges go on meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from pystorm_spark.errors import CheckpointError
from pystorm_spark.spark.driver.questions import Questions
from pystorm_spark.spark.protocol.messages import Answer, Asking, Commit, Mark, Prepare, Quiesce

log = logging.getLogger(__name__)


class Keeper(Protocol):
    """Makes commits durable: `Checkpoint`, or what a simulator puts in its place."""

    interval_secs: float
    is_exactly_once: bool

    @property
    def txid(self) -> int:
        """Of the last commit."""
        ...

    def begin(self) -> None:
        """Raise a `CheckpointError` while no commit can be begun."""
        ...

    def make_commit(self, txid: int, answers: Mapping[int, Answer]) -> bool:
        """Make what every slot has prepared the last commit, or raise a `CheckpointError`; False if a slot is lost."""
        ...

    def acked(self) -> list[Any]:
        """The ids that the last commit acks; slots that live on need them when another slot is started anew."""
        ...

    def forget(self, slot: int) -> None:
        """Discard the parts that a dead slot has written for a commit that will not be made."""
        ...


class CommitRound:
    """One commit.

    All slots first mark what is complete. They prepare only when all have marked, so the commit holds all that the
    trees that it acks have changed, in any slot. If it `drains`, slots first quiesce, until nothing is in flight:
    always with exactly-once, and for a short time in the last commit of a topology.
    """

    def __init__(self, questions: Questions, keeper: Keeper, slots: int, drains: bool) -> None:
        self._questions = questions
        self._slots = slots
        self._keeper = keeper
        self.txid = keeper.txid + 1
        self.failure: str | None = None  # what user code raised
        self.is_made = False
        self.is_quiescing = drains  # waits until nothing is in flight
        self._steps = self._steps_of(drains)
        self._question = questions.ask(next(self._steps))

    def _steps_of(self, drains: bool) -> Iterator[Asking]:
        if drains:
            yield Quiesce(self.txid)
        yield Mark(self.txid)
        yield Prepare(self.txid)

    def is_answered(self) -> bool:
        """Whether there is a next step to be made."""
        return self._question.is_answered()

    def advance(self) -> bool:
        """Make the next step if all slots have made the last one; whether the round has come to its end."""
        if not self._question.is_answered():
            return False
        if (
            self.is_made or len(self._question.answers) < self._slots
        ):  # or a slot has died, and the commit cannot be made
            return True
        failures = self._question.failures()
        if failures:
            self.failure = failures[0]
            return True
        return not (self.take_next_step() or self._make())

    def end_overdue(self, now: float) -> None:
        """Kill the slots that keep the commit waiting for too long; user code that hangs is found earlier."""
        question = self._question
        if now >= question.until:
            for link in question.silent():
                if link.state == "ready":
                    link.reason = f"it has not answered {question.kind!r} of commit {self.txid} in time"
                    link.kill()

    def take_next_step(self) -> bool:
        """Ask for the next step, whether the last one has been made or not; False if there is none."""
        self.is_quiescing = False
        step = next(self._steps, None)
        if step is not None:
            self._question = self._questions.ask(step)
        return step is not None

    def _make(self) -> bool:
        try:
            self.is_made = self._keeper.make_commit(self.txid, self._question.answers)
        except CheckpointError as exc:
            log.error("the commit %d is not made, and will be tried again: %s", self.txid, exc)
        if self.is_made:
            self._question = self._questions.ask(Commit(self.txid))
        return self.is_made
