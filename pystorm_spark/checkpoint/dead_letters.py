"""Internal. DeadLetters: messages that were given up, one JSON object a line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any

from pystorm_spark.errors import CheckpointError

NAME = "dead-letters.jsonl"


class DeadLetters:
    """A file that is only ever added to."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def add(self, letters: Iterable[Mapping[str, Any]]) -> None:
        """Add `letters`; they are there when this returns, and none of them if it raises."""
        lines = to_lines(letters).encode()
        try:
            with open(self._path, "ab", buffering=0) as file:
                os.chmod(self._path, 0o600)
                _append(file, lines)
        except OSError as exc:
            raise CheckpointError(f"the dead letters {str(self._path)!r} cannot be written: {exc.strerror}") from exc


def _append(file: FileIO, lines: bytes) -> None:
    before = os.fstat(file.fileno()).st_size
    try:
        rest = memoryview(lines)
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):  # they will be added again, and not behind a part of themselves
            file.truncate(before)
        raise


def to_lines(letters: Iterable[Mapping[str, Any]]) -> str:
    """The letters as they are written."""
    return "".join(json.dumps(letter) + "\n" for letter in letters)
