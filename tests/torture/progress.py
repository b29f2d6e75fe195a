"""The progress of the workloads, and how long each took to recover from a fault."""

from __future__ import annotations

import contextlib
import sqlite3
import statistics
from dataclasses import dataclass, field
from pathlib import Path

from tests.torture import exact, plain
from tests.torture.journal import Tail
from tests.torture.source import Source


class Progress:
    """The results so far, seen from outside: the sink's table and the journals."""

    def __init__(self, folder: Path, source: Source, now: float) -> None:
        self.rows = 0  # in the sink's table
        self.acked: set[int] = set()  # messages
        self.failed = 0  # emissions
        self.last_row = self.last_message = -1
        self.moved_at = {exact.NAME: now, plain.NAME: now}
        self._results = exact.Results(folder / "results.db")
        self._acks, self._fails = Tail(folder / "journal", "acked"), Tail(folder / "journal", "failed")
        self._source = source

    def look(self, now: float) -> None:
        rows, acked = self.rows, len(self.acked)
        with contextlib.suppress(sqlite3.OperationalError):  # it is being written
            self.rows, self.last_row = self._results.size()
        fresh = {*map(plain.message_of, self._acks.fresh())}
        self.acked |= fresh
        self.last_message = max({self.last_message} | fresh)
        self.failed += sum(1 for _ in self._fails.fresh())
        if self.rows != rows or self.rows >= self._source.rows:  # nothing is left to be done
            self.moved_at[exact.NAME] = now
        if len(self.acked) != acked or acked >= self._source.messages:
            self.moved_at[plain.NAME] = now

    def is_done(self) -> bool:
        return self.rows >= self._source.rows and len(self.acked) >= self._source.messages

    def still_secs(self, now: float) -> float:
        """How long the slowest workload has made no progress although it has work."""
        return now - min(self.moved_at.values())


@dataclass
class Recoveries:
    """From the end of a fault until a row that was written after it is in the results, and a message after it acked."""

    secs: list[float] = field(default_factory=list)
    _open: list[tuple[float, int, int]] = field(default_factory=list)

    def begin(self, now: float, source: Source) -> None:
        self._open.append((now, source.rows, source.messages))

    def look(self, now: float, progress: Progress) -> None:
        still = []
        for began, row, message in self._open:
            if progress.last_row >= row and progress.last_message >= message:
                self.secs.append(now - began)
            else:
                still.append((began, row, message))
        self._open = still

    def figures(self) -> dict[str, float]:
        found: dict[str, float] = {"count": len(self.secs)}
        if self.secs:
            found |= {"median_secs": round(statistics.median(self.secs), 1), "max_secs": round(max(self.secs), 1)}
        return found
