"""Internal. The state of a topology that does not run, held by a process that changes it."""

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
    """Where `checkpoint` keeps the state of `topology`, for this process alone.

    A URI is reached through the active session, or one that is stopped at the end.
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
    """Refuse what holds no such state, before a lock is made in a folder that may be something else."""
    found = topologies_in(place)
    if topology not in found:
        known = did_you_mean(topology, found)
        raise CheckpointError(f"{str(place)!r} holds no state of a topology {topology!r}; {known}")
