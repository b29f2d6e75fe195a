"""Internal. Encrypted: a TCP connection in TLS, whose server shows the certificate of the run.

It looks like a socket. Beneath is an `SSLObject` that only computes: two threads may send and receive at once, which an
`SSLSocket` does not allow on each version of Python. What computes has a lock; what waits for the network has none.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache

from pystorm_spark.spark.protocol.certificate import certificate_of

# A machine that is gone is noticed after a minute: where an answer is awaited, and where nobody confirms what was sent.
# Not sooner, for a slot whose user code keeps the interpreter to itself takes nothing in either.
LOSS_NOTICED = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 5, "TCP_USER_TIMEOUT": 60_000}
PIECE = 1 << 18  # bytes that are encrypted, or received, at once
MOST_UNSENT = 1 << 16  # bytes that TLS itself may want to answer, of which our own peers make none


class Encrypted:
    """One connection; the token of the run is the server's proof, and nothing is yet known of the client."""

    def __init__(self, sock: socket.socket, token: bytes, is_server: bool, until: float) -> None:
        self._sock = sock
        self._timeout: float | None = None
        self._received, self._unsent = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = server_context(token) if is_server else client_context(token)
        self._tls = context.wrap_bio(self._received, self._unsent, server_side=is_server)
        self._computing = threading.Lock()
        while not self._has_shaken_hands():
            self._sock.sendall(self._unsent.read())
            if not self._take_in(until):
                raise ConnectionError("the other side has closed the connection")
        self._sock.sendall(self._unsent.read())

    def _has_shaken_hands(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def sendall(self, data: bytes | bytearray) -> None:
        with memoryview(data) as whole:
            start = 0
            while start < len(whole):
                with self._computing:
                    start += self._tls.write(whole[start : start + PIECE])
                    sealed = self._unsent.read()
                self._sock.sendall(sealed)

    def recv(self, count: int) -> bytes:
        """Some bytes, at most `count`; none at the end."""
        until = None if self._timeout is None else time.monotonic() + self._timeout
        while True:
            with self._computing:
                try:
                    return self._tls.read(count)
                except ssl.SSLWantReadError:
                    if self._unsent.pending > MOST_UNSENT:
                        raise ConnectionError("the other side asks for new keys again and again") from None
                except ssl.SSLZeroReturnError:
                    return b""
            if not self._take_in(until):
                return b""

    def _take_in(self, until: float | None) -> bool:
        """Receive something, however little, before `until`; whether there was anything."""
        if until is not None:
            self._sock.settimeout(max(0.001, until - time.monotonic()))
        data = self._sock.recv(PIECE)
        with self._computing:
            self._received.write(data)
        return bool(data)

    def settimeout(self, secs: float | None) -> None:
        """How long one call may take as a whole."""
        self._timeout = secs
        self._sock.settimeout(secs)

    def fileno(self) -> int:
        return self._sock.fileno()

    def shutdown(self, how: int) -> None:
        self._sock.shutdown(how)

    def close(self) -> None:
        self._sock.close()


def set_up_tcp(sock: socket.socket) -> None:
    """Send at once, and notice that the other machine is gone, or its network, which closes no connection."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in LOSS_NOTICED.items():
        if hasattr(socket, option):  # not every system has all of them
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


@lru_cache(maxsize=16)
def client_context(token: bytes) -> ssl.SSLContext:
    """Trusts the certificate of the run and no other, whatever its server is called."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=certificate_of(token).certificate.decode())
    return context


@lru_cache(maxsize=16)
def server_context(token: bytes) -> ssl.SSLContext:
    """Shows the certificate of the run."""
    context = _context(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0  # for sessions to be resumed, which nobody does
    made = certificate_of(token)
    with ExitStack() as files:
        context.load_cert_chain(*(files.enter_context(_in_a_pipe(pem)) for pem in made))
    return context


def _context(protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


@contextmanager
def _in_a_pipe(pem: bytes) -> Iterator[str]:
    """The name of a file that can be read once: OpenSSL reads keys from files, and this one is on no disk."""
    reader, writer = os.pipe()
    try:
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(pem)
        yield f"/dev/fd/{reader}"
    finally:
        os.close(reader)
