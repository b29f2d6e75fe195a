"""Internal. The driver's loop: when to exchange, and what to do when a slot dies. Runs inside `foreachBatch`.

A batch is one call of `foreachBatch`: as long as slots have frames, chains of exchanges for about the commit interval.
While nothing is to be moved it waits, and no Spark job runs.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar, Protocol

from pystorm_spark.errors import SlotLostError, StormError
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

    def next_txid(self) -> int:
        """The number of the next transaction of the sinks; the same again until that is written."""

    def write(self, txid: int, links: list[SlotLink]) -> bool:
        """Have the sinks write the rows that `links` have set apart; False if one of them was lost meanwhile."""


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
        self._with_rows: set[int] = set()  # for sinks
        self._lost: dict[int, str] = {}  # {slot: why}
        self._failed_start: str | None = None
        self._deaths = dict.fromkeys(range(slots), 0)  # since the last batch that the slot lived through
        self._questions = itertools.count(1)
        self._awaited: dict[int, set[SlotLink]] = {}  # {question: slots that have not yet answered it}
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

    def _on_rows(self, link: SlotLink, message: dict[str, Any]) -> None:
        self._with_rows.add(link.slot)

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
        if "rows" in message:
            link.frozen = message["txid"], message["rows"]
        self._awaited.get(message["asked"], set()).discard(link)

    _HANDLERS: ClassVar[dict[str, Callable[[Driver, SlotLink, dict[str, Any]], None]]] = {
        "ready": _on_ready,
        "frames": _on_frames,
        "rows": _on_rows,
        "failed": _on_failed,
        "crashed": _on_crashed,
        "hung": _on_hung,
        "stopped": _on_stopped,
        "done": _on_done,
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
        links = self._ask_all("activate" if active else "deactivate", secs)
        for link in links:
            if link.state == "failed":
                raise StormError(link.reason)

    def _ask_all(
        self, kind: str, secs: float = ANSWER_SECS, only: list[SlotLink] | None = None, **content: Any
    ) -> list[SlotLink]:
        """Tell the slots, or `only` some, something and wait until each has done it, is gone, or takes too long."""
        with self._changed:
            told = self.slots.values() if only is None else only
            links = [link for link in told if link is not None and link.state == "ready"]
            asked = next(self._questions)
            awaited = self._awaited[asked] = set(links)
        for link in links:
            link.tell(kind, asked=asked, **content)
        with self._changed:
            self._changed.wait_for(lambda: not _ready(awaited) or self._ending, secs)
            del self._awaited[asked]
            if _ready(awaited) and not self._ending:
                log.warning("slots %s are busy with user code: %s is not done yet", _ready(awaited), kind)
        return links

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

    def freeze(self, txid: int) -> list[SlotLink]:
        """Have bolts set their rows apart for `txid`; the slots that have done so."""
        links = self._ask_all("freeze", txid=txid)
        return [link for link in links if link.frozen is not None and link.frozen[0] == txid and link.state == "ready"]

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
        """Exchange for about the commit interval, once there is something to exchange; then have the sinks write."""
        began: float | None = None
        epoch = self.epoch
        try:
            while not self._ending and (began is None or self._changed.monotonic() - began < COMMIT_SECS):
                self._wait_for_work(began)
                if self._ending:
                    return
                if self._lost:
                    self._recover()
                    continue
                began = began or self._changed.monotonic()
                if self._with_frames:
                    self._run_job()
            if self._with_rows:
                self._write_rows()
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

    def _wait_for_work(self, began: float | None) -> None:
        """Wait for frames, for a lost slot, and in a batch that has begun no longer than rows for sinks may wait."""
        with self._changed:
            waiting = began is not None and bool(self._with_rows)
            left = max(0.0, began + COMMIT_SECS - self._changed.monotonic()) if began is not None and waiting else None
            self._changed.wait_for(
                lambda: self._ending or self._lost or self._with_frames or (not waiting and self._with_rows), left
            )

    def _write_rows(self) -> None:
        """One transaction of the sinks: slots set their rows apart, these are written, then their tuples are acked."""
        with self._changed:
            asked, self._with_rows = self._with_rows, set()
        txid = self._engine.next_txid()
        ready = self.freeze(txid)
        with self._changed:
            self._with_rows |= asked - {link.slot for link in ready}  # busy with user code: next time
        if self._lost or self._ending or not self._engine.write(txid, ready):
            return  # a recovery drops what was set apart, and its tuples fail
        self._ask_all("commit", only=ready, txid=txid)

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
            self._with_rows.clear()
            self.slots.update(dict.fromkeys(lost))
        for slot, why in lost.items():
            self._deaths[slot] += 1
            if self._deaths[slot] > self._max_restarts:
                raise SlotLostError(f"slot {slot} died {self._deaths[slot]} times in a row; the last time: {why}")
            log.warning("slot %d is lost (%s); it is started anew, what was in flight is failed", slot, why)
        self._ask_all("reset", epoch=self.epoch)
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


def _ready(links: Iterable[SlotLink]) -> list[int]:
    return sorted(link.slot for link in links if link.state == "ready")


def _first_line(exc: Exception) -> str:
    return str(exc).strip().split("\n")[0]
