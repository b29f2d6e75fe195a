"""Messages on sockets: nothing is read from who does not know the token, and no size is believed."""

import os
import socket
import stat
import threading

import pytest

from pystorm_spark.errors import StormError
from pystorm_spark.spark.wire import LENGTH, WireError, accept, connect, listen, private_folder

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

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server = server
        self.result = None
        self.start()

    def run(self):
        sock, _ = self.server.accept()
        try:
            self.result = accept(sock, TOKEN)
        except WireError as exc:
            self.result = exc

    def get(self):
        self.join(10)
        return self.result


@pytest.fixture
def pair(server):
    made, address = server
    accepting = Accepting(made)
    ours = connect(address, TOKEN)
    theirs = accepting.get()
    yield ours, theirs
    ours.close()
    theirs.close()


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


def test_a_client_without_the_token_is_refused(server):
    made, address = server
    accepting = Accepting(made)
    with pytest.raises(WireError):
        connect(address, b"wrong" * 8)
    assert isinstance(accepting.get(), WireError)


def test_a_server_without_the_token_is_refused(server):
    made, address = server

    def impostor():
        sock, _ = made.accept()
        sock.sendall(os.urandom(32))
        sock.recv(32)
        sock.recv(32)
        sock.sendall(os.urandom(32))
        sock.close()

    pretending = threading.Thread(target=impostor, daemon=True)
    pretending.start()
    with pytest.raises(WireError, match="does not know the token"):
        connect(address, TOKEN)
    pretending.join(10)


@pytest.mark.parametrize("garbage", [b"", b"GET / HTTP/1.1\r\n\r\n" * 10, b"\xff" * 64])
def test_garbage_instead_of_a_hello_is_refused(server, garbage):
    made, address = server
    accepting = Accepting(made)
    with plain_socket(address) as sock:
        sock.sendall(garbage)
        sock.shutdown(socket.SHUT_WR)
        assert isinstance(accepting.get(), WireError)


def test_a_message_larger_than_allowed_is_refused_before_it_is_read(pair):
    ours, theirs = pair
    ours._sock.sendall(LENGTH.pack(1 << 40))
    with pytest.raises(WireError, match="at most"):
        theirs.receive()


def test_a_damaged_message_is_refused(pair):
    ours, theirs = pair
    ours._sock.sendall(LENGTH.pack(3) + b"\xc1\xc1\xc1")
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
