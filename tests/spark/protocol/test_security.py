"""The sockets of a running topology: strangers and nonsense do no harm, and secrets show nowhere."""

import base64
import contextlib
import logging
import os
import random
import socket
import subprocess
import threading
from pathlib import Path

import cloudpickle
import pytest

from pystorm_spark.spark import run
from pystorm_spark.spark.protocol.certificate import certificate_of
from pystorm_spark.spark.protocol.wire import LENGTH_PREFIX, WireError, connect
from tests.spark.components import Numbers, Sum, Twice, wait_until
from tests.spark.processes import slot_processes

pytestmark = pytest.mark.spark

SECRET = "s3cr3t-of-the-driver"


@pytest.fixture(params=["unix", "tcp"])
def running(request, cluster, journal, monkeypatch):
    """A topology that has work to do all the time; gives its handle. With TCP, as between machines."""
    from pystorm_spark import TopologyBuilder

    monkeypatch.setenv("SECRET_OF_THE_DRIVER", SECRET)
    if request.param == "tcp":
        monkeypatch.setattr(run, "is_local", lambda _: False)
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(10_000_000, journal, rate=200), 2)
    builder.set_bolt("twice", Twice(), 2).fields_grouping("numbers", ["number"])
    builder.set_bolt("sum", Sum(journal), 2).fields_grouping("twice", ["number"])
    handle = cluster.submit_topology("target", {"topology.workers": 2}, builder.create_topology())
    wait_until(lambda: journal.noted("acked"))
    return handle


def sockets(handle):
    """Where the driver listens, and where slots do."""
    return [handle.run._control.address, *(link.address for link in handle.run.driver.slots.there())]


def say(address, data):
    with socket.socket(socket.AF_INET if address.port else socket.AF_UNIX) as sock:
        sock.connect(tuple(address) if address.port else address.host)
        with contextlib.suppress(ConnectionError):  # it was refused before all of it was sent
            sock.sendall(data)


def token_of(handle):
    return handle.run._control.token


def goes_on(journal):
    """Wait until tuples are acked that had not been acked before."""
    before = len(journal.noted("acked"))
    wait_until(lambda: len(journal.noted("acked")) > before + 50)


def test_garbage_on_every_socket_does_no_harm(running, journal, caplog):
    caplog.set_level(logging.WARNING)
    goes_on(journal)  # whatever exchanges need is there then
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    slots = slot_processes()
    chance = random.Random(4)
    for address in sockets(running):
        for length in (0, 1, 31, 32, 33, 64, 10_000):
            say(address, chance.randbytes(length))
        say(address, LENGTH_PREFIX.pack(1 << 62))
        say(address, LENGTH_PREFIX.pack((4 << 30) - 1) + bytes(1 << 20))
        say(address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")

    goes_on(journal)

    assert slot_processes() == slots
    assert sum("was refused" in record.message for record in caplog.records) <= 3  # one for each socket
    wait_until(lambda: threading.active_count() <= threads + 2 and len(os.listdir("/proc/self/fd")) <= files + 4)


NONSENSE = [
    None,
    "text",
    [],
    [1, 2, 3],
    {"kind": "hello"},
    {"kind": "hello", "slot": 99, "pid": 1, "versions": {}},
    {"kind": "hello", "slot": "x", "pid": 1, "versions": {}},
    {"kind": "hello", "slot": 0, "pid": 1, "versions": 7},
    {"kind": "file_request", "slot": 0, "operation": "read", "arguments": ["a.part"]},
    {"kind": "file_request", "slot": 0, "operation": "read"},
    {"kind": "exchange", "epoch": 1, "job": 1, "number": 0, "is_last": False, "parcels": [b"\xc1"]},
    {"kind": "exchange", "epoch": "epoch", "job": "job", "number": 0, "is_last": False, "parcels": []},
    {"kind": "exchange", "epoch": 1, "job": 1, "number": 0, "is_last": False, "parcels": [], "more": 1},
]


def test_nonsense_from_who_knows_the_token_does_no_harm(running, cluster, journal):
    slots = slot_processes()
    for address in sockets(running):
        for message in NONSENSE:
            connection = connect(address, token_of(running))
            connection.send(message)
            connection.settimeout(0.2)
            with contextlib.suppress(WireError):
                connection.receive()  # a refusal, or the end
            connection.close()

    goes_on(journal)

    assert slot_processes() == slots
    cluster.deactivate("target")
    cluster.activate("target")
    assert cluster.topology_info("target").status == "ACTIVE"


@pytest.mark.parametrize("running", ["unix"], indirect=True)  # elsewhere the driver cannot kill a process
def test_a_slot_that_turns_to_nonsense_is_cut_off_and_the_driver_goes_on(running, journal):
    from pystorm_spark.spark.protocol.versions import versions

    pretender = subprocess.Popen(["sleep", "60"])
    connection = connect(sockets(running)[0], token_of(running))
    connection.send({"kind": "hello", "slot": 0, "pid": pretender.pid, "versions": versions()})
    assert connection.receive()["kind"] == "assignment"
    connection.send({"kind": 17, "tasks": 3})

    assert pretender.wait(timeout=10) == -9
    connection.close()
    goes_on(journal)


def test_the_token_shows_in_no_process_log_or_name(running, cluster, journal, caplog):
    caplog.set_level(logging.DEBUG)
    token = token_of(running)
    os.kill(min(slot_processes()), 9)  # a recovery is when most is logged
    goes_on(journal)
    cluster.kill_topology("target")

    key = certificate_of(token).key.split(b"\n")[1]
    spellings = [token, token.hex().encode(), base64.b64encode(token), repr(token).encode(), key]
    shown = [repr(running.run._launch).encode(), caplog.text.encode()]
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                shown.append((process / name).read_bytes())
    assert len(shown) > 10
    for text in shown:
        assert not any(spelling in text for spelling in spellings)


def test_the_drivers_environment_goes_to_no_other_machine(running):
    is_near = running.run._folder is not None

    assert (SECRET.encode() in cloudpickle.dumps(running.run._launch)) == is_near
    for slot in slot_processes():
        assert (SECRET.encode() in Path(f"/proc/{slot}/environ").read_bytes()) == is_near
