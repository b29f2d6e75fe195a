"""The CPU that all processes of a benchmark on Spark take: this one, its JVM, Spark's Python workers, and the slots."""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

MARK = "PYSTORM_SPARK_BENCHMARK"  # set in the environment of all processes that this one starts
SAMPLE_SECS = 0.1
TICKS = os.sysconf("SC_CLK_TCK")


def mark():
    """Mark the processes that are started from now on, so that they are counted."""
    os.environ[MARK] = str(os.getpid())


class CpuMeter:
    """Counts from its creation to `stop`. It samples often, because the CPU time of an ended process is unknown."""

    def __init__(self):
        self._is_ours = {}  # {process: whether it is counted}
        self._taken = {}  # {process: its seconds so far}
        self._is_over = threading.Event()
        self._look()
        self._before = sum(self._taken.values()) + time.process_time()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self):
        """The seconds of CPU."""
        self._is_over.set()
        self._thread.join()
        return sum(self._taken.values()) + time.process_time() - self._before

    def _watch(self):
        while not self._is_over.wait(SAMPLE_SECS):
            self._look()
        self._look()

    def _look(self):
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            with suppress(OSError):  # the process has ended
                if pid not in self._is_ours:
                    self._is_ours[pid] = _is_marked(pid)
                if self._is_ours[pid]:
                    self._taken[pid] = _cpu_secs(pid)


def _is_marked(pid):
    return f"{MARK}={os.getpid()}".encode() in Path("/proc", pid, "environ").read_bytes().split(b"\0")


def _cpu_secs(pid):
    """Read the CPU time of the process in user and in system mode."""
    times = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / TICKS
