"""Internal. Connections: length-prefixed msgpack on a socket, read only after the peer has proved to know the token.

Nothing is unpickled here, and a message larger than its connection allows takes no memory. TCP is always encrypted
(`encrypted`); a Unix socket is in a folder that other users cannot enter. Either begins with a handshake of fixed size:
both sides prove that they know the token, the server first. A proof holds for one role, one address and one connection.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import os
import socket
import stat
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack

from pystorm_spark.errors import StormError

if TYPE_CHECKING:
    from pystorm_spark.spark.protocol.encrypted import Encrypted

LENGTH_PREFIX = struct.Struct("<Q")
NONCE_BYTES = 32
PROOF_BYTES = 32
CLIENT, SERVER = b"pystorm-spark client", b"pystorm-spark server"  # roles in a proof
HANDSHAKE_TIMEOUT_SECS = 10.0  # for a whole handshake, however slowly it comes
MOST_STRANGERS = 32  # that may be at their handshake at once
REFUSAL_LOG_SECS = 60.0  # between two log lines about refused connections
NO_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED}  # pass by themselves
MAX_MESSAGE = 4 << 30  # msgpack cannot hold more in one value
FOLDER_PREFIX = "pystorm-"
MISSED = b"\xc1"  # in place of a parcel: some parcel is missing. No msgpack begins like this
LONGEST_UNIX_PATH = 107 if sys.platform == "linux" else 103  # of a socket, in bytes
LONGEST_FOLDER = LONGEST_UNIX_PATH - len(f"/{FOLDER_PREFIX}12345678/slot-1234-1234567")  # of a cluster


class WireError(StormError):
    """A connection broke, or the peer does not follow the protocol."""


class Address(NamedTuple):
    """Where clients find a server: a Unix socket's path, or a host and a port."""

    host: str  # a path when `port` is 0
    port: int = 0


def pack(message: Any) -> bytes:
    """A message as bytes. Lone surrogates, which user code may put into texts, are escaped."""
    packed: bytes = msgpack.packb(message, unicode_errors="backslashreplace")
    return packed


class Connection:
    """One authenticated connection. `send` and `receive` carry one message each; one thread may do each."""

    def __init__(self, sock: socket.socket | Encrypted) -> None:
        self._sock = sock

    def send(self, message: Any) -> None:
        self.send_packed(pack(message))

    def send_packed(self, data: bytes) -> None:
        """Send a message that `pack` has made."""
        try:
            if len(data) < 1 << 16:
                self._sock.sendall(LENGTH_PREFIX.pack(len(data)) + data)
            else:
                self._sock.sendall(LENGTH_PREFIX.pack(len(data)))
                self._sock.sendall(data)
        except OSError as exc:
            raise WireError(f"the connection broke while sending: {exc}") from exc

    def receive(self, limit: int = MAX_MESSAGE) -> Any:
        (length,) = LENGTH_PREFIX.unpack(_read(self._sock, LENGTH_PREFIX.size))
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
        _hang_up(self._sock)
        self._sock.close()


def listen(folder: Path | None, host: str, name: str, known_as: str = "") -> tuple[socket.socket, Address]:
    """A listening socket: a Unix socket in the private `folder`, or where there is none a TCP port on `host`.

    Its address is the one that clients are to use; they may know the host by another name.
    """
    if folder is None:
        server = socket.create_server((host, 0))
        return server, Address(known_as or host, server.getsockname()[1])
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


def connect(address: Address, token: bytes, timeout: float = HANDSHAKE_TIMEOUT_SECS) -> Connection:
    """An authenticated connection to the server at `address`."""
    until = time.monotonic() + timeout
    try:
        if address.port:
            sock = socket.create_connection((address.host, address.port), timeout)
        else:
            sock = _connected(address.host, until)
    except OSError as exc:
        raise WireError(f"the peer does not answer: {exc}") from exc
    try:
        channel = _channel(sock, token, until, is_server=False)
        _greet(channel, address, token, until)
        channel.settimeout(None)
    except BaseException:
        sock.close()
        raise
    return Connection(channel)


def _channel(sock: socket.socket, token: bytes, until: float, is_server: bool) -> socket.socket | Encrypted:
    """The socket, encrypted if it is TCP; no side can ask for anything else."""
    if sock.family == socket.AF_UNIX:
        return sock
    # Importing it takes time and memory, which slots on one machine save.
    from pystorm_spark.spark.protocol.encrypted import Encrypted, set_up_tcp

    try:
        set_up_tcp(sock)
        return Encrypted(sock, token, is_server, until)
    except OSError as exc:
        raise WireError(f"the other side does not know the token, or is no peer: {exc}") from exc


def _connected(path: str, until: float) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        while True:
            sock.settimeout(max(0.001, until - time.monotonic()))
            try:
                sock.connect(path)
            except BlockingIOError:  # many others wait to be accepted: Unix sockets do not queue up for that
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)
            else:
                return sock
    except BaseException:
        sock.close()
        raise


def accept(sock: socket.socket, address: Address, token: bytes) -> Connection:
    """The connection of a client that has just come to `address`, once it has shown that it knows `token`."""
    until = time.monotonic() + HANDSHAKE_TIMEOUT_SECS
    try:
        sock.settimeout(HANDSHAKE_TIMEOUT_SECS)
        if sock.family == socket.AF_UNIX:
            _check_peer(sock)
        channel = _channel(sock, token, until, is_server=True)
        _admit(channel, address, token, until)
        channel.settimeout(None)
    except BaseException:
        sock.close()
        raise
    return Connection(channel)


class Door:
    """Accepts connections, and serves those that prove they know the token, each in a thread of its own.

    Clients that have not shown the token cost little. Each has `HANDSHAKE_TIMEOUT_SECS` for its handshake. When too
    many are at it, the one that has taken longest is closed. Refusals are logged now and then, not each time.
    """

    def __init__(
        self,
        server: socket.socket,
        address: Address,
        token: bytes,
        serve: Callable[[Connection], None],
        tell: Callable[[str], None],
    ) -> None:
        self._server = server
        self._address = address
        self._token = token
        self._serve = serve
        self._tell = tell
        self._lock = threading.Lock()
        self._strangers: dict[socket.socket, None] = {}  # the oldest first
        self._threads: set[threading.Thread] = set()
        self._untold = 0
        self._quiet_until = 0.0

    def run(self) -> None:
        """Accept connections until the door is closed."""
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError as exc:
                if exc.errno not in NO_RESOURCES:
                    return
                self._refused(f"{exc}; the system's limits are reached")
                time.sleep(0.1)
                continue
            thread = threading.Thread(target=self._meet, args=(sock,), name="pystorm-connection", daemon=True)
            with self._lock:
                self._threads.add(thread)
                self._strangers[sock] = None
                slowest = next(iter(self._strangers)) if len(self._strangers) > MOST_STRANGERS else None
            if slowest is not None:
                _hang_up(slowest)
            thread.start()

    def close(self) -> None:
        """Accept no more connections."""
        _hang_up(self._server)
        self._server.close()
        with self._lock:
            strangers = list(self._strangers)
        for sock in strangers:
            _hang_up(sock)

    def join(self, secs: float) -> None:
        """Wait for the threads of connections that have been closed."""
        with self._lock:
            threads = self._threads - {threading.current_thread()}
        for thread in threads:
            thread.join(secs)

    def _meet(self, sock: socket.socket) -> None:
        try:
            connection = accept(sock, self._address, self._token)
        except (WireError, OSError) as exc:
            self._refused(str(exc))
        else:
            self._make_known(sock)
            self._talk(connection)
        finally:
            self._make_known(sock)
            with self._lock:
                self._threads.discard(threading.current_thread())

    def _make_known(self, sock: socket.socket) -> None:
        with self._lock:
            self._strangers.pop(sock, None)

    def _talk(self, connection: Connection) -> None:
        try:
            self._serve(connection)
        except WireError:
            pass  # it has ended, as every connection does
        except Exception as exc:  # an invalid message ends this connection and nothing else
            self._refused(f"its message is invalid: {type(exc).__name__}: {exc}")
        finally:
            connection.close()

    def _refused(self, why: str) -> None:
        with self._lock:
            self._untold += 1
            now = time.monotonic()
            if now < self._quiet_until:
                return
            self._quiet_until = now + REFUSAL_LOG_SECS
            untold, self._untold = self._untold, 0
        others = f" (and {untold - 1} others before it)" if untold > 1 else ""
        self._tell(f"a connection was refused: {why}{others}")


def private_folder(parent: Path | None = None, longest: int = LONGEST_FOLDER) -> Path:
    """A new folder that other users cannot enter; without `parent`, its path has at most `longest` bytes."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=parent))
    except OSError as exc:
        raise StormError(
            f"there is no folder for sockets and temporary files: {exc}; set TMPDIR to one that can be written"
        ) from exc
    try:
        _check_private(folder)
        if parent is None:
            _check_length(folder, longest)
    except BaseException:
        folder.rmdir()
        raise
    return folder


def _check_private(folder: Path) -> None:
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode != 0o700:
        raise StormError(f"the folder {folder} has the mode {mode:o}, but must be private (700)")


def _check_length(folder: Path, longest: int) -> None:
    above = len(os.fsencode(folder.parent))
    most = longest - len(os.fsencode(f"/{folder.name}"))
    if above > most:
        raise StormError(
            f"the folder for temporary files, {str(folder.parent)!r}, has a path of {above} bytes: too long "
            f"for sockets below it; set TMPDIR to one of at most {most} bytes"
        )


def _hang_up(sock: socket.socket | Encrypted) -> None:
    with contextlib.suppress(OSError):  # the other side may have been faster
        sock.shutdown(socket.SHUT_RDWR)


def _greet(channel: socket.socket | Encrypted, address: Address, token: bytes, until: float) -> None:
    """The client's side of the handshake. The server at `address` proves first that it knows the token."""
    ours = os.urandom(NONCE_BYTES)
    _write(channel, ours)
    theirs = bytes(_read(channel, NONCE_BYTES, until))
    nonces = ours + theirs
    _check(_read(channel, PROOF_BYTES, until), _proof(token, SERVER, nonces, address))
    _write(channel, _proof(token, CLIENT, nonces, address))


def _admit(channel: socket.socket | Encrypted, address: Address, token: bytes, until: float) -> None:
    """The server's side of the handshake."""
    theirs = bytes(_read(channel, NONCE_BYTES, until))
    ours = os.urandom(NONCE_BYTES)
    nonces = theirs + ours
    _write(channel, ours + _proof(token, SERVER, nonces, address))
    _check(_read(channel, PROOF_BYTES, until), _proof(token, CLIENT, nonces, address))


def _proof(token: bytes, role: bytes, nonces: bytes, address: Address) -> bytes:
    """A proof over both nonces, the client's first, so that no side can be made to repeat one."""
    place = f"{address.host} {address.port}".encode("utf-8", "surrogateescape")
    return hmac.digest(token, role + nonces + place, "sha256")


def _check(proof: bytearray, expected: bytes) -> None:
    if not hmac.compare_digest(proof, expected):
        raise WireError("the other side does not know the token, or means another address")


def _check_peer(sock: socket.socket) -> None:
    """Refuse another user's process, where the system can tell."""
    if not hasattr(socket, "SO_PEERCRED"):
        return
    _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    if uid not in (os.getuid(), 0):
        raise WireError(f"a process of another user ({uid}) tried to connect")


def _write(sock: socket.socket | Encrypted, data: bytes) -> None:
    try:
        sock.sendall(data)
    except OSError as exc:
        raise WireError(f"the connection broke in its hello: {exc}") from exc


def _read(sock: socket.socket | Encrypted, count: int, until: float | None = None) -> bytearray:
    data = bytearray()
    while len(data) < count:
        try:
            if until is not None:
                sock.settimeout(max(0.001, until - time.monotonic()))
            # Memory is taken as bytes arrive, not by what a length says.
            part = sock.recv(min(count - len(data), 1 << 20))
        except OSError as exc:
            raise WireError(f"the connection broke while receiving: {exc}") from exc
        if not part:
            raise WireError("the other side has closed the connection")
        data += part
    return data
