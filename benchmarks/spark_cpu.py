"""Seconds of CPU that Spark has used so far: in the driver, and in its tasks."""

import os
from dataclasses import dataclass
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")
# If one JVM is both driver and executor, its other threads belong to the driver.
TASK_THREADS = ("Executor task", "stdout writer", "Worker Monitor")


@dataclass(frozen=True)
class Cpu:
    """On a cluster the first is used on the driver's machine, the second on all others."""

    driver: float
    tasks: float

    @classmethod
    def of(cls, spark):
        """Read the CPU that this process, its JVM and the JVM's Python workers have used so far."""
        jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
        threads = [_name_and_secs(path) for path in Path(f"/proc/{jvm}/task").iterdir()]
        in_tasks = sum(secs for name, secs in threads if name.startswith(TASK_THREADS))
        whole = _name_and_secs(Path(f"/proc/{jvm}"))[1]  # includes threads that have ended
        own = _name_and_secs(Path("/proc/self"))[1]
        workers = sum(_name_and_secs(Path(f"/proc/{pid}"))[1] for pid in _children(jvm))
        return cls(own + whole - in_tasks, in_tasks + workers)

    def since(self, earlier):
        return Cpu(self.driver - earlier.driver, self.tasks - earlier.tasks)


def _name_and_secs(path):
    try:
        stat = (path / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return "", 0.0
    name, rest = stat[stat.index("(") + 1 : stat.rindex(")")], stat[stat.rindex(")") + 2 :].split()
    return name, (int(rest[11]) + int(rest[12])) / TICK


def _children(pid):
    """List all descendants of `pid`."""
    listed = [Path(path, "children") for path in Path(f"/proc/{pid}/task").glob("*")]
    found = [int(child) for path in listed if path.exists() for child in path.read_text().split()]
    return found + [later for child in found for later in _children(child)]
