"""Internal. The slot process: holds task instances and runs them all the time, beside an executor.

The main thread turns the slot. One thread for each connection of a Spark task answers exchanges from the slot's inbox
and outbox, so that a bolt that blocks delays nobody else's exchange. One thread listens to the driver. One watches: it
beats, and ends the process when the driver or the executor is gone, or when user code hangs.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import logging
import os
import platform
import random
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cloudpickle
import msgpack

from pystorm_spark.clock import SystemClock
from pystorm_spark.runtime.bolt_task import SlotCrash
from pystorm_spark.runtime.frames import Frame
from pystorm_spark.runtime.plan import Plan
from pystorm_spark.runtime.slot import Slot
from pystorm_spark.spark.process import ProcessId
from pystorm_spark.spark.wire import Address, WireError, accept, connect, listen
from pystorm_spark.version import __version__

log = logging.getLogger(__name__)

BEAT_SECS = 0.5
STATS_SECS = 0.25
LEASE_SECS = 8.0  # without a word from the driver a slot ends itself
LONGEST_REST_SECS = 0.02
HUNG, ORPHANED, CRASHED = 70, 71, 72  # exit codes


class SlotProcess:
    """One slot, its connections and its threads."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.number: int = spec["slot"]
        self._token: bytes = spec["token"]
        self._folder = Path(spec["folder"]) if spec["folder"] else None
        self._host: str = spec["host"]
        self._executor = ProcessId(*spec["executor"])
        self._control = connect(Address(*spec["control"]), self._token)
        self._sending = threading.Lock()
        self._calls: deque[Callable[[], None]] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._told_frames = False
        self._turn_began = time.monotonic()
        self._last_word = time.monotonic()
        self._execute_timeout = 1e9
        self.epoch = 0

    # The driver.

    def tell(self, kind: str, **content: Any) -> None:
        """Send a message to the driver; without a driver there is nothing left to do."""
        try:
            with self._sending:
                self._control.send({"kind": kind, **content})
        except WireError:
            os._exit(ORPHANED)

    def _hear(self) -> None:
        """Receive the driver's messages until it is gone."""
        while True:
            try:
                message = self._control.receive()
            except WireError:
                self._orphaned("the driver is gone")
            self._last_word = time.monotonic()
            handle = getattr(self, f"_on_{message['kind']}", None)
            if handle is not None:
                handle(message)

    def _on_activate(self, message: dict[str, Any]) -> None:
        self._later(lambda: self._set_active(True))

    def _on_deactivate(self, message: dict[str, Any]) -> None:
        self._later(lambda: self._set_active(False))

    def _on_reset(self, message: dict[str, Any]) -> None:
        epoch = message["epoch"]
        self._exchanges.fence(epoch)  # at once: what belongs to the old epoch is refused from now on
        self._later(lambda: self._reset(epoch))

    def _on_stats(self, message: dict[str, Any]) -> None:
        self.tell("stats", asked=message["asked"], **self.stats())

    def _on_stop(self, message: dict[str, Any]) -> None:
        self._stopping = True
        self._wake.set()

    def _on_lease(self, message: dict[str, Any]) -> None:
        self.slot.paused = message["paused"]

    def _set_active(self, active: bool) -> None:
        if active and not self.slot.is_open:
            try:
                self.slot.open()
            except Exception as exc:
                self._fail_start(exc)
                return
        self.slot.active = active
        if self.slot.is_open:
            self.slot.turn()
        self.tell("done")

    def _reset(self, epoch: int) -> None:
        self.epoch = epoch
        self._told_frames = False
        self.slot.reset()
        self.tell("done")

    def _later(self, call: Callable[[], None]) -> None:
        self._calls.append(call)
        self._wake.set()

    # Life.

    def run(self) -> None:
        """From the hello to the end; what the process exits with is told to the driver first."""
        self.tell("hello", slot=self.number, pid=os.getpid(), versions=versions())
        assignment = self._control.receive()
        if assignment["kind"] != "assignment":
            return
        self.epoch = assignment["epoch"]
        plan: Plan
        try:
            plan, components, timeout = cloudpickle.loads(assignment["plan"])
            self._execute_timeout = timeout
            self.slot = Slot(plan, self.number, components, SystemClock(), random.Random())
            self.slot.on_wake(self._wake.set)
        except BaseException as exc:
            self._fail_start(exc)
            return
        self._exchanges = Exchanges(self, self.slot, plan)
        server, address = listen(self._folder, self._host, f"slot-{self.number}-{os.getpid()}")
        threading.Thread(target=self._exchanges.serve, args=(server, self._token), daemon=True).start()
        threading.Thread(target=self._hear, daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()
        try:
            if assignment["open"]:
                self.slot.open()
        except BaseException as exc:
            self._fail_start(exc)
            return
        self.tell("ready", address=list(address), epoch=self.epoch)
        try:
            self._work()
        except SlotCrash as crash:
            self.tell("crashed", reason=str(crash), **self.stats())
            os._exit(CRASHED)
        finally:
            with contextlib.suppress(OSError):
                if address.port == 0:
                    os.unlink(address.host)
        if self.slot.is_open:
            self.slot.close()
        self.tell("stopped", **self.stats())

    def _fail_start(self, exc: BaseException) -> None:
        self.tell("failed", error=str(exc), type=type(exc).__name__, traceback=traceback.format_exc())

    def _work(self) -> None:
        idle_turns = 0
        while not self._stopping:
            while self._calls:
                self._calls.popleft()()
            self._turn_began = time.monotonic()
            busy = self.slot.is_open and self.slot.turn()
            self._turn_began = 0.0
            if self.slot.outbox.has_frames() and not self._told_frames:
                self._told_frames = True
                self.tell("frames")
            if busy:
                idle_turns = 0
                self._exchanges.note_busy()
            else:
                idle_turns += 1
                self._rest(idle_turns)

    def _rest(self, idle_turns: int) -> None:
        slot = self.slot
        secs = 0.25
        if slot.active and slot.spouts:
            wait_secs = slot.plan.conf["topology.sleep.spout.wait.strategy.time.ms"] / 1000
            secs = max(wait_secs, min(wait_secs * 2 ** min(idle_turns // 32, 6), LONGEST_REST_SECS))
        secs = min(secs, max(0.0, slot.next_due() - slot.clock.monotonic()))
        if self._wake.wait(secs):
            self._wake.clear()

    def frames_taken(self) -> None:
        """An exchange has emptied the outbox; the next frames are news again."""
        self._told_frames = False

    def wake(self) -> None:
        self._wake.set()

    def where(self) -> str:
        """Which task is running, for what it prints."""
        return self.slot.running()

    def stats(self) -> dict[str, Any]:
        """What the tasks have counted so far, and their errors."""
        tasks = [
            [task.component_id, asdict(task.counted()), [list(vars(error).values()) for error in task.errors]]
            for task in self.slot.tasks.values()
        ]
        return {"tasks": tasks, "inbox_bytes": self.slot.inbox_bytes()}

    # Watching.

    def _watch(self) -> None:
        told: Any = None
        while True:
            time.sleep(BEAT_SECS)
            now = time.monotonic()
            if not self._executor.is_alive():
                self._orphaned("the executor is gone")
            if now - self._last_word > LEASE_SECS:
                self._orphaned(f"the driver has been silent for {LEASE_SECS:g} s")
            began = self._turn_began
            if began and now - began > self._execute_timeout:
                self._hung(now - began)
            stats = self.stats()
            if stats != told:
                told = stats
                self.tell("stats", asked=None, **stats)
            else:
                self.tell("beat")

    def _hung(self, secs: float) -> None:
        with tempfile.TemporaryFile() as stacks:
            faulthandler.dump_traceback(stacks)
            stacks.seek(0)
            shown = stacks.read().decode(errors="replace")
        self.tell("hung", secs=secs, stacks=shown, where=self.where(), **self.stats())
        os._exit(HUNG)

    def _orphaned(self, reason: str) -> None:
        self._remove_folder_if_last()
        os._exit(ORPHANED)

    def _remove_folder_if_last(self) -> None:
        if self._folder is None:
            return
        with contextlib.suppress(OSError):
            for path in self._folder.glob(f"slot-{self.number}-*"):
                path.unlink()
            others = [path for path in self._folder.iterdir() if path.name.startswith("slot-")]
            if not others:
                for path in self._folder.iterdir():
                    path.unlink()
                self._folder.rmdir()


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
        self._answered_at = 0.0
        self._busy_at = 0.0

    def note_busy(self) -> None:
        self._busy_at = time.monotonic()

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
            if is_last:
                return ["ok", epoch, []]
            self._process.frames_taken()
            frames = self._slot.take()
        by_slot: dict[int, list[Frame]] = {}
        for frame in frames:
            by_slot.setdefault(self._slot_of[frame.target], []).append(frame)
        return ["ok", epoch, [[slot, msgpack.packb(parcel)] for slot, parcel in by_slot.items()]]

    def _hold(self, hold_secs: float) -> None:
        """A busy slot fills its frames for a while; an idle one answers at once."""
        until = self._answered_at + hold_secs
        while time.monotonic() < until and time.monotonic() - self._busy_at < 0.01:
            time.sleep(0.002)


class _ToDriver(io.TextIOBase):
    """What user code prints, line by line, to the driver's log."""

    def __init__(self, process: SlotProcess, level: int) -> None:
        self._process = process
        self._level = level
        self._line = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._line += text
        *lines, self._line = self._line.split("\n")
        for line in lines:
            self._process.tell("print", level=self._level, text=line, where=self._process.where())
        return len(text)


class _LogToDriver(logging.Handler):
    def __init__(self, process: SlotProcess) -> None:
        super().__init__()
        self._process = process

    def emit(self, record: logging.LogRecord) -> None:
        self._process.tell("log", level=record.levelno, text=f"{record.name}: {self.format(record)}")


def versions() -> dict[str, str]:
    """What must be the same on the driver and in the slots: pickled components do not cross them."""
    return {
        "python": ".".join(platform.python_version_tuple()[:2]),
        "cloudpickle": cloudpickle.__version__.rpartition(".")[0],
        "pystorm-spark": __version__,
    }


def main() -> None:
    """Run a slot by the specification that comes on the standard input: nothing secret shows in a list of processes."""
    spec = msgpack.unpackb(sys.stdin.buffer.read())
    sys.path[:] = spec["sys_path"]
    process = SlotProcess(spec)
    root = logging.getLogger()
    root.addHandler(_LogToDriver(process))
    root.setLevel(spec["log_level"])
    sys.stdout = _ToDriver(process, logging.INFO)
    sys.stderr = _ToDriver(process, logging.WARNING)
    process.run()
    os._exit(0)  # threads of user code must not keep the process


if __name__ == "__main__":
    main()
