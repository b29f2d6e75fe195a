"""The report of a run: a line every few seconds, a log of its faults, and one JSON object at the end."""

from __future__ import annotations

import json
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from tests.torture.checker import Findings
from tests.torture.progress import Progress, Recoveries
from tests.torture.source import Source
from tests.torture.supervisor import Supervisor

SHOWN = 10  # of each finding, in what is printed


class Report:
    """The figures of a run."""

    def __init__(self, folder: Path, seed: int, secs: float) -> None:
        self.left: list[str] = []
        self.stalls: list[str] = []
        self.faults: Counter[str] = Counter()
        self.figures: dict[str, Any] = {"seed": seed, "secs": secs}
        self._skipped: Counter[str] = Counter()
        self._exits: list[str] = []  # of drivers that were not killed
        self._folder = folder
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        line = f"[{time.monotonic() - self._began:6.0f} s] {text}"
        print(line, flush=True)
        with (self._folder / "logs" / "faults.log").open("a") as file:
            file.write(f"{time.strftime('%H:%M:%S')} {line}\n")

    def cut_short(self) -> None:
        """The run ends early: the figures must say how long it had faults."""
        self.figures["secs"] = round(time.monotonic() - self._began)
        self.say("interrupted: no more faults; once more to end at once")

    def strike(self, kind: str, told: str) -> None:
        self.faults[kind] += 1
        self.say(f"  {kind}: {told}")

    def skip(self, kind: str, why: str) -> None:
        self._skipped[f"{kind}: {why}"] += 1
        self.say(f"  {kind} skipped: {why}")

    def driver_ended(self, driver: Supervisor) -> None:
        code = driver.process.poll() if driver.process is not None else None
        self._exits.append(f"driver {driver.starts} ended by itself with {code}")
        self.say(f"  {self._exits[-1]}")

    def driver_finished(self, code: int | None) -> None:
        if code != 0:
            self.left.append("the last driver, which did not end" if code is None else f"exit code {code} at the end")
            self.say(f"  at the end: {self.left[-1]}")

    def stall(self, driver: Supervisor, progress: Progress, now: float) -> None:
        still = {name: round(now - at) for name, at in progress.moved_at.items()}
        self.stalls.append(f"driver {driver.starts}: seconds without progress: {still}")
        self.say(f"  STALLED, {self.stalls[-1]}; its stacks are in logs/stacks-{driver.starts}")

    def line(self, driver: Supervisor, source: Source, progress: Progress, recoveries: Recoveries) -> None:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items())) or "none"
        figures = recoveries.figures()
        times = f"median {figures['median_secs']:g} s, max {figures['max_secs']:g} s" if recoveries.secs else "-"
        where = driver.master if driver.is_up() else "starting"
        self.say(
            f"rows {progress.rows}/{source.rows}, messages {len(progress.acked)}/{source.messages} "
            f"({progress.failed} failed); {sum(self.faults.values())} faults ({kinds}); "
            f"{figures['count']} recoveries ({times}); driver {driver.starts} {where}"
        )

    def conclude(self, findings: Findings, source: Source, progress: Progress, recoveries: Recoveries) -> bool:
        """Collect all figures; returns whether all guarantees held."""
        counts = findings.counts()
        ended, letters = self._lines("ended"), self._dead_letters()
        passed = not any(counts.values()) and not self.left and not self.stalls
        self.figures |= {
            "took_secs": round(time.monotonic() - self._began),
            "faults": dict(sorted(self.faults.items())),
            "skipped": dict(self._skipped),
            "rows": source.rows,
            "messages": source.messages,
            "replayed": progress.failed,
            "recoveries": recoveries.figures(),
            **counts,
            "leftovers": len(self.left),
            "stalls": len(self.stalls),
            "dead_letters": len(letters),
            "topologies_ended": len(ended),
            "drivers_ended": len(self._exits),
            "passed": passed,
        }
        self._keep(findings, {"ended": ended, "dead letters": letters})
        return passed

    def fail(self, error: BaseException) -> None:
        """Record that the run itself has failed."""
        self.figures |= {"faults": dict(sorted(self.faults.items())), "leftovers": len(self.left)}
        self.figures |= {"passed": False, "error": f"{type(error).__name__}: {error}"}
        self.say("".join(traceback.format_exception(error)))

    def _keep(self, findings: Findings, more: dict[str, list[str]]) -> None:
        """Write the findings to a file, and print the first of them."""
        found = {"left": self.left, "stalls": self.stalls, "exits": self._exits, **more}
        kept = {**found, **vars(findings)}
        (self._folder / "findings.json").write_text(json.dumps({**self.figures, "found": kept}, indent=1))
        for promise, ways in vars(findings).items():
            for what, those in ways.items():
                self.say(f"{promise}: {len(those)} {what}: {str(those[:SHOWN])[:2000]}")
        for what, those in found.items():
            for one in those[:SHOWN]:
                self.say(f"{what}: {one}")

    def _dead_letters(self) -> list[str]:
        """Dead letters, which are missing in the results; each says why."""
        paths = [*(self._folder / "disk").rglob("*.json"), *(self._folder / "disk").rglob("*.jsonl")]
        letters = [path for path in paths if "dead-letters" in str(path) and path.is_file()]
        return [line for path in letters for line in path.read_text().splitlines()]

    def _lines(self, name: str) -> list[str]:
        path = self._folder / name
        return [json.loads(line)["what"] for line in path.read_text().splitlines()] if path.exists() else []
