"""The driver: a program that runs both workloads and reads commands from its standard input. It may be killed any time.

    python -m tests.torture.driver FOLDER NUMBER MASTER

Each line of the input is a command: `rebalance NAME WORKERS`, `activate NAME`, `deactivate NAME`, `resubmit NAME`,
`finish`. It reports in files of the folder, because nobody may be reading its output.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import logging
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pystorm_spark import SparkCluster, StormError
from pystorm_spark.spark.session.session import CONTEXT_SETTINGS, JVM_SETTINGS, is_stopped
from tests.torture import exact, plain

log = logging.getLogger("torture")

COMMAND_TIMEOUT_SECS = 0.5
SUBMIT_TRIES = 20  # before the process gives up
SUBMIT_PAUSE_SECS = 1.0  # between two tries
WORKLOADS = {exact.NAME: exact, plain.NAME: plain}


def write_json(path: Path, content: Any) -> None:
    """Replace a file: a reader never sees half of it."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(content))
    fresh.rename(path)


@contextmanager
def session(folder: Path, number: int, master: str) -> Iterator[SparkSession]:
    """A session like that of `SparkCluster(None)`, on a master of our choice."""
    private = Path(os.environ["TMPDIR"])
    settings: dict[str, Any] = {
        "spark.master": master,
        "spark.app.name": f"torture {number}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.local.dir": str(private / "local"),
        "spark.sql.warehouse.dir": str(private / "warehouse"),
        "spark.python.unix.domain.socket.dir": str(private),
        # A batch that was begun on one master has the same partitions on the other.
        "spark.sql.leafNodeDefaultParallelism": "2",
        "spark.shuffle.io.retryWait": "1s",
        **CONTEXT_SETTINGS,
        **JVM_SETTINGS,
    }
    made = SparkSession.builder.config(map=settings).getOrCreate()
    try:
        yield made
    finally:
        made.stop()


class Program:
    """Both topologies on one cluster; carries out the commands."""

    def __init__(self, cluster: Any, folder: Path, number: int) -> None:
        self._cluster = cluster
        self._folder = folder
        self._number = number
        self._handles: dict[str, Any] = {}
        self._commands: queue.Queue[list[str]] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def run(self) -> None:
        """Carry out commands until `finish`."""
        for name in WORKLOADS:
            self._submit(name)
        while True:
            write_json(self._folder / "up", {"number": self._number, "at": time.time()})
            with contextlib.suppress(queue.Empty):
                kind, *arguments = self._commands.get(timeout=COMMAND_TIMEOUT_SECS)
                if kind == "finish":
                    self._finish()
                    return
                self._obey(kind, *arguments)
            for name, handle in list(self._handles.items()):
                self._look_after(name, handle)

    def _listen(self) -> None:
        for line in sys.stdin:
            self._commands.put(line.split())
        os._exit(5)  # the supervisor has ended

    def _submit(self, name: str) -> None:
        for left in reversed(range(SUBMIT_TRIES)):
            try:
                workload = WORKLOADS[name]
                self._handles[name] = self._cluster.submit_topology(
                    name, workload.CONF, workload.topology(self._folder)
                )
                return
            except StormError as exc:
                self._note("refused", f"submit of {name}: {exc}")
                if not left or is_stopped(self._cluster.spark):
                    raise
                time.sleep(SUBMIT_PAUSE_SECS)

    def _obey(self, kind: str, name: str, *arguments: str) -> None:
        acts: dict[str, Callable[..., None]] = {
            "rebalance": lambda workers: self._cluster.rebalance(name, int(workers)),
            "activate": lambda: self._cluster.activate(name),
            "deactivate": lambda: self._cluster.deactivate(name),
            "resubmit": lambda: self._resubmit(name),
        }
        try:
            acts[kind](*arguments)
        except StormError as exc:  # the topology may be recovering, or at its end
            self._note("refused", f"{kind} {name}: {exc}")

    def _resubmit(self, name: str) -> None:
        self._cluster.kill_topology(name)
        self._submit(name)

    def _look_after(self, name: str, handle: Any) -> None:
        """Submit a topology again after an error ended it, as its operator would; end if the session has ended."""
        try:
            if not handle.await_termination(0):
                return
            error: BaseException = StormError("it ended without an error")
        except Exception as exc:
            error = exc
        if is_stopped(self._cluster.spark):
            raise error
        self._note("ended", f"{name}: {type(error).__name__}: {error}")
        self._submit(name)

    def _finish(self) -> None:
        state = self._cluster.read_state(exact.NAME, exact.COUNT)
        write_json(self._folder / "final", {"state": sorted(state.items())})

    def _note(self, topic: str, text: str) -> None:
        with (self._folder / topic).open("a") as file:
            file.write(json.dumps({"driver": self._number, "at": time.time(), "what": text}) + "\n")


def main(folder: Path, number: int, master: str) -> None:
    stacks = (folder / "logs" / f"stacks-{number}").open("w")
    faulthandler.register(signal.SIGUSR1, stacks)
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    with (
        session(folder, number, master) as spark,
        SparkCluster(spark, checkpoint=folder / "disk" / "checkpoint") as cluster,
    ):
        Program(cluster, folder, number).run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
