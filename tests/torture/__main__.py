"""Run two workloads under faults on a real local Spark, and report rows that were lost, doubled or counted twice.

    python -m tests.torture --secs 600 --seed 7

The last line is one JSON object; the exit code is 0 if nothing was wrong. Ctrl-C ends the faults early, a second one
ends everything.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.disks import NAMESPACE
from tests.torture.run import Torture

IN_NAMESPACE = "PYSTORM_TORTURE_NAMESPACE"
DISK_MB = 64


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__.splitlines()[0])
    parser.add_argument("--secs", type=float, default=600, help="for how long faults come (600)")
    parser.add_argument("--seed", type=int, default=None, help="of the sequence of faults (a new one each time)")
    parser.add_argument("--pace", type=float, default=1.0, help="stretches the pauses between faults (1)")
    parser.add_argument("--keep", type=Path, default=None, help="where what a failure left is kept (the system's /tmp)")
    return parser.parse_args()


def enter_namespace() -> None:
    """Restart this program in a mount namespace of its own, if that is allowed, so that it can mount a small disk."""
    if os.environ.get(IN_NAMESPACE):
        return
    ways = [["unshare", "--mount"], NAMESPACE]
    for way in ways:
        try:
            works = subprocess.run([*way, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True).returncode == 0
        except FileNotFoundError:
            return
        if works:
            os.environ[IN_NAMESPACE] = "1"
            sys.stdout.flush()
            os.execvp(way[0], [*way, sys.executable, "-m", "tests.torture", *sys.argv[1:]])


def mount_disk(at: Path) -> bool:
    """Mount a small disk; returns whether that succeeded."""
    if not os.environ.get(IN_NAMESPACE):
        return False
    at.mkdir()
    options = f"size={DISK_MB}m,mode=700"
    return subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(at)]).returncode == 0


class Ending:
    """Handles Ctrl-C and SIGTERM: the first ends the faults, the second everything, further ones are ignored."""

    def __init__(self, torture: Torture) -> None:
        self._torture = torture
        self._signals = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self)

    def __call__(self, number: int, frame: object) -> None:
        self._signals += 1
        self._torture.is_cut_short = True
        if self._signals == 1:
            self._torture.report.cut_short()
        elif self._signals == 2:
            raise KeyboardInterrupt


def main() -> int:
    asked = arguments()
    seed = random.randrange(1 << 31) if asked.seed is None else asked.seed
    if asked.seed is None:
        sys.argv += ["--seed", str(seed)]
    enter_namespace()
    folder = Path(tempfile.mkdtemp(prefix="t-"))  # Spark needs short paths
    is_small = mount_disk(folder / "disk")
    torture = Torture(folder, seed, asked.secs, asked.pace, is_small)
    torture.report.say(f"seed {seed}, {asked.secs:g} s, in {folder}")
    Ending(torture)
    passed = False
    try:
        passed = torture.run()
    except BaseException as exc:
        torture.report.fail(exc)
    finally:
        put_away(folder, torture, is_small, None if passed else asked.keep or Path(tempfile.gettempdir()))
    print(json.dumps(torture.report.figures), flush=True)
    return 0 if passed else 1


def put_away(folder: Path, torture: Torture, is_small: bool, keep: Path | None) -> None:
    """Remove everything; after a failure keep what is needed to understand it, and name where it is."""
    if keep is not None:
        kept = keep / f"torture-{torture.report.figures['seed']}-{time.strftime('%H%M%S')}"
        kept.mkdir(parents=True)
        for path in folder.iterdir():
            if path.name in ("disk", "journal", "logs"):
                shutil.copytree(path, kept / path.name, ignore=shutil.ignore_patterns("filler"))
            elif path.is_file():
                shutil.copy(path, kept)
        torture.report.figures["kept_in"] = str(kept)
    if is_small:
        subprocess.run(["umount", str(folder / "disk")], check=False)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
