"""RunningTopology: a topology as its cluster drives it; TopologyHandle: what its user gets."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from pystorm_spark.cluster.info import TopologyInfo
from pystorm_spark.errors import NotAliveError, StormError
from pystorm_spark.naming import java_names

ACTIVE, INACTIVE, REBALANCING, KILLED = "ACTIVE", "INACTIVE", "REBALANCING", "KILLED"


@java_names()
class TopologyHandle(ABC):
    """A submitted topology. It prints as its `TopologyInfo` does."""

    name: str
    id: str

    @abstractmethod
    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the topology's end: True when it ended, False on time-out; raises the error that ended it."""


class RunningTopology(TopologyHandle):
    """A topology as its cluster drives it, from the submit to its end.

    Its status is what is wanted of it, and `apply_status` brings that about: so calls may overlap, or be interrupted.
    """

    def __init__(self, name: str, storm_id: str) -> None:
        self.name = name
        self.id = storm_id
        self.status = INACTIVE
        self.error: BaseException | None = None  # what has ended the topology, if it did not end as it was told
        self.ended = threading.Event()
        self._deciding = threading.Lock()  # on the status

    def __str__(self) -> str:
        return str(self.info())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r}: {self.status}>"

    def await_termination(self, timeout: float | None = None) -> bool:
        ended = self.ended.wait(timeout)
        if ended and self.error is not None:
            raise self.error
        return ended

    def become(self, status: str) -> str:
        """Have `status` from now on; the one before. Who is being rebalanced or killed can only be killed."""
        with self._deciding:
            before = self.status
            if before == KILLED and status != KILLED:
                raise NotAliveError(f"topology {self.name!r} is being killed")
            if before == REBALANCING and status != KILLED:
                raise StormError(
                    f"topology {self.name!r} is being rebalanced: until that is done it can only be killed"
                )
            self.status = status
            return before

    def restore_status(self, status: str, before: str) -> bool:
        """Have the status of `before` again; False if `status` is not there any more, for another one has come."""
        with self._deciding:
            if self.status != status:
                return False
            self.status = before
            return True

    def activate(self) -> None:
        """Have the spouts emit; the first time the components are opened."""
        before = self.become(ACTIVE)
        try:
            self.apply_status()
        except Exception:
            self.restore_status(ACTIVE, before)
            raise

    def deactivate(self) -> None:
        """Have the spouts rest."""
        self.become(INACTIVE)
        self.apply_status()

    def refuse_own_thread(self, what: str) -> None:
        """Raise a `StormError` if the topology's own code calls, and would wait for itself to be `what`."""

    @property
    @abstractmethod
    def conf(self) -> Mapping[str, Any]:
        """The topology's configuration."""

    @abstractmethod
    def apply_status(self) -> None:
        """Have the spouts emit if the status is ACTIVE when it is their turn, else rest. Calls do not overlap."""

    @abstractmethod
    def wait(self, secs: float) -> None:
        """Let the topology go on for `secs`, or until it has ended."""

    @abstractmethod
    def start_anew(self, conf: Mapping[str, Any]) -> None:
        """Close all tasks and make them anew by `conf`, inactive; they are opened if they were open."""

    @abstractmethod
    def end(self) -> None:
        """Close all tasks and let go of everything; a topology that has ended stays as it is.

        Where the topology's own code calls it, that has to return first: it ends after that.
        """

    @abstractmethod
    def info(self) -> TopologyInfo:
        """The status, with the latest counts."""

    @abstractmethod
    def read_state(self, component: str, key: Any) -> dict[Any, Any]:
        """{key: value} as of the last commit, for one key, or for all if it is None."""
