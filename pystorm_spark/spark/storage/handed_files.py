"""Internal. HandedFiles: reads and writes files for a slot through the driver, where only the driver's JVM can.

Each operation has a connection of its own. A file crosses it in pieces, from or to a local file of the driver. So a
large state fills neither the driver's memory nor the connection for the slot's messages.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from pystorm_spark.checkpoint.crash_points import crash_point
from pystorm_spark.checkpoint.files import Files, step
from pystorm_spark.errors import CheckpointError
from pystorm_spark.spark.protocol.messages import FileRequest
from pystorm_spark.spark.protocol.wire import Connection, WireError

PIECE_BYTES = 1 << 22  # bytes of a file in one message
MESSAGE_LIMIT_BYTES = PIECE_BYTES + 64  # of such a message
CONNECT_BACKOFF_SECS = (0.05, 0.2, 1.0)  # before each retry of a refused connection
WRITE_TIMEOUT_SECS = 10.0  # for an operation in progress when its slot ended


class HandedFiles:
    """The files of the checkpoint in `place`, for one slot. `connect` opens a connection to the driver."""

    def __init__(self, connect: Callable[[], Connection], slot: int, place: str) -> None:
        self._connect = connect
        self._slot = slot
        self._place = place

    def write(self, name: str, data: bytes) -> None:
        with self._asked("write", name, len(data)) as driver:
            for start in range(0, max(1, len(data)), PIECE_BYTES):
                _answer(driver)  # the driver is ready for the next piece
                driver.send(data[start : start + PIECE_BYTES])
            crash_point(step(name, "written"))
            _answer(driver)
        crash_point(step(name, "renamed"))

    def read(self, name: str) -> bytes:
        with self._asked("read", name) as driver:
            pieces = []
            while piece := _answer(driver):  # the last one is empty
                pieces.append(piece)
            return b"".join(pieces)

    def size(self, name: str) -> int:
        size: int = self._ask("size", name)
        return size

    def names(self) -> list[str]:
        names: list[str] = self._ask("names")
        return names

    def remove(self, name: str) -> None:
        self._ask("remove", name)
        crash_point("file-removed")

    def path(self, name: str) -> str:
        return f"{self._place}/{name}"

    def _connected(self) -> Connection:
        """Connect to the driver, with retries: it refuses some connections when all slots start at once."""
        for secs in CONNECT_BACKOFF_SECS:
            try:
                return self._connect()
            except WireError:
                time.sleep(secs)
        return self._connect()

    def _ask(self, operation: str, *arguments: Any) -> Any:
        with self._asked(operation, *arguments) as driver:
            return _answer(driver)

    @contextmanager
    def _asked(self, operation: str, *arguments: Any) -> Iterator[Connection]:
        try:
            with closing(self._connected()) as driver:
                driver.send(FileRequest(self._slot, operation, list(arguments)).to_plain())
                yield driver
        except WireError as exc:
            raise CheckpointError(
                f"the checkpoint {self._place!r} cannot be reached through the driver: {exc}"
            ) from exc


def _answer(driver: Connection) -> Any:
    problem, answer = driver.receive(MESSAGE_LIMIT_BYTES)
    if problem is not None:
        raise CheckpointError(problem)
    return answer


class LocallyCopied(Files, Protocol):
    """Files that can be copied from and to local files."""

    def put(self, local: Path, name: str) -> None: ...

    def get(self, name: str, local: Path) -> None: ...

    def local_file(self) -> AbstractContextManager[Path]: ...


class FilesDesk:
    """The driver's side: runs the operations of slots on `files`, in the threads of their connections."""

    def __init__(self, files: LocallyCopied) -> None:
        self._files = files
        self._busy: Counter[int] = Counter()  # {slot: operations in progress}
        self._changed = threading.Condition()
        self._operations: dict[str, Callable[..., Any]] = {
            "write": self._write,
            "read": self._read,
            "size": lambda _, name: files.size(name),
            "names": lambda _: files.names(),
            "remove": lambda _, name: files.remove(name),
        }

    def serve(self, slot: Connection, request: FileRequest) -> None:
        """Run the operation that the first message of a connection asks for."""
        number = int(request.slot)
        with self._changed:
            self._busy[number] += 1
        try:
            answer = self._operations[request.operation](slot, *request.arguments)
        except CheckpointError as exc:
            slot.send([str(exc), None])
        except OSError as exc:
            slot.send([f"the driver cannot write its local copy of a checkpoint file: {exc}", None])
        else:
            slot.send([None, answer])
        finally:
            with self._changed:
                self._busy[number] -= 1
                self._changed.notify_all()

    def await_end(self, slot: int) -> None:
        """Wait for the operations in progress of a slot whose process has ended."""
        with self._changed:
            self._changed.wait_for(lambda: not self._busy[slot], WRITE_TIMEOUT_SECS)

    def _write(self, slot: Connection, name: str, size: int) -> None:
        with self._files.local_file() as local:
            with open(local, "wb") as file:
                for _ in range(0, max(1, size), PIECE_BYTES):
                    slot.send([None, None])
                    file.write(slot.receive(MESSAGE_LIMIT_BYTES))
            self._files.put(local, name)

    def _read(self, slot: Connection, name: str) -> bytes:
        """Send the pieces of a file; return the empty last one, which `serve` sends."""
        with self._files.local_file() as local:
            self._files.get(name, local)
            with open(local, "rb") as file:
                while piece := file.read(PIECE_BYTES):
                    slot.send([None, piece])
                return piece
