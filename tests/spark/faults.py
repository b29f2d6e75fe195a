"""Faults in Spark's tasks, at the worst moments, put in the place of `exchange.Visit` or of `fetching.Fetching`."""

import functools
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pyspark import TaskContext

from pystorm_spark.spark.driver import placing
from pystorm_spark.spark.exchange import chain as exchange
from pystorm_spark.spark.rows import fetching
from tests.spark.processes import kill, slot_processes


def is_left(folder, times):
    """Whether one more of so many faults shall happen; `folder` holds the tally."""
    for number in range(times):
        try:
            os.close(os.open(f"{folder}/fault-{number}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        return True
    return False


@dataclass(frozen=True)
class Faulty(exchange.Visit):
    """A call on a slot that goes wrong `times` times in all; `folder` holds the tally."""

    folder: str = ""
    times: int = 1
    at: ClassVar[int] = 1  # which exchange of a chain

    def is_due(self, slot):
        """Whether this first attempt shall go wrong: one task of a stage."""
        if TaskContext.get().attemptNumber() or self.number != self.at or slot != self.order.job % 2:
            return False
        return is_left(self.folder, self.times)

    def __call__(self, slot, parcels):
        visit = (self.order.epoch, self.order.job, self.number, slot)
        Path(self.folder, f"visit-{visit}-{TaskContext.get().taskAttemptId()}").touch()
        return self.fault(slot, parcels) if self.is_due(slot) else super().__call__(slot, parcels)


class KilledAfterTaking(Faulty):
    """The Python worker is killed when it has got the slot's frames and Spark has not."""

    def fault(self, slot, parcels):
        list(super(Faulty, self).__call__(slot, parcels))
        os.kill(os.getpid(), signal.SIGKILL)


class RaisesAfterTaking(Faulty):
    def fault(self, slot, parcels):
        yield from super(Faulty, self).__call__(slot, parcels)
        raise RuntimeError("a fault of the test")


class LosesShuffles(Faulty):
    """What the other tasks have written is removed before the next stage reads it: a part of its input is missing."""

    at = 0  # the first exchange of a chain carries the most

    def fault(self, slot, parcels):
        yield from super(Faulty, self).__call__(slot, parcels)
        time.sleep(1.0)  # for the other task to have written
        for path in Path(os.environ["SPARK_TEST_LOCAL_DIR"]).rglob("shuffle_*"):
            path.unlink(missing_ok=True)


def put_in(monkeypatch, kind, folder, times=3):
    """Let the next exchanges go wrong; what is returned tells, of the calls on slots made again, which of its chain."""
    folder.mkdir()
    monkeypatch.setattr(exchange, "Visit", functools.partial(kind, folder=str(folder), times=times))

    def again():
        visits = Counter(path.name.rpartition("-")[0] for path in folder.glob("visit-*"))
        return {int(visit.split(", ")[2]) for visit, count in visits.items() if count > 1}

    return again


@dataclass(frozen=True)
class SlotsKilled(fetching.Fetching):
    """The slots die when their rows are about to be fetched; `folder` holds the tally."""

    folder: str = ""
    times: int = 1

    def __call__(self, places):
        if is_left(self.folder, self.times):
            self.fault()
        return super().__call__(places)

    def fault(self):
        kill(*slot_processes())


class FetcherKilled(SlotsKilled):
    """The Python worker that fetches is killed, and the slots live."""

    def fault(self):
        kill(os.getpid())


def put_in_fetching(monkeypatch, kind, folder, times=1):
    """Let the next fetching of rows go wrong."""
    folder.mkdir()
    monkeypatch.setattr(fetching, "Fetching", functools.partial(kind, folder=str(folder), times=times))


@dataclass(frozen=True, repr=False)
class PlacerKilled(placing.Launch):
    """The Python worker that starts slots is killed when it has started one."""

    fault_folder: str = ""
    times: int = 1

    def __call__(self, slots):
        started = super().__call__(slots)
        yield next(started)
        if is_left(self.fault_folder, self.times):
            kill(os.getpid())
        yield from started


def put_in_placing(monkeypatch, folder, times=1):
    """Let the next placing of slots go wrong."""
    folder.mkdir()
    monkeypatch.setattr(placing, "Launch", functools.partial(PlacerKilled, fault_folder=str(folder), times=times))
