"""Internal. A slot's answers to exchanges: each exchange takes frames in once, and hands frames out once."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgpack

from pystorm_spark.runtime.frames import Frame
from pystorm_spark.runtime.slot import Slot
from pystorm_spark.spark.protocol.messages import TASK_TO_SLOT, Exchange, Feed, Fetch, Log, Message, Parcels
from pystorm_spark.spark.protocol.wire import MISSED, Address, Connection, Door
from pystorm_spark.spark.slot.rows import RowTasks

ENOUGH_BYTES = 256 << 20  # for one answer: Spark carries less than 2 GiB in one piece
HOLD_SECS = 0.4  # since the last answer: a busy slot is not asked more often, because exchanges cost time, too
HOLD_STEP_SECS = 0.01
LINGER_SECS = 0.02  # at most, for what an exchange has brought to be executed: its acks then need no other exchange
LINGER_STEP_SECS = 0.001
LOST = "lost"  # the status of an exchange that nobody can vouch for: the driver replaces the slot
BUSY_SHARE = 0.7  # of its time that a slot works when it is busy
NEVER = -math.inf

if TYPE_CHECKING:
    from pystorm_spark.spark.slot.actor import SlotActor


class Answer:
    """The answer to one exchange, for all who ask."""

    def __init__(self) -> None:
        self._given = threading.Event()
        self._content = Parcels(LOST, [])

    def give(self, content: Parcels) -> None:
        self._content = content
        self._given.set()

    def wait(self) -> Parcels:
        self._given.wait()
        return self._content


class Exchanges:
    """Takes frames in and hands frames out, each exchange once; it never waits, and several threads may call it.

    An exchange is known by (epoch, job, number). One that was answered before, because Spark runs a task again, gets
    the kept answer and takes nothing in. An old epoch is refused. As long as the slot still holds what belongs to an
    old epoch, because it is busy with user code, what comes is put aside and nothing is handed out. A slot that took
    in less than there was says so to the end of the job, even if the rest comes later: it would not be taken in.
    """

    def __init__(self, slot: Slot, epoch: int, frames_taken: Callable[[], None]) -> None:
        self._slot = slot
        self._slot_of = slot.plan.slot_of
        self._now = slot.clock.monotonic
        self._frames_taken = frames_taken
        self._lock = threading.Lock()
        self._epoch = epoch
        self._job = -1
        self._kept: dict[int, Answer] = {}  # {number: answer} of the current job
        self._missed = False  # whether the current job has lost frames on its way here
        self._aside: list[Frame] | None = None  # what came since the fence, until the slot is reset
        self._answered_at = self._now()
        self._worked_secs = 0.0  # since the last answer
        self._brought_at = NEVER  # when frames came that the slot has not worked through since

    def note_work(self, secs: float) -> None:
        """The slot has spent `secs` on a turn that had something to do."""
        self._worked_secs += secs
        if not self._slot.arrivals.is_waiting():
            self._brought_at = NEVER

    def fence(self, epoch: int) -> None:
        """Refuse everything older than `epoch` from now on; the slot will be reset soon."""
        with self._lock:
            self._epoch = epoch
            self._await_job(-1)
            self._aside = []

    def begin_epoch(self, epoch: int) -> None:
        """The slot has been reset for `epoch`, and holds nothing older any more."""
        with self._lock:
            if epoch == self._epoch and self._aside is not None:  # else there is another reset to come
                self._slot.deliver(self._aside)
                self._aside = None

    def end_job(self, epoch: int, job: int) -> None:
        """A job has ended well: nobody needs its answers any more, and what asks for them is refused."""
        with self._lock:
            if epoch == self._epoch and job >= self._job:
                self._await_job(job + 1)

    def _await_job(self, job: int) -> None:
        self._job = job
        self._missed = False
        self._kept.clear()

    def take_in(self, epoch: int, job: int, number: int, parcels: list[bytes]) -> tuple[Answer, bool]:
        """The answer to an exchange, and whether the caller is the first who asks: it must have the answer given."""
        with self._lock:
            if epoch != self._epoch or job < self._job:
                refusal = Answer()
                refusal.give(Parcels("refused", []))
                return refusal, False
            if job > self._job:
                self._await_job(job)
            answer = self._kept.get(number)
            if answer is not None:
                return answer, False
            answer = self._kept[number] = Answer()
            if parcels and self._brought_at == NEVER:
                self._brought_at = self._now()
            try:
                self._deliver(parcels)
            except BaseException:
                answer.give(Parcels(LOST, []))  # nobody who asks again shall wait for ever
                raise
            return answer, True

    def _deliver(self, parcels: list[bytes]) -> None:
        deliver = self._slot.deliver if self._aside is None else self._aside.extend
        for parcel in parcels:
            if parcel == MISSED:
                self._missed = True
            else:
                deliver([Frame(*frame) for frame in msgpack.unpackb(parcel)])

    def held_secs(self) -> float:
        """After how many seconds to look again whether the answer is still to wait; 0 if it is not.

        A slot that has hardly time for anything else fills its frames for a while, unless a commit waits until nothing
        is in flight. One that has just got frames works them through first, if that does not take long: if it has not
        come to it since an earlier exchange brought some, nobody waits for it any more.
        """
        now = self._now()
        since = now - self._answered_at
        if since < HOLD_SECS and self._worked_secs > BUSY_SHARE * since and not self._slot.quiescing:
            return HOLD_STEP_SECS
        return LINGER_STEP_SECS if now - self._brought_at < LINGER_SECS else 0.0

    def hand_out(self, answer: Answer, epoch: int, is_last: bool) -> None:
        """Give all who ask what the slot has for others."""
        content = Parcels(LOST, [])
        try:
            content = self._taken(epoch, is_last)
        finally:
            answer.give(content)

    def _taken(self, epoch: int, is_last: bool) -> Parcels:
        """The last stage of a job could not carry frames anywhere: they stay in the outbox."""
        with self._lock:
            if epoch != self._epoch:
                return Parcels("refused", [])
            self._answered_at = self._now()
            self._worked_secs = 0.0
            status = "missed" if self._missed else "ok"
            if is_last or self._aside is not None:
                return Parcels(status, [])
            self._frames_taken()
            frames = self._slot.take(ENOUGH_BYTES)
        by_slot: dict[int, list[Frame]] = {}
        for frame in frames:
            by_slot.setdefault(self._slot_of[frame.target], []).append(frame)
        return Parcels(status, [[slot, msgpack.packb(parcel)] for slot, parcel in by_slot.items()])


class Answering:
    """Answers the Spark tasks that connect, one thread for each connection."""

    def __init__(self, actor: SlotActor, exchanges: Exchanges, rows: RowTasks, token: bytes) -> None:
        self._actor = actor
        self._exchanges = exchanges
        self._token = token
        self._handlers: dict[type[Message], Callable[[Any], Message]] = {
            Exchange: self._exchange,
            Feed: rows.feed,
            Fetch: rows.fetch,
        }

    def serve(self, server: Any, address: Address) -> None:
        """Accept connections until the process ends; one that cannot show the token is closed."""
        Door(server, address, self._token, self._serve_one, self._tell_refusal).run()

    def _tell_refusal(self, text: str) -> None:
        self._actor.tell(Log(logging.WARNING, text))

    def _serve_one(self, connection: Connection) -> None:
        while True:  # without names for what comes and goes: the next request may not come for hours
            connection.send(self._reply(connection.receive()).to_plain())

    def _reply(self, plain: Any) -> Message:
        asked = TASK_TO_SLOT.read(plain)
        return self._handlers[type(asked)](asked)

    def handled(self) -> set[type[Message]]:
        """The classes of messages that it answers."""
        return set(self._handlers)

    def _exchange(self, asked: Exchange) -> Parcels:
        answer, is_first = self._exchanges.take_in(asked.epoch, asked.job, asked.number, asked.parcels)
        if is_first:
            self._actor.took_in()
            while not asked.is_last and (secs := self._exchanges.held_secs()):
                time.sleep(secs)
            self._exchanges.hand_out(answer, asked.epoch, asked.is_last)
        return answer.wait()
