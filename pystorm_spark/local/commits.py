"""LocalCommits: commits the states of a topology in this process."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from pystorm_spark.checkpoint.commit_log import CommitLog
from pystorm_spark.checkpoint.files import Files
from pystorm_spark.checkpoint.keying import HASH_KEY, Keying
from pystorm_spark.checkpoint.slot_side import SlotCheckpoint
from pystorm_spark.checkpoint.store import OLDER_KEY, CheckpointStore
from pystorm_spark.clock import Clock
from pystorm_spark.errors import CheckpointError, StormError
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.runtime.durable.commits import Commits, Letter, Restored
from pystorm_spark.runtime.plan import Plan
from pystorm_spark.runtime.slot import Slot
from pystorm_spark.topology.view import CheckpointView

log = logging.getLogger(__name__)

FAILED_COMMITS = 3  # commits in a row that may fail because user code raised; one more ends the topology
LAST_COMMIT_TIMEOUT_SECS = 5.0  # for tuples in flight when a topology ends, and for its last commit
LAST_COMMIT_RETRY_SECS = 0.5  # before a retry of a last commit that could not be written

GiveUp = Callable[[int, list[Letter]], None]  # writes the dead letters of a commit; a retry calls it again


class LocalCommits:
    """Commits the changes of one topology's slot, at most once per commit interval."""

    def __init__(self, plan: Plan, files: Files, clock: Clock, give_up: GiveUp, check_lock: Callable[[], None]) -> None:
        self._name = name = plan.conf["topology.name"]
        self._files = files
        store = CheckpointStore(files, name, allow_older=plan.conf[OLDER_KEY])
        keying = Keying(plan.conf[HASH_KEY], plan.keyed_bolts)
        self._log = CommitLog(store, name, [plan.durable_tasks(0)], keying, plan.committed_spouts, plan.metadata)
        self._interval = plan.conf["topology.state.checkpoint.interval.ms"] / 1000
        self._clock = clock
        self._give_up = give_up
        self._check_lock = check_lock
        self._failures = 0
        self._is_held_up = False  # whether the write of the last commit failed
        self._merger = self._new_merger()
        self.due = math.inf  # of the next commit
        self.has_committed = False  # since the slot was opened

    def view(self, component: str) -> CheckpointView | None:
        """What the last commit says of a component with state; None if it says nothing."""
        return self._log.view(component)

    def holds_state(self) -> bool:
        """Whether the last commit has any state."""
        return self._log.holds_state()

    def check(self) -> None:
        """Raise a `StormError` if files of the last commit are missing: later commits would be useless."""
        self._log.check()

    def open(self, slot: Slot) -> None:
        """Open `slot` with the state of the last commit."""
        self._merger.shutdown()  # wait for a merge of the previous slot, whose files `forget` then removes
        self._merger = self._new_merger()
        self._log.forget(0)
        self._side = side = SlotCheckpoint(self._files, 0, self._log.assignment(0), ValueCodec())
        commits = _of(slot)
        sections = side.sections(commits.tasks())
        slot.open(Restored(sections, side.schemas, side.acked(commits.spouts())))
        self._merger.submit(self._merge, side)
        self.due = math.inf
        self.has_committed = False

    def next_due(self, slot: Slot) -> float:
        """When the next commit is due, by the monotonic clock."""
        commits = _of(slot)
        waits = (slot.quiescing and commits.in_flight()) or (slot.deferring and commits.in_transaction())
        return math.inf if waits else self.due

    def step(self, slot: Slot) -> bool:
        """Call this after each turn. Commits or rolls back if necessary; returns whether it did."""
        commits = _of(slot)
        if commits.is_broken():
            self._roll_back(slot, "a tuple tree has failed")
            return True
        if commits.is_urgent() and not self._is_held_up:
            self.due = self._clock.monotonic()
        elif self.due == math.inf and commits.is_wanted():
            self.due = self._clock.monotonic() + self._interval
        if self._clock.monotonic() < self.due:
            return False
        if commits.is_exactly_once and commits.in_flight():
            slot.quiescing = True
            return False
        slot.deferring = True
        if commits.in_transaction():
            return False
        self.make_commit(slot)
        return True

    def make_commit(self, slot: Slot) -> bool:
        """Commit now; False if that failed. If only the write failed, the next commit includes all changes."""
        commits, side = _of(slot), self._side
        txid = self._log.last.txid + 1
        self.due = math.inf
        is_full = side.is_full_next
        commits.mark()
        try:
            prepared = commits.prepare(txid, is_full)
        except StormError as exc:
            self._failures += 1
            if self._failures > FAILED_COMMITS:
                raise
            self._roll_back(slot, str(exc))
            return False
        self._failures = 0
        try:
            self._check_lock()
            self._log.begin()
            written = side.write(txid, prepared.sections, prepared.acked, is_full)
            self._give_up(txid, prepared.letters)
            self._log.append(txid, [written], prepared.schemas)
        except CheckpointError as exc:
            with suppress(CheckpointError):
                self.check()
            log.error("commit %d failed and will be retried: %s", txid, exc)
            self.due = self._clock.monotonic() + self._interval
            self._is_held_up = True
            slot.quiescing = commits.is_exactly_once
            slot.deferring = False
            return False
        side.settle()
        self._is_held_up = False
        self.has_committed = True
        slot.quiescing = slot.deferring = False
        commits.commit(txid)
        self._merger.submit(self._merge, side)
        return True

    def make_last_commit(self, slot: Slot, idle: Callable[[], None] | None, what: str) -> None:
        """Commit once more before the slot is closed. With exactly-once, first wait for the tuples in flight.

        `idle` waits until there may be something to do; None in simulated time, where waiting is useless. `what`
        says for the log what the topology does next. This method does not raise: the slot must be closed in any case.
        """
        try:
            why = self._missing_last(slot, idle)
        except Exception as exc:
            log.error("the last commit failed: %s", exc)
            return
        if why is not None:
            log.warning(
                "topology %s %s without its last commit: %s; sources that can will replay what came after the previous "
                "commit",
                self._name,
                what,
                why,
            )

    def _missing_last(self, slot: Slot, idle: Callable[[], None] | None) -> str | None:
        """Why the last commit was not made; None if it was."""
        until = self._clock.monotonic() + LAST_COMMIT_TIMEOUT_SECS
        while True:
            slot.quiescing = True
            if not self._is_drained(slot, idle, until):
                return "not all tuples in flight were acked"
            if not _of(slot).is_wanted() or self.make_commit(slot):
                return None
            if not self._is_held_up:
                return "all uncommitted changes were rolled back"
            if idle is None or self._clock.monotonic() >= until:
                return "it could not be written"
            again = min(until, self._clock.monotonic() + LAST_COMMIT_RETRY_SECS)
            while self._clock.monotonic() < again:
                if not slot.turn():
                    idle()

    def close(self) -> None:
        self._merger.shutdown()

    def _is_drained(self, slot: Slot, idle: Callable[[], None] | None, until: float) -> bool:
        commits = _of(slot)
        while _is_under_way(slot) and not commits.is_broken() and self._clock.monotonic() < until:
            if not slot.turn():
                if idle is None:
                    break
                idle()  # bolts may ack from their own threads, or at a tick
        return not (_is_under_way(slot) or commits.is_broken())

    def _roll_back(self, slot: Slot, why: str) -> None:
        log.warning("%s: rolling back to the last commit", why)
        slot.reset()
        self.due = math.inf
        self._is_held_up = False

    def _new_merger(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, thread_name_prefix=f"pystorm-{self._name}-merges")

    def _merge(self, side: SlotCheckpoint) -> None:
        try:
            side.merge()
        except CheckpointError as exc:
            log.warning("parts of the checkpoint could not be merged, and stay as they are: %s", exc)


def _is_under_way(slot: Slot) -> bool:
    """Whether something is in flight that a commit waits for."""
    commits = _of(slot)
    if commits.is_exactly_once and commits.in_flight():
        return True
    slot.deferring = True
    return commits.in_transaction()


def _of(slot: Slot) -> Commits:
    assert slot.commits is not None
    return slot.commits
