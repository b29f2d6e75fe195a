"""Internal. UncommittedOutcomes: the outcomes of roots that wait for the next commit."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pystorm_spark.core import compiled
from pystorm_spark.runtime.durable.committed_ids import CommittedIds
from pystorm_spark.runtime.durable.committed_rows import CommittedRows
from pystorm_spark.runtime.pending_limit import QUEUED, TIMED_OUT
from pystorm_spark.runtime.trees import Root

IN_FLIGHT = "was not yet committed when a slot was lost, or another message failed"
BY_TASK = re.compile(r"^.*?:\d+ ")  # the task that has failed a tuple
FAILED_IT = "failed it"  # without an exception
BLAMELESS = frozenset({IN_FLIGHT, QUEUED})  # reasons that do not count as failures of the message
MOST_FAILURES = 1 << 17  # message ids whose failures are counted; some of them are never emitted again
MOST_UNCOMMITTED = 1 << 20  # roots of one spout task, unless topology.max.spout.pending says less


def reason_of(why: str) -> str:
    """Why a message has failed, as a spout's `failed` is told: a word of ours, or what a bolt has raised."""
    if why in (QUEUED, TIMED_OUT):
        return "timeout"
    if why == IN_FLIGHT:
        return "recovery"
    raised = BY_TASK.sub("", why, count=1)
    return raised if raised and raised != FAILED_IT else "failed"


class DeadLetter(NamedTuple):
    """A message that has failed too often."""

    message_id: Any
    values: list[Any]
    failures: int


@dataclass(slots=True)
class Outcomes:
    """Message ids and emit times of settled roots; the roots themselves are freed at once."""

    message_ids: list[Any] = field(default_factory=list)
    emitted_at: list[float] = field(default_factory=list)
    whys: list[str] = field(default_factory=list)  # the reasons, for failed roots only

    @classmethod
    def of(cls, roots: list[Root]) -> Outcomes:
        return cls(*_read(roots))

    @classmethod
    def failed(cls, roots: list[Root]) -> Outcomes:
        """The outcomes of failed roots, with their reasons."""
        outcomes = cls.of(roots)
        outcomes.whys = [root.why for root in roots]
        return outcomes

    def __len__(self) -> int:
        return len(self.message_ids)

    def add(self, other: Outcomes) -> None:
        """Append `other`."""
        self.message_ids += other.message_ids
        self.emitted_at += other.emitted_at
        self.whys += other.whys


@compiled
def _read(roots: list[Root]) -> tuple[list[Any], list[float]]:
    return [root.message_id for root in roots], [root.emitted_at for root in roots]


class UncommittedOutcomes:
    """The outcomes of one spout task's roots that the spout hears after the next commit.

    A commit releases the outcomes that were marked before the states were prepared, because only then is every change
    that their trees made part of the commit. With exactly-once failed roots wait, too: each of them causes a rollback.
    """

    def __init__(self, ids: CommittedIds | CommittedRows, is_exactly_once: bool, most_replays: int | None) -> None:
        self.ids = ids
        self.is_exactly_once = is_exactly_once
        # A BatchSpout skips committed rows and gives up rows that fail too often by itself.
        self.looked_up = ids if is_exactly_once and isinstance(ids, CommittedIds) else None
        self.is_broken = False  # with exactly-once: a root has failed, so a rollback is due
        self._most_replays = most_replays
        self._complete = Outcomes()
        self._marked = Outcomes()
        self._failed = Outcomes()
        self._letters: list[DeadLetter] = []
        self._failures: dict[Any, int] = {}  # with exactly-once: {message id: how often its tree failed}

    def __len__(self) -> int:
        return len(self._complete) + len(self._marked) + len(self._failed)

    def keep(self, acked: list[Root], failed: list[Root]) -> list[Root]:
        """Keep the outcomes until a commit; return the failed roots that the spout hears of at once."""
        self._complete.add(Outcomes.of(acked))
        if not self.is_exactly_once or not failed:
            return failed
        if self.looked_up is not None:
            self._count_failures(self.looked_up, failed)
        self._failed.add(Outcomes.failed(failed))
        self.is_broken = True
        return []

    def _count_failures(self, ids: CommittedIds, failed: list[Root]) -> None:
        for root in failed:
            if root.why in BLAMELESS:
                continue
            key = ids.key(root.message_id)
            self._failures[key] = self._failures.pop(key, 0) + 1  # moves to the end: the first is the oldest
        while len(self._failures) > MOST_FAILURES:
            del self._failures[next(iter(self._failures))]

    def is_new(self, message_id: Any) -> bool:
        """Whether the message was neither committed nor failed before, so that `settles` need not be asked."""
        ids = self.looked_up
        if ids is None:
            return True
        try:
            return not (message_id in ids.last or message_id in self._failures or message_id in ids.restored)
        except TypeError:  # the message id is not hashable
            return False

    def settles(self, root: Root, values: list[Any]) -> bool:
        """Whether a new root needs no execution: its message is already committed, or it failed too often."""
        ids = self.looked_up
        if ids is None:
            return False
        key = ids.key(root.message_id)
        failures = self._failures.get(key, 0)
        is_dead = self._most_replays is not None and failures > self._most_replays
        if is_dead:
            self._letters.append(DeadLetter(root.message_id, values, failures))
        elif key not in ids:
            return False
        self._complete.add(Outcomes.of([root]))
        return True

    def mark(self) -> None:
        """Assign every outcome known now to the commit that begins."""
        self._marked.add(self._complete)
        self._complete = Outcomes()

    def marked_ids(self) -> list[Any]:
        return self._marked.message_ids

    def letters(self) -> list[DeadLetter]:
        """The messages that the commit gives up."""
        return self._letters

    def release(self, txid: int) -> Outcomes:
        """The commit `txid` is made: return the marked outcomes, which the spout now hears as acked."""
        acked, self._marked = self._marked, Outcomes()
        self._letters = []
        if self.is_exactly_once:
            self.ids.remember(txid, acked.message_ids)
        if self._failures and self.looked_up is not None:
            for message_id in acked.message_ids:
                self._failures.pop(self.looked_up.key(message_id), None)
        return acked

    def rollback(self) -> Outcomes:
        """Drop everything since the last commit; return the outcomes, which the spout now hears as failed."""
        failed = self._marked
        failed.add(self._complete)
        failed.whys = [IN_FLIGHT] * len(failed)  # does not count as a failure of the message
        failed.add(self._failed)
        self._marked, self._complete, self._failed = Outcomes(), Outcomes(), Outcomes()
        self._letters = []
        self.is_broken = False
        return failed
