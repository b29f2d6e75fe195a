"""Moves the state of a stateful bolt to another number of tasks: `python -m pystorm_spark.repartition --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pystorm_spark.checkpoint.commit_log import SLOTS
from pystorm_spark.checkpoint.files import Files
from pystorm_spark.checkpoint.keying import HASH_KEY, Keying
from pystorm_spark.checkpoint.manifest import Manifest
from pystorm_spark.checkpoint.part import read_sections, write_part
from pystorm_spark.checkpoint.section import keys_of, live_entries, section_of
from pystorm_spark.checkpoint.store import CheckpointStore
from pystorm_spark.errors import CheckpointError, InvalidTopologyError, StormError, did_you_mean
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.runtime.keys.hashing import stable_hash
from pystorm_spark.runtime.keys.java_hash import java_fields_index
from pystorm_spark.spark.storage.locked_state import locked_state
from pystorm_spark.spark.storage.place import HadoopPlace, Place
from pystorm_spark.topology.builder import MAX_TASKS
from pystorm_spark.topology.durable import TaskKey

__all__ = ["repartition_state"]

GroupedOn = Callable[[Any], Sequence[Any]]  # returns the values of the grouping's fields for a key of the state
BY_HAND = "call repartition_state(…, key=…) of pystorm_spark.repartition with a function that returns these values"


def repartition_state(
    checkpoint: Any, topology: str, component: str, tasks: int, key: GroupedOn | None = None
) -> list[int]:
    """Move each key of the stateful bolt `component` to the task that it belongs to among `tasks` tasks.

    The topology can then be submitted with that number of tasks. It must not run meanwhile. `checkpoint` is the value
    that the cluster was given; a URI is read through the active Spark session, or through a new one.

    All input of the bolt must be grouped on fields. `key(k)` returns the values of these fields for a key `k` of the
    state. Without it, a key must be the value of the field, or the tuple of the values of several fields. If any key is
    in another task than these values select, nothing is changed; a state of one task passes this check with any keys.

    Returns:
        The number of keys of each task.
    """
    if not isinstance(tasks, int) or not 1 <= tasks <= MAX_TASKS:
        raise InvalidTopologyError(f"the number of tasks must be from 1 to {MAX_TASKS}, got {tasks!r}")
    with locked_state(checkpoint, topology) as state:
        return _move(state, topology, component, tasks, key)


def _move(state: Place, topology: str, component: str, tasks: int, key: GroupedOn | None) -> list[int]:
    files = state.files()
    is_fenced = isinstance(state, HadoopPlace)
    store = CheckpointStore(files, topology, check_holder=state.check_lock, is_fenced=is_fenced)
    last = store.last
    if last is None or component not in last.tasks:
        known = did_you_mean(component, last.tasks if last is not None else ())
        raise CheckpointError(f"{store.path!r} holds no state of {component!r}; {known}")
    dealt = _dealt(files, last, _Places(last, component, key), tasks)
    state.check_lock()
    store.clean()
    parts = [
        # A task without keys needs a full section, too: it supersedes older parts.
        write_part(files, f"repartitioned-{last.txid}", {TaskKey(component, index): section_of(entries)}, is_full=True)
        for index, entries in enumerate(dealt)
    ]
    state.check_lock()  # again, because writing a large state takes a while
    others = {task for part in last.parts for task in part.tasks if task.component != component}
    store.replace_last(
        replace(
            last,
            parts=(*last.needed(others), *parts),
            tasks={**last.tasks, component: tasks},
            # Without SLOTS each slot writes its whole state at the next commit.
            extra={name: value for name, value in last.extra.items() if name != SLOTS},
        )
    )
    return [len(entries) for entries in dealt]


def _dealt(files: Files, last: Manifest, places: _Places, tasks: int) -> list[list[bytes]]:
    """The entries of the state for each of `tasks` tasks."""
    held = [TaskKey(places.component, index) for index in range(last.tasks[places.component])]
    sections = read_sections(files, last.needed(held), held)
    dealt: list[list[bytes]] = [[] for _ in range(tasks)]
    seen: list[set[Any]] = [set() for _ in range(tasks)]
    for task in held:
        for key, entry in live_entries(sections.pop(task, ()), keys_of(ValueCodec())).items():
            values = places.values(key)
            if places.index(key, values, len(held)) != task.index:
                raise CheckpointError(
                    f"the key {key!r} of {places.component!r} is in task {task.index}, but tuples with {values!r} go "
                    "to another task, so the keys of this state are not the values that its input is grouped on; "
                    f"{BY_HAND}"
                )
            target = places.index(key, values, tasks)
            if key in seen[target]:  # Java's hash sends 1 and 1.0 to different tasks, but in one task they are one key
                raise CheckpointError(
                    f"the key {key!r} of {places.component!r} is in several tasks, as {HASH_KEY}: java allows for "
                    f"equal numbers of different types, but task {target} can hold it only once"
                )
            seen[target].add(key)
            dealt[target].append(entry)
    return dealt


class _Places:
    """Which task a fields grouping selects for a key."""

    def __init__(self, manifest: Manifest, component: str, key: GroupedOn | None) -> None:
        keying = Keying.of(manifest)
        if component not in keying.fields:
            raise CheckpointError(
                f"the input of {component!r} is not all grouped on the same number of fields, so its keys belong to "
                "no particular task and cannot be moved"
            )
        self.component = component
        self._count = keying.fields[component]
        self._is_java = keying.hash == "java"
        self._key = key

    def values(self, key: Any) -> list[Any]:
        """The values that tuples which change `key` are grouped on."""
        if self._key is not None:
            values = list(self._key(key))
        else:
            values = list(key) if self._count > 1 and isinstance(key, tuple) else [key]
        if len(values) != self._count:
            raise CheckpointError(
                f"the input of {self.component!r} is grouped on {self._count} fields, but the key {key!r} of its state "
                f"gives {values!r} for them; {BY_HAND}"
            )
        return values

    def index(self, key: Any, values: list[Any], tasks: int) -> int:
        """The index of the task, of `tasks`, that tuples with these values go to."""
        try:
            return java_fields_index(values, tasks) if self._is_java else stable_hash(values) % tasks
        except TypeError as exc:
            raise CheckpointError(f"tuples cannot be grouped on the key {key!r} of {self.component!r}: {exc}") from exc


def main(args: Sequence[str] | None = None) -> None:
    """Repartition as the command line says, and print the result."""
    parser = argparse.ArgumentParser(
        prog="python -m pystorm_spark.repartition",
        description="Move the state of a stateful bolt to another number of tasks, so that its topology can be "
        "submitted with that number. The topology must not be running.",
        epilog="The keys of the state must be what the bolt's input is grouped on: the value of the field, or the "
        f"tuple of the values. For other keys, {BY_HAND}.",
    )
    parser.add_argument("checkpoint", help="the folder or URI that the cluster was given as checkpoint")
    parser.add_argument("topology", help="the name under which the topology was submitted")
    parser.add_argument("component", help="the id of the stateful bolt")
    parser.add_argument("tasks", type=int, help="the number of tasks that it will have")
    named = parser.parse_args(args)
    try:
        counts = repartition_state(named.checkpoint, named.topology, named.component, named.tasks)
    except StormError as exc:
        raise SystemExit(str(exc)) from exc
    each = ", ".join(map(str, counts))
    sys.stdout.write(f"{sum(counts)} keys of {named.component!r} are in {len(counts)} tasks now: {each}\n")


if __name__ == "__main__":
    main()
