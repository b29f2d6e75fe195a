"""LocalCommits: when the states of a topology in this process are committed, and where to."""

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

FAILED_COMMITS = 3  # in a row, because of what user code raises, end the topology
LAST_COMMIT_TIMEOUT_SECS = 5.0  # for what is in flight when a topology ends, and for its last commit
LAST_COMMIT_RETRY_SECS = 0.5  # before a last commit that could not be written is tried again

GiveUp = Callable[[int, list[Letter]], None]  # by a commit, which may be tried again


class LocalCommits:
    """Commits what the slot of one topology has changed, once every commit interval in which something has changed."""

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
        self._is_held_up = False  # the last commit could not be written
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
        """Raise a `StormError` if the last commit is not there any more: what follows it would be in vain."""
        self._log.check()

    def open(self, slot: Slot) -> None:
        """Open `slot` with what the last commit holds."""
        self._merger.shutdown()  # what the slot before this one has begun ends, and leaves nothing
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
        """When a commit is due by the clock."""
        commits = _of(slot)
        waits = (slot.quiescing and commits.in_flight()) or (slot.deferring and commits.in_transaction())
        return math.inf if waits else self.due

    def step(self, slot: Slot) -> bool:
        """After a turn: commit if it is time to; whether anything was done."""
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
        """Commit now; whether it is done. Where it cannot be written nothing is lost: the next commit takes it all."""
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
            log.error("the commit %d is not made, and will be tried again: %s", txid, exc)
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
        """Commit once more before the slot is closed; with exactly-once when what is in flight has come to its end.

        `idle` waits until there may be something to do; None if nothing comes by waiting, for time is simulated. `what`
        becomes of the topology then, for the log. Whatever user code does, the slot will be closed.
        """
        try:
            why = self._missing_last(slot, idle)
        except Exception as exc:
            log.error("the last commit is not made: %s", exc)
            return
        if why is not None:
            log.warning(
                "topology %s %s without its last commit: %s; what came after the one before it is played again by a "
                "source that can",
                self._name,
                what,
                why,
            )

    def _missing_last(self, slot: Slot, idle: Callable[[], None] | None) -> str | None:
        """Why there is no last commit; None if all is committed."""
        until = self._clock.monotonic() + LAST_COMMIT_TIMEOUT_SECS
        while True:
            slot.quiescing = True
            if not self._is_drained(slot, idle, until):
                return "not all that was in flight is acked"
            if not _of(slot).is_wanted() or self.make_commit(slot):
                return None
            if not self._is_held_up:
                return "all that was not committed was taken back"
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
                idle()  # bolts may ack from threads of their own, or at a tick
        return not (_is_under_way(slot) or commits.is_broken())

    def _roll_back(self, slot: Slot, why: str) -> None:
        log.warning("%s: all that has happened since the last commit is taken back", why)
        slot.reset()
        self.due = math.inf
        self._is_held_up = False

    def _new_merger(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, thread_name_prefix=f"pystorm-{self._name}-merges")

    def _merge(self, side: SlotCheckpoint) -> None:
        try:
            side.merge()
        except CheckpointError as exc:
            log.warning("parts of the checkpoint are not merged, and stay as they are: %s", exc)


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
