"""Internal. Writer: writes lines to a stream that may block, without making its callers wait."""

from __future__ import annotations

import atexit
import logging
import threading
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)

MOST_UNWRITTEN_BYTES = 32 << 20  # bytes of lines that wait to be written
LINE_OVERHEAD_BYTES = 256  # bytes of memory that a line takes beside its text


class Writer:
    """Calls `write`, with level and text, in a thread of its own that is made when it is first needed.

    If `write` blocks, lines wait up to a limit, and are dropped beyond it. The number of dropped lines is written in
    their place when lines are taken again.
    """

    def __init__(self, name: str, write: Callable[[int, str], None]) -> None:
        self._name = name
        self._write = write
        self._changed = threading.Condition()
        self._lines: deque[tuple[int, str, int]] = deque()  # with how many lines each stands for
        self._waiting_bytes = 0
        self._dropped = 0  # since the last line that was taken
        self._closed = False
        self._thread: threading.Thread | None = None

    def put(self, level: int, text: str) -> None:
        """Queue a line, or drop and count it."""
        with self._changed:
            if self._closed or not self._has_room():
                self._dropped += 1
                return
            self._append_dropped()
            self._append(level, text)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self, secs: float) -> int:
        """Take no more lines, and wait up to `secs` until the others are written; how many were dropped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            if self._thread is None or self._thread is threading.current_thread():
                return 0
            self._changed.wait_for(lambda: not self._lines, secs)
            if not self._lines:
                return 0
            while len(self._lines) > 1:  # the first one is being written
                self._dropped += self._lines.pop()[2]
            dropped = self._dropped + self._lines[0][2]
        # Python ends by a fatal error if a thread is writing to stdout then, so its end waits as if it wrote itself.
        atexit.register(self._thread.join)
        return dropped

    def _has_room(self) -> bool:
        # Once lines were dropped there is much room before others are taken: not one for each that is written.
        return self._waiting_bytes < (MOST_UNWRITTEN_BYTES // 2 if self._dropped else MOST_UNWRITTEN_BYTES)

    def _append(self, level: int, text: str, stands_for: int = 1) -> None:
        self._lines.append((level, text, stands_for))
        self._waiting_bytes += len(text) + LINE_OVERHEAD_BYTES

    def _append_dropped(self) -> None:
        if self._dropped:
            told = f"pystorm-spark: {self._dropped:,} lines were dropped here, because those before them were not read"
            self._append(logging.WARNING, told, self._dropped)
            self._dropped = 0

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self._closed)
                if not self._lines:
                    return
                level, text, _ = self._lines[0]
            try:
                self._write(level, text)
            except BaseException:  # nobody reads any more, or a handler of the user raises: no fault of the slots
                log.debug("a line of a slot cannot be written", exc_info=True)
            with self._changed:
                self._lines.popleft()
                self._waiting_bytes -= len(text) + LINE_OVERHEAD_BYTES
                if not self._lines:
                    self._append_dropped()
                self._changed.notify_all()
