"""Internal. DriverState: what the driver has to do next, and what becomes of commits. Pure: no lock, thread or clock.

The `phase` is what the driver's loop has to do next; the first line that holds counts:

| phase | holds when | the loop | left by |
|---|---|---|---|
| `ENDED` | the topology was stopped | returns | – |
| `RECOVERING` | a slot is lost, or a tree failed that only a rollback undoes | begins an epoch | `begin_epoch` |
| `EXCHANGING` | slots have frames for other slots | runs a chain of exchanges | `begin_exchanges` |
| `COMMITTING` | a commit is under way | asks slots for its next step | `end_commit` |
| `FINISHING` | the last commit is asked for, and not under way | begins it if there is anything | `give_up_last` |
| `IDLE` | otherwise | waits | what slots say |

A commit that is under way goes on in each phase but `RECOVERING`. Beside the phase, `pending` says what slots have to
commit, and `last` what becomes of the last commit:

    pending:  NOTHING ──note_uncommitted──▶ DUE ──(urgent)──▶ URGENT          (end_commit without success: DUE)
              NOTHING ◀──begin_commit, begin_epoch── DUE, URGENT

    last:     UNASKED ──ask_last──▶ ASKED ──begin_commit──▶ UNDER_WAY ──end_commit, made──▶ UNASKED
              ASKED ◀──end_commit, not made── UNDER_WAY
              ASKED, UNDER_WAY ──begin_epoch, spouts emit again──▶ REPLAYED ──begin_commit──▶ UNDER_WAY
              any ──begin_epoch after a loss, or with spouts inactive; give_up_last──▶ UNASKED
"""

from __future__ import annotations

import math
from enum import Enum

RETRY_SECS = 0.5  # before a last commit that could not be written is tried again
SLOT_LOST = "a slot was lost"  # why there is no last commit


class Phase(Enum):
    """What the loop has to do next."""

    ENDED = "ended"
    RECOVERING = "recovering"
    EXCHANGING = "exchanging"
    COMMITTING = "committing"
    FINISHING = "finishing"
    IDLE = "idle"


class Pending(Enum):
    """What slots have to commit, beside what is in the commit that is under way."""

    NOTHING = "nothing"
    DUE = "due"  # at a time
    URGENT = "urgent"  # now: spouts will soon reach their pending limit


class Last(Enum):
    """What becomes of the last commit."""

    UNASKED = "unasked"
    ASKED = "asked"
    UNDER_WAY = "under way"
    REPLAYED = "replayed"  # it was rolled back, and spouts emit again what it is to hold


class DriverState:
    """What has come to pass, and what follows from it. Its owner holds the driver's lock when it calls a transition."""

    def __init__(self, commit_secs: float) -> None:
        self.frames: set[int] = set()  # slots that have frames for others
        self.lost: dict[int, str] = {}  # {slot: why}, until the next epoch
        self.is_broken = False  # a root has failed whose tree only a rollback undoes
        self.is_ended = False
        self.error: BaseException | None = None  # what has ended the loop
        self.is_committing = False
        self.pending = Pending.NOTHING
        self.last = Last.UNASKED
        self.unfinished: str | None = None  # why the last commit that was asked for is not made
        self.rollbacks = 0  # epochs that began because of a failed root, and of nothing else
        self._commit_secs = commit_secs
        self._due = 0.0  # when what is pending is to be committed
        self._retry_at = -math.inf  # the same for a last commit

    @property
    def phase(self) -> Phase:
        if self.is_ended:
            return Phase.ENDED
        if self.lost or self.is_broken:
            return Phase.RECOVERING
        if self.frames:
            return Phase.EXCHANGING
        if self.is_committing:
            return Phase.COMMITTING
        return Phase.FINISHING if self.is_finishing() else Phase.IDLE

    # What slots say.

    def note_frames(self, slot: int) -> None:
        self.frames.add(slot)

    def note_uncommitted(self, now: float, is_urgent: bool = False) -> None:
        if self.pending is Pending.NOTHING:
            self.pending = Pending.DUE
            self._due = now + self._commit_secs
        if is_urgent:
            self.pending = Pending.URGENT

    def note_broken(self) -> None:
        self.is_broken = True

    def note_lost(self, slot: int, why: str) -> None:
        self.lost[slot] = why

    # What the loop does.

    def begin_exchanges(self) -> None:
        self.frames.clear()

    def note_rollback(self) -> None:
        """The next epoch begins because of what slots have said, and not because an exchange or a commit went wrong."""
        if not self.lost:
            self.rollbacks += 1

    def begin_epoch(self, is_active: bool) -> dict[int, str]:
        """Roll back what is not committed; {slot: why} of the slots that are lost."""
        lost, self.lost = self.lost, {}
        self._roll_back_last(bool(lost), is_active)
        self.frames.clear()
        self.is_broken = self.is_committing = False
        self.pending = Pending.NOTHING
        return lost

    def _roll_back_last(self, has_lost: bool, is_active: bool) -> None:
        """What a rollback means for the last commit, if it is asked for."""
        rolls_back = self.is_broken or self.pending is not Pending.NOTHING or self.is_committing
        if not self.is_finishing():
            return
        if has_lost:
            self.give_up_last(SLOT_LOST)
        elif rolls_back and not is_active:
            self.give_up_last("all that was not committed was rolled back")
        elif rolls_back:
            self.last = Last.REPLAYED

    def end(self) -> None:
        self.is_ended = True

    def fail(self, error: BaseException) -> None:
        """The loop has ended by an error."""
        self.error = error

    # Commits.

    def is_due(self, now: float) -> bool:
        """Whether a commit is to be begun."""
        if self.is_committing or self.pending is Pending.NOTHING:
            return False
        return self.pending is Pending.URGENT or now >= self.due()

    def due(self) -> float:
        """When what is pending is to be committed."""
        return self._retry_at if self.is_finishing() else self._due

    def begin_commit(self) -> None:
        self.is_committing = True
        self.pending = Pending.NOTHING
        if self.is_finishing():
            self.last = Last.UNDER_WAY

    def note_made(self) -> None:
        """All that the commit needs is durable, though slots have still to hear of it."""
        if self.last is Last.UNDER_WAY:
            self.unfinished = None

    def end_commit(self, is_made: bool, now: float) -> None:
        self.is_committing = False
        if not is_made:
            self.note_uncommitted(now)
            self._retry_at = now + RETRY_SECS
        if self.last is Last.UNDER_WAY:
            self.last = Last.ASKED
            if is_made:
                self.give_up_last(None)

    # The last commit.

    def ask_last(self, why_not: str, now: float) -> None:
        """Ask for the last commit; `why_not` counts as long as it is not made."""
        self.last = Last.ASKED
        self.unfinished = why_not
        if self.is_committing:
            self.note_uncommitted(now)  # what has come since that commit began

    def is_finishing(self) -> bool:
        return self.last is not Last.UNASKED

    def note_loss_at_end(self) -> None:
        """Nobody recovers any more: a slot that is lost now takes the last commit with it."""
        if self.lost and self.is_finishing():
            self.give_up_last(SLOT_LOST)

    def has_nothing_to_finish(self) -> bool:
        """Whether the last commit is asked for, and there is nothing to commit."""
        return self.last is Last.ASKED and not self.is_committing and self.pending is Pending.NOTHING

    def give_up_last(self, why: str | None) -> None:
        """Try no more; `why` counts only if the last commit was not made all the same."""
        self.last = Last.UNASKED
        self.unfinished = self.unfinished and why

    def is_finish_over(self) -> bool:
        """Whether waiting for the last commit is in vain, or it is made."""
        return self.last is Last.UNASKED or self.is_ended or bool(self.lost) or self.error is not None
