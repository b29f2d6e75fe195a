"""Internal. The connection on which a slot talks to the driver; what user code prints and logs goes there, too."""

from __future__ import annotations

import io
import logging
from collections import deque
from threading import RLock, get_ident
from typing import TYPE_CHECKING

from pystorm_spark.spark.protocol.messages import Log, Message, Print

if TYPE_CHECKING:
    from pystorm_spark.spark.protocol.wire import Connection
    from pystorm_spark.spark.slot.process import SlotProcess


class Words:
    """Sends the messages of all threads of a slot to the driver, one after the other."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = RLock()
        self._unsent: deque[Message] = deque()
        self._is_sending = False

    def send(self, message: Message) -> None:
        """Send a message, once those of other threads are sent.

        The garbage collector may run in here, and what it ends may print: that is sent after what is being sent.
        """
        with self._lock:
            self._unsent.append(message)
            if self._is_sending:
                return
            self._is_sending = True
            try:
                while self._unsent:
                    self._connection.send(self._unsent.popleft().to_plain())
            finally:
                self._is_sending = False


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
            self._process.tell(Print(self._level, line, where))
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
            self._process.tell(Log(record.levelno, f"{record.name}: {text}"))
