"""Internal. CommitLog: makes the commits of one run of a topology from the parts that its slots have written."""

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

METADATA = "metadata"  # a key in the extras of a manifest: {component: its `checkpoint_metadata`}
SLOTS = "slots"  # a key in the extras of a manifest: for each slot its tasks with state
# How many parts with message ids of earlier commits a commit retains: CARRIED_PARTS, or more where there are many
# slots. Each start of a slot adds the parts of one commit, so there is room for CARRIED_STARTS starts of every slot.
CARRIED_PARTS = 64
CARRIED_STARTS = 4


class CommitLog:
    """Appends one commit after another. `slots` lists the tasks with state of each slot.

    `spouts` are the spouts whose message ids are committed; None means all. Message ids of other spouts are retained,
    because the topology may have these spouts again later.
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
        # Message ids of commits after which a slot has started. The spouts of that slot may not have received their
        # acks, and may emit these messages again at any time. So later commits retain these parts.
        self._carried: dict[Part, None] = {}
        last = store.last
        if last is not None:
            self._check_tasks(last)
            _check_keying(Keying.of(last), keying, last.tasks)
        store.clean()

    @property
    def last(self) -> Manifest:
        """The last commit. The first one is empty."""
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
        """The part of the last commit that a starting slot needs."""
        last = self.last
        self._carried.update(dict.fromkeys(last.acked))
        needed = last.needed(self._slots[slot])
        same = last.extra.get(SLOTS, [])
        is_same = [[TaskKey(*task) for task in tasks] for tasks in same] == [list(tasks) for tasks in self._slots]
        own = needed if is_same or not last.parts else None
        return Assignment(needed, own, last.schemas, last.acked)

    def append(self, txid: int, written: Sequence[Written], schemas: Mapping[str, int]) -> None:
        """Append the commit `txid`, made of the parts that all slots have written."""
        acked = (*self._retained(), *(part for one in written for part in one.acked))
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

    def _retained(self) -> list[Part]:
        """The carried parts that the next commit retains: the newest, and all of spouts that this topology lacks."""
        most = max(CARRIED_PARTS, CARRIED_STARTS * len(self._slots))
        left = max(0, len(self._carried) - most)
        return [part for number, part in enumerate(self._carried) if number >= left or self._is_of_others(part)]

    def _is_of_others(self, part: Part) -> bool:
        return self._spouts is not None and any(task.component not in self._spouts for task in part.tasks)

    def begin(self) -> None:
        """Raise a `CheckpointError` while slots must not write: a failed commit may have left its manifest behind."""
        self._store.remove_doubtful()

    def acked(self) -> Assignment:
        """The committed message ids, for slots that keep running while another one restarts."""
        return Assignment(acked=self.last.acked)

    def check(self) -> None:
        """Raise a `StormError` if files of the last commit are missing."""
        self._store.check()

    def forget(self, slot: int) -> None:
        """Remove the uncommitted files of a slot whose process has ended."""
        self._store.discard(lambda name: written_by(name) == slot)

    def _check_tasks(self, last: Manifest) -> None:
        """Refuse a topology that would lose state of the checkpoint, or load it into the wrong tasks."""
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
                    f"the checkpoint holds the state of {count} tasks of {component!r}, but the topology has "
                    f"{planned}, so tuples would reach tasks that do not hold their keys; keep {count} with "
                    f"set_num_tasks({count}), or {way}"
                )

    def _command(self, component: str, tasks: int) -> str:
        checkpoint = self._store.path.rstrip("/").rsplit("/", 2)[0]
        return shlex.join(
            ["python", "-m", "pystorm_spark.repartition", checkpoint, self._topology, component, str(tasks)]
        )


def refuse_loss(files: Files, topology: str) -> None:
    """Refuse a topology without state if its checkpoint holds state, or is damaged."""
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
                f"the checkpoint holds the state of {component!r} with {HASH_KEY}: {kept.hash}, but the topology has "
                f"{planned.hash}, so tuples would reach tasks that do not hold their keys; keep {kept.hash}, or name "
                "another checkpoint"
            )
