"""Internal. The driver's loop: when to exchange, and what to do when a slot dies. Runs inside `foreachBatch`.

A batch is one call of `foreachBatch`: as long as slots have frames, chains of exchanges for about the commit interval.
While nothing is to be moved it waits, and no Spark job runs.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Protocol

from pystorm_spark.errors import SlotLostError, StormError
from pystorm_spark.spark.commit_round import CommitRound, Keeper, Question
from pystorm_spark.spark.control import SlotLink
from pystorm_spark.spark.exchange import Order
from pystorm_spark.spark.wire import Address

log = logging.getLogger(__name__)

COMMIT_SECS = 1.0
FEWEST_EXCHANGES, MOST_EXCHANGES = 2, 16
START_SECS = 120.0  # for all slots to open, by their own clocks
ANSWER_SECS = 30.0  # for slots that are busy with user code
FAILED_JOBS = 3  # in a row, with no slot lost, end the topology
FIRST_PAUSE_SECS, LONGEST_PAUSE_SECS = 0.1, 5.0  # before a slot that died again is started again


class Engine(Protocol):
    """What the loop needs from Spark; a simulator can be put in its place."""

    def place(self, slots: list[int]) -> None:
        """Start the processes of `slots`; they report by themselves."""

    def exchange(self, order: Order, exchanges: int) -> dict[int, str]:
        """Run a chain of exchanges; {slot: "ok", "missed", "refused" or "lost"}."""


class Changes(threading.Condition):
    """The lock on what the threads share, how they wait for one another, and their clock; a simulator has its own."""

    monotonic = staticmethod(time.monotonic)


class Driver:
    """The slots of one topology and the loop that moves frames between them."""

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
    ) -> None:
        self.epoch = 1
        self.slots: dict[int, SlotLink | None] = dict.fromkeys(range(slots))
        self.error: BaseException | None = None
        self.active = False
        self.is_open = False  # whether slots open their components when they start
        self._engine = engine
        self._token = token
        self._max_restarts = max_restarts
        self._silence_secs = silence_secs
        self._start_secs = start_secs + ANSWER_SECS  # a slot that takes too long tells why, before it is given up
        self._changed = changed or Changes()
        self._with_frames: set[int] = set()
        self._lost: dict[int, str] = {}  # {slot: why}
        self._failed_start: str | None = None
        self._deaths = dict.fromkeys(range(slots), 0)  # since the last batch that the slot lived through
        self._questions = itertools.count(1)
        self._asked: dict[int, Question] = {}  # those that are not yet answered
        self._keeper = keeper  # of commits, where there is state to be committed
        self._commit_secs = keeper.interval_secs if keeper is not None else COMMIT_SECS
        self._round: CommitRound | None = None  # the commit that is being made
        self._uncommitted = False  # slots have something to commit
        self._urgent = False  # and spouts will soon have no room for more
        self._broken = False  # a root has failed that takes all that is not committed back with it
        self._failed_commits = 0
        self._finishing = False  # the last commit is asked for
        self._ending = False
        self._job = 0
        self._failed_jobs = 0
        self._exchanges = FEWEST_EXCHANGES

    # What slots say; called in the listening threads.

    def admit(self, link: SlotLink) -> dict[str, Any]:
        """What a process that has just connected needs to know."""
        with self._changed:
            link.epoch = self.epoch
            return {"epoch": self.epoch, "open": self.is_open}

    def on_message(self, link: SlotLink, message: dict[str, Any]) -> None:
        handle = self._HANDLERS.get(message["kind"])
        if handle is not None:
            with self._changed:
                handle(self, link, message)
                self._changed.notify_all()

    def _on_ready(self, link: SlotLink, message: dict[str, Any]) -> None:
        if not self._is_awaited(link):
            link.state = "surplus"
            link.kill()
            return
        link.address = Address(*message["address"])
        link.state = "ready"
        self.slots[link.slot] = link

    def _is_awaited(self, link: SlotLink) -> bool:
        """Whether a process that starts is still needed: Spark may start two for a slot, or one may come too late."""
        return self.slots[link.slot] is None and link.epoch == self.epoch

    def _on_frames(self, link: SlotLink, message: dict[str, Any]) -> None:
        self._with_frames.add(link.slot)

    def _on_failed(self, link: SlotLink, message: dict[str, Any]) -> None:
        link.reason = message["error"]
        if link.state == "starting" and self._is_awaited(link):
            self._failed_start = link.reason
        link.state = "failed"
        log.debug("slot %d could not start:\n%s", link.slot, message["traceback"])

    def _on_crashed(self, link: SlotLink, message: dict[str, Any]) -> None:
        link.reason = message["reason"]

    def _on_hung(self, link: SlotLink, message: dict[str, Any]) -> None:
        link.reason = f"{message['where']} has not returned for {message['secs']:.0f} s"
        log.error("slot %d hangs: %s\n%s", link.slot, link.reason, message["stacks"])

    def _on_stopped(self, link: SlotLink, message: dict[str, Any]) -> None:
        link.state = "stopped"

    def _on_done(self, link: SlotLink, message: dict[str, Any]) -> None:
        question = self._asked.get(message["asked"])
        if question is not None and link in question.awaited:
            question.awaited.discard(link)
            question.replies[link.slot] = message

    def _on_uncommitted(self, link: SlotLink, message: dict[str, Any]) -> None:
        self._uncommitted = True
        self._urgent = self._urgent or message["is_urgent"]

    def _on_broken(self, link: SlotLink, message: dict[str, Any]) -> None:
        self._broken = True

    _HANDLERS: ClassVar[dict[str, Callable[[Driver, SlotLink, dict[str, Any]], None]]] = {
        "ready": _on_ready,
        "frames": _on_frames,
        "failed": _on_failed,
        "crashed": _on_crashed,
        "hung": _on_hung,
        "stopped": _on_stopped,
        "done": _on_done,
        "uncommitted": _on_uncommitted,
        "broken": _on_broken,
    }

    def on_end(self, link: SlotLink) -> None:
        """A slot's connection has ended, and so has the slot."""
        with self._changed:
            if link.state == "ready" and not self._ending:
                link.state = "lost"
                self._lost[link.slot] = link.last_words()
            elif link.state == "ready":
                link.state = "stopped"
            elif link.state == "starting" and self._is_awaited(link):
                told = f"slot {link.slot} did not start: {link.last_words()}"
                self._failed_start = self._failed_start or told
            self._changed.notify_all()

    def refuse(self, reason: str) -> None:
        """A slot that cannot take part: the start fails with `reason`."""
        with self._changed:
            self._failed_start = reason
            self._changed.notify_all()

    # Starting and ending; called by the cluster.

    def start(self, is_open: bool) -> None:
        """Place every slot and wait until all are there, with their components open if `is_open`."""
        self.is_open = is_open
        self._start_slots(list(self.slots))

    def warm_up(self) -> None:
        """Exchange nothing."""
        self._run_job()

    def _start_slots(self, slots: list[int]) -> None:
        with self._changed:
            self._failed_start = None
            missing = [slot for slot in slots if not self.slots[slot]]  # a late process may have taken a place by now
        if missing:
            self._engine.place(missing)
        with self._changed:
            self._changed.wait_for(
                lambda: self._failed_start or self._ending or all(self.slots[slot] for slot in slots), self._start_secs
            )
            if self._failed_start:
                raise StormError(self._failed_start)
            missing = [slot for slot in slots if not self.slots[slot]]
            if missing and not self._ending:
                raise StormError(f"slots {missing} did not start within {self._start_secs:g} s")

    def set_active(self, active: bool) -> None:
        """Have the spouts emit, or rest; returns when every slot has done so. The first time components are opened."""
        secs = self._start_secs if active and not self.is_open else ANSWER_SECS
        self.active = active
        self.is_open = self.is_open or active
        question = self._ask_all("activate" if active else "deactivate", secs)
        for link in question.awaited:
            if link.state == "failed":
                raise StormError(link.reason)

    def read(self, component: str, key: bytes | None) -> list[bytes]:
        """What the slots find of a component's state for a packed key, or for all."""
        with self._changed:  # what a slot holds that is being started anew is not nothing
            self._changed.wait_for(lambda: self._ending or not self._missing(), ANSWER_SECS)
        question = self._ask_all("read", component=component, key=key)
        if silent := sorted(set(self.slots) - set(question.replies)):
            raise StormError(f"the state of {component!r} cannot be read now, slots {silent} do not answer: try again")
        return [reply["found"] for reply in question.replies.values()]

    def _missing(self) -> list[int]:
        return [slot for slot, link in self.slots.items() if link is None or link.state != "ready"]

    def _ask(self, kind: str, **content: Any) -> Question:
        """Tell the slots to do something; they say when they have."""
        with self._changed:
            links = [link for link in self.slots.values() if link is not None and link.state == "ready"]
            self._asked = {number: question for number, question in self._asked.items() if question.open_slots()}
            asked = next(self._questions)
            question = self._asked[asked] = Question(set(links))
        for link in links:
            link.tell(kind, asked=asked, **content)
        return question

    def _ask_all(self, kind: str, secs: float = ANSWER_SECS, **content: Any) -> Question:
        """Tell the slots something and wait until each has done it, is gone, or takes too long."""
        question = self._ask(kind, **content)
        with self._changed:
            self._changed.wait_for(lambda: question.is_answered() or self._ending, secs)
            if not question.is_answered() and not self._ending:
                log.warning("slots %s are busy with user code: %s is not done yet", question.open_slots(), kind)
        return question

    def finish(self, secs: float) -> None:
        """Commit once more, before everything ends."""
        with self._changed:
            self._finishing = self._keeper is not None and self.is_open
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._finishing or self._ending or self._lost, secs)

    def stop(self, secs: float = 30.0) -> None:
        """Have every slot close its components and end; what does not end is killed."""
        with self._changed:
            self._ending = True
            links = [link for link in self.slots.values() if link is not None]
            self._changed.notify_all()
        for link in links:
            link.tell("stop")
        with self._changed:
            self._changed.wait_for(lambda: all(link.state != "ready" for link in links), secs)
        for link in links:
            if link.state == "ready":
                log.warning("slot %d does not end and is killed", link.slot)
                link.kill()

    # What else waits for slots: the threads that feed them.

    def all_ready(self) -> list[SlotLink] | None:
        """The slots by number, once all of them are there; None if the topology ends before that."""
        with self._changed:
            self._changed.wait_for(lambda: self._ending or self._are_ready())
            return None if self._ending else [link for link in self.slots.values() if link is not None]

    def _are_ready(self) -> bool:
        return not self._lost and all(link is not None and link.state == "ready" for link in self.slots.values())

    def wait_for(self, condition: Callable[[], bool], secs: float | None = None) -> bool:
        """Wait until what slots say makes `condition` true; False if the topology ends, or `secs` pass, before."""
        with self._changed:
            return self._changed.wait_for(lambda: self._ending or condition(), secs) and not self._ending

    def collect(self) -> dict[int, dict[int, int]]:
        """Have bolts set apart what they have collected; {slot: {task: rows}} of the slots that have done so."""
        question = self._ask_all("collect")
        return {slot: reply["rows"] for slot, reply in question.replies.items()}

    def pause(self, secs: float) -> bool:
        """Let `secs` pass; False if the topology ends."""
        with self._changed:
            return not self._changed.wait_for(lambda: self._ending, secs)

    def nudge(self) -> None:
        """Have those who wait look again."""
        with self._changed:
            self._changed.notify_all()

    # The loop; called in the thread of foreachBatch.

    def batch(self) -> None:
        """Exchange for about the commit interval, once there is something to exchange; then commit."""
        began: float | None = None
        epoch = self.epoch
        try:
            while not self._ending and not self._is_over(began):
                self._wait_for_work(began)
                if self._ending:
                    return
                if self._lost or self._broken:
                    self._recover()
                else:
                    began = began or self._changed.monotonic()
                    if self._with_frames:
                        self._run_job()
                    self._go_on_with_commit(began)
        except Exception as exc:
            if self._ending:
                return
            self.error = exc
            raise
        if epoch == self.epoch:
            for slot in filter(self.has_died, self.slots):
                if (link := self.slots[slot]) is not None:
                    link.tell("calm")
            self._deaths = dict.fromkeys(self._deaths, 0)

    def has_died(self, slot: int) -> bool:
        """Whether a slot has died since the last batch that it lived through."""
        return self._deaths[slot] > 0

    def _is_over(self, began: float | None) -> bool:
        """Whether a batch that began then has come to its end, its commit included."""
        if began is None or self._changed.monotonic() < began + self._commit_secs:
            return False
        return self._round is None and not (self._uncommitted or self._finishing)

    def _wait_for_work(self, began: float | None) -> None:
        left = None if began is None else max(0.0, began + self._commit_secs - self._changed.monotonic())
        with self._changed:
            self._changed.wait_for(lambda: self._has_work(began), None if self._round is not None else left)

    def _has_work(self, began: float | None) -> bool:
        if self._round is not None:
            news = self._round.is_answered()
        else:
            news = self._finishing or self._urgent or (began is None and self._uncommitted)
        return bool(self._ending or self._lost or self._broken or self._with_frames or news)

    # Commits.

    def _go_on_with_commit(self, began: float) -> None:
        """Begin a commit when it is time to, or make its next step."""
        if self._keeper is None:
            return
        if self._round is None:
            is_due = self._changed.monotonic() >= began + self._commit_secs
            if self._uncommitted and (is_due or self._urgent or self._finishing):
                self._uncommitted = self._urgent = False
                self._round = CommitRound(self._ask, self._keeper, len(self.slots))
            elif self._finishing:
                self._end_round()
        elif self._round.advance():
            self._end_round()

    def _end_round(self) -> None:
        round_, self._round = self._round, None
        if round_ is not None and round_.failure is not None:
            self._commit_failed(round_.failure)
        elif round_ is not None and not round_.is_made:
            self._uncommitted = True
            with self._changed:
                self._changed.wait_for(lambda: self._ending or self._lost, self._commit_secs)
        else:
            self._failed_commits = 0
        with self._changed:
            self._finishing = False
            self._changed.notify_all()

    def _commit_failed(self, why: str) -> None:
        self._failed_commits += 1
        if self._failed_commits > FAILED_JOBS:
            raise StormError(why)
        log.warning("%s: all that has happened since the last commit is taken back", why)
        self._recover()

    def look_for_silence(self) -> None:
        """Kill slots of which nothing has been heard for too long: they hang as a whole, or their machine does."""
        now = self._changed.monotonic()
        for link in self.slots.values():
            if link is not None and link.state == "ready" and now - link.heard_at > self._silence_secs:
                link.reason = f"nothing was heard of it for {now - link.heard_at:.0f} s"
                link.kill()

    def _run_job(self) -> None:
        with self._changed:
            self._with_frames.clear()
            self._job += 1
            addresses = tuple(link.address for link in self.slots.values() if link is not None and link.address)
            order = Order(self.epoch, self._job, self._token, addresses)
        began = self._changed.monotonic()
        try:
            statuses = self._engine.exchange(order, self._exchanges)
        except Exception as exc:
            self._job_failed(exc)
            return
        self._failed_jobs = 0
        self._pace(self._changed.monotonic() - began)
        self._await_end_of([slot for slot, status in statuses.items() if status in ("lost", "refused")])
        if "missed" in statuses.values() and not self._lost and not self._ending:
            log.warning("an exchange has missed a slot for a moment, what was in flight is failed")
            self._recover()

    def _job_failed(self, exc: Exception) -> None:
        """What the job carried is lost: all slots begin a new epoch."""
        if self._ending:
            raise exc
        self._failed_jobs += 1
        if self._failed_jobs > FAILED_JOBS:
            raise exc
        log.warning("an exchange failed and is given up, what was in flight is failed: %s", _first_line(exc))
        with self._changed:
            self._changed.wait_for(lambda: bool(self._lost), 0.5)
        self._recover()

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
        with self._changed:
            lost, self._lost = self._lost, {}
            self.epoch += 1
            self._job = 0
            self._with_frames.clear()
            self.slots.update(dict.fromkeys(lost))
            if self._broken and not lost:
                log.warning("a tuple tree has failed: all that has happened since the last commit is taken back")
            self._broken = self._uncommitted = self._urgent = False
            self._round = None
        for slot, why in lost.items():
            self._deaths[slot] += 1
            if self._deaths[slot] > self._max_restarts:
                raise SlotLostError(f"slot {slot} died {self._deaths[slot]} times in a row; the last time: {why}")
            log.warning("slot %d is lost (%s); it is started anew, what was in flight is failed", slot, why)
            if self._keeper is not None:
                self._keeper.forget(slot)
        self._ask_all("reset", epoch=self.epoch, committed=self._keeper.txid if self._keeper is not None else 0)
        again = max((self._deaths[slot] for slot in lost), default=0)
        if again > 1:
            with self._changed:
                pause = min(LONGEST_PAUSE_SECS, FIRST_PAUSE_SECS * 2 ** (again - 2))
                self._changed.wait_for(lambda: self._ending, pause)
        if lost and not self._ending:
            try:
                self._start_slots(list(lost))
            except StormError as exc:
                with self._changed:  # another death, of those that did not come back
                    self._lost.update((slot, str(exc)) for slot in lost if self.slots[slot] is None)
                return
        if self.active:
            self._ask_all("activate")


def _first_line(exc: Exception) -> str:
    return str(exc).strip().split("\n")[0]
