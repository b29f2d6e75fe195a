"""Journals: numbers that components in any process record. Records survive `kill -9`."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

ENTRY = struct.Struct("<Q")


class Journal:
    """Where a process notes numbers by topic, each in one write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, int] = {}

    def __reduce__(self) -> tuple[type[Journal], tuple[Path]]:
        return Journal, (self._folder,)

    def note(self, topic: str, number: int) -> None:
        if topic not in self._files:
            path = self._folder / f"{topic}-{os.getpid()}"
            self._files[topic] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(self._files[topic], ENTRY.pack(number))

    def noted(self, topic: str) -> Iterator[int]:
        """All that any process has noted."""
        return Tail(self._folder, topic).fresh()


class Tail:
    """What has been noted of a topic since it was asked last."""

    def __init__(self, folder: Path, topic: str) -> None:
        self._folder = folder
        self._topic = topic
        self._read: dict[Path, int] = {}  # bytes

    def fresh(self) -> Iterator[int]:
        for path in sorted(self._folder.glob(f"{self._topic}-*")):
            begin = self._read.get(path, 0)
            if path.stat().st_size - begin < ENTRY.size:
                continue
            with path.open("rb") as file:
                file.seek(begin)
                content = file.read()
            content = content[: len(content) // ENTRY.size * ENTRY.size]  # the last entry may be under way
            self._read[path] = begin + len(content)
            yield from (number for (number,) in ENTRY.iter_unpack(content))
