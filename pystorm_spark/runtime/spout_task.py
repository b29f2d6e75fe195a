"""Internal. SpoutTask: polls one spout, tracks its pending roots, and calls its `ack` and `fail`."""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import Callable, Mapping
from functools import partial
from threading import get_ident
from typing import Any

from pystorm_spark.core import compiled, laid_out
from pystorm_spark.errors import shown
from pystorm_spark.metrics.stats import TaskStats
from pystorm_spark.runtime.acker import AckLedger, Outcome
from pystorm_spark.runtime.durable.positions import SpoutPosition
from pystorm_spark.runtime.durable.uncommitted import (
    IN_FLIGHT,
    MOST_UNCOMMITTED,
    Outcomes,
    UncommittedOutcomes,
    reason_of,
)
from pystorm_spark.runtime.pending_limit import PendingLimit
from pystorm_spark.runtime.plan import GUARANTEE_KEY, NO_GUARANTEE
from pystorm_spark.runtime.rotating import RotatingMap
from pystorm_spark.runtime.router import Ports, Route
from pystorm_spark.runtime.slot_context import SlotContext
from pystorm_spark.runtime.spout_collector import SpoutCollector
from pystorm_spark.runtime.task import Task, defined
from pystorm_spark.runtime.trees import UNTRACKED, Root, new_root, release
from pystorm_spark.topology.component import Spout
from pystorm_spark.topology.durable import BatchSpout, DurableSpout
from pystorm_spark.topology.hooks import SpoutAckInfo, SpoutFailInfo

log = logging.getLogger(__name__)

EMPTY_CALLS = 3  # so many calls in a row without an emit end a poll
FIRST_PAUSE_SECS = 0.1  # after an exception in next_tuple; doubles up to LONGEST_PAUSE_SECS
LONGEST_PAUSE_SECS = 5.0
BURST_SECS = 0.001  # aimed at between two readings of the clock
MAX_BURST = 256  # calls of next_tuple between two readings of the clock


@laid_out
class SpoutTask(Task):
    """One instance of a spout, with its pending roots and the ledger of those whose trees have left the slot."""

    __slots__ = ("acked",)

    is_spout = True

    def __init__(
        self,
        task_id: int,
        component_id: str,
        conf: Mapping[str, Any],
        slot_context: SlotContext,
        spout: Spout,
        rng: random.Random,
        uncommitted: UncommittedOutcomes | None = None,
    ) -> None:
        super().__init__(task_id, component_id, conf, slot_context)
        self.spout = spout
        self.uncommitted = uncommitted  # outcomes that wait for a commit; None: no commits
        self.pending: RotatingMap[Root, None] = RotatingMap(2)
        self.collector: SpoutCollector = SpoutCollector(self)
        limit: int = conf["topology.max.spout.pending"] or (sys.maxsize if uncommitted is None else MOST_UNCOMMITTED)
        is_played_again = isinstance(spout, BatchSpout) or (uncommitted is not None and uncommitted.is_exactly_once)
        self._pending_limit = PendingLimit(limit, conf["topology.message.timeout.secs"], adapts=is_played_again)
        self.position = SpoutPosition(self, spout) if isinstance(spout, DurableSpout) else None
        self.takes_part: bool = conf[GUARANTEE_KEY] != NO_GUARANTEE  # in commits, where there are any
        self._draw = rng.getrandbits
        self._ledger = AckLedger()
        self._left: dict[int, Root] = {}  # {root id: root whose tree has left the slot}
        self.acked: list[Root] = []  # complete; `ack` not yet called
        self._failed: list[Root] = []  # failed or timed out; `fail` not yet called
        self._paused_until = 0.0
        self._pause_secs = 0.0
        self._active = False
        self._burst = 1
        self._idle_emits = 0  # at the last look whether it had nothing to do
        self._next_tuples, self._call_ack = self._call_next_tuple, self._call_each_ack
        if isinstance(spout, BatchSpout):
            self._next_tuples, self._call_ack = spout.next_tuples, self._call_acked
        self._hears_ack = _overrides(spout, "ack")
        self._failed_with_reason = defined(spout, "failed", 2)
        self._wants_outcomes = self._hears_ack or _overrides(spout, "fail") or self._failed_with_reason is not None

    def open(self) -> None:
        self.collector.now = self.clock.monotonic()
        self._starting = "open"
        self.start(self._open)

    def _open(self) -> None:
        self.spout.open(self.conf, self.context, self.collector)
        if self.position is not None:
            self._starting = "init_position"
            self.position.open()

    def starting(self) -> str:
        return self._starting

    def component(self) -> Any:
        return self.spout

    def close(self) -> None:
        self.end(self.spout.close, "close")

    def watch(self) -> None:
        self.collector.watch()

    def set_active(self, active: bool) -> None:
        if active != self._active and not (active and self._waits()):
            self._active = active
            self.guard(self.spout.activate if active else self.spout.deactivate, "activate" if active else "deactivate")

    # Calls that may emit.

    def _waits(self) -> bool:
        """Whether nothing is called that may emit: the position would be ahead of what the commit holds."""
        return self.position is not None and self.slot_context.quiescing

    def make_call(self, call: Callable[[], object], what: str) -> None:
        if self._waits():
            self.slot_context.post_beginning(partial(self.make_call, call, what))
        else:
            super().make_call(call, what)

    def poll(self, most: int, until: float) -> int:
        """Call `next_tuple` up to `most` times, not after `until`; return the number of emitted tuples."""
        collector = self.collector
        collector.now = self.clock.monotonic()
        if not self._active or collector.now < self._paused_until:
            return 0
        self.slot_context.running = self
        before = collector.emits
        newest = self.pending.newest
        limit = self._pending_limit.size - (len(self.pending) - len(newest))  # for the newest bucket alone
        if self.uncommitted is not None:
            limit -= len(self.uncommitted)
        empty = 0
        while most > 0 and empty < EMPTY_CALLS and len(newest) < limit and collector.now < until:
            burst = min(most, self._burst, limit - len(newest))
            try:
                empty = 0 if self._next_tuples(burst) else empty + 1
            except BaseException as exc:
                self._pause(exc)
                break
            self._pause_secs = 0.0
            most -= burst
            now = self.clock.monotonic()
            slow = now - collector.now > BURST_SECS
            self._burst = max(1, self._burst // 2) if slow else min(MAX_BURST, 2 * self._burst)
            collector.now = now
        return collector.emits - before

    def _call_next_tuple(self, most: int) -> bool:
        """Call `next_tuple` up to `most` times; return whether the last call emitted anything."""
        next_tuple, collector = self.spout.next_tuple, self.collector
        emits = collector.emits
        for _ in range(most):
            next_tuple()
            emits += 1
            if collector.emits != emits:  # no emit, or several: check the limit again
                break
        return collector.emits >= emits

    def has_nothing_to_do(self) -> bool:
        before, self._idle_emits = self._idle_emits, self.collector.emits
        return self._active and before == self._idle_emits and not self._waits()

    def wants_commit(self) -> bool:
        """Whether outcomes that wait for a commit take half of the pending limit or more."""
        return self.uncommitted is not None and 2 * len(self.uncommitted) >= self._pending_limit.size

    def next_poll(self) -> float:
        """When a spout that an exception paused may be called again; otherwise 0."""
        return self._paused_until

    def _pause(self, exc: BaseException) -> None:
        self._pause_secs = min(LONGEST_PAUSE_SECS, 2 * self._pause_secs or FIRST_PAUSE_SECS)
        self._paused_until = self.clock.monotonic() + self._pause_secs
        self.report(exc, what=f"next_tuple, called again in {self._pause_secs:g} s")

    def launch(self, route: Route, ports: Ports, values: list[Any], message_id: Any, row: bytes | None = None) -> None:
        """Emit a new tuple, tracked if it has a message id. `row` is its packed form, if known."""
        row = row or self.row_for(route, ports, values)
        route.emitted += 1
        route.extra += len(ports) - 1
        if message_id is None:
            self._tell_untracked()
            self.deliver(route, ports, values, UNTRACKED, row)
        elif not self.collector.tracking:
            self.deliver(route, ports, values, UNTRACKED, row)
            self.stats.acked += 1
            self.guard(self.spout.ack, "ack", message_id)
            if self.task_hooks:
                self._tell_hooks(Outcomes([message_id], [self.collector.now]), self.collector.now, True)
        else:
            root = new_root(self, message_id, self.collector.now, self.pending.newest)
            if self.uncommitted is not None and self.uncommitted.settles(root, values):
                return
            self.pending.newest[root] = None  # before any thread can see a tuple of it
            try:
                self.deliver(route, ports, values, root, row)
            except BaseException:
                self._withdraw(root)
                raise
            finally:
                release([root])

    def _tell_untracked(self) -> None:
        if self._wants_outcomes:
            self._wants_outcomes = False
            log.warning(
                "%s:%d emits without a message id, so its ack and fail are never called; give emit a message_id",
                self.component_id,
                self.task_id,
            )

    # Trees that leave the slot.

    @compiled
    def track(self, root: Root) -> None:
        """Give `root` its id, and an entry in the ledger while it is pending: a tuple of its tree leaves the slot.

        Any threads may call it at the same time, since user code may ask for the id of a tuple's root.
        """
        root_id = self._draw(64)
        here = self.slot_context.outbox.edge_id()  # the edge that stands for the tuples still in this slot
        while not root_id or root_id in self._left:
            root_id = (root_id + 1) % (1 << 64)  # no second draw: a broken random source would loop for ever
        if root.root_id:  # another thread was first; no call until the last change
            return
        root.root_id = root_id
        root.edge = here
        if root.bucket is None:
            return
        self._left[root_id] = root
        if get_ident() == self.slot_context.thread:
            self._ledger.init(root_id, here, self.task_id)
        else:
            self.slot_context.post(lambda: self._begin(root_id, here))

    def _begin(self, root_id: int, here: int) -> None:
        """Enter a root into the ledger to which another thread gave its id; acks may have come first."""
        outcome = self._ledger.init(root_id, here, self.task_id) if root_id in self._left else None
        if outcome is not None:
            self._end(outcome)

    @compiled
    def subtree_acked(self, root_id: int, edges: int) -> None:
        """A subtree has drained, in this slot or another one."""
        if root_id in self._left:
            outcome = self._ledger.ack(root_id, edges)
            if outcome is not None:
                self._end(outcome)

    def subtree_failed(self, root_id: int, why: str = "") -> None:
        if root_id in self._left:
            outcome = self._ledger.fail(root_id)
            if outcome is not None:
                self._end(outcome, why)

    def reset_root(self, root_id: int) -> None:
        root = self._left.get(root_id)
        if root is not None:
            self.renew(root)

    def _end(self, outcome: Outcome, why: str = "") -> None:
        self.settle(self._left[outcome.root], outcome.acked, why)

    # Outcomes.

    def settle(self, root: Root, acked: bool, why: str = "") -> None:
        """Mark `root` as acked or failed; only the first call counts. `tell_outcomes` calls the spout later."""
        if root.bucket is not None:
            self._withdraw(root)
            root.why = why
            (self.acked if acked else self._failed).append(root)

    def _withdraw(self, root: Root) -> None:
        """Remove `root` from the pending ones."""
        assert root.bucket is not None
        del root.bucket[root]
        self._close(root)

    def _close(self, root: Root) -> None:
        root.bucket = None
        if root.root_id:
            del self._left[root.root_id]
            self._ledger.forget(root.root_id)

    def renew(self, root: Root) -> None:
        """Give `root` a whole message timeout from now on."""
        if root.bucket is None:
            return
        if root.bucket is not self.pending.newest:
            del root.bucket[root]
            self.pending.newest[root] = None
            root.bucket = self.pending.newest
        if root.root_id:
            self._ledger.reset_timeout(root.root_id)

    def rotate(self) -> None:
        """A message timeout has passed: fail the roots that were pending before the last rotation."""
        expired, now = self.pending.rotate(), self.clock.monotonic()
        if expired and self._pending_limit.adapts:
            pending = len(expired) + len(self.pending) + len(self.uncommitted or ())
            self._pending_limit.narrow(pending, f"{self.component_id}:{self.task_id}")
        for root in expired:
            self._close(root)
            root.why = self._pending_limit.why_timed_out(root.emitted_at, now)
            self._failed.append(root)
        self.collector.bucket = self.pending.newest
        self._ledger.rotate()

    def forget_pending(self) -> None:
        """Drop all pending roots; the spout gets neither `ack` nor `fail` for them."""
        self.acked, self._failed = [], []
        for root in list(self.pending):
            self.settle(root, acked=True)
        self.acked = []
        if self.uncommitted is not None:
            self.uncommitted.rollback()

    def fail_pending(self) -> None:
        """Fail every pending root and every uncommitted outcome now: tuples in flight are lost."""
        self.tell_outcomes()
        if self.position is not None:
            self.forget_pending()
            self.position.rollback()
            return
        for root in list(self.pending):
            self.settle(root, acked=False, why=IN_FLIGHT)
        if self.uncommitted is not None:  # these were rolled back, which does not count as their failure
            failed = self.uncommitted.rollback()
            failed.add(Outcomes.failed(self._failed))
            self._failed = []
            self.tell_failed(failed)

    def tell_outcomes(self) -> bool:
        """Call `ack` and `fail` for the settled roots; return whether there were any."""
        if not self.acked and not self._failed:
            return False
        acked, self.acked = self.acked, []
        failed, self._failed = self._failed, []
        if acked and self._pending_limit.adapts:
            self._pending_limit.note_done(len(acked), acked[-1].emitted_at, self.clock.monotonic())
        if self.uncommitted is not None:
            failed, acked = self.uncommitted.keep(acked, failed), []
        if acked:
            self.tell_acked(Outcomes.of(acked))
        if failed:
            self.tell_failed(Outcomes.failed(failed))
        return True

    def tell_acked(self, acked: Outcomes) -> None:
        """Call `ack` for these messages, and count them."""
        self.slot_context.running = self
        now = self.clock.monotonic()
        self.stats.acked += len(acked)
        self.stats.complete_secs += now * len(acked) - sum(acked.emitted_at)
        if self._hears_ack:
            self._call_ack(acked.message_ids)
        if self.task_hooks:
            self._tell_hooks(acked, now, True)

    def tell_failed(self, failed: Outcomes) -> None:
        """Call `fail` for these messages, and count them."""
        self.slot_context.running = self
        self.stats.failed += len(failed)
        for message_id, self.collector.why in zip(failed.message_ids, failed.whys, strict=True):
            try:
                if self._failed_with_reason is None:
                    self.spout.fail(message_id)
                else:
                    self._failed_with_reason(message_id, reason_of(self.collector.why))
            except BaseException as exc:
                self.report(exc, what=f"fail of message id {shown(message_id)}")
        if self.task_hooks:
            self._tell_hooks(failed, self.clock.monotonic(), False)

    def _call_acked(self, message_ids: list[Any]) -> None:
        assert isinstance(self.spout, BatchSpout)
        self.guard(self.spout.acked, "acked", message_ids)

    def _call_each_ack(self, message_ids: list[Any]) -> None:
        ack, left = self.spout.ack, iter(message_ids)
        while True:
            try:
                for message_id in left:
                    ack(message_id)
                return
            except BaseException as exc:
                self.report(exc, what=f"ack of message id {shown(message_id)}")

    def _tell_hooks(self, outcomes: Outcomes, now: float, acked: bool) -> None:
        for message_id, emitted_at in zip(outcomes.message_ids, outcomes.emitted_at, strict=True):
            latency_ms = 1000 * (now - emitted_at)
            for hook in self.task_hooks:
                if acked:
                    info = SpoutAckInfo(self.task_id, message_id, latency_ms)
                    self.guard(hook.spout_ack, "spout_ack of a hook", info)
                else:
                    failure = SpoutFailInfo(self.task_id, message_id, latency_ms)
                    self.guard(hook.spout_fail, "spout_fail of a hook", failure)

    def counted(self) -> TaskStats:
        stats = super().counted()
        stats.pending = len(self.pending) + len(self.acked) + len(self._failed) + len(self.uncommitted or ())
        return stats


def _overrides(spout: Spout, method: str) -> bool:
    return getattr(getattr(spout, method), "__func__", None) is not getattr(Spout, method)
