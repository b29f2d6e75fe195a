"""Internal. Leftovers: files that a slot removes at its end: its socket, and, as the last slot, its dead driver's."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from pystorm_spark.spark.protocol.process import ProcessId, process_id, socket_name
from pystorm_spark.spark.protocol.wire import FOLDER_PREFIX

DRIVER_SECS = 1.0  # for the driver to be gone after its connections
EXECUTOR_SECS = 3.0  # for the JVM to end after its driver


class Leftovers:
    """The files that would stay behind.

    `folder` has the slot's socket; `files` is the driver's on this machine, with the folders of all its topologies.
    """

    def __init__(
        self, slot: int, folder: Path | None, files: Path | None, executor: ProcessId, driver: ProcessId
    ) -> None:
        self.socket_name = socket_name(slot, os.getpid())
        self._folder = folder
        self._files = files
        self._executor = executor
        self._driver = driver

    def remove(self) -> None:
        """Remove them: the slot has lost its driver or its executor, and nobody else will."""
        if self._folder is not None:
            (self._folder / self.socket_name).unlink(missing_ok=True)
        if self._files is not None and self._driver_is_dead():
            self._remove_files(self._files)

    def _driver_is_dead(self) -> bool:
        """Whether the driver is gone, not only this slot's executor, nor has it let go of this slot."""
        deadline = time.monotonic() + (DRIVER_SECS if self._executor.is_alive() else 0.0)
        while self._driver.is_alive() and time.monotonic() < deadline:
            time.sleep(0.02)  # a process that is killed loses its connections a little before it is gone
        return not self._driver.is_alive()

    def _remove_files(self, files: Path) -> None:
        # Slots remove their own sockets before they look here: of two that end at once, one sees that it is the last.
        # A slot that starts has no socket yet. It will find that the driver is gone, and look here, too.
        if any(map(_is_of_the_living, files.glob(f"{FOLDER_PREFIX}*/slot-*"))):
            return  # another slot is the last one, of this topology or of another one of the same driver
        deadline = time.monotonic() + EXECUTOR_SECS
        while self._executor.is_alive() and time.monotonic() < deadline:
            time.sleep(0.05)  # the driver's JVM, which ends before an executor, writes there to its end
        shutil.rmtree(files, ignore_errors=True)


def _is_of_the_living(socket: Path) -> bool:
    """Whether the slot of a socket lives: one that was killed has left it behind."""
    pid = int(socket.name.rpartition("-")[2])
    return process_id(pid).is_alive()
