"""Internal. Placing: the Spark job that starts slot processes beside executors."""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
from pyspark import RDD, SparkContext, StorageLevel
from pyspark.serializers import CPickleSerializer

from pystorm_spark.errors import StormError
from pystorm_spark.spark.errors import SparkError, has_lost_worker, spark_errors_ignored, translated
from pystorm_spark.spark.protocol.process import ProcessId, machine, parent_of, process_id
from pystorm_spark.spark.protocol.wire import Address
from pystorm_spark.spark.session.worker_python import renew_workers, told_python

log = logging.getLogger(__name__)

# Python puts the folder that a process works in before all others that it imports from: another copy of this package
# may be in it.
START = 'import sys; "" in sys.path[:1] and sys.path.pop(0); from pystorm_spark.spark.slot.process import main; main()'
Started = tuple[int, "ProcessId | None"]  # a slot, and its process where that is on the driver's machine
_SECRET_FREE = ("-c", START)  # what shows in a list of processes
PLACING_TRIES = 3  # of a placing job; where the driver is the executor Spark itself gives a task only one
SETTLE_SECS = 2.0  # without a new executor, before the known ones count as all


@dataclass(frozen=True)
class Launch:
    """How to start the slots of one topology, wherever a Spark task happens to run."""

    control: Address
    token: bytes
    folder: str | None  # for sockets, where all slots are on the driver's machine
    driver: ProcessId
    home: str  # what `home()` says on the driver
    files: str  # the folder that the last slot of a dead driver removes, where it can
    driver_path: tuple[str, ...]
    driver_folder: str
    environ: dict[str, str]  # what slots have beside the environment of their executor
    log_level: int

    def __repr__(self) -> str:
        return f"Launch(control={self.control})"  # the token is shown nowhere

    def __call__(self, slots: Iterable[int]) -> Iterator[Started]:
        for slot in slots:
            yield self._start(slot)

    def _start(self, slot: int) -> Started:
        at_home = home() == self.home
        # Elsewhere Spark has brought the files of `--py-files`, and the Python worker knows where to.
        path = list(self.driver_path) if at_home else [os.path.abspath(entry) for entry in sys.path if entry]
        spec = {
            "slot": slot,
            "token": self.token,
            "control": list(self.control),
            "folder": self.folder,
            "host": _own_host(self.control),
            "executor": list(process_id(_executor_pid())),
            "driver": list(self.driver),
            "files": self.files if at_home else None,
            "sys_path": path,
            "log_level": self.log_level,
        }
        environ = {**os.environ, **self.environ, "PYTHONPATH": os.pathsep.join(path)}
        folder = self.driver_folder if at_home else None
        pid = _spawn([sys.executable, *_SECRET_FREE], environ, folder, msgpack.packb(spec))
        return slot, process_id(pid) if at_home else None


def launch_of(control: Address, token: bytes, folder: Path | None, files: Path, environ: dict[str, str]) -> Launch:
    """How to start slots from this process, the driver's."""
    return Launch(
        control,
        token,
        str(folder) if folder else None,
        process_id(os.getpid()),
        home(),
        str(files),
        tuple(path or str(Path.cwd()) for path in sys.path),
        str(Path.cwd()),
        environ,
        log_level(),
    )


def place(
    sc: SparkContext, launch: Launch, slots: Sequence[int], first: int
) -> tuple[dict[int, ProcessId], RDD[Started] | None]:
    """Start the processes of `slots`, which connect to the driver by themselves; returns those on its machine.

    They are spread over the executors, beginning with the one that `first` stands for. The RDD that is returned keeps a
    block in each executor that has got a slot: dynamic allocation does not take it for idle, until it is unpersisted.
    """
    for left in reversed(range(PLACING_TRIES)):
        try:
            with translated(f"Spark could not start slots {list(slots)}", SparkError):
                return _placed(sc, launch, slots, first)
        except SparkError as exc:
            renew_workers(sc, exc.story)
            # The slots that a dead worker has started live; a second process for one is surplus.
            if not left or not has_lost_worker(exc):
                told = f"{exc}; {told_python(sc)}" if _is_about_python(exc) else str(exc)
                raise StormError(told) from exc.original
            log.warning("%s; trying again", exc)
    raise AssertionError


def _placed(
    sc: SparkContext, launch: Launch, slots: Sequence[int], first: int
) -> tuple[dict[int, ProcessId], RDD[Started] | None]:
    found = executors(sc)
    if not found:
        placed, pin = sc.parallelize(slots, len(slots)).mapPartitions(launch), None
    else:
        wanted = [(slot, found[(first + slot) % len(found)]) for slot in slots]
        placed = pin = _preferring(sc, wanted).mapPartitions(launch).persist(StorageLevel.MEMORY_AND_DISK)
    return {slot: process for slot, process in placed.collect() if process is not None}, pin


class Pins:
    """Keeps executors that have slots from being released as idle."""

    def __init__(self) -> None:
        self._pins: dict[int, RDD[Started]] = {}  # by slot

    def put(self, slots: Sequence[int], pin: RDD[Started]) -> None:
        """Keep the executors on which `slots` have been placed, in the place of those on which they were before."""
        before = set(self._pins.values())
        self._pins.update(dict.fromkeys(slots, pin))
        self._let_go(before - set(self._pins.values()))

    def remove(self) -> None:
        pins, self._pins = set(self._pins.values()), {}
        self._let_go(pins)

    def _let_go(self, pins: Iterable[RDD[Started]]) -> None:
        with spark_errors_ignored():
            for pin in pins:
                pin.unpersist()


def _is_about_python(exc: SparkError) -> bool:
    """Whether Spark's workers run a Python that does not exist, or that lacks what a slot needs."""
    return exc.is_of_python() or "Cannot run program" in exc.story


def executors(sc: SparkContext) -> list[str]:
    """The executors that have registered, as Spark's scheduler names places; none where the driver is the executor."""
    jsc: Any = sc._jsc
    if jsc.isLocal():
        return []
    known = jsc.sc().statusStore().executorList(True)
    summaries = [known.apply(index) for index in range(known.size())]
    ids = {summary.id(): summary.hostPort().rpartition(":")[0] for summary in summaries if summary.id() != "driver"}
    return [f"executor_{ids[name]}_{name}" for name in sorted(ids, key=lambda name: (len(name), name))]


def await_executors(sc: SparkContext, wanted: int) -> None:
    """Wait for executors while an application starts: they come one by one, and slots go where executors are."""
    jsc: Any = sc._jsc
    if jsc.isLocal() or len(executors(sc)) >= wanted:
        return
    sc.parallelize(range(wanted), wanted).count()  # now there is one, or more: dynamic allocation needs to be asked
    known, deadline = 0, 0.0
    while known < wanted:
        if (count := len(executors(sc))) > known:
            known, deadline = count, time.monotonic() + SETTLE_SECS
        elif time.monotonic() > deadline:
            return
        time.sleep(0.05)


def _preferring(sc: SparkContext, wanted: Sequence[tuple[int, str]]) -> RDD[int]:
    """The slots as an RDD, one partition each, that Spark's scheduler computes where they are wanted if it can."""
    jvm: Any = sc._jvm
    pickled: Any = CPickleSerializer()  # whose methods have no types
    places = [
        jvm.scala.Tuple2(bytearray(pickled.dumps(slot)), jvm.PythonUtils.toSeq([place])) for slot, place in wanted
    ]
    jsc: Any = sc._jsc
    rdd = jsc.sc().makeRDD(jvm.PythonUtils.toSeq(places), jvm.scala.reflect.ClassTag.AnyRef())
    return RDD(rdd.toJavaRDD(), sc, pickled)


def home() -> str:
    """A text that is the same wherever the driver's files and its Python are, and different elsewhere."""
    return f"{machine()}{sys.prefix}"


def log_level() -> int:
    """How much the slots shall log."""
    return logging.getLogger("pystorm_spark").getEffectiveLevel()


def _executor_pid() -> int:
    """The JVM above this Python worker: worker ← daemon ← executor, or worker ← executor where there is no daemon."""
    parent = os.getppid()
    main = getattr(sys.modules["__main__"], "__spec__", None)
    if main is not None and main.name == "pyspark.worker":
        return parent
    above = parent_of(parent)
    return above if above > 1 else parent


def _own_host(control: Address) -> str:
    """The address of this machine as the driver's network sees it."""
    if not control.port:
        return ""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((control.host, control.port))
        return str(probe.getsockname()[0])


def _spawn(argv: list[str], environ: dict[str, str], folder: str | None, spec: bytes) -> int:
    """Start a process that outlives the Spark task and leaves no zombie; returns its pid."""
    reader, writer = os.pipe()
    failed, tell_failure = os.pipe()
    numbers, tell_number = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            grandchild = os.fork()
            if grandchild:
                os.write(tell_number, str(grandchild).encode())
                os._exit(0)
            _become(argv, environ, folder, reader, tell_failure)
        finally:
            os._exit(127)
    os.close(reader)
    os.close(tell_failure)
    os.close(tell_number)
    os.waitpid(child, 0)
    number = os.read(numbers, 32)  # which the child has written, if there is a grandchild
    os.close(numbers)
    with os.fdopen(failed) as pipe:
        failure = pipe.read()  # ends when the process has become another one
    with os.fdopen(writer, "wb") as pipe_in:
        if failure or not number:
            raise StormError(f"a slot's process cannot be started: {failure or 'the system refuses another one'}")
        pipe_in.write(spec)
    return int(number)


def _become(argv: list[str], environ: dict[str, str], folder: str | None, reader: int, tell_failure: int) -> None:
    try:
        os.dup2(reader, 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the standard output of a Spark daemon is its protocol
        os.closerange(3, tell_failure)
        os.closerange(tell_failure + 1, 1024)
        if folder is not None:
            os.chdir(folder)
        os.execve(argv[0], argv, environ)
    except (OSError, ValueError) as exc:  # a variable's name may be impossible
        os.write(tell_failure, str(exc).encode())
