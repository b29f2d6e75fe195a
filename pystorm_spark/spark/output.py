"""Internal. What user code prints and logs in a slot, on its way to the driver."""

from __future__ import annotations

import io
import logging
from threading import get_ident
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pystorm_spark.spark.slot_process import SlotProcess


class PrintsToDriver(io.TextIOBase):
    """What user code prints, line by line, to the driver's log."""

    def __init__(self, process: SlotProcess, level: int) -> None:
        self._process = process
        self._level = level
        self._begun: dict[tuple[int, str], str] = {}  # {(thread, where): a line that has not come to its end}

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        where = self._process.where()
        writer = get_ident(), where  # several write at once, and each gets lines of its own
        *lines, begun = (self._begun.pop(writer, "") + text).split("\n")
        if begun:
            self._begun[writer] = begun
        for line in lines:
            self._process.tell("print", level=self._level, text=line, where=where)
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
