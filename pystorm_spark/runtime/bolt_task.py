"""Internal. BoltTask: runs the tuples in its queue through one bolt."""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from sys import getrefcount
from threading import get_ident
from typing import Any

from pystorm_spark.core import compiled, laid_out
from pystorm_spark.errors import SerializationError, SlotLostError, StormError, in_words
from pystorm_spark.metrics.stats import TaskStats
from pystorm_spark.runtime.bolt_collector import BoltCollector, UntrackedBoltCollector
from pystorm_spark.runtime.durable.transactions import Transactions, TransactionTree
from pystorm_spark.runtime.slot_context import LATER, SlotContext, UserCall
from pystorm_spark.runtime.task import Task
from pystorm_spark.runtime.trees import ROLLED_BACK, UNTRACKED, Branch, Tick, join, release
from pystorm_spark.topology.component import Bolt, WrappingBolt
from pystorm_spark.topology.durable import DurableBolt, committed_of
from pystorm_spark.topology.hooks import BoltAckInfo, BoltExecuteInfo, BoltFailInfo
from pystorm_spark.topology.tuple import (
    SETTLED,
    SYSTEM_COMPONENT,
    SYSTEM_TASK,
    TICK_FIELDS,
    TICK_STREAM,
    Origin,
    Tree,
    Tuple,
    is_tick,
    new_tuple,
)

log = logging.getLogger(__name__)

TICK_ORIGIN = Origin(SYSTEM_COMPONENT, SYSTEM_TASK, TICK_STREAM, TICK_FIELDS)
BATCH_SECS = 0.002  # aimed at for one batch, by the speed of the last one
MAX_BATCH = 1024
ROLLED_BACK_WAIT_SECS = 1.0  # at least, for a bolt to let go of rolled back tuples
HELD_MEASURED = 4096  # held tuples whose process latency is measured


class SlotCrash(Exception):  # noqa: N818 - it ends a slot; it is not a StormError
    """A bolt raised under `topology.bolt.on.error: restart`, Storm's fail-fast: the slot ends and is restarted."""

    def __init__(self, component_id: str, task_id: int, tup: Tuple | None, cause: BaseException) -> None:
        on = "" if tup is None else f" on {tup!r}"
        super().__init__(f"{component_id}:{task_id} raised {in_words(cause)}{on}")
        self.tup = tup
        self.cause = cause

    def as_error(self) -> SlotLostError:
        """The error that ends the topology once the slot died too often."""
        return SlotLostError(f"the slot died too often, last because {self}")


class Relieved(Exception):  # noqa: N818 - a signal to a thread, not an error
    """Another thread turns the slot now, because this one was in a bolt's `execute` for too long: see `Relief`."""

    def __init__(self, task: BoltTask) -> None:
        super().__init__(f"{task.component_id}:{task.task_id}")
        self.task = task


@laid_out
class BoltTask(Task):
    """One instance of a bolt with its queue."""

    __slots__ = (
        "_at",
        "_batch",
        "_deferred_calls",
        "_deferred_ticks",
        "_execute",
        "_idle_executed",
        "_is_exactly_once",
        "_most_held",
        "_restart",
        "_stale",
        "_ticks",
        "backlog",
        "bolt",
        "calls",
        "crash_cause",
        "inbox",
        "is_apart",
        "transactions",
        "waits_until",
        "wake_apart",
    )

    def __init__(
        self, task_id: int, component_id: str, conf: Mapping[str, Any], slot_context: SlotContext, bolt: Bolt
    ) -> None:
        super().__init__(task_id, component_id, conf, slot_context)
        self.bolt = bolt
        self.inbox: list[Tuple] = []
        tracked = conf["topology.acker.executors"] != 0
        self.collector = BoltCollector(self) if tracked else UntrackedBoltCollector(self)
        self.backlog: list[Tuple] = []  # taken out of the inbox; not yet executed from `_at` on
        self._at = 0
        self._batch = 1
        self._stale: list[Tuple] = []  # rolled back tuples that the bolt may still hold
        self.calls: deque[Callable[[], None]] = deque()  # for a thread of its own, before it executes
        self.waits_until = 0.0  # until then the bolt may let go of the stale tuples
        self._ticks = 0  # ticks in the queue
        self.wake_apart: Callable[[], None] | None = None  # wakes the thread of its own that executes it
        self._idle_executed = 0  # tuples executed at the last look whether it was idle
        self.is_apart = False  # a thread of its own is executing it
        self._restart: bool = conf["topology.bolt.on.error"] == "restart"
        self.committed = committed_of(bolt)
        self.restored: tuple[Sequence[bytes], int | None] = (), None  # sections to start from, their version
        has_state = isinstance(self.committed, DurableBolt)
        self.transactions = Transactions(task_id, slot_context) if tracked and has_state else None
        self.crash_cause: BaseException | None = None  # that a timer is about to raise
        self._deferred_ticks: list[Tuple] = []  # and calls, see `defers`
        self._deferred_calls: list[tuple[Callable[[], object], str]] = []
        # With exactly-once all tuples that a user's bolt holds are recorded; bolts of the engine roll back themselves.
        is_users = self.committed is None or isinstance(self.committed, DurableBolt)
        self._is_exactly_once: bool = conf["topology.state.guarantee"] == "exactly-once"
        self._most_held = sys.maxsize if is_users and self._is_exactly_once else HELD_MEASURED

    def component(self) -> Any:
        return self.bolt.wrapped if isinstance(self.bolt, WrappingBolt) else self.bolt

    def open(self) -> None:
        self.start(self._prepare)
        self._execute = self.bolt.execute

    def _prepare(self) -> None:
        self.bolt.prepare(self.conf, self.context, self.collector)
        if isinstance(self.committed, DurableBolt):
            self.committed.restore(self.slot_context.codec, *self.restored)
            self.restored = (), None

    def starting(self) -> str:
        return self.committed.starting if isinstance(self.committed, DurableBolt) else "prepare"

    def close(self) -> None:
        self.end(self.bolt.cleanup, "cleanup")

    def watch(self) -> None:
        self.collector.watch()

    def waiting(self) -> int:
        """How many tuples are queued."""
        return len(self.inbox) + len(self.backlog) - self._at

    def can_run(self) -> bool:
        """Whether there is something to execute now."""
        return bool(self.inbox or (self.backlog and not self.waits()))

    def drop_tracked(self) -> None:
        """Drop the queued tuples that are tracked, since their trees have failed; keep ticks and untracked tuples."""
        with self.slot_context.lock:
            kept = [tup for tup in self._waiting() if not _is_tracked(tup)]
            self.backlog, self._at = [], 0
            self.inbox[:0] = kept

    def roll_back_held(self) -> None:
        """Mark the tuples that the bolt still holds: their trees failed, so emits anchored to them are dropped."""
        with self.slot_context.lock:  # a thread of the bolt may be acking one of them
            for tup in list(self.collector.held):
                if tup._tree is not SETTLED:
                    tup._tree = ROLLED_BACK
                    self._stale.append(tup)
            self.collector.held.clear()
        self.waits_until = self.clock.monotonic() + self._rolled_back_wait_secs()

    def _rolled_back_wait_secs(self) -> float:
        """How long a bolt may hold rolled back tuples: until a tick, or a message timeout if it has state."""
        timeout: float = self.conf["topology.message.timeout.secs"]
        tick_secs: float = self.conf["topology.tick.tuple.freq.secs"] or 0.0
        if isinstance(self.committed, DurableBolt):
            return timeout
        return min(timeout, max(ROLLED_BACK_WAIT_SECS, 2 * tick_secs))

    def waits(self) -> bool:
        """Whether the bolt gets no new tuples, since it might join them to rolled back tuples that it still holds.

        It has let go of a tuple when the tuple is settled, or when nothing refers to it any more.
        """
        if not self._stale:
            return False
        references = zip(self._stale, _references(self._stale), strict=True)
        self._stale = [tup for tup, count in references if tup._tree is ROLLED_BACK and count > LISTED]
        if self._stale and self.clock.monotonic() < self.waits_until:
            return True
        if self._stale:
            log.warning(
                "%s:%d goes on although it still holds %d rolled back tuples; settle held tuples at each tick",
                self.component_id,
                self.task_id,
                len(self._stale),
            )
            self._stale = []
        if isinstance(self.committed, DurableBolt):  # undo what it changed for them meanwhile
            self.guard(self.committed.rollback, "pre_rollback")
            self.guard(self.committed.post_rollback, "post_rollback")
        return False

    def tick(self, rate_secs: float) -> None:
        """Queue a tick behind the data."""
        self._ticks += 1
        self.inbox.append(new_tuple([rate_secs], TICK_ORIGIN, Tick(self.collector)))

    def refuse(self, tup: Tuple, error: SerializationError) -> None:
        """Fail a tuple whose values cannot be unpacked here, as if `execute` had raised."""
        self.stats.executed += 1
        self.report(error, tup, "cannot unpack the values")
        self.collector.fail(tup)

    def run(self) -> int:
        """Execute a batch of queued tuples, sized to take about `BATCH_SECS`; return the number of tuples.

        Raise `Relieved` if another thread has taken the slot over meanwhile.
        """
        slot_context, batch = self.slot_context, self._next_untracked() if self.waits() else self._next_batch()
        if not batch:
            return 0
        slot_context.running = slot_context.executing = self
        ended = self._run_batch(batch, slot_context.now)  # `now`: the end of the previous task's batch
        if get_ident() != slot_context.thread:  # no call between this check and the change
            raise Relieved(self)
        slot_context.executing = None
        slot_context.now = ended
        return len(batch)

    def run_aside(self, began: float) -> None:
        """Execute a batch in the calling thread, which is the bolt's own."""
        self.is_apart = True
        while self.calls:
            self.calls.popleft()()
        with self.slot_context.lock:
            batch = self._next_batch()
        if batch:
            self._run_batch(batch, began)
        self.is_apart = False

    def _run_batch(self, batch: list[Tuple], began: float) -> float:
        """Execute `batch` and count it; return when it ended."""
        collector, stats = self.collector, self.stats
        # `_released` counts tuples settled after their execute, with their own latency.
        others = collector.acked + collector.failed - stats.process_count
        try:
            if collector.watched or self.slot_context.before:
                self._execute_watched(batch)
            elif self._ticks and self.transactions is not None:
                self._execute_with_ticks(batch)
            else:
                self._execute_all(batch)
        except SlotCrash as crash:
            done = batch[: batch.index(crash.tup) + 1] if crash.tup is not None else batch
            stats.executed += len(done) - self._ticks_in(done)
            raise
        ended = self.clock.monotonic()
        took = ended - began
        count = len(batch)
        if count == self._batch or took > BATCH_SECS:
            self._fit_batch(count, took)
        stats.executed += count - self._ticks_in(batch) if self._ticks else count
        stats.execute_secs += took
        settled = collector.acked + collector.failed - stats.process_count - others
        stats.process_secs += took / count * settled
        stats.process_count += settled
        if settled < count and len(collector.held) < self._most_held:
            collector.held.update((tup, began) for tup in batch if self._is_held(tup))
        return ended

    def _is_held(self, tup: Tuple) -> bool:
        # Where all held tuples are recorded, untracked ones would never be removed.
        return tup._tree is not SETTLED and (self._most_held == HELD_MEASURED or _is_tracked(tup))

    def _fit_batch(self, count: int, took: float) -> None:
        """Size the next batch by the speed of the last one: at most double, but shrink at once."""
        fitting = max(1, int(count * BATCH_SECS / took)) if took else MAX_BATCH
        self._batch = min(MAX_BATCH, 2 * self._batch, fitting)

    @compiled
    def _next_batch(self) -> list[Tuple]:
        if not self.backlog:
            batch = self.inbox[:]
            del self.inbox[: len(batch)]  # in place: ports keep its append, and other threads may append now
            if len(batch) <= self._batch:
                return batch
            self.backlog = batch
        batch = self.backlog[self._at : self._at + self._batch]
        self._at += len(batch)
        if self._at == len(self.backlog):
            self.backlog, self._at = [], 0
        return batch

    def _next_untracked(self) -> list[Tuple]:
        """The ticks and untracked tuples, which the bolt gets even while it waits."""
        if not self.inbox:  # the backlog has none: it was filtered before
            return []
        waiting = self._waiting()
        self.backlog, self._at = [tup for tup in waiting if _is_tracked(tup)], 0
        return [tup for tup in waiting if not _is_tracked(tup)]

    def _waiting(self) -> list[Tuple]:
        """Take all queued tuples; other threads may append to the inbox meanwhile."""
        came = self.inbox[:]
        del self.inbox[: len(came)]
        return self.backlog[self._at :] + came

    def _execute_all(self, batch: list[Tuple]) -> None:
        execute = self._execute
        left = iter(batch)
        while True:
            try:
                for tup in left:
                    execute(tup)
                return
            except BaseException as exc:
                self._failed(tup, exc)

    def _execute_with_ticks(self, batch: list[Tuple]) -> None:
        """The same where ticks may be among them, and what they cause belongs to a commit."""
        for tup in batch:
            if tup._origin is not TICK_ORIGIN or self.transactions is None:
                self._execute_all([tup])
            elif self.defers():
                self._deferred_ticks.append(tup)
            else:
                self.in_transaction(partial(self._execute_all, [tup]))

    # Timers and ticks of a bolt with state.

    def make_call(self, call: Callable[[], object], what: str) -> None:
        make = partial(super().make_call, call, what)
        if self.transactions is None:
            make()
        elif self.defers():
            self._deferred_calls.append((call, what))
        else:
            self.in_transaction(make)
        cause, self.crash_cause = self.crash_cause, None
        if cause is not None and self._restart:
            raise SlotCrash(self.component_id, self.task_id, None, cause)

    def commit(self, txid: int) -> None:
        """Tell the bolt that the commit `txid` is durable; what it emits then belongs to the next one."""
        assert self.committed is not None
        tell = partial(self.guard, self.committed.commit, "pre_commit", txid)
        if self.transactions is None:
            tell()
        else:
            self.in_transaction(tell)

    def in_transaction(self, call: Callable[[], None]) -> None:
        """Make `call`; what the bolt emits meanwhile belongs to the commit that holds what the bolt changes.

        While the bolt holds rolled back tuples, it is rolled back again when it lets go of them: its emits are dropped.
        """
        assert self.transactions is not None
        collector = self.collector
        tree: Tree
        if self._stale:
            tree = ROLLED_BACK
            tree.unsettled += 1
        elif self.slot_context.deferring:
            tree = join(self._held_transactions())
            tree.unsettled += 1
        else:
            tree = self.transactions.begin()
        collector.transaction, was_short = tree, collector.short_way
        collector.short_way = False
        try:
            call()
        finally:
            collector.transaction = None
            # No call from the look to the change: a thread of the bolt's may post.
            collector.short_way = was_short and not (collector.posted or collector.watched)
            release([tree])

    def defers(self) -> bool:
        """Whether timers and ticks wait for the commit that is being made.

        Those of a bolt that holds tuples which the commit waits for do not: it may let go of them by a tick. What it
        emits then joins their trees.
        """
        return self.slot_context.deferring and not self._held_transactions()

    def _held_transactions(self) -> list[Tree]:
        trees = {member: None for tup in self.collector.held for member in tup._tree.members()}
        return [tree for tree in trees if self._is_transaction(tree)]

    def fail_tree(self, tree: Tree) -> None:
        """Fail `tree`, of which the caller releases a tuple.

        At-least-once a transaction goes on: with the failed tuple done, the commit still waits for the others.
        """
        for member in tree.members():
            if self._is_exactly_once or not self._is_transaction(member):
                member.fail()

    def _is_transaction(self, tree: Tree) -> bool:
        if isinstance(tree, Branch):
            return not tree.failed and tree.home_task in self.slot_context.with_transactions
        return isinstance(tree, TransactionTree)

    def call(self, call: Callable[[], object], what: str) -> None:
        if self.wake_apart is None:
            self.make_call(call, what)
        else:
            self.calls.append(partial(self.make_call, call, what))
            self.wake_apart()

    def has_nothing_to_do(self) -> bool:
        before, self._idle_executed = self._idle_executed, self.stats.executed
        return before == self._idle_executed and not self.inbox and not self.backlog and self.wake_apart is None

    def has_deferred(self) -> bool:
        """Whether ticks or calls wait for a commit."""
        return bool(self._deferred_calls or self._deferred_ticks)

    def go_on(self) -> None:
        """Queue the ticks, and make the calls, that have waited for a commit, before those that came later."""
        ticks, self._deferred_ticks = self._deferred_ticks, []
        self._ticks += len(ticks)
        self.inbox.extend(ticks)
        calls, self._deferred_calls = self._deferred_calls, []
        if self.wake_apart is not None:
            self.calls.extendleft(partial(self.make_call, *call) for call in reversed(calls))
            self.wake_apart()
        else:
            self.slot_context.post_first([UserCall(self.call, *call) for call in calls])

    def _execute_watched(self, batch: list[Tuple]) -> None:
        for tup in batch:
            why = self.slot_context.before(self, tup) if self.slot_context.before is not None else None
            if why is not None:
                self._leave_out(tup, why)
                continue
            if self.debug:
                log.info("%s:%d executes %r", self.component_id, self.task_id, tup)
            began = self.clock.monotonic()
            self._execute_with_ticks([tup])
            if not is_tick(tup):
                info = BoltExecuteInfo(tup, self.task_id, 1000 * (self.clock.monotonic() - began))
                for hook in self.task_hooks:
                    self.guard(hook.bolt_execute, "bolt_execute of a hook", info)
        if self.slot_context.before is not None:
            self.slot_context.before(self, None)  # no tuple is being executed

    def _failed(self, tup: Tuple, exc: BaseException) -> None:
        self.report(exc, tup, "execute")
        if self._restart:
            raise SlotCrash(self.component_id, self.task_id, tup, exc)
        if tup._tree is not SETTLED:
            self.collector.fail(tup)

    def _leave_out(self, tup: Tuple, why: str) -> None:
        """Put off or fail a tuple that is not to be executed."""
        self.stats.executed -= 1  # its batch counts it
        if why is LATER:
            self.slot_context.put_off.append((self, tup))
            return
        try:
            raise StormError(why)
        except StormError as exc:  # `fail` sends the exception being handled as the reason
            self.report(exc, tup, "execute, which was not called,")
            if tup._tree is not SETTLED:
                self.collector.fail(tup)

    def _ticks_in(self, batch: list[Tuple]) -> int:
        if not self._ticks:
            return 0
        found = sum(tup._origin is TICK_ORIGIN for tup in batch)
        self._ticks -= found
        return found

    def tell_settled(self, tup: Tuple, verb: str) -> None:
        """Tell the log and the hooks of an ack or a fail."""
        if is_tick(tup):
            return
        if self.debug:
            log.info("%s:%d %ss %r", self.component_id, self.task_id, verb, tup)
        for hook in self.task_hooks:
            if verb == "ack":
                self.guard(hook.bolt_ack, "bolt_ack of a hook", BoltAckInfo(tup, self.task_id))
            else:
                self.guard(hook.bolt_fail, "bolt_fail of a hook", BoltFailInfo(tup, self.task_id))

    def rotate(self) -> None:
        """A message timeout has passed: stop measuring the tuples still held."""
        if self._most_held == HELD_MEASURED:
            self.collector.held.clear()
        self.rotate_transactions()

    def rotate_transactions(self) -> None:
        if self.transactions is not None:
            self.transactions.rotate()

    def counted(self) -> TaskStats:
        stats = super().counted()
        stats.acked, stats.failed = self.collector.acked, self.collector.failed
        return stats


def _is_tracked(tup: Tuple) -> bool:
    return tup._tree is not UNTRACKED and tup._origin is not TICK_ORIGIN


def _references(objects: list[Any]) -> list[int]:
    return [getrefcount(each) for each in objects]


LISTED = _references([object()])[0]  # the count of an object that only one list refers to
