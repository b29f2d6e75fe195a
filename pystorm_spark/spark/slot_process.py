"""Internal. The slot process: holds task instances and runs them all the time, beside an executor.

The main thread turns the slot, until a bolt holds it up and another one does: see `relief`. One thread for each
connection of a Spark task answers exchanges from the slot's inbox and outbox, so that a bolt that blocks delays nobody
else's exchange. One thread listens to the driver. One watches: it beats, and ends the process when the driver or the
executor is gone, or when user code hangs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import cloudpickle
import msgpack

from pystorm_spark.checkpoint.files import Files, PosixFiles
from pystorm_spark.clock import SystemClock
from pystorm_spark.errors import StormError
from pystorm_spark.runtime.bolt_task import SlotCrash
from pystorm_spark.runtime.components import load_plan
from pystorm_spark.runtime.slot import Slot
from pystorm_spark.spark.announcer import Announcer
from pystorm_spark.spark.answers import Answering, Exchanges
from pystorm_spark.spark.handed_files import HandedFiles
from pystorm_spark.spark.leftovers import Leftovers
from pystorm_spark.spark.output import LogsToDriver, PrintsToDriver
from pystorm_spark.spark.process import ProcessId
from pystorm_spark.spark.relief import Relief
from pystorm_spark.spark.row_tasks import RowTasks
from pystorm_spark.spark.slot_errors import pack_error
from pystorm_spark.spark.slot_state import SlotState
from pystorm_spark.spark.stacks import all_stacks, stack_of_main
from pystorm_spark.spark.turners import Turners
from pystorm_spark.spark.versions import versions
from pystorm_spark.spark.wire import Address, WireError, connect, listen

log = logging.getLogger(__name__)

BEAT_SECS = 0.5
LEASE_SECS = 8.0  # without a word from the driver a slot ends itself
LONGEST_REST_SECS = 0.02
SWITCH_SECS = 0.001  # that a busy task thread may keep the interpreter from the threads that answer exchanges
HUNG, ORPHANED, CRASHED = 70, 71, 72  # exit codes
START_LIMIT_KEY = "supervisor.worker.start.timeout.secs"


class SlotProcess:
    """One slot, its connections and its threads."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.number: int = spec["slot"]
        self._token: bytes = spec["token"]
        self._folder = Path(spec["folder"]) if spec["folder"] else None
        self._host: str = spec["host"]
        self._executor = ProcessId(*spec["executor"])
        files = Path(spec["files"]) if spec["files"] else None  # of the driver, where it is on this machine
        self._leftovers = Leftovers(self.number, self._folder, files, self._executor, ProcessId(*spec["driver"]))
        self._control_address = Address(*spec["control"])
        self._control = connect(self._control_address, self._token)
        self._sending = threading.Lock()
        self._calls: deque[Callable[[], None]] = deque()
        self._wake = threading.Event()
        self._turners = Turners(self.step, self._rest, self._crash)
        self._told_frames = False
        self._is_loaded = False  # whether there is a slot
        self._is_starting = True  # loads or opens the components
        self._call_limit = 0.0  # seconds that a call of user code may take
        self._last_word = time.monotonic()
        self._start_limit = 0.0
        self._announcer = Announcer(self.tell)
        self._execute_limit = 0.0
        self.epoch = 0
        self._state: SlotState | None = None  # of a slot in a topology with stateful bolts

    # The driver.

    def tell(self, kind: str, **content: Any) -> None:
        """Send a message to the driver; without a driver there is nothing left to do."""
        try:
            with self._sending:
                self._control.send({"kind": kind, **content})
        except WireError:
            self._orphaned()

    def _guarded(self, run: Callable[[], None]) -> None:
        """Run what the process cannot live without: if it ends by an error, a slot that hears nothing must not stay."""
        try:
            run()
        except Exception as exc:
            self._crash(exc)

    def _hear(self) -> None:
        """Receive the driver's messages until it is gone."""
        while True:
            try:
                message = self._control.receive()
            except WireError:
                self._orphaned()
            self._last_word = time.monotonic()
            handle = getattr(self, f"_on_{message['kind']}", None)
            if handle is not None:
                handle(message)

    def _on_activate(self, message: dict[str, Any]) -> None:
        self._later(lambda: self._set_active(True, message["asked"]))

    def _on_deactivate(self, message: dict[str, Any]) -> None:
        self._later(lambda: self._set_active(False, message["asked"]))

    def _on_reset(self, message: dict[str, Any]) -> None:
        epoch = message["epoch"]
        self._exchanges.fence(epoch)  # at once: what belongs to the old epoch is refused from now on
        self._later(lambda: self._reset(epoch, message["committed"], message["acked"], message["asked"]))

    def _on_release(self, message: dict[str, Any]) -> None:
        rows = self._rows
        self._later(lambda: rows.release(message["task"], message["batch"], message["round"], message["parts"]))

    def _on_collect(self, message: dict[str, Any]) -> None:
        self._later(lambda: self.tell("done", asked=message["asked"], rows=self._rows.collect()))

    def _on_stats(self, message: dict[str, Any]) -> None:
        self.tell("stats", asked=message["asked"], **self.stats())

    def _on_stop(self, message: dict[str, Any]) -> None:
        self._turners.stop()
        self._wake.set()

    def _on_lease(self, message: dict[str, Any]) -> None:
        if self._is_loaded:
            self.slot.paused = message["paused"]

    def _on_commit_step(self, message: dict[str, Any]) -> None:
        """One step of a commit: a method of `SlotState` of the same name."""
        assert self._state is not None
        step = getattr(self._state, message["kind"])
        self._later(lambda: step(message["txid"], message["asked"]))

    _on_rest = _on_mark = _on_prepare = _on_commit = _on_commit_step

    def _on_read(self, message: dict[str, Any]) -> None:
        assert self._state is not None
        state = self._state
        self._later(lambda: state.read(message["component"], message["key"], message["asked"]))

    def _on_careful(self, message: dict[str, Any]) -> None:
        """The slot has died before, maybe as another process: it tells from now on what it is about to do."""
        self._announcer.is_careful = True
        self._later(lambda: self.slot.before_calls(self._announcer.announce))

    def _on_calm(self, message: dict[str, Any]) -> None:
        """The slot has lived through a batch: it need not tell any more what it is about to do."""
        self._announcer.is_careful = False
        self._later(self._calm_down)

    def _set_active(self, active: bool, asked: int) -> None:
        if active and not self.slot.is_open:
            try:
                self._open()
            except Exception as exc:
                self._fail_start(exc)
                return
        self._turners.note_call(time.monotonic())
        self.slot.set_active(active)
        self._turners.note_call(0.0)
        self.tell("done", asked=asked)

    def _reset(self, epoch: int, committed: int, acked: list[Any] | None, asked: int) -> None:
        self.epoch = epoch
        self._told_frames = False
        if self._state is not None:
            self._state.before_reset(committed, acked)
        self.slot.reset()
        self._exchanges.open(epoch)
        self.tell("done", asked=asked)

    def _calm_down(self) -> None:
        self.slot.before_calls(None)
        self._announcer.say("")

    def _later(self, call: Callable[[], None]) -> None:
        self._calls.append(call)
        self._wake.set()

    # Life.

    def run(self) -> None:
        """From the hello to the end; what the process exits with is told to the driver first."""
        self.tell("hello", slot=self.number, pid=os.getpid(), versions=versions())
        try:
            assignment = self._control.receive()
        except WireError:
            self._orphaned()
        if assignment["kind"] != "assignment":
            return
        self.epoch = assignment["epoch"]
        self._start_limit = assignment["start_secs"]
        self._announcer.is_careful = assignment["careful"]
        self._begin_start()
        threading.Thread(target=self._guarded, args=(self._hear,), daemon=True).start()
        threading.Thread(target=self._guarded, args=(self._watch,), daemon=True).start()
        try:
            self._load(assignment["plan"], assignment["checkpoint"])
        except BaseException as exc:
            self._fail_start(exc)
            return
        self._exchanges = Exchanges(self.slot, self.epoch, self.frames_taken)
        server, address = listen(self._folder, self._host, self._leftovers.socket_name)
        answering = Answering(self, self._exchanges, self._rows, self._token)
        threading.Thread(target=answering.serve, args=(server,), daemon=True).start()
        try:
            if assignment["open"]:
                self._open()
        except BaseException as exc:
            self._fail_start(exc)
            return
        self._end_start()
        self._announcer.say("")
        self.tell("ready", address=list(address), epoch=self.epoch)
        slow_secs = self.slot.plan.conf["topology.execute.slow.secs"]
        try:
            self._turners.run(Relief(self.slot, slow_secs) if slow_secs else None)
        finally:
            with contextlib.suppress(OSError):
                if address.port == 0:
                    os.unlink(address.host)
        if self.slot.is_open:
            self.slot.close()
        self.tell("stopped", **self.stats())

    def _load(self, pickled: bytes, checkpoint: dict[str, Any] | None) -> None:
        """Make the slot; what user code imports is imported here."""
        pickled_plan, components, self._execute_limit = cloudpickle.loads(pickled)
        plan = load_plan(pickled_plan, components)
        self.slot = Slot(plan, self.number, components, SystemClock(), random.Random())
        self._rows = RowTasks(self.slot, self.tell)
        if checkpoint is not None:
            files = self._checkpoint_files(checkpoint["place"], checkpoint["is_handed"])
            self._state = SlotState(self.slot, self._rows, files, checkpoint["assignment"], self.tell)
        self.slot.on_wake(self._wake.set)
        self.slot.before_calls(self._announcer.announce)
        self._is_loaded = True

    def _checkpoint_files(self, place: str, is_handed: bool) -> Files:
        if not is_handed:
            return PosixFiles(Path(place))
        return HandedFiles(lambda: connect(self._control_address, self._token), self.number, place)

    def _open(self) -> None:
        """Open the components, which may take as long as a start."""
        self._begin_start()
        self.slot.open(self._state.restored() if self._state is not None else None)
        self._end_start()

    def _fail_start(self, exc: BaseException) -> None:
        self.tell("failed", error=str(exc), traceback=traceback.format_exc(), cause=pack_error(exc))

    def _crash(self, exc: BaseException) -> NoReturn:
        """End the process in what user code or the engine has raised: nobody else could tell what happened."""
        if isinstance(exc, SlotCrash):
            reason, cause = str(exc), exc.cause
        else:
            reason, cause = "".join(traceback.format_exception(exc)).strip(), exc
        self.tell("crashed", reason=reason, cause=pack_error(cause), **self.stats())
        os._exit(CRASHED)

    def step(self) -> bool:
        """Do what was asked for, then one turn; whether there was any work in it."""
        while self._calls:
            self._turners.note_call(time.monotonic())  # commits and rollbacks call user code, too
            try:
                self._calls.popleft()()
            finally:
                self._turners.note_call(0.0)
        busy = self._turn()
        if self._state is not None and self.slot.is_open:
            self._state.look()
        if self.slot.outbox.has_frames() and not self._told_frames:
            self._told_frames = True
            self.tell("frames")
        return busy

    def _turn(self) -> bool:
        now = self.slot.clock.monotonic
        began = now()
        self._turners.note_call(began)
        try:
            busy = self.slot.is_open and self.slot.turn()
        finally:
            self._turners.note_call(0.0)
        if busy:
            self._exchanges.note_work(now() - began)
        return busy

    def _begin_start(self) -> None:
        self._is_starting = True
        self._call_limit = self._start_limit
        self._turners.note_call(time.monotonic())

    def _end_start(self) -> None:
        self._call_limit = self._execute_limit
        self._turners.note_call(0.0)
        self._is_starting = False
        if not self._announcer.is_careful:
            self.slot.before_calls(None)

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

    def took_in(self) -> None:
        """An exchange has brought something."""
        self.wake()
        size = self.slot.inbox_bytes()
        if size > self.slot.plan.conf["topology.slot.inbox.max.bytes"]:
            self.tell("full", inbox_bytes=size)

    def wake(self) -> None:
        self._wake.set()

    def where(self, thread: int | None = None) -> str:
        """Which task is running in a thread, this one by default: for what it prints."""
        return self.slot.running(thread) if self._is_loaded else f"slot {self.number}"

    def stats(self) -> dict[str, Any]:
        """What the tasks have counted so far, and their errors."""
        tasks = [
            # A copy of the errors, made at once: tasks go on meanwhile.
            [task.component_id, asdict(task.counted()), [list(vars(error).values()) for error in list(task.errors)]]
            for task in self.slot.tasks.values()
        ]
        return {"tasks": tasks, "inbox_bytes": self.slot.inbox_bytes(), "is_at_work": self.slot.is_at_work()}

    # Watching.

    def _watch(self) -> None:
        told: Any = None
        heard, silent_beats = self._last_word, 0
        while True:
            time.sleep(BEAT_SECS)
            if not self._executor.is_alive():
                self._orphaned()
            # Counted in beats of this thread: when the process was held up as a whole, the driver's words wait unread.
            heard, silent_beats = self._last_word, silent_beats + 1 if heard == self._last_word else 0
            if silent_beats * BEAT_SECS > LEASE_SECS:
                self._orphaned()
            call = self._turners.longest_call()
            if call is not None and time.monotonic() - call[1] > self._call_limit:
                self._hung(time.monotonic() - call[1], call[0])
            stats = self.stats() if self._is_loaded else None
            if stats is not None and stats != told:
                told = stats
                self.tell("stats", asked=None, **stats)
            else:
                self.tell("beat")

    def _hung(self, secs: float, thread: int) -> None:
        """Tell where user code hangs, and end."""
        if self._is_starting:
            what = f"open or prepare of {self.where()}" if self._is_loaded else "loading the components"
            self._fail_start(
                StormError(
                    f"{what} has not ended after {secs:.1f} s, and a start may take {self._start_limit:g} s "
                    f"({START_LIMIT_KEY}); it is here:\n{stack_of_main()}"
                )
            )
        else:
            self.tell("hung", secs=secs, stacks=all_stacks(), where=self.where(thread), **self.stats())
        os._exit(HUNG)

    def _orphaned(self) -> NoReturn:
        """End the process; the files of a dead driver end with its last slot."""
        self._leftovers.remove()
        os._exit(ORPHANED)


def main() -> None:
    """Run a slot by the specification that comes on the standard input: nothing secret shows in a list of processes."""
    spec = msgpack.unpackb(sys.stdin.buffer.read())
    sys.path[:] = spec["sys_path"]
    sys.setswitchinterval(SWITCH_SECS)
    try:
        process = SlotProcess(spec)
    except WireError:
        os._exit(ORPHANED)  # the driver has given up meanwhile
    root = logging.getLogger()
    root.addHandler(LogsToDriver(process))
    root.setLevel(spec["log_level"])
    sys.stdout = PrintsToDriver(process, logging.INFO)
    sys.stderr = PrintsToDriver(process, logging.WARNING)
    process.run()
    os._exit(0)  # threads of user code must not keep the process
