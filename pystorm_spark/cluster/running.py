"""RunningTopology: a submitted topology, as its cluster controls it; TopologyHandle: its public face."""

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
    """A submitted topology. It prints like its `TopologyInfo`."""

    name: str
    id: str

    @abstractmethod
    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the topology's end: True when it ended, False on timeout. Raises the error that ended it."""


class RunningTopology(TopologyHandle):
    """A topology from its submit to its end, as its cluster controls it.

    `become` sets the wanted status, and `apply_status` makes the tasks follow. So calls may overlap or be interrupted.
    """

    def __init__(self, name: str, storm_id: str) -> None:
        self.name = name
        self.id = storm_id
        self.status = INACTIVE
        self.error: BaseException | None = None  # why the topology ended, unless it was killed
        self.ended = threading.Event()
        self._deciding = threading.Lock()  # guards the status

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
        """Set the status and return the old one. A topology that is rebalanced or killed can only be killed."""
        with self._deciding:
            before = self.status
            if before == KILLED and status != KILLED:
                raise NotAliveError(f"topology {self.name!r} is being killed")
            if before == REBALANCING and status != KILLED:
                raise StormError(
                    f"topology {self.name!r} is being rebalanced; until the rebalance ends it can only be killed"
                )
            self.status = status
            return before

    def restore_status(self, status: str, before: str) -> bool:
        """Undo a change to `status`: set `before` again. False if another call has changed the status since."""
        with self._deciding:
            if self.status != status:
                return False
            self.status = before
            return True

    def activate(self) -> None:
        """Resume the spouts. The first call opens the components."""
        before = self.become(ACTIVE)
        try:
            self.apply_status()
        except Exception:
            self.restore_status(ACTIVE, before)
            raise

    def deactivate(self) -> None:
        """Pause the spouts."""
        self.become(INACTIVE)
        self.apply_status()

    def refuse_own_thread(self, what: str) -> None:
        """Raise a `StormError` if the topology's own code is the caller, and would wait for itself to be `what`."""

    @property
    @abstractmethod
    def conf(self) -> Mapping[str, Any]:
        """The topology's configuration."""

    @abstractmethod
    def apply_status(self) -> None:
        """Resume or pause the spouts by the current status. Calls do not overlap."""

    @abstractmethod
    def wait(self, secs: float) -> None:
        """Let the topology run for `secs`, or until it has ended."""

    @abstractmethod
    def start_anew(self, conf: Mapping[str, Any]) -> None:
        """Close all tasks and make new, inactive ones by `conf`. They are opened if the old ones were."""

    @abstractmethod
    def end(self) -> None:
        """Close all tasks and release all resources. Does nothing if the topology has ended.

        If the topology's own code calls it, the topology ends after that code has returned.
        """

    @abstractmethod
    def info(self) -> TopologyInfo:
        """The status, with the latest counts."""

    @abstractmethod
    def read_state(self, component: str, key: Any) -> dict[Any, Any]:
        """{key: value} of the last commit, for `key`, or for all keys if it is None."""
