"""Internal. CommitSchedule: begins a commit when one is due, and makes its steps as slots answer."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from pystorm_spark.errors import CheckpointError, StormError
from pystorm_spark.spark.driver.commit_round import CommitRound, Keeper
from pystorm_spark.spark.driver.questions import Questions
from pystorm_spark.spark.driver.slots import Slots
from pystorm_spark.spark.driver.state import Last, Pending
from pystorm_spark.spark.protocol.messages import Resume

log = logging.getLogger(__name__)

COMMIT_SECS = 1.0  # between two commits, where nobody keeps any: as long a batch goes on
LAST_DRAIN_SECS = 1.0  # for what is in flight when a topology ends, unless it must be part of the last commit
FAILED_COMMITS = 3  # in a row end the topology


class CommitSchedule:
    """The commits of one topology; `on_made` is called when one is made by all slots."""

    def __init__(self, keeper: Keeper | None, slots: Slots, questions: Questions, on_made: Callable[[], None]) -> None:
        self._keeper = keeper  # where there is state to be committed
        self._slots = slots
        self._state = slots.state
        self._changed = slots.changed
        self._questions = questions
        self._on_made = on_made
        self.round: CommitRound | None = None  # the commit that is under way
        self.made = 0  # how many were made
        self._failed = 0  # in a row
        self._quiesce_until = math.inf  # how long it waits for what is in flight

    # Called with the lock held.

    def has_step(self) -> bool:
        """Whether a commit is to be begun, or its next step can be made."""
        if self.round is not None:
            return self.round.failure is None and (self.round.is_answered() or self._quiesces_too_long(self.round))
        return self._state.is_due(self._changed.monotonic())

    def wait_secs(self, when: float | None) -> float | None:
        """How long to wait if nothing is heard: until a commit is due, or until `when` if none is wanted."""
        if self.round is not None:
            when = self._quiesce_until if self.round.is_quiescing and self._quiesce_until < math.inf else None
        elif self._state.pending is not Pending.NOTHING:
            when = self._state.due()
        return None if when is None else max(0.0, when - self._changed.monotonic())

    def drop(self) -> None:
        """A new epoch begins: the commit that was under way is not made."""
        self.round = None

    # Called by the loop.

    def go_on(self) -> None:
        """Begin a commit when it is due, or make its next step. One that user code has made fail stays."""
        if self._keeper is None or not self.has_step():
            return
        if self.round is None:
            self._begin(self._keeper)
        elif self._quiesces_too_long(self.round):
            self.round.take_next_step()
        else:
            self._advance(self.round)

    def _advance(self, commit: CommitRound) -> None:
        is_over = commit.advance()
        if commit.is_made:  # by all slots; one may die before the round is over
            self._on_made()
            self._state.note_made()
        if is_over and commit.failure is None:
            self._end(commit.is_made)

    def _begin(self, keeper: Keeper) -> None:
        with self._changed:
            self._state.begin_commit()
        try:
            keeper.begin()
        except CheckpointError as exc:
            log.error("the commit %d is not begun, and will be tried again: %s", keeper.txid + 1, exc)
            self._end(False)
            return
        must_drain = keeper.is_exactly_once
        drains = must_drain or self._state.last is Last.UNDER_WAY
        self._quiesce_until = math.inf if must_drain else self._changed.monotonic() + LAST_DRAIN_SECS
        self.round = CommitRound(self._questions, keeper, len(self._slots.links), drains)

    def _quiesces_too_long(self, commit: CommitRound) -> bool:
        return commit.is_quiescing and self._changed.monotonic() >= self._quiesce_until

    def _end(self, is_made: bool) -> None:
        if not is_made:
            with self._changed:
                links = self._slots.ready()
            for link in links:
                link.tell(Resume())
        with self._changed:
            if is_made:
                self.made += 1
                self._failed = 0
            self.round = None
            self._state.end_commit(is_made, self._changed.monotonic())
            self._changed.notify_all()

    def take_failure(self) -> bool:
        """Whether user code has made the commit fail, which ends it; a `StormError` if that was once too often."""
        failure = self.round.failure if self.round is not None else None
        if failure is None:
            return False
        self._failed += 1
        if self._failed > FAILED_COMMITS:
            raise StormError(failure)
        log.warning("%s: all that has happened since the last commit is rolled back", failure)
        self._end(False)
        return True

    # Called in the thread that keeps the lease.

    def end_overdue(self) -> None:
        """Kill slots that keep a commit waiting for too long."""
        current = self.round
        if current is not None:
            current.end_overdue(self._changed.monotonic())
