"""The source of both workloads: files that appear in a folder, and messages that become due."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.torture import exact, plain

FILE_SECS = 1.0
DUE_SECS = 0.25
ROWS_A_SEC, MESSAGES_A_SEC = 100, 50
MOST_BEHIND_SECS = 45.0  # the source waits for input that is not done by then


class Source:
    """Writes rows and messages at their rates, as long as the topologies are not too far behind."""

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self.rows = 0
        self.messages = 0
        self._files = folder / "files"
        self._due = plain.Due(folder)
        self._clock = clock
        self._wrote_file = self._wrote_due = clock()

    def feed(self, rows_done: int, messages_done: int) -> None:
        """Write the rows and messages that are due."""
        now = self._clock()
        if now >= self._wrote_file + FILE_SECS:
            self._wrote_file = now
            if self.rows - rows_done < ROWS_A_SEC * MOST_BEHIND_SECS:
                self._write_file(int(ROWS_A_SEC * FILE_SECS))
        if now >= self._wrote_due + DUE_SECS:
            self._wrote_due = now
            if self.messages - messages_done < MESSAGES_A_SEC * MOST_BEHIND_SECS:
                self.messages += int(MESSAGES_A_SEC * DUE_SECS)
                self._due.raise_to(self.messages)

    def _write_file(self, count: int) -> None:
        """Write a file atomically."""
        numbers = range(self.rows, self.rows + count)
        rows = [{"number": n, "key": n % exact.KEYS, "text": f"row {n}"} for n in numbers]
        fresh = self._files / f".{self.rows:09}"
        fresh.write_text("\n".join(map(json.dumps, rows)))
        fresh.rename(self._files / f"{self.rows:09}.json")
        self.rows += count
