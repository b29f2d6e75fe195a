"""LocalTopology: one topology of a `LocalCluster`."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from pystorm_spark.checkpoint.commit_log import refuse_loss
from pystorm_spark.checkpoint.dead_letters import ComponentLetters, DeadLetters
from pystorm_spark.checkpoint.files import Files, PosixFiles
from pystorm_spark.checkpoint.lock import CheckpointLock
from pystorm_spark.checkpoint.memory import MemoryFiles
from pystorm_spark.clock import Clock
from pystorm_spark.cluster.checks import check_stateful, state_not_open
from pystorm_spark.cluster.info import Tally, TopologyInfo
from pystorm_spark.cluster.validation import validate_components
from pystorm_spark.local.commits import LocalCommits
from pystorm_spark.runtime.bolt_task import SlotCrash
from pystorm_spark.runtime.components import pickle_components
from pystorm_spark.runtime.durable.commits import Letter
from pystorm_spark.runtime.plan import Plan
from pystorm_spark.runtime.slot import Slot

log = logging.getLogger(__name__)

GIVEN_UP = "%(component)s: the message %(message_id)s has failed %(failures)d times and is given up: %(values)s"


class LocalTopology:
    """One topology of a `LocalCluster`: its slot, and the counts of its earlier slots.

    Only `info` may be called in any thread. All other methods are called in the thread that turns the slot.
    """

    def __init__(
        self, name: str, plan: Plan, clock: Clock, rng: random.Random, checkpoint: CheckpointLock | None = None
    ) -> None:
        self.name = name
        self.id = plan.storm_id
        self.plan = plan
        self.clock = clock
        self.slot: Slot | None = None
        self._rng = rng
        self._components = pickle_components(plan)
        self._started_at = clock.monotonic()
        self._past = Tally(plan.specs)  # the counts of earlier slots
        self._deaths = 0  # crashes in a row without an ack in between (with state: without a commit)
        self.on_wake: Callable[[], None] = lambda: None
        self.idle: Callable[[], None] | None = None  # waits until there may be something to do; None in simulated time
        self._checkpoint = checkpoint
        self._folder = checkpoint.folder / name if checkpoint is not None else None
        self._letters = DeadLetters(self._folder) if self._folder is not None else None
        self._component_letters: ComponentLetters | None = None
        self._temporary: TemporaryDirectory[str] | None = None  # of these, without a checkpoint
        self._making_letters = Lock()
        self._files: Files | None = None  # of the states; None without any
        self._commits: LocalCommits | None = None
        if plan.has_commits:
            self._files = PosixFiles(self._folder / "state") if self._folder is not None else MemoryFiles()
            self._commits = self._make_commits()
        elif self._folder is not None and (self._folder / "state").exists():
            refuse_loss(PosixFiles(self._folder / "state"), name)

    def validate(self) -> None:
        """Let each component refuse the submit."""
        checkpoint_of = self._commits.view if self._commits is not None else lambda _: None
        validate_components(self.plan.topology, self.plan.confs, self.plan.tasks, checkpoint_of)

    def check_components(self) -> None:
        """Build the slot without opening it, so that a component that cannot be loaded fails the submit."""
        self.slot = Slot(self.plan, 0, self._components, self.clock, self._rng)

    def activate(self) -> None:
        if self.slot is None or not self.slot.is_open:
            self._open()
        self._slot.active = True

    def deactivate(self) -> None:
        if self.slot is not None:
            self.slot.active = False

    def _open(self) -> None:
        slot = self.slot or Slot(self.plan, 0, self._components, self.clock, self._rng)
        self.slot = None  # if it cannot be opened, the next attempt needs a new one
        slot.on_wake(self.on_wake)
        slot.slot_context.write_letter = self._write_letter
        if self._commits is None:
            slot.open()
        else:
            self._commits.open(slot)
        self.slot = slot

    @property
    def _slot(self) -> Slot:
        assert self.slot is not None
        return self.slot

    def turn(self) -> bool:
        """Turn the slot once, and replace it if user code has crashed it. Returns whether there was anything to do."""
        if self.slot is None or not self.slot.is_open:
            return False
        try:
            busy = self.slot.turn()
        except SlotCrash as crash:
            self._restart(crash)
            return True
        if self._commits is not None:
            busy |= self._commits.step(self.slot)
        return busy

    def next_due(self) -> float:
        """When the next timer or commit is due."""
        if self.slot is None or not self.slot.is_open:
            return math.inf
        due = self.slot.next_due()
        return due if self._commits is None else min(due, self._commits.next_due(self.slot))

    def read_state(self, component: str, key: Any) -> dict[Any, Any]:
        """{key: value} of the last commit, for `key`, or for all keys if it is None."""
        check_stateful(component, self.plan.durable_bolts)
        if self.slot is None or self.slot.commits is None or not self.slot.is_open:
            if self._commits is not None and self._commits.holds_state():
                raise state_not_open(component)
            return {}
        return self.slot.commits.read(component, key)

    def _restart(self, crash: SlotCrash) -> None:
        lost = self._slot
        lost.slot_context.abandon()
        self._deaths = 0 if self._has_progressed(lost) else self._deaths + 1
        self._keep_counts(lost)
        self.slot = None
        if self._deaths > self.plan.conf["topology.slot.max.restarts"]:
            raise crash.as_error() from crash.cause
        log.error("topology %s: restarting the slot: %s", self.name, crash)
        self._open()
        self._slot.active = lost.active

    def _has_progressed(self, slot: Slot) -> bool:
        """Whether a slot has made durable progress: a commit, or without state an ack."""
        if self._commits is not None:
            return self._commits.has_committed
        return any(task.counted().acked for task in slot.tasks.values())

    def replace(self, plan: Plan) -> None:
        """Close all tasks and open them anew, by another plan."""
        if self._commits is not None:
            self._commits.check()  # otherwise the new tasks would begin with an empty state
        was_open = self.close("restarts")
        self.plan = plan
        self.slot = None
        if self._files is not None:
            self._commits = self._make_commits()
        if was_open:
            self._open()

    def close(self, what: str = "ends") -> bool:
        """Close the slot if it is open; returns whether it was. `what` says for the log what the topology does next."""
        slot = self.slot
        if slot is None or not slot.is_open:
            return False
        slot.active = False
        if self._commits is not None:
            self._commits.make_last_commit(slot, self.idle, what)
            self._commits.close()
        slot.close()
        self._keep_counts(slot)
        self.slot = None
        return True

    def _make_commits(self) -> LocalCommits:
        assert self._files is not None
        check_lock = self._checkpoint.check if self._checkpoint is not None else lambda: None
        return LocalCommits(self.plan, self._files, self.clock, self._give_up, check_lock)

    def _give_up(self, txid: int, letters: list[Letter]) -> None:
        """Write messages that have failed too often as dead letters, and log them."""
        plain = [{"time": self.clock.time(), **letter.to_plain()} for letter in letters]
        if self._letters is not None:
            self._letters.add(txid, plain)
        for letter in plain:
            log.error(GIVEN_UP, letter)

    def _write_letter(self, component: str, line: str) -> None:
        """Keep a letter that a component has written: with the checkpoint, or as long as the topology lives."""
        with self._making_letters:
            if self._component_letters is None:
                if self._folder is None:
                    self._temporary = TemporaryDirectory(prefix="pystorm-letters-")
                folder = self._folder if self._temporary is None else Path(self._temporary.name)
                assert folder is not None
                self._component_letters = ComponentLetters(folder)
        self._component_letters.add(component, line)
        where = "" if self._temporary is None else ", which is lost with the topology: name a checkpoint to keep it"
        log.warning("%s writes a dead letter%s: %s", component, where, line)

    def end(self) -> None:
        """Close all that is open, and let go of what does not stay."""
        try:
            self.close()
        finally:
            if self._temporary is not None:
                self._temporary.cleanup()

    def _keep_counts(self, slot: Slot) -> None:
        for task in slot.tasks.values():
            self._past.add_ended(task.component_id, task.counted(), task.errors)

    def info(self, status: str) -> TopologyInfo:
        """The status, with the latest counts."""
        plan, slot, tally = self.plan, self.slot, Tally(self.plan.specs)
        tally.add_all(self._past)
        for task in slot.tasks.values() if slot is not None else ():
            tally.add(task.component_id, task.counted(), list(task.errors))
        uptime = self.clock.monotonic() - self._started_at
        components = tally.components(plan.topology, plan.tasks)
        return TopologyInfo(self.name, self.id, status, uptime, 1, dict(plan.conf), tally.pending, components)
