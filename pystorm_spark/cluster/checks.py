"""What is refused of what a cluster is given, before anything is made of it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping

from pystorm_spark.errors import InvalidConfigError, InvalidTopologyError, StormError, did_you_mean
from pystorm_spark.topology.graph import Topology

LONGEST_WAIT_SECS = threading.TIMEOUT_MAX


def check_name(name: object) -> str:
    """`name`, if it can name a topology."""
    if not isinstance(name, str) or not re.fullmatch(r"[^/.:\\\0\ud800-\udfff]+", name):
        raise InvalidTopologyError(
            "a topology's name must be a non-empty string that a folder can have, without '/', '.', ':' and '\\', got "
            f"{name!r}"
        )
    return name


def check_wait(wait_secs: object) -> None:
    """Refuse what is no time to wait for."""
    if (
        isinstance(wait_secs, bool)
        or not isinstance(wait_secs, (int, float))
        or not 0 <= wait_secs <= LONGEST_WAIT_SECS
    ):
        raise InvalidConfigError(f"wait_secs must be a number of seconds, 0 or more, got {wait_secs!r}")


def check_stateful(component: str, stateful: Iterable[str]) -> None:
    """Refuse a component that has no state."""
    if component not in stateful:
        raise StormError(f"there is no stateful bolt {component!r}; {did_you_mean(component, stateful)}")


def state_not_open(component: str) -> StormError:
    """What is told of a state that is there, but that no task has yet."""
    return StormError(f"the state of {component!r} cannot be read before the topology is activated; load_state can")


def check_submission(topology: object, conf: object) -> None:
    """Refuse what is no topology or no configuration before anything is made of it."""
    if not isinstance(topology, Topology):
        raise InvalidTopologyError(
            f"a topology is what TopologyBuilder.create_topology() gives, got {type(topology).__name__} {topology!r}"
        )
    if conf is not None and not isinstance(conf, Mapping):
        raise InvalidConfigError(f"conf must be a Config, another mapping or None, got {conf!r}")
