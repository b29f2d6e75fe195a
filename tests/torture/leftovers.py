"""What a run leaves: processes, and folders and sockets of pystorm-spark. There must be none."""

from __future__ import annotations

import time
from pathlib import Path

from tests.torture import prey
from tests.torture.supervisor import Supervisor

GONE_SECS = 40.0  # for slots to notice that their driver is gone, and for JVMs to end


def clear(folder: Path, driver: Supervisor) -> list[str]:
    """Wait until nothing is left; what is left all the same, of which the processes are killed."""
    until = time.monotonic() + GONE_SECS
    while (_processes(driver) or _files(folder)) and time.monotonic() < until:
        time.sleep(0.5)
    left = _processes(driver)
    for process in left:
        process.kill()
    return [f"{process.kind} {process.pid}: {process.command[-200:]}" for process in left] + _files(folder)


def _processes(driver: Supervisor) -> list[prey.Process]:
    return prey.marked(driver.mark)


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.glob("t[0-9]*/pystorm-*"))
