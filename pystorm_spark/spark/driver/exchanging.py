"""Internal. Exchanging: runs chains of exchanges, again if Spark fails; commits go on meanwhile."""

from __future__ import annotations

import logging
from enum import Enum
from functools import partial

from pystorm_spark.spark.driver.commit_schedule import COMMIT_SECS, CommitSchedule
from pystorm_spark.spark.driver.engine import Engine, Running
from pystorm_spark.spark.driver.slots import Slots
from pystorm_spark.spark.exchange.visit import Order
from pystorm_spark.spark.protocol.messages import Exchanged

log = logging.getLogger(__name__)

FEWEST_EXCHANGES, MOST_EXCHANGES = 2, 16
CHAIN_TRIES = 4  # of a chain of exchanges, before what it carries is given up
FAILING_SECS = 60.0  # without an exchange that comes to its end, after which the topology ends


class Outcome(Enum):
    """What became of a chain."""

    CARRIED = "carried"
    MISSED = "missed"  # a slot was not reached for a moment: all slots must begin a new epoch
    GIVEN_UP = "given up"  # and so they must


class Exchanging:
    """The chains of one topology, each of about the commit interval while there is more to move."""

    def __init__(self, engine: Engine, token: bytes, slots: Slots, commits: CommitSchedule, commit_secs: float) -> None:
        self._engine = engine
        self._token = token
        self._slots = slots
        self._state = slots.state
        self._changed = slots.changed
        self._commits = commits
        self._commit_secs = commit_secs
        self._job = 0
        self._failing_since: float | None = None  # since when no exchange has come to its end
        self.exchanges = FEWEST_EXCHANGES  # of the next chain

    def begin_epoch(self) -> None:
        """Called with the lock held."""
        self._job = 0

    def next_order(self) -> Order:
        """What the tasks of the next job need to know."""
        self._job += 1
        addresses = tuple(link.address for link in self._slots.there() if link.address)
        return Order(self._slots.epoch, self._job, self._token, addresses)

    def run(self) -> Outcome:
        """Run one chain, and tell slots of its end."""
        with self._changed:
            self._state.begin_exchanges()
            order = self.next_order()
        began = self._changed.monotonic()
        carried = self._carry(order)
        if carried is None:
            return Outcome.GIVEN_UP
        statuses, committing_secs = carried
        self._failing_since = None
        if committing_secs < COMMIT_SECS / 4:
            self._pace(self._changed.monotonic() - began)
        self._await_end_of([slot for slot, status in statuses.items() if status in ("lost", "refused")])
        if "missed" in statuses.values() and not self._state.lost and not self._state.is_ended:
            log.warning("an exchange has missed a slot for a moment, what was in flight is failed")
            return Outcome.MISSED
        if not self._state.frames:  # else the next job tells it
            self._tell_exchanged(order)
        return Outcome.CARRIED

    def _tell_exchanged(self, order: Order) -> None:
        """Have slots let go of what they keep for tasks that ask again: no other job may come for hours."""
        for link in self._slots.ready():
            link.tell(Exchanged(order.epoch, order.job))

    def _carry(self, order: Order) -> tuple[dict[int, str], float] | None:
        """Have Spark run the exchanges of `order`, again if that fails: slots give the answers that they have kept.

        Returns the statuses of slots, and how long commits took meanwhile: a sink's `write` may be among it, which is
        not the exchanges' own. None when `order` was given up.
        """
        committing_secs, exchanges = 0.0, self.exchanges
        for left in reversed(range(CHAIN_TRIES)):
            running = self._engine.exchange(order, exchanges)
            while not self._await(running):
                step_began = self._changed.monotonic()
                self._commits.go_on()
                committing_secs += self._changed.monotonic() - step_began
            try:
                return running.result(), committing_secs
            except Exception as exc:
                if not self._repeats(exc, left):
                    return None
        raise AssertionError

    def _await(self, running: Running) -> bool:
        """Wait until the exchanges have come to their end, or a commit can go on meanwhile; whether they have."""
        with self._changed:
            latest = self._changed.monotonic() + self._commit_secs  # no commit is due before that if none is wanted now
            self._changed.wait_for(lambda: running.done() or self._commits.has_step(), self._commits.wait_secs(latest))
            return running.done()

    def _repeats(self, exc: Exception, left: int) -> bool:
        """Whether the exchanges that have failed are run again; raises `exc` if they have failed for too long."""
        now = self._changed.monotonic()
        self._failing_since = now if self._failing_since is None else self._failing_since
        with self._changed:
            self._changed.wait_for(lambda: bool(self._state.lost) or self._state.is_ended, 0.5)
        if self._state.is_ended or now - self._failing_since > FAILING_SECS:
            raise exc
        if left and not self._state.lost:
            log.warning("an exchange failed and is run again: %s", _first_line(exc))
            return True
        log.warning("an exchange failed and is given up, what was in flight is failed: %s", _first_line(exc))
        return False

    def _pace(self, took: float) -> None:
        """Chains of about the commit interval while there is more to move; each doubles or halves, or stays."""
        with self._changed:
            if self._state.frames and took < COMMIT_SECS / 2:
                self.exchanges = min(MOST_EXCHANGES, 2 * self.exchanges)
            elif not self._state.frames or took > 2 * COMMIT_SECS:
                self.exchanges = max(FEWEST_EXCHANGES, self.exchanges // 2)

    def _await_end_of(self, slots: list[int]) -> None:
        """Spark tasks cannot use a slot any more: its connection to the driver will end too, or is ended now."""
        for slot in slots:
            with self._changed:
                if self._changed.wait_for(partial(self._is_gone, slot), 1.0):
                    continue
            link = self._slots.links[slot]
            if link is not None:
                link.kill()
            with self._changed:
                self._changed.wait_for(partial(self._is_gone, slot), 5.0)

    def _is_gone(self, slot: int) -> bool:
        return slot in self._state.lost or self._state.is_ended


def _first_line(exc: Exception) -> str:
    return str(exc).strip().split("\n")[0]
