"""Internal. SlotProcess: the threads, sockets and exits of a slot's process, which lives beside an executor.

`SlotActor` handles messages and turns. The main thread turns the slot; if a bolt blocks it, another thread goes on:
see `relief`. One thread for each connection of a
Spark task answers exchanges from the slot's inbox and outbox, so that a bolt that blocks delays nobody else's exchange.
One thread listens to the driver. One beats, and ends the process when user code hangs. One ends it when the driver or
the executor is gone; it waits for nobody.
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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import msgpack

from pystorm_spark.checkpoint.files import Files, PosixFiles
from pystorm_spark.clock import SystemClock
from pystorm_spark.errors import StormError
from pystorm_spark.runtime.bolt_task import SlotCrash
from pystorm_spark.spark.protocol.messages import (
    DRIVER_TO_SLOT,
    TO_SLOT_FIRST,
    Assignment,
    Crashed,
    Hello,
    Hung,
    Message,
)
from pystorm_spark.spark.protocol.process import ProcessId
from pystorm_spark.spark.protocol.slot_errors import pack_error
from pystorm_spark.spark.protocol.versions import versions
from pystorm_spark.spark.protocol.wire import Address, Connection, WireError, connect, listen
from pystorm_spark.spark.slot.actor import SlotActor
from pystorm_spark.spark.slot.exchanges import Answering
from pystorm_spark.spark.slot.leftovers import Leftovers
from pystorm_spark.spark.slot.output import LogsToDriver, PrintsToDriver, Words
from pystorm_spark.spark.slot.stacks import all_stacks, stack_of_main
from pystorm_spark.spark.slot.starters import note_starters, starter
from pystorm_spark.spark.slot.turners import Turners
from pystorm_spark.spark.slot.watch import BEAT_SECS, SlotWatch
from pystorm_spark.spark.storage.handed_files import HandedFiles

log = logging.getLogger(__name__)

SWITCH_SECS = 0.001  # that a busy task thread may keep the interpreter from the threads that answer exchanges
HUNG, ORPHANED, CRASHED = 70, 71, 72  # exit codes
START_LIMIT_KEY = "supervisor.worker.start.timeout.secs"


class SlotProcess:
    """One slot's connections, its threads, and how it ends."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.number: int = spec["slot"]
        self._token: bytes = spec["token"]
        self._folder = Path(spec["folder"]) if spec["folder"] else None
        self._host: str = spec["host"]
        self._executor = ProcessId(*spec["executor"])
        files = Path(spec["files"]) if spec["files"] else None  # of the driver, where it is on this machine
        self._leftovers = Leftovers(self.number, self._folder, files, self._executor, ProcessId(*spec["driver"]))
        self._control_address = Address(*spec["control"])
        self._control = self._connect()
        self._words = Words(self._control)
        self._wake = threading.Event()
        clock = SystemClock()
        self._actor = SlotActor(self.number, self, clock, random.Random())
        self._turners = Turners(self._actor.step, self._idle, self._crash)
        self._watch = SlotWatch(self._actor, self, clock, self._turners.longest_call)

    # What the slot needs of its process.

    def tell(self, message: Message) -> None:
        """Send a message to the driver, waiting until it reads; if it is gone, end the process."""
        try:
            self._words.send(message)
        except WireError:
            self.orphaned()

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        self._turners.stop()

    def note_call(self, began: float) -> None:
        self._turners.note_call(began)

    def checkpoint_files(self, place: str, is_handed: bool) -> Files:
        if not is_handed:
            return PosixFiles(Path(place))
        return HandedFiles(lambda: connect(self._control_address, self._token), self.number, place)

    def background(self, name: str) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, thread_name_prefix=name)

    def where(self, thread: int | None = None) -> str:
        """Which task is running in a thread, this one by default, or has started it: for what it prints."""
        found = self._actor.running(thread or threading.get_ident())
        return found or (starter() if thread is None else None) or f"slot {self.number}"

    # Life.

    def run(self) -> None:
        """From the hello to the end; what the process exits with is told to the driver first."""
        self.tell(Hello(self.number, os.getpid(), versions()))
        assignment = TO_SLOT_FIRST.read(self._receive())
        if not isinstance(assignment, Assignment):
            return  # the driver has refused it
        self._actor.begin(assignment)
        self._start_thread(self._hear)
        self._start_thread(self._keep_watch)
        self._start_thread(self._beat)
        if not self._actor.load(assignment):
            return
        server, address = listen(self._folder, self._host, self._leftovers.socket_name)
        answering = Answering(self._actor, self._actor.exchanges, self._actor.rows, self._token)
        threading.Thread(target=answering.serve, args=(server, address), daemon=True).start()
        if not self._actor.start(assignment.opens):
            return
        self._actor.be_ready(address)
        try:
            self._turners.run(self._actor.relief())
        finally:
            with contextlib.suppress(OSError):
                if address.port == 0:
                    os.unlink(address.host)
        self._actor.finish()

    def _connect(self) -> Connection:
        try:
            return connect(self._control_address, self._token)
        except WireError:
            self.orphaned()  # the driver is gone, or has given up this slot meanwhile

    def _receive(self) -> Any:
        try:
            return self._control.receive()
        except WireError:
            self.orphaned()

    def _start_thread(self, run: Callable[[], None]) -> None:
        threading.Thread(target=self._guarded, args=(run,), daemon=True).start()

    def _guarded(self, run: Callable[[], None]) -> None:
        """Run a thread that the process needs: an error in it ends the process."""
        try:
            run()
        except Exception as exc:
            self._crash(exc)

    def _hear(self) -> None:
        """Receive the driver's messages until it is gone."""
        while True:
            self._actor.handle(DRIVER_TO_SLOT.read(self._receive()))

    def _keep_watch(self) -> None:
        """End the process when the driver or the executor is gone; never waits for a driver that stands still."""
        while True:
            time.sleep(BEAT_SECS)
            if not self._executor.is_alive():
                self.orphaned()
            self._watch.look_for_driver()

    def _beat(self) -> None:
        """Tell how the slot stands, and end it when user code hangs."""
        while True:
            time.sleep(BEAT_SECS)
            self._watch.beat()

    def _idle(self, idle_turns: int) -> None:
        if self._wake.wait(self._actor.idle_secs(idle_turns)):
            self._wake.clear()

    # How it ends before its time.

    def _crash(self, exc: BaseException) -> NoReturn:
        """Report what user code or the engine has raised, and end the process."""
        if isinstance(exc, SlotCrash):
            reason, cause = str(exc), exc.cause
        else:
            reason, cause = "".join(traceback.format_exception(exc)).strip(), exc
        self.tell(Crashed(**self._actor.standing(), reason=reason, cause=pack_error(cause)))
        os._exit(CRASHED)

    def hung(self, secs: float, thread: int) -> NoReturn:
        """Tell where user code hangs, and end."""
        actor = self._actor
        if actor.is_starting:
            what = f"open or prepare of {self.where(thread)}" if actor.is_loaded else "loading the components"
            actor.fail_start(
                StormError(
                    f"{what} has not ended after {secs:.1f} s, and a start may take {actor.start_limit:g} s "
                    f"({START_LIMIT_KEY}); it is here:\n{stack_of_main()}"
                )
            )
        else:
            self.tell(Hung(**actor.standing(), secs=secs, stacks=all_stacks(), where=self.where(thread)))
        os._exit(HUNG)

    def orphaned(self) -> NoReturn:
        """End the process; the files of a dead driver end with its last slot."""
        try:
            self._leftovers.remove()
        finally:
            os._exit(ORPHANED)


def main() -> None:
    """Run a slot by the specification that comes on the standard input: nothing secret shows in a list of processes."""
    spec = msgpack.unpackb(sys.stdin.buffer.read())
    sys.path[:] = spec["sys_path"]
    sys.setswitchinterval(SWITCH_SECS)
    process = SlotProcess(spec)
    root = logging.getLogger()
    root.addHandler(LogsToDriver(process))
    root.setLevel(spec["log_level"])
    note_starters(process.where)
    sys.stdout = PrintsToDriver(process, logging.INFO)
    sys.stderr = PrintsToDriver(process, logging.WARNING)
    process.run()
    os._exit(0)  # threads of user code must not keep the process
