"""Leftovers of a run: processes, folders and sockets of pystorm-spark. There must be none."""

from __future__ import annotations

import time
from pathlib import Path

from tests.torture import prey
from tests.torture.supervisor import Supervisor

GONE_SECS = 40.0  # for slots to notice that their driver is gone, and for JVMs to end


def clear(folder: Path, driver: Supervisor) -> list[str]:
    """Wait until nothing is left. Returns what stays, and kills the processes among it."""
    until = time.monotonic() + GONE_SECS
    while (_processes(driver) or _files(folder, driver)) and time.monotonic() < until:
        time.sleep(0.5)
    left = _processes(driver)
    for process in left:
        process.kill()
    return [f"{process.kind} {process.pid}: {process.command[-200:]}" for process in left] + _files(folder, driver)


def survivors(folder: Path) -> dict[str, list[str]]:
    """Return {folder of a topology: its slots' sockets with their states}: live slots remove a dead driver's files."""
    found: dict[str, list[str]] = {}
    for place in folder.glob("t[0-9]*/pystorm-*/pystorm-*"):
        sockets = [path.name for path in place.glob("slot-*")]
        found[str(place.relative_to(folder))] = [f"{name} {prey.state(int(name.split('-')[-1]))}" for name in sockets]
    return found


def _processes(driver: Supervisor) -> list[prey.Process]:
    return prey.marked(driver.mark)


def _files(folder: Path, driver: Supervisor) -> list[str]:
    """List the folders with their contents."""
    return [
        f"{path.relative_to(folder)} with {sorted(str(inner.relative_to(path)) for inner in path.rglob('*'))[:30]}"
        for path in sorted(folder.glob("t[0-9]*/pystorm-*"))
        if path.parent.name not in driver.unclaimed
    ]
