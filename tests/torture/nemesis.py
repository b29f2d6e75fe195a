"""Nemesis: carries out faults, and undoes those that last."""

from __future__ import annotations

import heapq
import itertools
import signal
from collections.abc import Callable
from pathlib import Path

from tests.disks import fill
from tests.torture import exact, plain, prey
from tests.torture.leftovers import survivors
from tests.torture.schedule import Fault
from tests.torture.supervisor import Supervisor

NAMES = exact.NAME, plain.NAME
FILLER = "filler"


class SkippedError(Exception):
    """A fault could not be carried out; the text says why."""


Undo = Callable[[], None]
Struck = tuple[str, Undo | None]  # (what was done, how to undo it)


class Nemesis:
    """The faults of one run. `disk` is where the checkpoint is, None if it is too large to be filled."""

    def __init__(self, driver: Supervisor, disk: Path | None) -> None:
        self._driver = driver
        self._disk = disk
        self._undos: list[tuple[float, int, str, Undo]] = []
        self._numbers = itertools.count()

    def strike(self, fault: Fault, now: float) -> str:
        """Carry out a fault; returns what was done. Raises a `SkippedError` if it is impossible now."""
        act: Callable[[Fault], Struck] = getattr(self, f"_{fault.kind}")
        told, undo = act(fault)
        if undo is not None:
            heapq.heappush(self._undos, (now + fault.secs, next(self._numbers), fault.kind, undo))
            return f"{told} for {fault.secs:.1f} s"
        return told

    def undo_due(self, now: float) -> list[str]:
        """Undo the faults that have lasted long enough; returns their kinds."""
        undone = []
        while self._undos and self._undos[0][0] <= now:
            _, _, kind, undo = heapq.heappop(self._undos)
            undo()
            undone.append(kind)
        return undone

    def undo_all(self) -> None:
        self.undo_due(float("inf"))

    def _victim(self, fault: Fault, found: list[prey.Process], what: str) -> prey.Process:
        if not found:
            raise SkippedError(f"there is no {what}")
        return found[int(fault.draw * len(found))]

    def _kill(self, fault: Fault, kind: str) -> Struck:
        victim = self._victim(fault, prey.of_kind(self._driver.mark, kind), kind)
        victim.kill()
        return f"{victim.pid}", None

    def _kill_slot(self, fault: Fault) -> Struck:
        return self._kill(fault, "slot")

    def _kill_executor(self, fault: Fault) -> Struck:
        return self._kill(fault, "executor")

    def _kill_jvm(self, fault: Fault) -> Struck:
        return self._kill(fault, "jvm")

    def _kill_driver(self, fault: Fault) -> Struck:
        if not self._driver.is_alive():
            raise SkippedError("there is no driver")
        there = survivors(self._driver.folder)
        self._driver.kill()
        return f"number {self._driver.starts}, beside {there}", None

    def _kill_worker(self, fault: Fault) -> Struck:
        workers, _ = prey.python_workers(self._driver.mark)
        victim = self._victim(fault, workers, "Python worker")
        victim.kill()
        return f"{victim.pid}", None

    def _kill_workers(self, fault: Fault) -> Struck:
        workers, daemons = prey.python_workers(self._driver.mark)
        if not workers:
            raise SkippedError("there is no Python worker")
        for process in (*workers, *daemons):
            process.kill()
        return f"{len(workers)} and {len(daemons)} daemons", None

    def _stop(self, victim: prey.Process) -> Struck:
        victim.signal(signal.SIGSTOP)
        return f"{victim.pid}", lambda: victim.signal(signal.SIGCONT) and None

    def _stop_slot(self, fault: Fault) -> Struck:
        return self._stop(self._victim(fault, prey.of_kind(self._driver.mark, "slot"), "slot"))

    def _stop_worker(self, fault: Fault) -> Struck:
        return self._stop(self._victim(fault, prey.python_workers(self._driver.mark)[0], "Python worker"))

    def _full_pipe(self, fault: Fault) -> Struck:
        if not self._driver.read_no_more():
            raise SkippedError("nobody reads the driver's output already")
        return "the driver's output is not read", self._driver.read_on

    def _full_disk(self, fault: Fault) -> Struck:
        if self._disk is None:
            raise SkippedError("a disk of a few megabytes needs `unshare --mount` and leave to use it")
        filler = self._disk / FILLER
        if filler.exists():
            raise SkippedError("the disk is full already")
        fill(filler)
        return "the checkpoint's disk", lambda: filler.unlink(missing_ok=True)

    def _name(self, fault: Fault) -> str:
        return NAMES[int(fault.draw * 2)]

    def _tell(self, command: str) -> None:
        if not self._driver.tell(command):
            raise SkippedError("there is no driver")

    def _rebalance(self, fault: Fault) -> Struck:
        workers = 1 + int(fault.draw * 6) % 3
        self._tell(f"rebalance {self._name(fault)} {workers}")
        return f"{self._name(fault)} to {workers} slots", None

    def _deactivate(self, fault: Fault) -> Struck:
        name = self._name(fault)
        self._tell(f"deactivate {name}")
        # A driver that has been started meanwhile has submitted it active.
        return name, lambda: self._driver.tell(f"activate {name}") and None

    def _resubmit(self, fault: Fault) -> Struck:
        self._tell(f"resubmit {self._name(fault)}")
        return self._name(fault), None
