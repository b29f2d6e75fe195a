"""The processes of a run, found by a mark in their environment: others on the machine are left alone."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.spark.processes import SLOT

MARK = "PYSTORM_TORTURE"


@dataclass(frozen=True)
class Process:
    """A living process; its start tells it from a later one with the same number."""

    pid: int
    started: int
    parent: int = field(compare=False)  # changes when the parent ends
    command: str = field(compare=False)

    def signal(self, number: int) -> bool:
        """Send a signal; returns whether the process was alive."""
        if find(self.pid) != self:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
            return True
        return False

    def kill(self) -> bool:
        return self.signal(signal.SIGKILL)

    @property
    def kind(self) -> str:
        return next((kind for sign, kind in KINDS.items() if sign in self.command), "other")


KINDS = {
    SLOT: "slot",
    "pyspark.daemon": "python",
    "CoarseGrainedExecutorBackend": "executor",
    "org.apache.spark.deploy.SparkSubmit": "jvm",
    "tests.torture.driver": "driver",
}


def find(pid: int) -> Process | None:
    """A process by its number, unless it has ended."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else Process(pid, int(fields[19]), int(fields[1]), command)


def state(pid: int) -> str:
    """Return the state of a process: "S" and "R" live, "T" is stopped, "Z" has ended, "" does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def marked(mark: str) -> list[Process]:
    """The processes that have inherited a mark."""
    sought = f"{MARK}={mark}\0".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if sought in path.read_bytes():
                found.append(find(int(path.parent.name)))
    return sorted((process for process in found if process is not None), key=lambda process: process.pid)


def of_kind(mark: str, kind: str) -> list[Process]:
    return [process for process in marked(mark) if process.kind == kind]


def python_workers(mark: str) -> tuple[list[Process], list[Process]]:
    """Spark's Python workers, and the daemons that have forked them."""
    known = of_kind(mark, "python")
    pids = {process.pid for process in known}
    return [p for p in known if p.parent in pids], [p for p in known if p.parent not in pids]


def environment(mark: str) -> Mapping[str, str]:
    return {MARK: mark}
