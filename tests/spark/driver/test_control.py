"""The driver's end of the connections to its slots, with slots that only read and write their sockets."""

import contextlib
import logging
import os
import sys
import threading
from types import SimpleNamespace

import pytest

from pystorm_spark.spark.driver import control, slot_output
from pystorm_spark.spark.driver.control import Control
from pystorm_spark.spark.driver.engine import Limits
from pystorm_spark.spark.driver.loop import Driver
from pystorm_spark.spark.driver.reception import Reception
from pystorm_spark.spark.protocol.messages import Assignment, Hello, Hung, Log, Print, Ready, Reset, Stopped
from pystorm_spark.spark.protocol.process import socket_name
from pystorm_spark.spark.protocol.wire import WireError, connect, private_folder
from tests.spark.components import wait_until

MUCH = Reset(epoch=2, committed=0, acked=[b"x" * (4 << 20)])  # more than a socket holds
IDLE = {"tasks": [], "is_at_work": False, "inbox_bytes": 0, "full": []}


class Topology:
    """Slots that nobody starts: they come by themselves."""

    def __init__(self, slots, silence_secs=60.0):
        self.driver = Driver(slots, None, b"token", Limits(3, silence_secs, 60.0))
        self.slots = self.driver.slots.links
        self.looks = 0
        self.folder = private_folder()
        self.control = Control(self.folder, "", self)
        self.control._is_near = False  # no process is killed
        self.on_message = Reception(self.driver, self.control, self).on_message
        self.on_end = self.driver.on_end
        self.peers = []

    def assignment(self, link, versions):
        epoch, opens = self.driver.slots.admit(link)
        return Assignment(b"", 60.0, False, [], [], None, epoch, opens)

    def on_lease(self):
        self.looks += 1
        self.driver.look_for_silence()

    def come(self, stands_still=False):
        """The next slot comes, and is ready."""
        self.peers.append(peer := Peer(self.control, len(self.peers), stands_still))
        wait_until(lambda: self.slots[peer.number] is not None)
        return peer

    def close(self):
        self.control.close()
        for peer in self.peers:
            peer.connection.close()
        for path in self.folder.iterdir():
            path.unlink()
        self.folder.rmdir()


class Peer:
    """A slot's end: reads in a thread of its own, unless it stands still."""

    def __init__(self, ctl, number, stands_still):
        self.number = number
        self.connection = connect(ctl.address, ctl.token)
        self.leases = 0
        self.connection.send(Hello(number, 1, {}).to_plain())
        assert self.connection.receive()["kind"] == "assignment"
        self.connection.send(Ready(["none", 0], 1).to_plain())
        if not stands_still:
            threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        with contextlib.suppress(WireError):
            while True:
                self.leases += self.connection.receive()["kind"] == "lease"


@pytest.fixture
def topologies(monkeypatch):
    """Makes topologies to which slots may come; leases come quickly."""
    monkeypatch.setattr(control, "LEASE_INTERVAL_SECS", 0.05)
    made = []
    yield lambda *args, **how: made.append(Topology(*args, **how)) or made[-1]
    for topology in made:
        topology.close()


def test_the_socket_of_a_slot_that_was_killed_is_removed(topologies):
    topology = topologies(2)
    sockets = [topology.folder / socket_name(number, pid=1) for number in (0, 1)]
    for path in sockets:
        path.touch()
    killed, _ = topology.come(), topology.come()

    killed.connection.close()

    wait_until(lambda: not sockets[0].exists())
    assert sockets[1].exists()


@pytest.fixture(params=["stdout", "stderr"])
def unread(request, monkeypatch):
    """Standard output or error is a pipe that nobody reads; gives the level of what is printed there.

    `sys` itself is not changed: pytest sets its streams again between the fixture and the test.
    """
    reader, written = os.pipe()
    monkeypatch.setattr(slot_output, "LAST_LINES_SECS", 0.1)
    stream = os.fdopen(written, "w", buffering=1)
    streams = {"stdout": sys.stdout, "stderr": sys.stderr, request.param: stream}
    monkeypatch.setattr(slot_output, "sys", SimpleNamespace(**streams))
    yield logging.INFO if request.param == "stdout" else logging.WARNING
    os.close(reader)
    wait_until(lambda: not any(thread.name in ("pystorm-out", "pystorm-err") for thread in threading.enumerate()))
    with contextlib.suppress(BrokenPipeError):  # a part of a line may be left, and the pipe has no reader
        stream.close()


def test_a_slot_is_heard_though_nobody_reads_what_it_prints(unread, topologies):
    topology = topologies(1)
    peer = topology.come()

    for _ in range(3000):
        peer.connection.send(Print(unread, "x" * 100, "bolt:3").to_plain())
    peer.connection.send(Stopped(**IDLE).to_plain())

    wait_until(lambda: topology.slots[0].state == "stopped")


def test_a_slot_is_heard_though_a_handler_of_the_log_blocks(topologies, caplog):
    topology = topologies(1)
    peer = topology.come()
    goes_on = threading.Event()
    handler = logging.Handler()
    handler.emit = lambda record: goes_on.wait()
    slot_output.user_log.addHandler(handler)

    peer.connection.send(Log(logging.ERROR, "some words").to_plain())
    peer.connection.send(Hung(**IDLE, secs=70, stacks="its stacks", where="bolt:3").to_plain())
    peer.connection.send(Stopped(**IDLE).to_plain())
    wait_until(lambda: topology.slots[0].state == "stopped")
    goes_on.set()
    wait_until(lambda: "its stacks" in caplog.text)

    slot_output.user_log.removeHandler(handler)
    assert "slot 0: some words" in caplog.text
    assert "slot 0 hangs: bolt:3 has not returned for 70 s" in caplog.text


def test_a_slot_that_stands_still_holds_up_no_lease_no_look_and_nobody_who_tells_it_something(topologies):
    topology = topologies(2)
    topology.come(stands_still=True)
    sound = topology.come()
    telling = threading.Thread(target=topology.driver.questions.ask, args=(MUCH,), daemon=True)

    telling.start()
    telling.join(10)
    heard, looks = sound.leases, topology.looks

    assert not telling.is_alive()
    wait_until(lambda: sound.leases > heard + 3 and topology.looks > looks + 3)


def test_a_slot_that_stands_still_is_found_by_its_silence(topologies):
    topology = topologies(1, silence_secs=0.5)
    topology.come(stands_still=True)
    threading.Thread(target=topology.driver.questions.ask, args=(MUCH,), daemon=True).start()

    wait_until(lambda: topology.slots[0].state == "lost")

    assert "nothing was heard" in topology.driver.state.lost[0]
