"""One run: inject faults into both workloads for some time, let them drain, and check the results."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tests.torture import exact, leftovers, plain
from tests.torture.checker import Findings, Told, check_messages, check_results, check_state
from tests.torture.journal import Journal
from tests.torture.nemesis import Nemesis, SkippedError
from tests.torture.progress import Progress, Recoveries
from tests.torture.report import Report
from tests.torture.schedule import Fault, Phase, faults, phases
from tests.torture.source import Source
from tests.torture.supervisor import Supervisor

SCHEDULE_POLL_SECS = 0.2
PROGRESS_POLL_SECS = 0.5
LINE_SECS = 5.0
PATIENCE_SECS = 30.0  # without progress of a workload, after which faults pause
STALL_SECS = 210.0  # without any progress: the workloads have stalled, and the driver is killed
DRAIN_TIMEOUT_SECS = 240.0  # without any progress, when no more faults come
START_TRIES = 10  # of drivers in a row that end before they are up
END_TIMEOUT_SECS = 120.0  # for the last driver to end
STACK_SECS = 2.0  # for it to write the stacks of its threads


class Torture:
    """A run in `folder`, with the checkpoint below `folder / "disk"`, which can be filled if `is_small`."""

    def __init__(self, folder: Path, seed: int, secs: float, pace: float, is_small: bool) -> None:
        for name in ("disk", "files", "journal", "logs"):
            (folder / name).mkdir(mode=0o700, exist_ok=True)
        exact.Results(folder / "results.db").make()
        self.is_cut_short = False
        self._folder = folder
        self._secs = secs
        self._seed = seed
        self._pace = pace
        self._driver = Supervisor(folder, f"{folder.name}-{seed}")
        self._nemesis = Nemesis(self._driver, folder / "disk" if is_small else None)
        self._source = Source(folder, time.monotonic)
        self._progress = Progress(folder, self._source, time.monotonic())
        self._recoveries = Recoveries()
        self.report = Report(folder, seed, secs)
        self._failed_starts = 0
        self._next_line = self._next_look = 0.0

    def run(self) -> bool:
        """Make the run; returns whether all guarantees held."""
        try:
            self._torment()
            self._drain()
            findings = self._judge()
        finally:
            self._nemesis.undo_all()
            self._driver.kill()
            self.report.left = leftovers.clear(self._folder, self._driver)
        return self.report.conclude(findings, self._source, self._progress, self._recoveries)

    # While faults come.

    def _torment(self) -> None:
        coming = phases(self._seed)
        phase = next(coming)
        self._driver.start(phase.master)
        self._await_up(feeds=False)
        until = time.monotonic() + self._secs
        while time.monotonic() < until and not self.is_cut_short:
            end = time.monotonic() + phase.secs * self._pace
            self._torment_through(phase, min(until, end))
            if self._await_time(end, until, phase.master):
                phase = next(coming)
                self._strike(Fault(0.0, "kill_driver", 0.0, 0.0), phase.master)

    def _torment_through(self, phase: Phase, until: float) -> None:
        for fault in faults(self._seed, phase, self._pace):
            if not self._await_time(time.monotonic() + fault.pause, until, phase.master):
                return
            self._strike(fault, phase.master)

    def _await_time(self, due: float, until: float, master: str) -> bool:
        """Wait until a fault may come that is `due`; False if none may come any more."""
        while time.monotonic() < until and not self.is_cut_short:
            if self._is_time(due):
                return True
            self._look(master)
        return False

    def _is_time(self, due: float) -> bool:
        """Whether the next fault may come: all is running, and has gone on since the last ones."""
        now = time.monotonic()
        return now >= due and self._driver.is_up() and self._progress.still_secs(now) < PATIENCE_SECS

    def _strike(self, fault: Fault, master: str) -> None:
        try:
            told = self._nemesis.strike(fault, time.monotonic())
        except SkippedError as exc:
            self.report.skip(fault.kind, str(exc))
            return
        self.report.strike(fault.kind, told)
        if fault.kind == "kill_driver":
            self._driver.start(master)
        if not fault.secs:
            self._recoveries.begin(time.monotonic(), self._source)

    # All the time.

    def _look(self, master: str, feeds: bool = True) -> None:
        """The work of each iteration."""
        time.sleep(SCHEDULE_POLL_SECS)
        now = time.monotonic()
        for _ in self._nemesis.undo_due(now):
            self._recoveries.begin(now, self._source)
        if feeds:
            self._source.feed(self._progress.rows, len(self._progress.acked))
        if now >= self._next_look:
            self._next_look = now + PROGRESS_POLL_SECS
            self._progress.look(now)
            self._recoveries.look(now, self._progress)
        self._look_after_driver(master, now)
        if now >= self._next_line:
            self._next_line = now + LINE_SECS
            self.report.line(self._driver, self._source, self._progress, self._recoveries)

    def _look_after_driver(self, master: str, now: float) -> None:
        if self._driver.is_up():
            self._failed_starts = 0
        if not self._driver.is_alive():
            self._failed_starts += 1
            if self._failed_starts > START_TRIES:
                raise RuntimeError(f"{START_TRIES} drivers in a row have ended before both topologies ran")
            self.report.driver_ended(self._driver)
            self._driver.start(master)
        elif self._progress.still_secs(now) > STALL_SECS:
            self._end_stall(master, now)

    def _end_stall(self, master: str, now: float) -> None:
        """Record a stall as a finding, keep the stacks, and restart the driver."""
        self._driver.dump_stacks()
        time.sleep(STACK_SECS)
        self.report.stall(self._driver, self._progress, now)
        self._driver.kill()
        self._driver.start(master)
        self._progress.moved_at = dict.fromkeys(self._progress.moved_at, now)

    def _await_up(self, feeds: bool = True) -> None:
        while not self._driver.is_up() and not self.is_cut_short:
            self._look(self._driver.master, feeds)

    # At the end.

    def _drain(self) -> None:
        """Undo all faults, and wait until all input is done, or until there is no progress."""
        self._nemesis.undo_all()
        self.report.say("no more faults: waiting for all that was written")
        self._await_up_at_last()
        for name in (exact.NAME, plain.NAME):
            self._driver.tell(f"activate {name}")
        self._progress.moved_at = dict.fromkeys(self._progress.moved_at, time.monotonic())
        while not self._progress.is_done() and self._progress.still_secs(time.monotonic()) < DRAIN_TIMEOUT_SECS:
            self._look(self._driver.master, feeds=False)
        self._end_driver()

    def _await_up_at_last(self) -> None:
        until = time.monotonic() + DRAIN_TIMEOUT_SECS
        while not self._driver.is_up() and time.monotonic() < until:
            self._look(self._driver.master, feeds=False)

    def _end_driver(self) -> None:
        """Make the driver read the state and shut down."""
        self._driver.tell("finish")
        code = self._driver.await_end(END_TIMEOUT_SECS)
        if code is None:
            self._driver.dump_stacks()
            time.sleep(STACK_SECS)
        self.report.driver_finished(code)

    def _judge(self) -> Findings:
        final, journal = self._folder / "final", Journal(self._folder / "journal")
        state = dict(json.loads(final.read_text())["state"]) if final.exists() else {}
        told = Told(**{topic: list(journal.noted(topic)) for topic in Told.__dataclass_fields__})
        return (
            check_results(self._source.rows, exact.Results(self._folder / "results.db").rows())
            + check_state(self._source.rows, state)
            + check_messages(self._source.messages, told)
        )
