"""Internal. Control: lets slots connect to the driver, listens to each in a thread, and keeps their leases."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pystorm_spark.spark.driver.link import SlotLink
from pystorm_spark.spark.driver.slot_output import SlotOutput
from pystorm_spark.spark.protocol.messages import (
    TO_DRIVER_FIRST,
    Assignment,
    FileRequest,
    Hello,
    Lease,
    Message,
    Refused,
)
from pystorm_spark.spark.protocol.outgoing import Outgoing
from pystorm_spark.spark.protocol.process import socket_name
from pystorm_spark.spark.protocol.wire import Connection, Door, WireError, listen

log = logging.getLogger(__name__)

LEASE_INTERVAL_SECS = 0.5  # how often every slot hears from the driver
HELLO_LIMIT = 1 << 16  # bytes of the first message of a connection


class Listener(Protocol):
    """Is told what slots say; called in the threads that listen to them."""

    def assignment(self, link: SlotLink, versions: dict[str, str]) -> Assignment | Refused:
        """The answer to the hello of a slot."""

    def on_message(self, link: SlotLink, message: Message) -> None:
        """A slot has said something."""

    def on_end(self, link: SlotLink) -> None:
        """A slot's connection has ended, and so has the slot."""

    def on_lease(self) -> None:
        """Called after each lease."""

    def on_file(self, connection: Connection, request: FileRequest) -> None:
        """A slot asks for an operation on a file of the checkpoint, on a connection of its own."""


class Control:
    """Listens to the slots of one topology, and lets them know that the driver lives."""

    def __init__(self, folder: Path | None, host: str, listener: Listener, known_as: str = "") -> None:
        self.token = secrets.token_bytes(32)
        self.output = SlotOutput()
        server, self.address = listen(folder, host, "control", known_as)
        self._door = Door(server, self.address, self.token, self._serve, self.output.warn)
        self._is_near = folder is not None
        self._folder = folder
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
        self.output.close()

    def kill_all(self) -> None:
        """End every slot the hard way."""
        for link in list(self._links):
            link.kill()

    def _serve(self, connection: Connection) -> None:
        first = TO_DRIVER_FIRST.read(connection.receive(HELLO_LIMIT))
        self.FIRST_HANDLERS[type(first)](self, connection, first)

    def _on_file_request(self, connection: Connection, request: FileRequest) -> None:
        self._listener.on_file(connection, request)

    def _on_hello(self, connection: Connection, hello: Hello) -> None:
        outgoing = Outgoing(connection, f"pystorm-tell-{hello.slot}")
        link = SlotLink(int(hello.slot), int(hello.pid), outgoing, self._is_near)
        try:
            self._listen_to(link, dict(hello.versions))
        finally:
            outgoing.close()
            outgoing.join(5.0)
            self._remove_socket(link.slot, int(hello.pid))

    FIRST_HANDLERS: ClassVar[dict[type[Message], Callable[[Any, Connection, Any], None]]] = {
        Hello: _on_hello,
        FileRequest: _on_file_request,
    }

    def _remove_socket(self, slot: int, pid: int) -> None:
        """Remove what a killed process has left: else each death would add a socket to the folder."""
        if self._folder is not None:
            (self._folder / socket_name(slot, pid)).unlink(missing_ok=True)

    def _listen_to(self, link: SlotLink, versions: dict[str, str]) -> None:
        link.tell(self._listener.assignment(link, versions))  # before any lease
        self._links.append(link)
        try:
            if self._closed.is_set():
                link.kill()
            while True:
                self._listener.on_message(link, link.hear())
        except WireError:
            pass  # the slot is gone, which `on_end` reports
        except Exception as exc:  # a slot that sends nonsense must not end the driver
            link.reason = f"it has sent an invalid message: {type(exc).__name__}: {exc}"
            log.debug("slot %d: %s", link.slot, link.reason, exc_info=True)
            link.kill()
        finally:
            self._links.remove(link)
            if not self._closed.is_set():
                self._listener.on_end(link)

    def _keep_lease(self) -> None:
        """Send leases: the driver lives, and these components are full in some slot."""
        woke = time.monotonic()
        while not self._closed.wait(LEASE_INTERVAL_SECS):
            links = list(self._links)
            slept, woke = time.monotonic() - woke, time.monotonic()
            if slept > 2 * LEASE_INTERVAL_SECS:  # this process was held up, and has not heard what slots said meanwhile
                for link in links:
                    link.heard_at += slept - LEASE_INTERVAL_SECS
            self.tell_lease()
            self._listener.on_lease()

    def tell_lease(self) -> None:
        """Tell all slots which components are full now."""
        with self._leasing:  # or a lease with older news could replace a newer one
            links = list(self._links)
            full = sorted({component for link in links for component in link.full})
            for link in links:
                link.tell(Lease(full))
