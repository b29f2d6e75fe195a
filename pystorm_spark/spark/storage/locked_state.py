"""Internal. locked_state: the state of a stopped topology, locked for a process that changes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pystorm_spark.checkpoint.lock import CheckpointLock
from pystorm_spark.errors import CheckpointError, did_you_mean
from pystorm_spark.spark.session.session import own_session, session_folder
from pystorm_spark.spark.storage.hadoop_folder import HadoopFolder
from pystorm_spark.spark.storage.place import HadoopPlace, Place, PosixPlace, locked_place, named_place, topologies_in


@contextmanager
def locked_state(checkpoint: Any, topology: str) -> Iterator[Place]:
    """The folder in `checkpoint` with the state of `topology`, locked for this process.

    A URI is read through the active Spark session, or through a new one that is stopped at the end.
    """
    named = named_place(checkpoint)
    with ExitStack() as made:
        if isinstance(named, Path):
            _check_state(PosixPlace(named), topology)
            lock = CheckpointLock(named)
            made.callback(lock.release)
            place: Place = PosixPlace(named, lock)
        else:
            spool = session_folder(made)
            folder = HadoopFolder(own_session(spool), named, spool)
            _check_state(HadoopPlace(folder), topology)
            place = locked_place(folder, made)
        yield place / topology / "state"


def _check_state(place: Place, topology: str) -> None:
    """Refuse a folder without such a state, before a lock file is written into it: it may be no checkpoint."""
    found = topologies_in(place)
    if topology not in found:
        known = did_you_mean(topology, found)
        raise CheckpointError(f"{str(place)!r} holds no state of a topology {topology!r}; {known}")
