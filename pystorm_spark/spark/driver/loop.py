"""Internal. The driver of one topology: its slots, and the loop that exchanges, commits and recovers.

The loop runs inside `foreachBatch`. A batch is one call of it: as long as slots have frames, chains of exchanges for
about the commit interval. While nothing is to be moved it waits, and no Spark job runs. What the loop does next is the
`phase` of `state.py`.
"""

from __future__ import annotations

import logging
from threading import get_ident

from pystorm_spark.errors import StormError
from pystorm_spark.spark.driver.commit_round import Keeper
from pystorm_spark.spark.driver.commit_schedule import COMMIT_SECS, CommitSchedule
from pystorm_spark.spark.driver.engine import Changes, Engine, Limits
from pystorm_spark.spark.driver.exchanging import Exchanging, Outcome
from pystorm_spark.spark.driver.link import SlotLink
from pystorm_spark.spark.driver.questions import Questions
from pystorm_spark.spark.driver.restarts import Restarts
from pystorm_spark.spark.driver.slots import Slots
from pystorm_spark.spark.driver.state import SLOT_LOST, DriverState, Pending, Phase
from pystorm_spark.spark.protocol.messages import Reset

log = logging.getLogger(__name__)


class Driver:
    """Composes what the driver knows and does of the slots of one topology, and runs the loop over it."""

    def __init__(
        self,
        slots: int,
        engine: Engine,
        token: bytes,
        limits: Limits,
        changed: Changes | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        self._keeper = keeper
        self._commit_secs = keeper.interval_secs if keeper is not None else COMMIT_SECS
        self._changed = changed or Changes()
        self.state = DriverState(self._commit_secs)
        self.slots = Slots(slots, engine, self.state, limits, self._changed)
        self.questions = Questions(self.slots, limits.drain_secs)
        self.restarts = Restarts(self.slots)
        self.commits = CommitSchedule(keeper, self.slots, self.questions, self.restarts.forgive)
        self.exchanging = Exchanging(engine, token, self.slots, self.commits, self._commit_secs)
        self._looping: int | None = None  # the thread of the loop, while a batch runs

    # Called by the cluster.

    def warm_up(self) -> None:
        """Exchange nothing."""
        self._exchange()

    def finish(self, secs: float) -> bool:
        """Commit once more, before everything ends, and try for `secs`; whether all that there was is committed."""
        with self._changed:
            if not self.begin_finish(f"it was not made in {secs:g} s"):
                return True
            self._changed.wait_for(self.state.is_finish_over, secs)
            self.state.note_loss_at_end()
            self._changed.notify_all()
            return self.state.unfinished is None

    def begin_finish(self, why_not: str) -> bool:
        """Ask for the last commit; False if there is nothing to ask for. Called with the lock held."""
        if self._keeper is None or not self.slots.is_open:
            return False
        self.state.ask_last(why_not, self._changed.monotonic())
        if not self.slots.are_all_ready():  # what was not committed is rolled back, and replayed once they are
            self.state.give_up_last(SLOT_LOST)
        self._changed.notify_all()
        return True

    # Called in the threads that listen to slots, and in the one that keeps the lease.

    def on_end(self, link: SlotLink) -> None:
        """A slot's connection has ended, and so has the slot."""
        with self._changed:
            if self.slots.on_end(link):
                self.restarts.note_death(link)
            self._changed.notify_all()

    def look_for_silence(self) -> None:
        """Kill slots that are silent, or keep a commit waiting, for too long."""
        self.slots.look_for_silence()
        self.commits.end_overdue()

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
        epoch = self.slots.epoch
        try:
            self._turn()
        except Exception as exc:
            if self.state.is_ended:
                return
            with self._changed:
                self.state.fail(exc)
                self._changed.notify_all()
            raise
        if self.state.is_ended:
            return
        if epoch == self.slots.epoch:
            self.restarts.forgive()
        self.restarts.forget_suspects()

    def _turn(self) -> None:
        """Do what the phase asks for, until the batch is over."""
        # Slots that are careful shall not stay so until there is something to move.
        began = self._changed.monotonic() if self.restarts.has_any_died() else None
        commits = self.commits.made
        while not self.state.is_ended and not self._is_over(began, commits):
            self._wait_for_work(began)
            phase = self.state.phase
            if phase is Phase.ENDED:
                return
            if phase is Phase.RECOVERING:
                self.state.note_rollback()
                self._recover()
                continue
            began = began or self._changed.monotonic()
            if phase is Phase.EXCHANGING:
                self._exchange()
            self.commits.go_on()
            if self.commits.take_failure():
                self._recover()
            self._look_for_end()

    def _look_for_end(self) -> None:
        if self.state.has_nothing_to_finish():
            with self._changed:
                self.state.give_up_last(None)
                self._changed.notify_all()

    def _is_over(self, began: float | None, commits: int) -> bool:
        """Whether a batch that began then, after so many commits, has come to its end, its commit included."""
        if began is None or self._changed.monotonic() < began + self._commit_secs:
            return False
        if self.state.is_committing or self.state.is_finishing():
            return False
        return self.commits.made > commits or self.state.pending is Pending.NOTHING

    def _wait_for_work(self, began: float | None) -> None:
        with self._changed:
            end = None if began is None or self.state.is_finishing() else began + self._commit_secs
            self._changed.wait_for(lambda: self._has_work(began), self.commits.wait_secs(end))

    def _has_work(self, began: float | None) -> bool:
        if self.state.phase in (Phase.ENDED, Phase.RECOVERING, Phase.EXCHANGING):
            return True
        is_new = began is None and self.state.pending is not Pending.NOTHING
        return is_new or self.state.has_nothing_to_finish() or self.commits.has_step()

    def _exchange(self) -> None:
        if self.exchanging.run() is not Outcome.CARRIED:
            self._recover()

    # Recovery.

    def _recover(self) -> None:
        """Start lost slots anew, and have the others drop what was in flight and fail their pending roots now."""
        lost = self._begin_epoch()
        committed = self._keeper.txid if self._keeper is not None else 0
        acked = self._keeper.acked() if self._keeper is not None and lost else None
        self.questions.ask_all(Reset(self.slots.epoch, committed, acked))
        if not lost or self._start_again(lost):
            self.questions.activate_again()

    def _begin_epoch(self) -> list[int]:
        """Forget what was under way; the slots that are lost, whose deaths are counted."""
        with self._changed:
            was_broken = self.state.is_broken
            lost = self.state.begin_epoch(self.slots.active)
            explained = self.restarts.take_explained()
            self.slots.begin_epoch(lost)
            self.exchanging.begin_epoch()
            self.commits.drop()
            self._changed.notify_all()
        if was_broken and not lost:
            log.warning("a tuple tree has failed: all that has happened since the last commit is rolled back")
        self.restarts.count(lost, explained)
        if self._keeper is not None:
            for slot in lost:
                self._keeper.forget(slot)
        if lost:
            self.restarts.beware()
        return list(lost)

    def _start_again(self, lost: list[int]) -> bool:
        """Start these slots, after a pause if they have died before; False if some did not come back."""
        pause_secs = self.restarts.pause_secs(lost)
        if pause_secs:
            self.slots.pause(pause_secs)
        try:
            if not self.state.is_ended:
                self.slots.start_again(lost)
        except StormError as exc:
            with self._changed:  # another death, of those that did not come back
                for slot in self.slots.without_process(lost):
                    self.state.note_lost(slot, str(exc))
            return False
        return True
