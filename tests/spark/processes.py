"""The processes of Spark and of slots, as `ps` shows them, for tests that kill them."""

import contextlib
import os
import re
import signal
import socket
import subprocess
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

SLOT = "pystorm_spark.spark.slot.process"
XDIST_WORKER = "PYTEST_XDIST_WORKER"  # which of the processes that share the tests this is; its children have it, too


def running(*words):
    """{pid: its parent's} of the living processes whose command line has one of `words`."""
    listed = subprocess.run(
        ["ps", "-ww", "-eo", "pid,ppid,stat,args"], capture_output=True, text=True, check=True
    ).stdout
    lines = [line.split(None, 3) for line in listed.splitlines()[1:]]
    return {
        int(pid): int(parent)
        for pid, parent, stat, args in lines
        if stat[0] != "Z" and any(word in args for word in words)
    }


def running_below(folder, *words):
    """The same, of those whose temporary files are in `folder`: processes of other tests are elsewhere."""
    mine = f"TMPDIR={folder}\0"
    return {pid: parent for pid, parent in running(*words).items() if mine in _read(pid, "environ")}


def slots_below(folder):
    return set(running_below(folder, SLOT))


def slot_processes():
    """The slots of drivers that this process or its scripts have started: other tests may run at the same time."""
    return {pid for pid in running(SLOT) if _belongs_to_us(pid)}


def _belongs_to_us(pid):
    worker = os.environ.get(XDIST_WORKER)
    if worker is not None and f"{XDIST_WORKER}={worker}\0" not in _read(pid, "environ"):
        return False
    try:
        return os.readlink(f"/proc/{pid}/cwd") == os.getcwd()
    except OSError:  # it has just ended
        return False


def executors_of(app_id):
    """{executor's id: pid} of an application's executors."""
    commands = {pid: _read(pid, "cmdline").split("\0") for pid in running(f"--app-id {app_id}")}
    return {
        command[command.index("--executor-id") + 1]: pid
        for pid, command in commands.items()
        if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in command
    }


def executor_of(slot):
    """The id of the executor beside which a slot's process was started."""
    return re.search(r"SPARK_LOG_URL_STDERR=[^\0]*executorId=(\d+)", _read(slot, "environ")).group(1)


def python_workers(*jvms):
    """Spark's Python workers and their daemons below `jvms`."""
    known = running("pyspark.daemon")
    daemons = {pid for pid, parent in known.items() if parent in jvms}
    return daemons | {pid for pid, parent in known.items() if parent in daemons}


def listening_at(pid):
    """The IPv4 addresses at which a process listens; a loopback address is 127.0.0.1."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = {row[9]: row[1].partition(":")[0] for row in rows if row[3] == "0A"}
    links = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()]
    inodes = {link[len("socket:[") : -1] for link in links if link.startswith("socket:")}
    return {socket.inet_ntoa(bytes.fromhex(listening[inode])[::-1]) for inode in inodes & set(listening)}


def kill(*pids):
    """End processes as the kernel does when memory runs out."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # a daemon takes its workers with it
            os.kill(pid, signal.SIGKILL)


def spark_home(folder):
    """Spark as its package brings it, in a folder of its own: a worker writes to it."""
    folder.mkdir()
    for path in Path(_find_spark_home()).iterdir():
        (folder / path.name).symlink_to(path)
    return folder


def _read(pid, what):
    try:
        return Path(f"/proc/{pid}/{what}").read_text()
    except OSError:
        return ""  # it has ended
