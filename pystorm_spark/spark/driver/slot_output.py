"""Internal. SlotOutput: what slots print and log, on its way to the driver's stdout, stderr and log."""

from __future__ import annotations

import logging
import sys
import time
from typing import TextIO

from pystorm_spark.spark.protocol.messages import Log, Print
from pystorm_spark.spark.protocol.writer import Writer

user_log = logging.getLogger("pystorm_spark.slots")

LAST_LINES_SECS = 5.0  # for what slots have printed to be written, where stdout is not read


class SlotOutput:
    """Writes in threads of its own: a pipe that nobody reads blocks, and the threads that listen must not wait."""

    def __init__(self) -> None:
        self._out = Writer("pystorm-out", lambda _, text: _print(text, sys.stdout))
        self._err = Writer("pystorm-err", lambda _, text: _print(text, sys.stderr))
        self._logs = Writer("pystorm-logs", lambda level, text: user_log.log(level, "%s", text))

    def print(self, line: Print) -> None:
        writer = self._out if line.level == logging.INFO else self._err
        writer.put(line.level, f"{line.where}: {line.text}")

    def log(self, slot: int, record: Log) -> None:
        self._logs.put(record.level, f"slot {slot}: {record.text}")

    def log_hung(self, slot: int, reason: str, stacks: str) -> None:
        self._logs.put(logging.ERROR, f"slot {slot} hangs: {reason}\n{stacks}")

    def warn(self, text: str) -> None:
        self._logs.put(logging.WARNING, text)

    def close(self) -> None:
        """Wait for a while until all is written."""
        until = time.monotonic() + LAST_LINES_SECS
        dropped = sum(writer.close(until - time.monotonic()) for writer in (self._out, self._err))
        if dropped:
            self.warn(f"the last {dropped:,} lines that slots have printed could not be shown")
        self._logs.close(LAST_LINES_SECS)


def _print(text: str, output: TextIO) -> None:
    output.write(f"{text}\n")
