"""Internal. A slot's answers to exchanges: each exchange takes frames in once, and hands frames out once."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

import msgpack

from pystorm_spark.runtime.frames import Frame
from pystorm_spark.runtime.plan import Plan
from pystorm_spark.runtime.slot import Slot
from pystorm_spark.spark.wire import WireError, accept

BUSY_SHARE = 0.7  # of its time that a slot works when it is busy

if TYPE_CHECKING:
    from pystorm_spark.spark.slot_process import SlotProcess


class Answer:
    """The answer to one exchange, for all who ask."""

    def __init__(self) -> None:
        self._given = threading.Event()
        self._content: list[Any] = []

    def give(self, content: list[Any]) -> None:
        self._content = content
        self._given.set()

    def wait(self) -> list[Any]:
        self._given.wait()
        return self._content


class Exchanges:
    """Answers the exchanges of Spark tasks: takes frames in, hands frames out, each exchange once.

    An exchange is known by (epoch, batch, number). One that was answered before, because Spark runs a task again, gets
    the kept answer and takes nothing in. An old epoch is refused.
    """

    def __init__(self, process: SlotProcess, slot: Slot, plan: Plan) -> None:
        self._process = process
        self._slot = slot
        self._slot_of = plan.slot_of
        self._lock = threading.Lock()
        self._epoch = process.epoch
        self._batch = -1
        self._kept: dict[int, Answer] = {}  # {number: answer} of the current batch
        self._answered_at = time.monotonic()
        self._worked_secs = 0.0  # since the last answer

    def note_work(self, secs: float) -> None:
        """The slot has spent `secs` on a turn that had something to do."""
        self._worked_secs += secs

    def fence(self, epoch: int) -> None:
        """Refuse everything older than `epoch` from now on."""
        with self._lock:
            self._epoch = epoch
            self._batch = -1
            self._kept.clear()

    def serve(self, server: Any, token: bytes) -> None:
        """Accept connections until the process ends; one that cannot show the token is closed."""
        while True:
            sock, _ = server.accept()
            threading.Thread(target=self._serve_one, args=(sock, token), daemon=True).start()

    def _serve_one(self, sock: Any, token: bytes) -> None:
        try:
            connection = accept(sock, token)
        except (WireError, OSError) as exc:
            self._process.tell("log", level=logging.WARNING, text=f"a connection was refused: {exc}")
            return
        with contextlib.suppress(WireError):
            while True:
                connection.send(self._answer(*connection.receive()))
        connection.close()

    def _answer(
        self, epoch: int, batch: int, number: int, hold_secs: float, is_last: bool, parcels: list[bytes]
    ) -> list[Any]:
        with self._lock:
            if epoch != self._epoch or batch < self._batch:
                return ["refused", self._epoch, []]
            if batch > self._batch:
                self._batch = batch
                self._kept.clear()
            answer = self._kept.get(number)
            if answer is None:
                answer = self._kept[number] = Answer()
                for parcel in parcels:
                    self._slot.deliver(Frame(*frame) for frame in msgpack.unpackb(parcel))
                first = True
            else:
                first = False
        if first:
            self._process.wake()
            if not is_last:
                self._hold(hold_secs)
            answer.give(self._taken(epoch, is_last))
        return answer.wait()

    def _taken(self, epoch: int, is_last: bool) -> list[Any]:
        """What the slot has for others. The last stage of a job could not carry it anywhere: it stays in the outbox."""
        with self._lock:
            if epoch != self._epoch:
                return ["refused", self._epoch, []]
            self._answered_at = time.monotonic()
            self._worked_secs = 0.0
            if is_last:
                return ["ok", epoch, []]
            self._process.frames_taken()
            frames = self._slot.take()
        by_slot: dict[int, list[Frame]] = {}
        for frame in frames:
            by_slot.setdefault(self._slot_of[frame.target], []).append(frame)
        return ["ok", epoch, [[slot, msgpack.packb(parcel)] for slot, parcel in by_slot.items()]]

    def _hold(self, hold_secs: float) -> None:
        """Let a slot that has hardly time for anything else fill its frames for a while; others answer at once."""
        until = self._answered_at + hold_secs
        while (now := time.monotonic()) < until and self._worked_secs > BUSY_SHARE * (now - self._answered_at):
            time.sleep(0.002)
