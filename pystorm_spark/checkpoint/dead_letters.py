"""Internal. DeadLetters: messages that were given up, one JSON object a line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pystorm_spark.errors import CheckpointError

NAME = "dead-letters.jsonl"


class DeadLetters:
    """A file that is only ever added to."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def add(self, letters: Iterable[Mapping[str, Any]]) -> None:
        """Add `letters`; they are there when this returns."""
        lines = to_lines(letters)
        try:
            with open(self._path, "a", encoding="utf-8") as file:
                os.chmod(self._path, 0o600)
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as exc:
            raise CheckpointError(f"the dead letters {str(self._path)!r} cannot be written: {exc.strerror}") from exc


def to_lines(letters: Iterable[Mapping[str, Any]]) -> str:
    """The letters as they are written."""
    return "".join(json.dumps(letter) + "\n" for letter in letters)
