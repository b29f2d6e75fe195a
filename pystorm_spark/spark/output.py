"""Internal. What user code prints and logs in a slot, on its way to the driver."""

from __future__ import annotations

import io
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pystorm_spark.spark.slot_process import SlotProcess


class PrintsToDriver(io.TextIOBase):
    """What user code prints, line by line, to the driver's log."""

    def __init__(self, process: SlotProcess, level: int) -> None:
        self._process = process
        self._level = level
        self._line = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._line += text
        *lines, self._line = self._line.split("\n")
        for line in lines:
            self._process.tell("print", level=self._level, text=line, where=self._process.where())
        return len(text)


class LogsToDriver(logging.Handler):
    """What is logged, record by record, to the driver's log."""

    def __init__(self, process: SlotProcess) -> None:
        super().__init__()
        self._process = process

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
        except Exception:  # of values that cannot be shown: told as logging does, and not raised where it was logged
            self.handleError(record)
        else:
            self._process.tell("log", level=record.levelno, text=f"{record.name}: {text}")
