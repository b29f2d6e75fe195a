"""Internal. The driver's loop: when to exchange, and what to do when a slot dies. Runs inside `foreachBatch`.

A batch is one call of `foreachBatch`: as long as slots have frames, chains of exchanges for about the commit interval.
While nothing is to be moved it waits, and no Spark job runs.
"""

from __future__ import annotations

import logging
import math
from functools import partial
from threading import get_ident
from typing import Any, ClassVar

from pystorm_spark.errors import CheckpointError, SlotLostError, StormError
from pystorm_spark.spark.driver.commit_round import CommitRound, Keeper
from pystorm_spark.spark.driver.control import SlotLink
from pystorm_spark.spark.driver.poison import Poison
from pystorm_spark.spark.driver.slots import START_SECS, Changes, Engine, Handler, Running, Slots
from pystorm_spark.spark.exchange.visit import Order

log = logging.getLogger(__name__)

COMMIT_SECS = 1.0
RETRY_SECS = 0.5  # before a last commit that could not be written is tried again
LAST_REST_SECS = 1.0  # for what is in flight when a topology ends, unless it must be part of the last commit
FEWEST_EXCHANGES, MOST_EXCHANGES = 2, 16
TRIES = 4  # of a chain of exchanges, before what it carries is given up
FAILING_SECS = 60.0  # without an exchange that comes to its end, after which the topology ends
FAILED_COMMITS = 3  # in a row end the topology
FIRST_PAUSE_SECS, LONGEST_PAUSE_SECS = 0.1, 5.0  # before a slot that died again is started again


class Driver(Slots):
    """The loop that moves frames between the slots of one topology, and commits what they have changed."""

    def __init__(
        self,
        slots: int,
        engine: Engine,
        token: bytes,
        max_restarts: int,
        silence_secs: float,
        start_secs: float = START_SECS,
        changed: Changes | None = None,
        keeper: Keeper | None = None,
        drain_secs: float = math.inf,
        poison_deaths: int = 0,
        suspicion_secs: float = math.inf,
    ) -> None:
        super().__init__(slots, engine, silence_secs, start_secs, changed, drain_secs)
        self.error: BaseException | None = None
        self._token = token
        self._max_restarts = max_restarts
        self._with_frames: set[int] = set()
        self._deaths = dict.fromkeys(range(slots), 0)  # since the last commit, or batch that the slot lived through
        self.poison = Poison(poison_deaths)
        self._suspicion_secs = suspicion_secs
        self._explained: set[int] = set()  # slots whose death was by a tuple that is not executed again
        self._keeper = keeper  # of commits, where there is state to be committed
        self._commit_secs = keeper.interval_secs if keeper is not None else COMMIT_SECS
        self._round: CommitRound | None = None  # the commit that is being made
        self._commits = 0  # that were made
        self._uncommitted = False  # slots have something to commit
        self._due = 0.0  # when it is to be committed
        self._urgent = False  # and spouts will soon have no room for more
        self._broken = False  # a root has failed that takes all that is not committed back with it
        self.taken_back = 0  # epochs that began because of such a root, and of nothing else
        self._failed_commits = 0
        self.unfinished: str | None = None  # why the last commit that was asked for is not made
        self._finishing = False  # the last commit is asked for
        self._is_last = False  # the commit that is being made was begun after that
        self._retry_at = -math.inf  # when it is tried again
        self._awaits_replay = False  # what it was to hold was taken back, and is played again
        self._rest_until = math.inf  # how long it waits for what is in flight
        self._looping: int | None = None  # the thread of the loop, while a batch runs
        self._job = 0
        self._failing_since: float | None = None  # since when no exchange has come to its end
        self._exchanges = FEWEST_EXCHANGES

    # What slots say; called in the listening threads.

    def _on_frames(self, link: SlotLink, message: dict[str, Any]) -> None:
        self._with_frames.add(link.slot)

    def _on_uncommitted(self, link: SlotLink, message: dict[str, Any]) -> None:
        self._note_uncommitted()
        self._urgent = self._urgent or message["is_urgent"]

    def _note_uncommitted(self) -> None:
        if not self._uncommitted:
            self._uncommitted = True
            self._due = self._changed.monotonic() + self._commit_secs

    def _on_broken(self, link: SlotLink, message: dict[str, Any]) -> None:
        self._broken = True

    def _on_outlived(self, link: SlotLink, message: dict[str, Any]) -> None:
        link.note_survival(message["key"])
        self.poison.note_survival(message["key"])

    def _note_death(self, link: SlotLink) -> None:
        if self.poison.note_death(link.executing.values(), self._changed.monotonic()):
            self._explained.add(link.slot)

    _HANDLERS: ClassVar[dict[str, Handler]] = {
        **Slots._HANDLERS,
        "frames": _on_frames,
        "uncommitted": _on_uncommitted,
        "broken": _on_broken,
        "outlived": _on_outlived,
    }

    # Called by the cluster.

    def warm_up(self) -> None:
        """Exchange nothing."""
        self._run_job()

    def finish(self, secs: float) -> bool:
        """Commit once more, before everything ends, and try for `secs`; whether all that there was is committed."""
        with self._changed:
            if not self._begin_finish(f"it was not made in {secs:g} s"):
                return True
            self._changed.wait_for(self._is_finish_over, secs)
            if self._finishing and self._lost:
                self._end_finish("a slot was lost")
            return self.unfinished is None

    def _begin_finish(self, why_not: str) -> bool:
        """Ask for the last commit; False if there is nothing to ask for."""
        if self._keeper is None or not self.is_open:
            return False
        self._finishing = True
        self.unfinished = why_not
        if self._round is not None:
            self._note_uncommitted()  # what has come since that round began
        self._changed.notify_all()
        return True

    def _is_finish_over(self) -> bool:
        return not self._finishing or self._ending or bool(self._lost) or self.error is not None

    def _end_finish(self, why: str | None) -> None:
        """Nothing more is tried; `why` counts only if the last commit was not made all the same."""
        self._finishing = self._awaits_replay = False
        self.unfinished = self.unfinished and why
        self._changed.notify_all()

    # The loop; called in the thread of foreachBatch.

    def is_own_thread(self) -> bool:
        """Whether the loop calls: the `write` of a sink does something that must not wait for the loop."""
        return get_ident() == self._looping

    def batch(self) -> None:
        """Exchange for about the commit interval, once there is something to exchange, and commit."""
        self._looping = get_ident()
        try:
            self._batch()
        finally:
            self._looping = None

    def _batch(self) -> None:
        # Slots that are careful shall not stay so until there is something to move.
        began = self._changed.monotonic() if any(map(self.has_died, self.slots)) else None
        epoch, commits = self.epoch, self._commits
        try:
            while not self._ending and not self._is_over(began, commits):
                self._wait_for_work(began)
                if self._ending:
                    return
                if self._lost or self._broken:
                    self.taken_back += not self._lost
                    self._recover()
                else:
                    began = began or self._changed.monotonic()
                    if self._with_frames:
                        self._run_job()
                    self._go_on_with_commit()
                    if self._round is not None and self._round.failure is not None:
                        self._commit_failed(self._round.failure)
                    if self._has_nothing_to_finish():
                        with self._changed:
                            self._end_finish(None)
        except Exception as exc:
            if self._ending:
                return
            with self._changed:
                self.error = exc
                self._changed.notify_all()
            raise
        if epoch == self.epoch:
            self._forgive_deaths()
        self.poison.forget(self._changed.monotonic() - self._suspicion_secs)
        if self.poison.has_news:
            self._tell_poison()

    def look_for_silence(self) -> None:
        super().look_for_silence()
        current = self._round
        if current is not None:
            current.end_overdue(self._changed.monotonic())

    def has_died(self, slot: int) -> bool:
        """Whether a slot has died since the last commit, or the last batch that it lived through."""
        return self._deaths[slot] > 0

    def _forgive_deaths(self) -> None:
        """All slots have come on: the next death of each is the first one in a row."""
        if any(map(self.has_died, self.slots)):
            for slot, link in self.slots.items():
                if link is not None and (self.poison.is_known or self.has_died(slot)):
                    link.tell("calm")
        self._deaths = dict.fromkeys(self._deaths, 0)

    def _is_over(self, began: float | None, commits: int) -> bool:
        """Whether a batch that began then, after so many commits, has come to its end, its commit included."""
        if began is None or self._changed.monotonic() < began + self._commit_secs:
            return False
        if self._round is not None or self._finishing:
            return False
        return self._commits > commits or not self._uncommitted

    def _wait_for_work(self, began: float | None) -> None:
        with self._changed:
            end = None if began is None or self._finishing else began + self._commit_secs
            self._changed.wait_for(lambda: self._has_work(began), self._left_until(end))

    def _has_work(self, began: float | None) -> bool:
        is_new = self._has_nothing_to_finish() or (began is None and self._uncommitted)
        return bool(
            self._ending or self._lost or self._broken or self._with_frames or is_new or self._calls_for_commit()
        )

    # Commits.

    def _has_nothing_to_finish(self) -> bool:
        is_idle = self._round is None and not self._uncommitted
        return self._finishing and is_idle and not self._awaits_replay

    def _calls_for_commit(self) -> bool:
        """Whether a commit is to be begun, or its next step can be made."""
        if self._round is not None:
            return self._round.failure is None and (self._round.is_answered() or self._rests_too_long(self._round))
        return self._uncommitted and (self._urgent or self._changed.monotonic() >= self._next_due())

    def _next_due(self) -> float:
        return self._retry_at if self._finishing else self._due

    def _left_until(self, when: float | None) -> float | None:
        """How long to wait if nothing is heard: until a commit is due, or until `when` if none is wanted."""
        if self._round is not None:
            when = self._rest_until if self._round.is_resting and self._rest_until < math.inf else None
        elif self._uncommitted:
            when = self._next_due()
        return None if when is None else max(0.0, when - self._changed.monotonic())

    def _go_on_with_commit(self) -> None:
        """Begin a commit when it is time to, or make its next step. One that user code has made fail stays."""
        if self._keeper is None or not self._calls_for_commit():
            return
        if self._round is not None and self._rests_too_long(self._round):
            self._round.take_next_step()
        elif self._round is not None:
            is_over = self._round.advance()
            if self._round.is_made:  # by all slots; one may die before the round is over
                self._forgive_deaths()
                self.unfinished = None if self._is_last else self.unfinished
            if is_over and self._round.failure is None:
                self._end_round(self._round.is_made)
        else:
            self._begin_round(self._keeper)

    def _begin_round(self, keeper: Keeper) -> None:
        self._uncommitted = self._urgent = False
        self._is_last = self._finishing
        try:
            keeper.begin()
        except CheckpointError as exc:
            log.error("the commit %d is not begun, and will be tried again: %s", keeper.txid + 1, exc)
            self._end_round(False)
            return
        must_drain = keeper.is_exactly_once
        self._rest_until = math.inf if must_drain else self._changed.monotonic() + LAST_REST_SECS
        self._round = CommitRound(self._ask, keeper, len(self.slots), drains=must_drain or self._is_last)

    def _rests_too_long(self, commit_round: CommitRound) -> bool:
        return commit_round.is_resting and self._changed.monotonic() >= self._rest_until

    def _end_round(self, is_made: bool) -> None:
        if not is_made:
            self._resume()
        with self._changed:
            if is_made:
                self._commits += 1
                self._failed_commits = 0
            else:
                self._note_uncommitted()
                self._retry_at = self._changed.monotonic() + RETRY_SECS
            if is_made and self._is_last:
                self._end_finish(None)
            self._round = None
            self._changed.notify_all()

    def _resume(self) -> None:
        """Have slots go on with what waits for a commit that is not made."""
        for link in self.slots.values():
            if link is not None and link.state == "ready":
                link.tell("resume")

    def _commit_failed(self, why: str) -> None:
        self._failed_commits += 1
        if self._failed_commits > FAILED_COMMITS:
            raise StormError(why)
        log.warning("%s: all that has happened since the last commit is taken back", why)
        self._end_round(False)
        self._recover()

    def _run_job(self) -> None:
        with self._changed:
            self._with_frames.clear()
            self._job += 1
            addresses = tuple(link.address for link in self.slots.values() if link is not None and link.address)
            order = Order(self.epoch, self._job, self._token, addresses)
        began = self._changed.monotonic()
        carried = self._carry(order)
        if carried is None:
            return
        statuses, committing_secs = carried
        self._failing_since = None
        if committing_secs < COMMIT_SECS / 4:
            self._pace(self._changed.monotonic() - began)
        self._await_end_of([slot for slot, status in statuses.items() if status in ("lost", "refused")])
        if "missed" in statuses.values() and not self._lost and not self._ending:
            log.warning("an exchange has missed a slot for a moment, what was in flight is failed")
            self._recover()
        elif not self._with_frames:  # else the next job tells it
            self._tell_exchanged(order)

    def _tell_exchanged(self, order: Order) -> None:
        """Have slots let go of what they keep for tasks that ask again: no other job may come for hours."""
        for link in self.slots.values():
            if link is not None and link.state == "ready":
                link.tell("exchanged", epoch=order.epoch, job=order.job)

    def _carry(self, order: Order) -> tuple[dict[int, str], float] | None:
        """Have Spark run the exchanges of `order`, again if that fails: slots give the answers that they have kept.

        What slots say of them, and how long commits took meanwhile, which are not the exchanges' own: a sink's `write`
        may be among it. None when `order` was given up.
        """
        committing_secs, exchanges = 0.0, self._exchanges
        for left in reversed(range(TRIES)):
            running = self._engine.exchange(order, exchanges)
            while not self._await(running):
                step_began = self._changed.monotonic()
                self._go_on_with_commit()
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
            self._changed.wait_for(lambda: running.done() or self._calls_for_commit(), self._left_until(latest))
            return running.done()

    def _repeats(self, exc: Exception, left: int) -> bool:
        """Whether the exchanges that have failed are run again; if not, all slots begin a new epoch."""
        now = self._changed.monotonic()
        self._failing_since = now if self._failing_since is None else self._failing_since
        with self._changed:
            self._changed.wait_for(lambda: bool(self._lost) or self._ending, 0.5)
        if self._ending or now - self._failing_since > FAILING_SECS:
            raise exc
        if left and not self._lost:
            log.warning("an exchange failed and is run again: %s", _first_line(exc))
            return True
        log.warning("an exchange failed and is given up, what was in flight is failed: %s", _first_line(exc))
        self._recover()
        return False

    def _pace(self, took: float) -> None:
        """Chains of about the commit interval while there is more to move; each doubles or halves, or stays."""
        with self._changed:
            if self._with_frames and took < COMMIT_SECS / 2:
                self._exchanges = min(MOST_EXCHANGES, 2 * self._exchanges)
            elif not self._with_frames or took > 2 * COMMIT_SECS:
                self._exchanges = max(FEWEST_EXCHANGES, self._exchanges // 2)

    def _await_end_of(self, slots: list[int]) -> None:
        """Spark tasks cannot use a slot any more: its connection to the driver will end too, or is ended now."""
        for slot in slots:
            with self._changed:
                if self._changed.wait_for(partial(self._is_gone, slot), 1.0):
                    continue
            link = self.slots[slot]
            if link is not None:
                link.kill()
            with self._changed:
                self._changed.wait_for(partial(self._is_gone, slot), 5.0)

    def _is_gone(self, slot: int) -> bool:
        return slot in self._lost or self._ending

    def _recover(self) -> None:
        """Start lost slots anew, and have the others drop what was in flight and fail their pending roots now."""
        lost = self._begin_epoch()
        committed = self._keeper.txid if self._keeper is not None else 0
        acked = self._keeper.acked() if self._keeper is not None and lost else None
        self._ask_all("reset", epoch=self.epoch, committed=committed, acked=acked)
        if not lost or self._start_again(lost):
            self._activate_again()

    def _begin_epoch(self) -> list[int]:
        """Forget what was under way; the slots that are lost, whose deaths are counted."""
        with self._changed:
            lost, self._lost = self._lost, {}
            self._go_on_to_finish(bool(lost))
            explained, self._explained = self._explained, set()
            self.epoch += 1
            self._job = 0
            self._with_frames.clear()
            self.slots.update(dict.fromkeys(lost))
            if self._broken and not lost:
                log.warning("a tuple tree has failed: all that has happened since the last commit is taken back")
            self._broken = self._uncommitted = self._urgent = False
            self._round = None
        self._count_deaths(lost, explained)
        if lost and self.poison.is_known:
            self._tell_poison()
            self.be_careful()  # what has killed a slot may come to another one next time
        return list(lost)

    def _count_deaths(self, lost: dict[int, str], explained: set[int]) -> None:
        for slot, why in lost.items():
            self._deaths[slot] = 1 if slot in explained else self._deaths[slot] + 1  # it does not go on like that
            if self._deaths[slot] > self._max_restarts:
                times = f" {self._deaths[slot]} times in a row; the last time" if self._max_restarts else ""
                raise SlotLostError(f"slot {slot} died{times}: {why}")
            log.warning("slot %d is lost (%s); it is started anew, what was in flight is failed", slot, why)
            if self._keeper is not None:
                self._keeper.forget(slot)

    def _start_again(self, lost: list[int]) -> bool:
        """Start these slots, after a pause if they have died before; False if some did not come back."""
        again = max(self._deaths[slot] for slot in lost)
        if again > 1:
            with self._changed:
                pause = min(LONGEST_PAUSE_SECS, FIRST_PAUSE_SECS * 2 ** (again - 2))
                self._changed.wait_for(lambda: self._ending, pause)
        try:
            if not self._ending:
                self._start_slots(lost)
        except StormError as exc:
            with self._changed:  # another death, of those that did not come back
                self._lost.update((slot, str(exc)) for slot in lost if self.slots[slot] is None)
            return False
        return True

    def _go_on_to_finish(self, has_lost: bool) -> None:
        """What is not committed is about to be taken back: what that means for the last commit, if it is asked for."""
        takes_back = self._broken or self._uncommitted or self._round is not None
        if self._finishing and has_lost:
            self._end_finish("a slot was lost")
        elif self._finishing and takes_back and not self.active:
            self._end_finish("all that was not committed was taken back")
        else:
            self._awaits_replay |= self._finishing and takes_back

    def _tell_poison(self) -> None:
        self.poison.has_news = False
        told = self.poison.told()
        for link in self.slots.values():
            if link is not None:
                link.tell("poison", **told)


def _first_line(exc: Exception) -> str:
    return str(exc).strip().split("\n")[0]
