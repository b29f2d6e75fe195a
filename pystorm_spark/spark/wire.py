"""Internal. Messages on a socket: length-prefixed msgpack, read only after the other side has shown the token.

Nothing is unpickled here, and no memory is taken for a message that is larger than its connection allows. The first
message of a connection is its hello: a fixed-size proof that the other side knows the token.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import socket
import stat
import struct
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import msgpack

from pystorm_spark.errors import StormError

LENGTH = struct.Struct("<Q")
CHALLENGE_BYTES = 32
PROOF_BYTES = 32
HELLO_SECS = 10.0
MAX_MESSAGE = 4 << 30  # msgpack cannot hold more in one value
FOLDER_PREFIX = "pystorm-"
MISSED = b"\xc1"  # in place of a parcel: some parcel is missing. No msgpack begins like this
LONGEST_UNIX_PATH = 100  # the kernel's limit is 108, on some systems 104


class WireError(StormError):
    """A connection broke, or the other side does not speak as it should."""


class Address(NamedTuple):
    """Where a server listens: a Unix socket's path, or a host and a port."""

    host: str  # a path when `port` is 0
    port: int = 0


class Connection:
    """One authenticated connection. `send` and `receive` carry one message each; one thread may do each."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def send(self, message: Any) -> None:
        data = msgpack.packb(message)
        try:
            if len(data) < 1 << 16:
                self._sock.sendall(LENGTH.pack(len(data)) + data)
            else:
                self._sock.sendall(LENGTH.pack(len(data)))
                self._sock.sendall(data)
        except OSError as exc:
            raise WireError(f"the connection broke while sending: {exc}") from exc

    def receive(self, limit: int = MAX_MESSAGE) -> Any:
        (length,) = LENGTH.unpack(_read(self._sock, LENGTH.size))
        if length > limit:
            raise WireError(f"a message of {length} bytes is announced, but at most {limit} are allowed here")
        try:
            return msgpack.unpackb(_read(self._sock, length), strict_map_key=False)
        except (ValueError, msgpack.UnpackException) as exc:
            raise WireError(f"a message cannot be read: {type(exc).__name__}") from exc

    def settimeout(self, secs: float | None) -> None:
        self._sock.settimeout(secs)

    def fileno(self) -> int:
        return self._sock.fileno()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # the other side may have been faster
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


def listen(folder: Path | None, host: str, name: str) -> tuple[socket.socket, Address]:
    """A listening socket: a Unix socket in the private `folder`, or where there is none a TCP port on `host`."""
    if folder is None:
        server = socket.create_server((host, 0))
        return server, Address(host, server.getsockname()[1])
    path = str(folder / name)
    if len(os.fsencode(path)) > LONGEST_UNIX_PATH:
        raise StormError(
            f"the socket path {path!r} is longer than {LONGEST_UNIX_PATH} bytes; set TMPDIR to a shorter folder"
        )
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    previous = os.umask(0o177)
    try:
        server.bind(path)
    finally:
        os.umask(previous)
    server.listen(64)
    return server, Address(path)


def connect(address: Address, token: bytes, timeout: float = HELLO_SECS) -> Connection:
    """An authenticated connection to the server at `address`."""
    try:
        if address.port:
            sock = socket.create_connection((address.host, address.port), timeout)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.settimeout(timeout)
            sock.connect(address.host)
    except OSError as exc:
        raise WireError(f"nobody answers: {exc}") from exc
    try:
        _prove(sock, token)
        _challenge(sock, token)
    except BaseException:
        sock.close()
        raise
    sock.settimeout(None)
    return Connection(sock)


def accept(sock: socket.socket, token: bytes) -> Connection:
    """The connection of a client that has just connected, once it has shown that it knows `token`.

    Both sides prove it, by a keyed hash over the other's random challenge: the token itself never travels.
    """
    sock.settimeout(HELLO_SECS)
    try:
        if sock.family == socket.AF_UNIX:
            _check_peer(sock)
        else:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _challenge(sock, token)
        _prove(sock, token)
    except BaseException:
        sock.close()
        raise
    sock.settimeout(None)
    return Connection(sock)


def private_folder(parent: Path | None = None) -> Path:
    """A fresh folder for sockets that nobody else can reach."""
    folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=parent))
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode != 0o700:
        raise StormError(f"the folder {folder} has the mode {mode:o}, but must be private (700)")
    return folder


def _challenge(sock: socket.socket, token: bytes) -> None:
    """Have the other side show that it knows the token."""
    nonce = os.urandom(CHALLENGE_BYTES)
    _write(sock, nonce)
    proof = _read(sock, PROOF_BYTES)
    if not hmac.compare_digest(bytes(proof), _proof(token, nonce)):
        raise WireError("the other side does not know the token")


def _prove(sock: socket.socket, token: bytes) -> None:
    _write(sock, _proof(token, bytes(_read(sock, CHALLENGE_BYTES))))


def _proof(token: bytes, nonce: bytes) -> bytes:
    return hmac.new(token, nonce, hashlib.sha256).digest()


def _check_peer(sock: socket.socket) -> None:
    """Refuse another user's process, where the system can tell."""
    if not hasattr(socket, "SO_PEERCRED"):
        return
    _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    if uid not in (os.getuid(), 0):
        raise WireError(f"a process of another user ({uid}) tried to connect")


def _write(sock: socket.socket, data: bytes) -> None:
    try:
        sock.sendall(data)
    except OSError as exc:
        raise WireError(f"the connection broke in its hello: {exc}") from exc


def _read(sock: socket.socket, count: int) -> bytearray:
    data = bytearray()
    while len(data) < count:
        try:
            # Memory is taken as bytes arrive, not by what a length says.
            part = sock.recv(min(count - len(data), 1 << 20))
        except OSError as exc:
            raise WireError(f"the connection broke while receiving: {exc}") from exc
        if not part:
            raise WireError("the other side has closed the connection")
        data += part
    return data
