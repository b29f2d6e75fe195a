"""Internal. Slots: the slots of one topology as the driver knows them. What they say, and what they are asked."""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from pystorm_spark.errors import StormError
from pystorm_spark.spark.driver.commit_round import Question
from pystorm_spark.spark.driver.control import SlotLink
from pystorm_spark.spark.exchange.visit import Order
from pystorm_spark.spark.protocol.wire import Address

log = logging.getLogger(__name__)

START_SECS = 120.0  # for all slots to open, by their own clocks
LONGEST_CALL_SECS = 1e6  # of `input_ended`; a slot that hangs in it is killed before
ANSWER_SECS = 30.0  # for slots that are busy with user code
QUICK_STARTS = 4
LOOK_SECS = 0.5  # between two looks whether processes that start still live
HELLO_SECS = 20.0  # from the start of a process to its first word, even where the machine has much to do

Handler = Callable[[Any, SlotLink, dict[str, Any]], None]


class Running(Protocol):
    """A chain of exchanges that runs; what a `Future` is, too."""

    def done(self) -> bool: ...

    def result(self) -> dict[int, str]:
        """{slot: "ok", "missed", "refused" or "lost"}, or raises what went wrong."""


class Engine(Protocol):
    """What the loop needs from Spark; a simulator can be put in its place."""

    def place(self, slots: list[int]) -> None:
        """Start the processes of `slots`; they report by themselves."""

    def has_lost(self, slots: list[int]) -> bool:
        """Whether the process that was started last for one of `slots` is known to be gone."""

    def exchange(self, order: Order, exchanges: int) -> Running:
        """Begin a chain of exchanges; who waits is nudged when it has come to its end."""


class Changes(threading.Condition):
    """The lock on what the threads share, how they wait for one another, and their clock; a simulator has its own."""

    monotonic = staticmethod(time.monotonic)


class Slots:
    """The slots of one topology, from their placing to their end."""

    def __init__(
        self,
        slots: int,
        engine: Engine,
        silence_secs: float,
        start_secs: float,
        changed: Changes | None,
        drain_secs: float = math.inf,
    ) -> None:
        self.epoch = 1
        self.slots: dict[int, SlotLink | None] = dict.fromkeys(range(slots))
        self.active = False
        self.is_open = False  # whether slots open their components when they start
        self._engine = engine
        self._silence_secs = silence_secs
        self._start_secs = start_secs + ANSWER_SECS  # a slot that takes too long tells why, before it is given up
        # To answer, a slot may have to return from user code, then call some, then write what a start has to read.
        self._answer_secs = 2 * silence_secs + self._start_secs
        self._drain_secs = drain_secs  # and for what is in flight to be done, or to time out
        self._changed = changed or Changes()
        self._lost: dict[int, str] = {}  # {slot: why}
        self._failed_start: str | None = None
        self._heard: set[int] = set()  # slots that start and have said hello
        self._questions = itertools.count(1)
        self._asked: dict[int, Question] = {}  # those that are not yet answered
        self._telling = threading.RLock()  # held while slots are asked: all of them hear questions in the same order
        self._ending = False

    # What slots say; called in the listening threads.

    def admit(self, link: SlotLink) -> dict[str, Any]:
        """What a process that has just connected needs to know."""
        with self._changed:
            link.epoch = self.epoch
            self._heard.add(link.slot)
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
        is_given_up = link.slot in self._lost  # and another one is about to be started
        return self.slots[link.slot] is None and link.epoch == self.epoch and not is_given_up

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

    def _on_stopped(self, link: SlotLink, message: dict[str, Any]) -> None:
        link.state = "stopped"

    def _on_done(self, link: SlotLink, message: dict[str, Any]) -> None:
        question = self._asked.get(message["asked"])
        if question is not None and link in question.asked:
            question.replies[link.slot] = message

    _HANDLERS: ClassVar[dict[str, Handler]] = {
        "ready": _on_ready,
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
                self._note_death(link)
            elif link.state == "ready":
                link.state = "stopped"
            elif link.state == "starting" and self._is_awaited(link):
                told = f"slot {link.slot} did not start: {link.last_words()}"
                self._failed_start = self._failed_start or told
            self._changed.notify_all()

    def _note_death(self, link: SlotLink) -> None:
        """A slot has died that was counted on."""

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

    def _start_slots(self, slots: list[int]) -> None:
        deadline = self._changed.monotonic() + self._start_secs
        starts = 0
        with self._changed:
            self._failed_start = None
            self._heard.clear()
        while True:
            with self._changed:  # a late process may have taken a place by now
                silent = [slot for slot in self._without_process(slots) if slot not in self._heard]
            if silent:
                self._engine.place(silent)
                starts += 1
            with self._changed:
                now = self._changed.monotonic()
                # One that dies before it says hello is started again: at once where it is seen, but not on and on.
                if self._await_start(slots, min(deadline, now + HELLO_SECS), looks=starts <= QUICK_STARTS):
                    return
                if self._changed.monotonic() >= deadline:
                    missing = self._without_process(slots)
                    raise StormError(f"slots {missing} did not start within {self._start_secs:g} s")

    def _await_start(self, slots: list[int], until: float, looks: bool) -> bool:
        """Wait until all of `slots` are there; False if `until` is over, or a process is seen to have died before."""
        while True:
            is_over = self._changed.wait_for(
                lambda: self._failed_start or self._ending or not self._without_process(slots),
                min(LOOK_SECS, max(0.0, until - self._changed.monotonic())),
            )
            if self._failed_start:
                raise StormError(self._failed_start)
            silent = [slot for slot in self._without_process(slots) if slot not in self._heard]
            is_late = self._changed.monotonic() >= until
            if is_over or is_late or (looks and self._engine.has_lost(silent)):
                return bool(is_over)

    def _without_process(self, slots: list[int]) -> list[int]:
        return [slot for slot in slots if self.slots[slot] is None]

    def be_careful(self) -> None:
        """Have every slot tell of each call of user code before it makes it, so that it is known what kills it."""
        for link in self.slots.values():
            if link is not None:
                link.tell("careful")

    def set_active(self, active: bool) -> None:
        """Have the spouts emit, or rest; returns when every slot has done so. The first time components are opened."""
        secs = self._start_secs if active and not self.is_open else ANSWER_SECS
        kind = "activate" if active else "deactivate"
        with self._telling:  # of two that change it at once, the slots hear last who has set it last
            self.active = active
            self.is_open = self.is_open or active
            question = self._ask(kind)
        self._await_answers(question, kind, secs)
        for link in question.unanswered():
            if link.state == "failed":
                raise StormError(link.reason)

    def _activate_again(self) -> None:
        """Have the spouts of slots that were started anew emit, if that is still wanted when the slots are asked."""
        with self._telling:
            question = self._ask("activate") if self.active else None
        if question is not None:
            self._await_answers(question, "activate", ANSWER_SECS)

    def read(self, component: str, key: bytes | None) -> list[bytes]:
        """What the slots find of a component's state for a packed key, or for all."""
        deadline = self._changed.monotonic() + ANSWER_SECS
        while True:
            with self._changed:  # what a slot holds that is being started anew is not nothing
                left = deadline - self._changed.monotonic()
                self._changed.wait_for(lambda: self._ending or not self._missing(), left)
            question = self._ask_all("read", component=component, key=key)
            silent = sorted(set(self.slots) - set(question.replies))
            if not silent:
                break
            if self._ending or self._changed.monotonic() >= deadline:
                raise StormError(
                    f"the state of {component!r} cannot be read now, slots {silent} do not answer: try again"
                )
        failed = [reply["failed"] for reply in question.replies.values() if "failed" in reply]
        if failed:
            raise StormError(f"the state of {component!r} cannot be read: {failed[0]}")
        too_much = {slot: reply["size"] for slot, reply in question.replies.items() if reply["found"] is None}
        if too_much:
            slot, size = too_much.popitem()
            raise StormError(
                f"what slot {slot} holds of the state of {component!r} is too much to be read at once, {size:,} bytes: "
                "read it key by key, or with load_state"
            )
        return [reply["found"] for reply in question.replies.values()]

    def _missing(self) -> list[int]:
        return [slot for slot, link in self.slots.items() if link is None or link.state != "ready"]

    def _ask(self, kind: str, **content: Any) -> Question:
        """Tell the slots to do something; they say when they have."""
        with self._changed:
            links = [link for link in self.slots.values() if link is not None and link.state == "ready"]
            self._asked = {number: question for number, question in self._asked.items() if question.open_slots()}
            asked = next(self._questions)
            secs = self._answer_secs + (self._drain_secs if kind in ("rest", "mark") else 0.0)
            until = self._changed.monotonic() + secs
            question = self._asked[asked] = Question(frozenset(links), kind, until)
        with self._telling:  # all hear a commit before they are asked what is committed, or all after it
            for link in links:
                link.tell(kind, asked=asked, **content)
        return question

    def _ask_all(self, kind: str, secs: float = ANSWER_SECS, **content: Any) -> Question:
        """Tell the slots something and wait until each has done it, is gone, or takes too long."""
        question = self._ask(kind, **content)
        self._await_answers(question, kind, secs)
        return question

    def _await_answers(self, question: Question, kind: str, secs: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: question.is_answered() or self._ending, secs)
            busy = [] if self._ending else question.open_slots()
        if busy:
            log.warning("slots %s are busy with user code: %s is not done yet", busy, kind)

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

    def end_input(self, component: str) -> None:
        """Have the tasks of a component told that all input has come; raises what they raise."""
        question = self._ask_all("end_input", LONGEST_CALL_SECS, component=component)
        failed = [reply["failed"] for reply in question.replies.values() if reply["failed"]]
        if failed:
            raise StormError(failed[0])

    def pause(self, secs: float) -> bool:
        """Let `secs` pass; False if the topology ends."""
        with self._changed:
            return not self._changed.wait_for(lambda: self._ending, secs)

    def nudge(self) -> None:
        """Have those who wait look again."""
        with self._changed:
            self._changed.notify_all()

    # Called in the thread that keeps the lease.

    def look_for_silence(self) -> None:
        """Kill slots of which nothing has been heard for too long: they hang as a whole, or their machine does."""
        now = self._changed.monotonic()
        for link in self.slots.values():
            if link is not None and link.state == "ready" and now - link.heard_at > self._silence_secs:
                link.reason = f"nothing was heard of it for {now - link.heard_at:.0f} s"
                link.kill()
