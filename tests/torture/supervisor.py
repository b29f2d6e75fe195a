"""Supervisor: starts and restarts the driver, sends it commands, and reads its output, or leaves it unread."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from tests.spark.processes import spark_home
from tests.torture import prey

ROOT = Path(__file__).parents[2]
PIPE_BYTES = 4096  # so that it is soon full


class Supervisor:
    """The driver of a run, one process after the other."""

    def __init__(self, folder: Path, mark: str) -> None:
        self.folder = folder
        self.mark = mark
        self.starts = 0
        self.master = ""
        self.process: subprocess.Popen[bytes] | None = None
        self.unclaimed: set[str] = set()  # temporary folders of drivers that were killed when no slot lived
        self._reading = threading.Event()
        self._reading.set()
        spark_home(folder / "spark")

    def start(self, master: str) -> None:
        """Start the driver; the one before has ended."""
        self.starts += 1
        self.master = master
        temporary = self.folder / f"t{self.starts}"
        temporary.mkdir()
        command = [sys.executable, "-m", "tests.torture.driver", str(self.folder), str(self.starts), master]
        self.process = subprocess.Popen(
            command,
            env=self._environ(temporary),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the supervisor
        )
        with contextlib.suppress(OSError, AttributeError):  # a pipe of another size does, too
            fcntl.fcntl(self.process.stdout, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        log = self.folder / "logs" / f"driver-{self.starts}.log"
        threading.Thread(target=self._read, args=(self.process, log), daemon=True).start()

    def _environ(self, temporary: Path) -> dict[str, str]:
        java = f"-Djava.io.tmpdir={temporary} -XX:-UsePerfData"
        return {
            **os.environ,
            **prey.environment(self.mark),
            "TMPDIR": str(temporary),
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(self.folder / "spark"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "JAVA_TOOL_OPTIONS": java,
        }

    def _read(self, process: subprocess.Popen[bytes], log: Path) -> None:
        assert process.stdout is not None
        with log.open("ab", buffering=0) as file:
            while self._reading.wait() and (content := process.stdout.read1(1 << 16)):  # type: ignore[attr-defined]
                file.write(content)

    def read_no_more(self) -> bool:
        """Stop reading the driver's output; False if it is not read already."""
        was_read = self._reading.is_set()
        self._reading.clear()
        return was_read

    def read_on(self) -> None:
        self._reading.set()

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def is_up(self) -> bool:
        """Whether both topologies of this driver have been submitted."""
        up = self.folder / "up"
        return self.is_alive() and up.exists() and json.loads(up.read_text())["number"] == self.starts

    def tell(self, command: str) -> bool:
        """Send the driver a command; False if it has ended."""
        if self.process is None or self.process.stdin is None:
            return False
        try:
            self.process.stdin.write(f"{command}\n".encode())
            self.process.stdin.flush()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        if self.is_alive() and not prey.of_kind(self.mark, "slot"):  # nobody is there to remove its folder
            self.unclaimed.add(f"t{self.starts}")
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self._close_input()

    def await_end(self, secs: float) -> int | None:
        """How the driver has ended; None if it has not."""
        assert self.process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.process.wait(secs)
            self._close_input()
            return code
        return None

    def _close_input(self) -> None:
        with contextlib.suppress(OSError):
            self.process.stdin.close()  # type: ignore[union-attr]

    def dump_stacks(self) -> None:
        """Make the driver write the stacks of its threads to a file in the folder `logs`."""
        if self.is_alive():
            assert self.process is not None
            self.process.send_signal(signal.SIGUSR1)
