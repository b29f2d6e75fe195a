"""Messages on sockets: nothing is read from who does not know the token, and no size is believed."""

import contextlib
import os
import resource
import socket
import stat
import threading
import time

import pytest

from pystorm_spark.errors import StormError
from pystorm_spark.spark.protocol import encrypted, wire
from pystorm_spark.spark.protocol.wire import LENGTH_PREFIX, Door, WireError, accept, connect, listen, private_folder
from tests.spark.components import wait_until

TOKEN = b"t" * 32


@pytest.fixture
def folder():
    made = private_folder()
    yield made
    for path in made.iterdir():
        path.unlink()
    made.rmdir()


@pytest.fixture(params=["unix", "tcp"])
def server(request, folder):
    made, address = listen(folder if request.param == "unix" else None, "127.0.0.1", "socket")
    yield made, address
    made.close()


class Accepting(threading.Thread):
    """Accepts one connection and keeps it, or the error."""

    def __init__(self, server, address):
        super().__init__(daemon=True)
        self.server = server
        self.address = address
        self.result = None
        self.start()

    def run(self):
        sock, _ = self.server.accept()
        try:
            self.result = accept(sock, self.address, TOKEN)
        except WireError as exc:
            self.result = exc

    def get(self):
        self.join(10)
        return self.result


@pytest.fixture
def pair(server):
    made, address = server
    accepting = Accepting(made, address)
    ours = connect(address, TOKEN)
    theirs = accepting.get()
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.mark.parametrize("server", ["tcp"], indirect=True)
def test_the_system_looks_whether_the_other_machine_is_still_there(pair):
    for end in pair:
        with socket.fromfd(end.fileno(), socket.AF_INET, socket.SOCK_STREAM) as sock:
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            for option, value in encrypted.LOSS_NOTICED.items():
                assert sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, option)) == value


def plain_socket(address):
    if address.port:
        return socket.create_connection((address.host, address.port))
    made = socket.socket(socket.AF_UNIX)
    made.connect(address.host)
    return made


@pytest.mark.parametrize("message", [None, 7, "text", [b"x" * 100_000, {"a": [1, 2]}], {1: 2}])
def test_a_message_arrives_as_it_was(pair, message):
    ours, theirs = pair
    sending = threading.Thread(target=ours.send, args=(message,))
    sending.start()
    assert theirs.receive() == message
    sending.join()


def test_text_that_is_no_unicode_arrives_so_that_it_can_be_shown(pair):
    ours, theirs = pair

    ours.send({"text": "half of an emoji: \ud83d"})

    assert theirs.receive() == {"text": "half of an emoji: \\ud83d"}


def test_a_client_without_the_token_is_refused(server):
    made, address = server
    accepting = Accepting(made, address)
    with pytest.raises(WireError):
        connect(address, b"wrong" * 8)
    assert isinstance(accepting.get(), WireError)


def test_a_server_without_the_token_is_refused(server):
    made, address = server

    def impostor():
        sock, _ = made.accept()
        with contextlib.suppress(WireError):
            accept(sock, address, b"wrong" * 8)

    pretending = threading.Thread(target=impostor, daemon=True)
    pretending.start()
    with pytest.raises(WireError, match="does not know the token"):
        connect(address, TOKEN)
    pretending.join(10)


ANNOUNCED = LENGTH_PREFIX.pack((4 << 30) - 1)
GARBAGE = [b"", b"GET / HTTP/1.1\r\n\r\n" * 10, b"\xff" * 64, ANNOUNCED, ANNOUNCED + bytes(1 << 20), ANNOUNCED * 8]


@pytest.mark.parametrize("garbage", GARBAGE, ids=["none", "http", "ones", "length", "length-and-more", "lengths"])
def test_garbage_instead_of_a_hello_is_refused(server, garbage):
    made, address = server
    accepting = Accepting(made, address)
    with plain_socket(address) as sock:
        with contextlib.suppress(OSError):  # it may be refused before all is said
            sock.sendall(garbage)
            sock.shutdown(socket.SHUT_WR)
        assert isinstance(accepting.get(), WireError)


def test_a_message_larger_than_allowed_is_refused_before_it_is_read(pair):
    ours, theirs = pair
    ours._sock.sendall(LENGTH_PREFIX.pack(1 << 40))
    with pytest.raises(WireError, match="at most"):
        theirs.receive()


def test_a_damaged_message_is_refused(pair):
    ours, theirs = pair
    ours._sock.sendall(LENGTH_PREFIX.pack(3) + b"\xc1\xc1\xc1")
    with pytest.raises(WireError, match="cannot be read"):
        theirs.receive()


def test_the_end_of_the_other_side_is_told(pair):
    ours, theirs = pair
    ours.close()
    with pytest.raises(WireError, match="closed"):
        theirs.receive()


def test_sockets_and_their_folder_are_private(folder):
    server, address = listen(folder, "", "socket")
    server.close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(os.stat(address.host).st_mode) == 0o600


def test_a_path_that_is_too_long_for_a_socket_is_named(tmp_path):
    with pytest.raises(StormError, match="TMPDIR"):
        listen(tmp_path / ("x" * 100), "", "socket")


# The door.


@pytest.fixture
def door(server):
    """A door behind which every message is sent back; what it tells is in `told`."""
    made, address = server
    opened = Door(made, address, TOKEN, echo, lambda text: opened.told.append(text))
    opened.told, opened.address = [], address
    running = threading.Thread(target=opened.run)
    running.start()
    yield opened
    opened.close()
    running.join(10)
    opened.join(10)
    assert not running.is_alive()


def echo(connection):
    while True:
        connection.send(connection.receive())


def answers(door):
    """Whether the door lets in who knows the token."""
    connection = connect(door.address, TOKEN)
    connection.send("hello")
    answer = connection.receive()
    connection.close()
    return answer == "hello"


def is_closed(sock):
    sock.settimeout(10)
    try:
        while sock.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


def open_files():
    return len(os.listdir("/proc/self/fd"))


def test_strangers_leave_nothing_behind_and_are_told_of_once(door):
    before = threading.active_count(), open_files()
    for length in range(100):
        with plain_socket(door.address) as sock:
            sock.sendall(os.urandom(length))

    wait_until(lambda: (threading.active_count(), open_files()) == before)
    assert answers(door)
    assert len(door.told) == 1


def test_a_hello_that_drips_in_has_no_more_time_than_another(door, monkeypatch):
    monkeypatch.setattr(wire, "HANDSHAKE_TIMEOUT_SECS", 0.5)
    with plain_socket(door.address) as sock:
        deadline = time.monotonic() + 30
        with pytest.raises(OSError):
            while time.monotonic() < deadline:
                sock.sendall(b"x")
                time.sleep(0.1)
            pytest.fail("it was never closed")
    assert answers(door)


def test_of_too_many_strangers_the_slowest_is_turned_away(door, monkeypatch):
    monkeypatch.setattr(wire, "MOST_STRANGERS", 4)
    strangers = [plain_socket(door.address) for _ in range(5)]

    assert is_closed(strangers[0])
    assert answers(door)
    for sock in strangers:
        sock.close()


def test_nonsense_from_who_knows_the_token_ends_its_connection_only(door):
    first, second = connect(door.address, TOKEN), connect(door.address, TOKEN)
    first._sock.sendall(LENGTH_PREFIX.pack(1 << 62))
    with pytest.raises(WireError):
        first.receive()

    second.send(1)
    assert second.receive() == 1
    first.close()
    second.close()


def test_an_error_of_who_serves_ends_one_connection_and_is_told(server):
    made, address = server
    told = []
    door = Door(made, address, TOKEN, lambda connection: {}["missing"], told.append)
    running = threading.Thread(target=door.run)
    running.start()
    connection = connect(address, TOKEN)
    with pytest.raises(WireError):
        connection.receive()
    connection.close()
    wait_until(lambda: told)

    assert "KeyError: 'missing'" in told[0]
    assert running.is_alive()
    door.close()
    running.join(10)
    door.join(10)


def test_a_door_survives_the_limit_of_open_files(door):
    family = socket.AF_INET if door.address.port else socket.AF_UNIX
    sock = socket.socket(family)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(lowest_free := os.dup(sock.fileno()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        sock.connect((door.address.host, door.address.port) if door.address.port else door.address.host)
        wait_until(lambda: door.told)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    sock.close()

    assert "limits" in door.told[0]
    assert answers(door)
