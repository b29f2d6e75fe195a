"""Internal. Processes of the operating system: their identity, and whether they live."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from pathlib import Path
from typing import NamedTuple


class ProcessId(NamedTuple):
    """A process for certain: a pid may be reused, a pid with its start time may not."""

    pid: int
    started: str

    def is_alive(self) -> bool:
        """Whether it lives; True if the system cannot tell, as at the limit of open files."""
        try:
            return self.started != "" and _start_time(self.pid) == self.started
        except OSError:
            return True


def process_id(pid: int) -> ProcessId:
    """The process that has the number `pid` now."""
    return ProcessId(pid, _start_time(pid))


def parent_of(pid: int) -> int:
    """The parent's number, or 1 where the system does not tell."""
    fields = _stat(pid)
    return int(fields[1]) if fields else 1


def kill_children(marker: str) -> int:
    """Kill the children of this process that have `marker` in their command line, where the system tells; how many."""
    killed = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile, or is another user's
            pid = int(folder.name)
            if marker.encode() in (folder / "cmdline").read_bytes() and parent_of(pid) == os.getpid():
                os.kill(pid, signal.SIGKILL)
                killed += 1
    return killed


def machine() -> str:
    """A text that is the same in all processes of this machine since it booted, and different elsewhere."""
    boot_id = Path("/proc/sys/kernel/random/boot_id")
    return f"{socket.gethostname()}/{boot_id.read_text().strip() if boot_id.exists() else ''}"


def _start_time(pid: int) -> str:
    """The start time, an empty string for a process that is gone (or a zombie, which does nothing any more)."""
    fields = _stat(pid)
    if fields is None:
        return "unknown" if _answers(pid) else ""
    return "" if fields[0] == "Z" else fields[19]


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    return text.rpartition(")")[2].split()  # the name before it may hold anything


def _answers(pid: int) -> bool:
    if Path("/proc/self/stat").exists():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it lives, as another user's
    return True


def socket_name(slot: int, pid: int) -> str:
    """The name of the socket at which a slot's process listens."""
    return f"slot-{slot}-{pid}"
