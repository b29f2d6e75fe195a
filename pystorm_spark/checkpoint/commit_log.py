"""Internal. CommitLog: the commits of one run of a topology, from what its slots have written."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pystorm_spark.checkpoint.files import Files
from pystorm_spark.checkpoint.keying import HASH_KEY, NO_KEYING, Keying
from pystorm_spark.checkpoint.manifest import Manifest
from pystorm_spark.checkpoint.part import Part
from pystorm_spark.checkpoint.slot_side import Assignment, Written, written_by
from pystorm_spark.checkpoint.store import CheckpointStore
from pystorm_spark.errors import CheckpointError, did_you_mean
from pystorm_spark.topology.durable import TaskKey
from pystorm_spark.topology.view import CheckpointView

# Among the extras of a manifest.
METADATA = "metadata"  # {component: what its `checkpoint_metadata` was}
SLOTS = "slots"  # the tasks with state of each
CARRIED_PARTS = 64  # parts with message ids of earlier commits, at least; one start of a slot adds those of one commit
CARRIED_STARTS = 4  # of all slots, after each of which there was another commit


class CommitLog:
    """Makes one manifest after the other. `slots` says which tasks with state each slot has.

    `spouts` are those whose message ids are committed, all that there are if None: what is known of others, which may
    come back, stays as it is.
    """

    def __init__(
        self,
        store: CheckpointStore,
        topology: str,
        slots: Sequence[Sequence[TaskKey]],
        keying: Keying = NO_KEYING,
        spouts: Collection[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self._store = store
        self._topology = topology
        self._slots = [tuple(tasks) for tasks in slots]
        self._tasks = _counted(self._slots)
        self._keying = keying
        self._spouts = spouts
        self._metadata = dict(metadata or {})  # of the components, for their `validate`
        # Message ids of commits after which a slot has started: its spouts may not have heard of their acks, and nobody
        # knows when they will emit them again. These parts stay with all later commits.
        self._carried: dict[Part, None] = {}
        last = store.last
        if last is not None:
            self._check_tasks(last)
            _check_keying(Keying.of(last), keying, last.tasks)
        store.clean()

    @property
    def last(self) -> Manifest:
        """The last commit; the first one holds nothing."""
        assert self._store.last is not None
        return self._store.last

    def view(self, component: str) -> CheckpointView | None:
        """What the last commit says of a component with state; None if it says nothing."""
        last = self.last
        if component not in last.tasks:
            return None
        version, metadata = last.schemas.get(component), last.extra.get(METADATA, {}).get(component)
        return CheckpointView(last.txid, last.tasks[component], version, metadata)

    def holds_state(self) -> bool:
        """Whether the last commit has any state."""
        return bool(self.last.parts)

    def assignment(self, slot: int) -> Assignment:
        """What a slot that starts has to know."""
        last = self.last
        self._carried.update(dict.fromkeys(last.acked))
        needed = last.needed(self._slots[slot])
        same = last.extra.get(SLOTS, [])
        is_same = [[TaskKey(*task) for task in tasks] for tasks in same] == [list(tasks) for tasks in self._slots]
        own = needed if is_same or not last.parts else None
        return Assignment(needed, own, last.schemas, last.acked)

    def append(self, txid: int, written: Sequence[Written], schemas: Mapping[str, int]) -> None:
        """Make what all slots have written the last commit."""
        acked = (*self._carried_on(), *(part for one in written for part in one.acked))
        manifest = Manifest(
            self._topology,
            txid,
            tuple(part for one in written for part in one.parts),
            self._tasks,
            dict(schemas),
            acked,
            {
                SLOTS: [[list(task) for task in tasks] for tasks in self._slots],
                METADATA: self._metadata,
                **self._keying.to_plain(),
            },
        )
        self._store.publish(manifest)

    def _carried_on(self) -> list[Part]:
        """What stays with the next commit: not all, but all that is known of spouts that are not there now."""
        most = max(CARRIED_PARTS, CARRIED_STARTS * len(self._slots))
        left = max(0, len(self._carried) - most)
        return [part for number, part in enumerate(self._carried) if number >= left or self._is_of_others(part)]

    def _is_of_others(self, part: Part) -> bool:
        return self._spouts is not None and any(task.component not in self._spouts for task in part.tasks)

    def begin(self) -> None:
        """Raise a `CheckpointError` while no slot may write for the next commit: the last one was not made, maybe."""
        self._store.remove_doubtful()

    def acked(self) -> Assignment:
        """What slots have to know that go on when another one is started: which messages are committed."""
        return Assignment(acked=self.last.acked)

    def check(self) -> None:
        """Raise a `StormError` if the last commit is not there any more."""
        self._store.check()

    def forget(self, slot: int) -> None:
        """Remove what a slot whose process is gone has written for commits that will not be made."""
        self._store.discard(lambda name: written_by(name) == slot)

    def _check_tasks(self, last: Manifest) -> None:
        """Refuse a topology that would lose state of the checkpoint, or see it in the wrong tasks."""
        for component, count in last.tasks.items():
            planned = self._tasks.get(component)
            if planned is None:
                raise CheckpointError(
                    f"the checkpoint holds state of {component!r}, which the topology does not have as a stateful "
                    f"bolt; {did_you_mean(component, self._tasks)}; name another checkpoint to begin without it"
                )
            if planned != count:
                is_keyed = component in Keying.of(last).fields
                way = f"move the keys: {self._command(component, planned)}" if is_keyed else "name another checkpoint"
                raise CheckpointError(
                    f"the checkpoint holds the state of {count} tasks of {component!r}, and the topology has "
                    f"{planned}: keys would be looked for in the wrong tasks; keep {count} with "
                    f"set_num_tasks({count}), or {way}"
                )

    def _command(self, component: str, tasks: int) -> str:
        checkpoint = self._store.path.rstrip("/").rsplit("/", 2)[0]
        return shlex.join(
            ["python", "-m", "pystorm_spark.repartition", checkpoint, self._topology, component, str(tasks)]
        )


def refuse_loss(files: Files, topology: str) -> None:
    """Refuse a topology without anything to commit where its checkpoint holds state, or is damaged."""
    CommitLog(CheckpointStore(files, topology), topology, [])


def _counted(slots: Sequence[Sequence[TaskKey]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for task in (task for tasks in slots for task in tasks):
        counts[task.component] = counts.get(task.component, 0) + 1
    return counts


def _check_keying(kept: Keying, planned: Keying, tasks: Mapping[str, int]) -> None:
    for component in kept.fields.keys() & planned.fields.keys():
        if kept.hash != planned.hash and tasks[component] > 1:
            raise CheckpointError(
                f"the checkpoint holds the state of {component!r}, whose keys have their tasks by {HASH_KEY}: "
                f"{kept.hash}, and the topology has {planned.hash}: keys would be looked for in the wrong tasks; keep "
                f"{kept.hash}, or name another checkpoint"
            )
