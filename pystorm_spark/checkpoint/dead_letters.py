"""Internal. DeadLetters: messages that were given up, one JSON object a line."""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pystorm_spark.checkpoint.files import make_folder, sync_folder
from pystorm_spark.errors import CheckpointError

LETTERS = "dead-letters"  # the folder of those that components write
FILE_NAME = "dead-letters.jsonl"


class DeadLetters:
    """A file of dead letters that only grows."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._txid: int | None = None
        self._added: Counter[str] = Counter()  # the messages that were already added for that commit

    def add(self, txid: int, letters: Iterable[Mapping[str, Any]]) -> None:
        """Add the letters of the commit `txid`. They are durable when this returns; if it raises, none is added.

        A retry of the same commit adds only letters that the first attempt did not add.
        """
        if txid != self._txid:
            self._txid, self._added = txid, Counter()
        new = self._new(letters)
        if new:
            self._write(to_lines(new).encode())
            self._added.update(map(_message, new))

    def _new(self, letters: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        before = self._added.copy()
        new = []
        for letter in letters:
            before[_message(letter)] -= 1
            if before[_message(letter)] < 0:
                new.append(letter)
        return new

    def _write(self, lines: bytes) -> None:
        try:
            with open(self._path, "ab", buffering=0) as file:
                os.chmod(self._path, 0o600)
                _append(file, lines)
        except OSError as exc:
            raise CheckpointError(f"dead letters {str(self._path)!r} cannot be written: {exc.strerror}") from exc


def _append(file: FileIO, lines: bytes) -> None:
    before = os.fstat(file.fileno()).st_size
    if not before:
        sync_folder(Path(file.name).parent)  # a file that is new is lost with the power if its folder is not synced
    try:
        rest = memoryview(lines)
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):  # the commit retries: leave no incomplete line before what it will add
            file.truncate(before)
        raise


def _message(letter: Mapping[str, Any]) -> str:
    """The fields of a letter that a retry of its commit, or another failure of its message, does not change."""
    return json.dumps({key: value for key, value in letter.items() if key not in ("time", "failures")})


def to_lines(letters: Iterable[Mapping[str, Any]]) -> str:
    """One line of JSON for each letter."""
    return "".join(json.dumps(letter) + "\n" for letter in letters)


class ComponentLetters:
    """The letters that components write themselves: `dead-letters/COMPONENT/*.jsonl`, a file for each writer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / LETTERS
        self._name = f"{secrets.token_hex(8)}.jsonl"
        self._lock = threading.Lock()

    def add(self, component: str, line: str) -> None:
        """Add the letter of a component; it is on the disk when this returns. Any thread may call it."""
        folder = self._folder / folder_name(component)
        try:
            with self._lock:
                make_folder(folder)
                with open(folder / self._name, "ab", buffering=0) as file:
                    os.chmod(folder / self._name, 0o600)
                    _append(file, f"{line}\n".encode())
        except OSError as exc:
            raise CheckpointError(f"a dead letter in {str(folder)!r} cannot be written: {exc.strerror}") from exc


def folder_name(component: str) -> str:
    """A component's id as the name of a folder."""
    name = quote(component, safe=" ", errors="surrogatepass")
    return name.replace(".", "%2E") if name.strip(".") == "" else name
