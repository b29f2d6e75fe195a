"""Checks of the arguments that a cluster is given, before it starts anything."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping

from pystorm_spark.errors import InvalidConfigError, InvalidTopologyError, StormError, did_you_mean
from pystorm_spark.topology.graph import Topology

LONGEST_WAIT_SECS = threading.TIMEOUT_MAX


def check_name(name: object) -> str:
    """Return `name` if it can name a topology; raise an `InvalidTopologyError` otherwise."""
    if not isinstance(name, str) or not re.fullmatch(r"[^/.:\\\0\ud800-\udfff]+", name):
        raise InvalidTopologyError(
            "a topology's name must be a non-empty string that can name a folder, without '/', '.', ':' and '\\', got "
            f"{name!r}"
        )
    return name


def check_wait(wait_secs: object) -> None:
    """Refuse a `wait_secs` that is not a number of seconds, 0 or more."""
    if (
        isinstance(wait_secs, bool)
        or not isinstance(wait_secs, (int, float))
        or not 0 <= wait_secs <= LONGEST_WAIT_SECS
    ):
        raise InvalidConfigError(f"wait_secs must be a number of seconds, 0 or more, got {wait_secs!r}")


def check_stateful(component: str, stateful: Iterable[str]) -> None:
    """Refuse a component that has no state."""
    if component not in stateful:
        raise StormError(f"the topology has no stateful bolt {component!r}; {did_you_mean(component, stateful)}")


def state_not_open(component: str) -> StormError:
    """The error for a state in the checkpoint that no task has loaded yet."""
    return StormError(f"the state of {component!r} cannot be read before the topology is activated; load_state can")


def check_submission(topology: object, conf: object) -> None:
    """Refuse a `topology` that is not a `Topology`, or a `conf` that is not a mapping."""
    if not isinstance(topology, Topology):
        raise InvalidTopologyError(
            f"topology must be what TopologyBuilder.create_topology() returns, got {type(topology).__name__} "
            f"{topology!r}"
        )
    if conf is not None and not isinstance(conf, Mapping):
        raise InvalidConfigError(f"conf must be a Config, another mapping or None, got {conf!r}")
