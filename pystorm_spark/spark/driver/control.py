"""Internal. The driver's end of the connections to its slots: who lives, what they say, and what they are told."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Protocol, TextIO

from pystorm_spark.spark.protocol.outgoing import Outgoing, OverfullError
from pystorm_spark.spark.protocol.process import ProcessId, process_id
from pystorm_spark.spark.protocol.wire import Address, Connection, Door, WireError, listen
from pystorm_spark.spark.protocol.writer import Writer

log = logging.getLogger(__name__)
user_log = logging.getLogger("pystorm_spark.slots")

LEASE_SECS = 0.5  # how often every slot hears from the driver
HELLO_LIMIT = 1 << 16  # bytes of its first one
LAST_LINES_SECS = 5.0  # for what slots have printed to be written, where stdout is not read


class SlotLink:
    """One slot as the driver knows it."""

    def __init__(self, slot: int, pid: int, connection: Outgoing, is_near: bool) -> None:
        self.slot = slot
        self.process: ProcessId | None = process_id(pid) if is_near else None
        self.address: Address | None = None
        self.heard_at = time.monotonic()
        self.tasks: list[Any] = []  # [component, counts, errors] of each of its tasks, as last heard
        self.inbox_bytes = 0
        self.full: list[str] = []  # components of which it has more than it can take
        self.is_at_work = False  # has frames for other slots, or a thread beside its own
        self.doing = ""  # which call of user code it is about to make, where it tells
        self.executing: dict[int, tuple[str, int]] = {}  # {thread: the tuple, as `Announcer` knows it, and the epoch}
        self.epoch = 0  # in which it was started
        self.state = "starting"  # then ready, then stopped, failed, lost or surplus
        self.reason = ""
        self._connection = connection

    def tell(self, kind: str, **content: Any) -> None:
        """Have a message sent, without waiting for that; a slot that is gone is noticed by whoever listens to it."""
        try:
            self._connection.send({"kind": kind, **content})
        except OverfullError as exc:
            self.reason = self.reason or str(exc)
            self.kill()
        except WireError:
            pass

    def hear(self) -> dict[str, Any]:
        message: dict[str, Any] = self._connection.receive()
        self.heard_at = time.monotonic()
        return message

    def note_doing(self, message: dict[str, Any]) -> None:
        """It is about to call user code, or, if it says of nothing, has come to where that is not told any more."""
        self.doing = message["what"]
        if self.doing:
            self.executing[message["thread"]] = message["key"], message["epoch"]
        else:
            self.executing.clear()

    def note_survival(self, key: str) -> None:
        """It has executed a tuple: what ends it later is not known by that."""
        self.executing = {thread: begun for thread, begun in self.executing.items() if begun[0] != key}

    def last_words(self) -> str:
        """Why it has ended, as far as is known."""
        reason = self.reason or "its process has ended"
        return f"{reason}; the last it ran was {self.doing}" if self.doing else reason

    def kill(self) -> None:
        """End the process the hard way, if it is on this machine; elsewhere it ends by its lease."""
        self._connection.close()
        if self.process is not None and self.process.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)


class Listener(Protocol):
    """Who wants to know of the slots; called in the threads that listen to them."""

    def assignment(self, link: SlotLink, versions: dict[str, str]) -> dict[str, Any]:
        """What a slot that has just connected shall do."""

    def on_message(self, link: SlotLink, message: dict[str, Any]) -> None:
        """A slot has said something."""

    def on_end(self, link: SlotLink) -> None:
        """A slot's connection has ended, and so has the slot."""

    def on_lease(self) -> None:
        """Called now and then."""

    def on_file(self, connection: Connection, request: dict[str, Any]) -> None:
        """A slot wants something done with a file of the checkpoint, on a connection of its own."""


class Control:
    """Listens to the slots of one topology, and lets them know that the driver lives."""

    def __init__(self, folder: Path | None, host: str, listener: Listener, known_as: str = "") -> None:
        self.token = secrets.token_bytes(32)
        # What may block, as a pipe that nobody reads does, is not for threads that listen.
        self._out = Writer("pystorm-out", lambda _, text: _print(text, sys.stdout))
        self._err = Writer("pystorm-err", lambda _, text: _print(text, sys.stderr))
        self._logs = Writer("pystorm-logs", lambda level, text: user_log.log(level, "%s", text))
        server, self.address = listen(folder, host, "control", known_as)
        self._door = Door(server, self.address, self.token, self._serve, self._warn)
        self._is_near = folder is not None
        self._listener = listener
        self._links: list[SlotLink] = []
        self._closed = threading.Event()
        self._leasing = threading.Lock()
        self._threads = [
            threading.Thread(target=self._door.run, name="pystorm-control", daemon=True),
            threading.Thread(target=self._keep_lease, name="pystorm-lease", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def starting(self) -> list[SlotLink]:
        """The slots that have come and are not yet ready."""
        return [link for link in list(self._links) if link.state == "starting"]

    def await_end(self, links: list[SlotLink], secs: float) -> None:
        """Wait until the connections of `links` have ended."""
        deadline = time.monotonic() + secs
        while any(link in self._links for link in links) and time.monotonic() < deadline:
            time.sleep(0.02)

    def close(self) -> None:
        """End all connections and their threads, and slots on this machine that have not ended by themselves."""
        self._closed.set()
        self._door.close()
        self.kill_all()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(5.0)
        self._door.join(5.0)
        self._close_writers()

    def _close_writers(self) -> None:
        until = time.monotonic() + LAST_LINES_SECS
        dropped = sum(writer.close(until - time.monotonic()) for writer in (self._out, self._err))
        if dropped:
            self._logs.put(logging.WARNING, f"the last {dropped:,} lines that slots have printed could not be shown")
        self._logs.close(LAST_LINES_SECS)

    def kill_all(self) -> None:
        """End every slot the hard way."""
        for link in list(self._links):
            link.kill()

    def _warn(self, text: str) -> None:
        self._logs.put(logging.WARNING, text)

    def _serve(self, connection: Connection) -> None:
        hello = connection.receive(HELLO_LIMIT)
        if hello["kind"] == "file":
            self._listener.on_file(connection, hello)
            return
        outgoing = Outgoing(connection, f"pystorm-tell-{hello['slot']}")
        link = SlotLink(int(hello["slot"]), int(hello["pid"]), outgoing, self._is_near)
        try:
            self._listen_to(link, dict(hello["versions"]))
        finally:
            outgoing.close()
            outgoing.join(5.0)

    def _listen_to(self, link: SlotLink, versions: dict[str, str]) -> None:
        link.tell(**self._listener.assignment(link, versions))  # before any lease
        self._links.append(link)
        try:
            if self._closed.is_set():
                link.kill()
            while True:
                self._handle(link, link.hear())
        except WireError:
            pass  # its end is the news that the slot is gone
        except Exception as exc:  # a slot that talks nonsense must not take the driver along
            link.reason = f"what it said cannot be understood: {type(exc).__name__}: {exc}"
            log.debug("slot %d: %s", link.slot, link.reason, exc_info=True)
            link.kill()
        finally:
            self._links.remove(link)
            if not self._closed.is_set():
                self._listener.on_end(link)

    def _handle(self, link: SlotLink, message: dict[str, Any]) -> None:
        if message["kind"] == "print":
            writer = self._out if message["level"] == logging.INFO else self._err
            writer.put(message["level"], f"{message['where']}: {message['text']}")
            return
        if message["kind"] == "log":
            self._logs.put(message["level"], f"slot {link.slot}: {message['text']}")
            return
        if message["kind"] == "doing":
            link.note_doing(message)
            return
        if message["kind"] == "full":
            link.full = message["full"]
            self._tell_lease()  # at once: in half a second slots could send it hundreds of megabytes more
            return
        if "tasks" in message:
            link.tasks, link.inbox_bytes = message["tasks"], message["inbox_bytes"]
            link.is_at_work, link.full = message["is_at_work"], message["full"]
        if message["kind"] == "crashed":
            link.doing = ""  # its reason says all
            link.executing = {}
        self._listener.on_message(link, message)
        if message["kind"] == "hung":
            self._logs.put(logging.ERROR, f"slot {link.slot} hangs: {link.reason}\n{message['stacks']}")

    def _keep_lease(self) -> None:
        """Let every slot know that the driver lives, and of which components some slot has more than it can take."""
        woke = time.monotonic()
        while not self._closed.wait(LEASE_SECS):
            links = list(self._links)
            slept, woke = time.monotonic() - woke, time.monotonic()
            if slept > 2 * LEASE_SECS:  # this process was held up, and has not heard what slots said meanwhile
                for link in links:
                    link.heard_at += slept - LEASE_SECS
            self._tell_lease()
            self._listener.on_lease()

    def _tell_lease(self) -> None:
        with self._leasing:  # or one that found out earlier what is full would take the place of a newer lease
            links = list(self._links)
            full = sorted({component for link in links for component in link.full})
            for link in links:
                link.tell("lease", full=full)


def _print(text: str, output: TextIO) -> None:
    output.write(f"{text}\n")
