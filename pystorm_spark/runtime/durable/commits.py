"""Internal. Commits: the durable side of a slot. It collects a commit from the tasks, and rolls them back to one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeVar

from pystorm_spark.errors import StormError, in_words, shown
from pystorm_spark.runtime.bolt_task import BoltTask
from pystorm_spark.runtime.durable.uncommitted import DeadLetter, UncommittedOutcomes
from pystorm_spark.runtime.plan import Plan
from pystorm_spark.runtime.spout_task import SpoutTask
from pystorm_spark.runtime.task import Task
from pystorm_spark.topology.durable import CommittedBolt, DurableBolt, TaskKey

T = TypeVar("T")


class Letter(NamedTuple):
    """A message that was given up, and by which spout."""

    component: str
    letter: DeadLetter

    def to_plain(self) -> dict[str, Any]:
        """The letter as text, for the dead-letter file."""
        id_, values, failures = self.letter
        values_shown = f"[{', '.join(map(shown, values))}]"
        return {"component": self.component, "message_id": shown(id_), "values": values_shown, "failures": failures}


@dataclass(frozen=True)
class Restored:
    """The part of the last commit that a slot starts from."""

    sections: Mapping[TaskKey, Sequence[bytes]] = field(default_factory=dict)  # oldest first
    schemas: Mapping[str, int] = field(default_factory=dict)  # {component: version}
    acked: Mapping[str, Iterable[bytes]] = field(default_factory=dict)  # {spout: message ids that are committed}


@dataclass(frozen=True)
class Prepared:
    """The part of a commit that one slot prepared."""

    sections: dict[TaskKey, bytes]
    schemas: dict[str, int]
    acked: dict[TaskKey, bytes]  # with exactly-once: message ids of a spout, under one of its tasks
    letters: list[Letter]


class Commits:
    """The bolts of a slot that take part in commits, and the spouts whose acks wait for commits."""

    def __init__(self, plan: Plan, tasks: Mapping[int, Task]) -> None:
        self._bolts: dict[TaskKey, tuple[BoltTask, CommittedBolt]] = {}
        self._spouts: dict[TaskKey, tuple[SpoutTask, UncommittedOutcomes]] = {}
        for task in tasks.values():
            key = TaskKey(task.component_id, plan.tasks[task.component_id].index(task.task_id))
            if isinstance(task, BoltTask) and task.committed is not None:
                self._bolts[key] = task, task.committed
            elif isinstance(task, SpoutTask) and task.uncommitted is not None:
                self._spouts[key] = task, task.uncommitted
        spouts = {key: spout for key, (spout, _) in self._spouts.items()}
        self._positions = {key: spout.position for key, spout in spouts.items() if spout.position is not None}
        self._transactions = [bolt.transactions for bolt, _ in self._bolts.values() if bolt.transactions is not None]
        self.is_exactly_once: bool = plan.conf["topology.state.guarantee"] == "exactly-once"

    def tasks(self) -> list[TaskKey]:
        """The tasks that have state."""
        return [*(key for key, (_, bolt) in self._bolts.items() if isinstance(bolt, DurableBolt)), *self._positions]

    def spouts(self) -> set[str]:
        """The spouts whose committed message ids must be restored; empty without exactly-once."""
        return {component for component, _ in self._spouts} if self.is_exactly_once else set()

    def restore(self, restored: Restored) -> None:
        """Hand every task the state it starts from. Call it before the tasks are opened."""
        for (component, index), (bolt, _) in self._bolts.items():
            bolt.restored = restored.sections.get(TaskKey(component, index), ()), restored.schemas.get(component)
        for key, position in self._positions.items():
            position.restore(restored.sections.get(key, ()))
        self.restore_ids(restored.acked)

    def restore_ids(self, acked: Mapping[str, Iterable[bytes]]) -> None:
        """Tell every spout the committed message ids. After a restart any task of the spout may emit them again."""
        # The tasks of a spout share their ids: restore them once.
        by_spout = {component: outcomes.ids for (component, _), (_, outcomes) in self._spouts.items()}
        for component, ids in by_spout.items():
            ids.restore(acked.get(component, ()))

    def is_wanted(self) -> bool:
        """Whether there is something to commit."""
        has_outcomes = any(len(outcomes) for _, outcomes in self._spouts.values())
        has_moved = any(position.has_changed() for position in self._positions.values())
        return has_outcomes or has_moved or any(committed.has_changed() for _, committed in self._bolts.values())

    def is_urgent(self) -> bool:
        """Whether a commit should be made now, because a spout will soon reach its pending limit."""
        return any(spout.wants_commit() for spout, _ in self._spouts.values())

    def is_broken(self) -> bool:
        """Whether a tree has failed under exactly-once, so that a rollback is due."""
        broken = any(outcomes.is_broken for _, outcomes in self._spouts.values())
        return broken or (self.is_exactly_once and any(each.is_broken for each in self._transactions))

    def in_flight(self) -> int:
        """The number of unsettled roots, plus the number of bolts that still hold rolled back tuples."""
        roots = sum(len(spout.pending) + len(spout.acked) for spout, _ in self._spouts.values())
        return roots + sum(bolt.waits() for bolt, _ in self._bolts.values())

    def in_transaction(self) -> bool:
        """Whether something is in flight that timers or ticks of bolts with state have emitted."""
        return any(map(len, self._transactions))

    def mark(self) -> None:
        """Assign every outcome known now to the commit that begins. All slots mark before any slot prepares."""
        for spout, outcomes in self._spouts.values():
            spout.tell_outcomes()
            outcomes.mark()

    def prepare(self, txid: int, is_full: bool) -> Prepared:
        """Collect the changes since the last commit, or the whole state if `is_full`. Errors of a bolt are raised."""
        sections: dict[TaskKey, bytes] = {}
        schemas: dict[str, int] = {}
        for key, (bolt, committed) in self._bolts.items():
            section = _prepared(bolt, committed, txid, is_full)
            if section is not None:
                sections[key] = section
            if isinstance(committed, DurableBolt):
                schemas[key.component] = committed.schema_version
        for key, position in self._positions.items():
            spout, outcomes = self._spouts[key]
            sections[key] = _asked(spout, "position", partial(position.prepare, outcomes.marked_ids()))
        letters = [
            Letter(key.component, letter)
            for key, (_, outcomes) in self._spouts.items()
            for letter in outcomes.letters()
        ]
        return Prepared(sections, schemas, self._acked() if self.is_exactly_once else {}, letters)

    def _acked(self) -> dict[TaskKey, bytes]:
        """The message ids that the commit acks; those of a spout are listed under its first task in this slot."""
        acked: dict[TaskKey, bytes] = {}
        for component in self.spouts():
            tasks = {key: outcomes for key, (_, outcomes) in self._spouts.items() if key.component == component}
            first, outcomes = next(iter(tasks.items()))  # the tasks of a spout share their ids
            section = outcomes.ids.section([id_ for each in tasks.values() for id_ in each.marked_ids()])
            if section is not None:
                acked[first] = section
        return acked

    def commit(self, txid: int) -> None:
        """The commit `txid` is durable: tell the bolts, and call the spouts' `ack` for the messages in it."""
        for bolt, _ in self._bolts.values():
            bolt.commit(txid)
        for position in self._positions.values():
            position.commit()
        # Release the outcomes of all spouts before the first one hears of them.
        acked = [(spout, outcomes.release(txid)) for spout, outcomes in self._spouts.values()]
        for spout, outcomes in acked:
            spout.tell_acked(outcomes)

    def rollback(self) -> None:
        """Roll every state back to the last commit."""
        for bolt, committed in self._bolts.values():
            bolt.guard(committed.rollback, "pre_rollback")
        for bolt, committed in self._bolts.values():
            bolt.guard(committed.post_rollback, "post_rollback")

    def read(self, component: str, key: Any) -> dict[Any, Any]:
        """{key: value} of the last commit in this slot's tasks of `component`: one key, or all if it is None."""
        found: dict[Any, Any] = {}
        for (name, _), (_, committed) in self._bolts.items():
            if name != component or not isinstance(committed, DurableBolt):
                continue
            if key is None:
                found.update(committed.committed())
            elif (value := committed.committed_value(key)) is not None:
                found[key] = value
        return found


def _prepared(task: Task, committed: CommittedBolt, txid: int, is_full: bool) -> bytes | None:
    return _asked(task, "pre_prepare", partial(committed.prepare_commit, txid, is_full))


def _asked(task: Task, what: str, ask: Callable[[], T]) -> T:
    """What user code says to a commit; if it raises, there is none."""
    task.slot_context.running = task
    try:
        return ask()
    except BaseException as exc:  # SystemExit and the like of user code are failures, never an end
        task.report(exc, what=what)
        raise StormError(f"{what} of {task.component_id!r} (task {task.task_id}) raised {in_words(exc)}") from exc
