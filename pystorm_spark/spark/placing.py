"""Internal. Placing: the Spark job that starts slot processes beside executors."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
from pyspark import SparkContext

from pystorm_spark.spark.process import machine, parent_of, process_id
from pystorm_spark.spark.wire import Address

_SECRET_FREE = ("-m", "pystorm_spark.spark.slot_process")  # what shows in a list of processes


@dataclass(frozen=True)
class Launch:
    """How to start the slots of one topology, wherever a Spark task happens to run."""

    control: Address
    token: bytes
    folder: str | None  # for sockets, where all slots are on the driver's machine
    driver_machine: str
    driver_path: tuple[str, ...]
    driver_folder: str
    log_level: int

    def __repr__(self) -> str:
        return f"Launch(control={self.control})"  # the token is shown nowhere

    def __call__(self, slots: Iterable[int]) -> Iterator[int]:
        for slot in slots:
            self._start(slot)
            yield slot

    def _start(self, slot: int) -> None:
        at_home = machine() == self.driver_machine
        path = list(self.driver_path) if at_home else [entry for entry in sys.path if entry]
        spec = {
            "slot": slot,
            "token": self.token,
            "control": list(self.control),
            "folder": self.folder,
            "host": _own_host(self.control),
            "executor": list(process_id(_executor_pid())),
            "sys_path": path,
            "log_level": self.log_level,
        }
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
        _spawn([sys.executable, *_SECRET_FREE], environ, self.driver_folder if at_home else None, msgpack.packb(spec))


def place(sc: SparkContext, launch: Launch, slots: Sequence[int]) -> None:
    """Start the processes of `slots`; they report to the driver by themselves."""
    sc.parallelize(slots, len(slots)).mapPartitions(launch).collect()


def log_level() -> int:
    """How much the slots shall log."""
    return logging.getLogger("pystorm_spark").getEffectiveLevel()


def _executor_pid() -> int:
    """The JVM above this Python worker: worker ← daemon ← executor."""
    parent = os.getppid()
    above = parent_of(parent)
    return above if above > 1 else parent


def _own_host(control: Address) -> str:
    """The address of this machine as the driver's network sees it."""
    if not control.port:
        return ""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((control.host, control.port))
        return str(probe.getsockname()[0])


def _spawn(argv: list[str], environ: dict[str, str], folder: str | None, spec: bytes) -> None:
    """Start a process that is nobody's child: it outlives the Spark task, and leaves no zombie."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            if os.fork():
                os._exit(0)
            _become(argv, environ, folder, reader)
        finally:
            os._exit(127)
    os.close(reader)
    os.waitpid(child, 0)
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(spec)


def _become(argv: list[str], environ: dict[str, str], folder: str | None, reader: int) -> Any:
    os.dup2(reader, 0)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)  # the standard output of a Spark daemon is its protocol
    os.closerange(3, 1024)
    if folder is not None:
        os.chdir(folder)
    os.execve(argv[0], argv, environ)
