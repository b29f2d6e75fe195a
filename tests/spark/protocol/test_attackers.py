"""Attackers without the token: between two ends, in the place of one that is gone, or as a client of their own."""

import contextlib
import os
import re
import socket
import ssl
import struct
import threading
import time
from pathlib import Path

import msgpack
import pytest

from pystorm_spark.spark.protocol import wire
from pystorm_spark.spark.protocol.encrypted import MOST_UNSENT, Encrypted
from pystorm_spark.spark.protocol.wire import (
    LENGTH_PREFIX,
    Address,
    Connection,
    WireError,
    accept,
    connect,
    listen,
    private_folder,
)

TOKEN = b"t" * 32
RECORD = struct.Struct("!BHH")  # of TLS: type, version, length


@pytest.fixture
def folder():
    made = private_folder()
    yield made
    for path in made.iterdir():
        path.unlink()
    made.rmdir()


@pytest.fixture(params=["unix", "tcp"])
def places(request, folder):
    """Two listening sockets of one kind and their addresses."""
    within = folder if request.param == "unix" else None
    made = [listen(within, "127.0.0.1", name) for name in ("first", "second")]
    yield made
    for server, _ in made:
        server.close()


def background(work, *args):
    """A function that gives what `work` returns, or the `WireError` that it raises."""
    outcome = []

    def run():
        try:
            outcome.append(work(*args))
        except (WireError, OSError) as exc:
            outcome.append(exc)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def get():
        thread.join(20)
        assert outcome, "it goes on"
        return outcome[0]

    return get


def serving(place):
    """What becomes of the next connection to `place`."""
    server, address = place

    def serve():
        sock, _ = server.accept()
        return accept(sock, address, TOKEN)

    return background(serve)


def plain(address):
    """A connection with nothing on top."""
    if address.port:
        return socket.create_connection((address.host, address.port), 10)
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(10)
    sock.connect(address.host)
    return sock


def stranger(address):
    """A connection as far as somebody comes who has no token: encrypted, where that is asked for."""
    sock = plain(address)
    if not address.port:
        return sock
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(sock)


def exactly(sock, count):
    data = b""
    while len(data) < count:
        part = sock.recv(count - len(data))
        if not part:
            raise ConnectionError("closed")
        data += part
    return data


def forward(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for sock in (source, target):
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def test_who_listens_where_a_slot_has_died_cannot_hand_a_client_over_to_another_slot(places):
    (dead, dead_address), living = places

    def relay():
        victim, _ = dead.accept()
        with victim, plain(living[1]) as other:
            back = background(forward, other, victim)
            forward(victim, other)
            back()

    slot, relaying = serving(living), background(relay)
    with pytest.raises(WireError):
        connect(dead_address, TOKEN)

    assert isinstance(slot(), WireError)
    relaying()


def test_a_client_proves_nothing_before_the_server_has(places):
    """It says what is the same for whoever listens, and goes when it gets no proof."""
    (server, address), _ = places
    said = []

    def listen_only():
        sock, _ = server.accept()
        with sock:
            if address.port:
                sock.settimeout(1)
            said.append(sock.recv(1 << 16))
            sock.sendall(os.urandom(64))
            sock.settimeout(10)
            with contextlib.suppress(ConnectionResetError):
                said.append(sock.recv(1 << 16))

    listening = background(listen_only)
    with pytest.raises(WireError):
        connect(address, TOKEN)
    listening()

    first, last = said if len(said) == 2 else (said[0], b"")
    assert len(first) == wire.NONCE_BYTES or first[0] == 22  # TLS: a handshake
    assert last == b"" or last[0] == 21  # TLS: an alert


@pytest.mark.parametrize("proof", ["reflected", "of-zeros", "of-the-nonces"])
def test_a_stranger_cannot_use_what_the_server_says(places, proof):
    place, _ = places
    refused = serving(place)
    with stranger(place[1]) as sock:
        ours = bytes(wire.NONCE_BYTES)
        sock.sendall(ours)
        theirs, shown = exactly(sock, wire.NONCE_BYTES), exactly(sock, wire.PROOF_BYTES)
        sock.sendall({"reflected": shown, "of-zeros": bytes(32), "of-the-nonces": theirs}[proof])
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(1) == b""

    assert isinstance(refused(), WireError)


def test_a_proof_seen_before_is_worth_nothing(places, monkeypatch):
    """Even if the client's nonce comes again."""
    place, _ = places
    sent = []
    write = wire._write
    monkeypatch.setattr(wire, "_write", lambda sock, data: (sent.append(data), write(sock, data)))
    known = serving(place)
    connect(place[1], TOKEN).close()
    known().close()
    nonce, _, proof = sent

    refused = serving(place)
    with stranger(place[1]) as sock:
        sock.sendall(nonce)
        exactly(sock, wire.NONCE_BYTES + wire.PROOF_BYTES)
        sock.sendall(proof)
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(1) == b""

    assert isinstance(refused(), WireError)


@pytest.mark.parametrize(
    ("role", "address"),
    [(wire.SERVER, None), (wire.CLIENT, Address("10.0.0.9", 9)), (wire.CLIENT, Address("/another", 0))],
)
def test_who_knows_the_token_is_refused_in_a_wrong_role_or_at_a_wrong_address(places, role, address):
    place, _ = places
    refused = serving(place)
    with stranger(place[1]) as sock:
        ours = os.urandom(wire.NONCE_BYTES)
        sock.sendall(ours)
        theirs, _ = exactly(sock, wire.NONCE_BYTES), exactly(sock, wire.PROOF_BYTES)
        sock.sendall(wire._proof(TOKEN, role, ours + theirs, address or place[1]))
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(1) == b""

    assert "another address" in str(refused())


@pytest.mark.parametrize(
    "garbage", [b"\xff" * 64, LENGTH_PREFIX.pack((4 << 30) - 1) * 8, LENGTH_PREFIX.pack(1 << 62) + bytes(1 << 20)]
)
def test_garbage_of_a_stranger_who_has_come_as_far_as_the_hello_is_refused(places, garbage):
    place, _ = places
    refused = serving(place)
    with contextlib.suppress(OSError), stranger(place[1]) as sock:
        sock.sendall(garbage)
        exactly(sock, 1 << 20)

    assert "does not know the token" in str(refused())


# TCP: no form without encryption, and none with less of it.


@pytest.fixture
def tcp():
    server, address = listen(None, "127.0.0.1", "")
    yield server, address
    server.close()


def test_over_tcp_no_server_takes_a_hello_that_is_not_encrypted_even_with_the_token(tcp):
    refused = serving(tcp)
    with plain(tcp[1]) as sock, pytest.raises(WireError):
        wire._greet(sock, tcp[1], TOKEN, time.monotonic() + 10)

    assert isinstance(refused(), WireError)


def test_over_tcp_no_client_takes_a_server_that_does_not_encrypt_even_with_the_token(tcp):
    server, address = tcp

    def serve():
        sock, _ = server.accept()
        with sock:
            wire._admit(sock, address, TOKEN, time.monotonic() + 10)

    serving = background(serve)
    with pytest.raises(WireError):
        connect(address, TOKEN)
    assert isinstance(serving(), WireError)


def test_an_older_tls_is_refused(tcp):
    refused = serving(tcp)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with plain(tcp[1]) as sock, pytest.raises(OSError):
        context.wrap_socket(sock)

    assert isinstance(refused(), WireError)


def test_a_hello_that_drips_in_encrypted_has_no_more_time_than_another(tcp, monkeypatch):
    """The first part of a record, byte for byte: TLS has nothing to give as long as it is not whole."""
    monkeypatch.setattr(wire, "HANDSHAKE_TIMEOUT_SECS", 1.0)
    refused = serving(tcp)
    with stranger(tcp[1]) as sock:
        bare = socket.socket(fileno=os.dup(sock.fileno()))
        with bare, contextlib.suppress(OSError):
            bare.sendall(RECORD.pack(23, 0x0303, 1 << 14))
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                bare.sendall(b"x")
                time.sleep(0.05)
            pytest.fail("it was never closed")

    assert isinstance(refused(), WireError)


def test_who_asks_for_new_keys_again_and_again_fills_no_memory(tcp):
    """TLS answers each time, and nobody has the answers sent who only receives."""
    accepting = serving(tcp)
    client = connect(tcp[1], TOKEN)
    server = accepting()
    server._sock._unsent.write(bytes(MOST_UNSENT + 1))  # as so many answers; Python's TLS cannot ask
    client._sock._sock.sendall(RECORD.pack(23, 0x0303, 100))

    with pytest.raises(WireError, match="again and again"):
        server.receive()
    client.close()
    server.close()


# TCP: somebody on the way between two ends that know each other, who sees and changes what he likes.


class OnTheWay:
    """Passes on what two ends say, TLS record for record; makes what it likes of two that the client says."""

    def __init__(self):
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._server.getsockname()[1])
        self.change = None
        self.seen = []
        self._held = []

    def pass_on(self, to):
        client, _ = self._server.accept()
        with client, self._server, plain(to) as server:
            back = background(forward, server, client)
            with contextlib.suppress(OSError):
                while True:
                    self._pass_record(client, server)
            for sock in (client, server):
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
            back()

    def _pass_record(self, client, server):
        head = exactly(client, RECORD.size)
        record = head + exactly(client, RECORD.unpack(head)[2])
        self.seen.append(record)
        if self.change is None:
            server.sendall(record)
            return
        self._held.append(record)
        if len(self._held) == 2:
            for changed in self.change(*self._held):
                server.sendall(changed)
            self.change = None


def test_who_is_on_the_way_cannot_speak_for_either_end(tcp):
    """He encrypts with both of them, decrypts all, and passes their hello on word for word."""
    server, listens_at = tcp
    trap, address = listen(None, "127.0.0.1", "")

    def stand_between():
        victim, _ = trap.accept()
        with trap, victim, stranger(listens_at) as other:
            between = Encrypted(victim, b"made up", is_server=True, until=time.monotonic() + 10)
            back = background(forward, other, between)
            forward(between, other)
            back()

    accepting, standing = serving((server, address)), background(stand_between)
    with pytest.raises(WireError):
        connect(address, TOKEN)
    standing()

    assert isinstance(accepting(), WireError)


@pytest.fixture
def on_the_way(tcp):
    """The attacker and the two ends, of which the server is known by the attacker's address."""
    server, listens_at = tcp
    attacker = OnTheWay()
    passing = background(attacker.pass_on, listens_at)
    accepting = serving((server, attacker.address))
    client = connect(attacker.address, TOKEN)
    theirs = accepting()
    yield attacker, client, theirs
    client.close()
    theirs.close()
    passing()


def received(connection):
    """All that comes until the connection ends."""
    messages = []
    with contextlib.suppress(WireError):
        while True:
            messages.append(connection.receive())
    return messages


def test_who_is_on_the_way_cannot_read_what_is_said(on_the_way):
    attacker, client, server = on_the_way
    client.send(["feed", "a secret text", TOKEN])

    assert server.receive() == ["feed", "a secret text", TOKEN]
    seen = b"".join(attacker.seen)
    assert len(seen) > 200  # hello and message
    assert b"secret" not in seen
    assert TOKEN not in seen


EVIL = msgpack.packb(["feed", "evil"])
NAKED = LENGTH_PREFIX.pack(len(EVIL)) + EVIL
RECORDED = RECORD.pack(23, 0x0303, len(NAKED)) + NAKED
CHANGES = {  # {name: (what becomes of two records, how many messages may arrive)}
    "a bit of the content": (lambda one, two: [one[:8] + bytes([one[8] ^ 1]) + one[9:], two], 0),
    "a bit of the checksum": (lambda one, two: [one[:-1] + bytes([one[-1] ^ 128]), two], 0),
    "a bit of the type": (lambda one, two: [bytes([one[0] ^ 1]) + one[1:], two], 0),
    "a shorter length": (lambda one, two: [one[:3] + struct.pack("!H", len(one) - 6) + one[5:-1], two], 0),
    "one twice": (lambda one, two: [one, one, two], 1),
    "both twice": (lambda one, two: [one, two, one, two], 2),
    "the first one less": (lambda one, two: [two], 0),
    "the last one less": (lambda one, two: [one], 1),
    "another order": (lambda one, two: [two, one], 0),
    "put in, plain": (lambda one, two: [NAKED, one, two], 0),
    "put in, in the form of a record": (lambda one, two: [RECORDED, one, two], 0),
}


@pytest.mark.parametrize("name", CHANGES)
def test_who_is_on_the_way_can_end_the_connection_and_nothing_else(on_the_way, name):
    attacker, client, server = on_the_way
    client.send("before")
    assert server.receive() == "before"
    attacker.change, arrive = CHANGES[name]
    receiving = background(received, server)
    with contextlib.suppress(WireError):
        for number in range(3):
            client.send(["message", number])

    assert receiving() == [["message", number] for number in range(arrive)]


@pytest.mark.parametrize("kept", [0, 1, 5, 20, None])
def test_a_message_that_is_cut_off_is_not_taken_for_a_whole_one(on_the_way, kept):
    attacker, client, server = on_the_way

    def cut(one, two):
        yield one
        yield two[:kept]
        raise ConnectionError

    attacker.change = cut
    receiving = background(received, server)
    with contextlib.suppress(WireError):
        client.send(bytes(100_000))  # which needs more records than two

    assert receiving() == []


def test_both_ends_may_send_as_they_receive(on_the_way):
    """Two threads at each end, and more than the system keeps: neither waits for the other."""
    _, client, server = on_the_way
    message = [os.urandom(1 << 20)] * 8
    sending = [background(Connection.send, end, message) for end in (client, server)]
    receiving = [background(Connection.receive, end) for end in (client, server)]

    assert [get() for get in sending] == [None, None]
    assert [get() == message for get in receiving] == [True, True]


# Pickles.

UNPICKLING = {  # {module: where the bytes come from}
    "runtime/components.py": "plan and components: the driver, over the slot's control connection",
    "runtime/codec/pickling.py": "values: frames and rows of other slots and of Spark tasks; a checkpoint",
    "runtime/wiring.py": "a copy of what is in this process",
    "spark/slot/actor.py": "plan and components: the driver, over the slot's control connection",
    "spark/protocol/slot_errors.py": "errors: on the driver, from its slots",
    "testing/emissions.py": "tests of this user, over a Unix socket in a private folder",
}


def test_pickles_are_opened_only_where_somebody_has_thought_about_where_they_come_from():
    package = Path(wire.__file__).parents[2]
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"pickle\.loads?\(|Unpickler|marshal|\bshelve\b", path.read_text())
    }

    assert found == UNPICKLING.keys()
