"""Internal. SpoutTask: polls one spout, holds its pending roots, and hands back ack and fail: the circle's two ends."""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import Callable, Mapping
from threading import get_ident
from typing import Any

from pystorm_spark.metrics.stats import TaskStats
from pystorm_spark.runtime.acker import AckLedger, Outcome
from pystorm_spark.runtime.rotating import RotatingMap
from pystorm_spark.runtime.router import Ports, Route
from pystorm_spark.runtime.task import Task, Workshop
from pystorm_spark.runtime.trees import UNTRACKED, Root, new_root
from pystorm_spark.topology.collector import MISSING, SpoutOutputCollector, spout_emit
from pystorm_spark.topology.component import Spout
from pystorm_spark.topology.fields import DEFAULT_STREAM
from pystorm_spark.topology.hooks import SpoutAckInfo, SpoutFailInfo
from pystorm_spark.topology.tuple import Tuple

log = logging.getLogger(__name__)

EMPTY_CALLS = 3  # in a row end a poll
FIRST_PAUSE_SECS = 0.1  # after an exception in next_tuple; doubles up to the longest
LONGEST_PAUSE_SECS = 5.0
BURST_SECS = 0.001  # between two looks at the clock, as far as the last ones tell
MAX_BURST = 64  # calls of next_tuple between two looks at the clock


class SpoutCollector(SpoutOutputCollector):
    """The collector of one spout task."""

    def __init__(self, task: SpoutTask) -> None:
        self._task = task
        self._shop = task.shop
        self._routes = task.user_routes
        self.default: Route | None = None  # the route of the default stream
        self._watched = task.debug
        self._thread = 0  # that may take the short way through `emit`: the slot's own, none (0) while hooks watch
        self.emits = 0
        self.now = 0.0  # of the current turn or poll: one look at the clock for many emits
        self.bucket = task.pending.newest  # where new roots are pending
        self.tracking: bool = task.conf["topology.acker.executors"] != 0

    def emit(
        self,
        values: Any,
        *more: Any,
        message_id: Any = None,
        stream: str = DEFAULT_STREAM,
    ) -> list[int]:
        if more:
            stream, values, message_id = spout_emit("emit", (values, *more), message_id=message_id, stream=stream)
        if get_ident() != self._thread:
            return self._emit_unusual(stream, values, message_id)
        route = self.default if stream is DEFAULT_STREAM else self._routes.get(stream)
        if route is None or type(values) is not list or len(values) != route.arity:
            route, values = self._task.checked(stream, values)
        self.emits += 1
        pick = route.pick
        if pick is None:
            ports = route.choose(values)
        else:
            try:
                port = pick(values) if route.keys is None else route.ports[route.keys[values[route.key_at]]]
            except (KeyError, TypeError):
                port = pick(values)
            if port.append is not None and message_id is not None and self.tracking:
                root = Root()  # `new_root` and `new_tuple`, without the calls
                root.open = 1
                root.root_id = 0
                root.task = self._task
                root.message_id = message_id
                root.emitted_at = self.now
                root.bucket = bucket = self.bucket
                tup = Tuple()
                tup.values = values
                tup._origin = route.origin
                tup._tree = root
                port.append(tup)
                bucket[root] = None
                route.emitted += 1
                return [port.task_id]
            ports = (port,)
        self._task.launch(route, ports, values, message_id)
        return [port.task_id for port in ports]

    def emit_direct(self, task_id: int, *args: Any, **kwargs: Any) -> None:
        stream, values, message_id = spout_emit("emit_direct", args, **kwargs)
        self._emit_unusual(stream, values, message_id, task_id)

    def report_error(self, error: BaseException) -> None:
        if get_ident() != self._shop.thread:
            self._shop.post(lambda: self._task.report_from_user(error))
        else:
            self._task.report_from_user(error)

    def pending_count(self) -> int:
        return len(self._task.pending)

    def flush(self) -> None:
        pass

    def watch(self) -> None:
        self._watched = True
        self._thread = 0

    def _emit_unusual(self, stream: str, values: Any, message_id: Any, task_id: Any = MISSING) -> list[int]:
        """Emit with hooks, from another thread, or to one task."""
        route, values = self._task.checked(stream, values)
        with self._shop.lock:
            ports = route.choose(values) if task_id is MISSING else [route.port_for_direct(task_id)]
        out_tasks = [port.task_id for port in ports]
        row = self._task.row_for(route, ports, values)  # here, because it may raise

        def launch() -> None:
            self.emits += 1
            self._task.launch(route, ports, values, message_id, row)
            if self._watched:
                self._task.tell_emit(route, values, out_tasks)

        if get_ident() == self._shop.thread:
            self._thread = 0 if self._watched else self._shop.thread
            launch()
        else:
            self._shop.post(lambda: self._task.guard(launch, "emit of another thread"))
        return out_tasks


class SpoutTask(Task):
    """One instance of a spout, with its pending roots and the ledger of those whose trees have left the slot."""

    def __init__(
        self, task_id: int, component_id: str, conf: Mapping[str, Any], shop: Workshop, spout: Spout, rng: random.Random
    ) -> None:
        super().__init__(task_id, component_id, conf, shop)
        self.spout = spout
        self.pending: RotatingMap[Root, None] = RotatingMap(2)
        self.collector: SpoutCollector = SpoutCollector(self)
        self._limit: int | None = conf["topology.max.spout.pending"]
        self._draw = rng.getrandbits
        self._ledger = AckLedger()
        self._left: dict[int, Root] = {}  # {root id: root whose tree has left the slot}
        self.acked: list[Root] = []  # complete, the spout not yet told
        self._failed: list[Root] = []  # failed or timed out, the spout not yet told
        self._paused_until = 0.0
        self._pause_secs = 0.0
        self._active = False
        self._burst = 1
        self._hears_ack = _overrides(spout, "ack")
        self._wants_outcomes = self._hears_ack or _overrides(spout, "fail")

    def open(self) -> None:
        self.collector.now = self.clock.monotonic()
        self.start(lambda: self.spout.open(self.conf, self.context, self.collector))

    def close(self) -> None:
        self.end(self.spout.close, "close")

    def watch(self) -> None:
        self.collector.watch()

    def set_active(self, active: bool) -> None:
        if active != self._active:
            self._active = active
            self.guard(self.spout.activate if active else self.spout.deactivate, "activate" if active else "deactivate")

    # Emitting.

    def poll(self, most: int, until: float) -> bool:
        """Call `next_tuple` up to `most` times until `until`; whether anything was emitted."""
        collector = self.collector
        collector.now = self.clock.monotonic()
        if not self._active or collector.now < self._paused_until:
            return False
        self.shop.running = self
        before = emits = collector.emits
        next_tuple, newest = self.spout.next_tuple, self.pending.newest
        room = sys.maxsize if self._limit is None else self._limit - (len(self.pending) - len(newest))
        empty = 0
        while most > 0 and empty < EMPTY_CALLS and len(newest) < room and collector.now < until:
            burst = min(most, self._burst)
            try:
                for _ in range(burst):
                    next_tuple()
                    if collector.emits == emits:
                        empty += 1
                        break
                    emits = collector.emits
                    empty = 0
                    if len(newest) >= room:
                        break
            except BaseException as exc:
                self._pause(exc)
                break
            self._pause_secs = 0.0
            most -= burst
            now = self.clock.monotonic()
            slow = now - collector.now > BURST_SECS
            self._burst = max(1, self._burst // 2) if slow else min(MAX_BURST, 2 * self._burst)
            collector.now = now
        return collector.emits != before

    def next_poll(self) -> float:
        """When the spout may be called again, if an exception has paused it; else 0."""
        return self._paused_until

    def _pause(self, exc: BaseException) -> None:
        self._pause_secs = min(LONGEST_PAUSE_SECS, 2 * self._pause_secs or FIRST_PAUSE_SECS)
        self._paused_until = self.clock.monotonic() + self._pause_secs
        self.report(exc, what=f"next_tuple, called again in {self._pause_secs:g} s")

    def launch(self, route: Route, ports: Ports, values: list[Any], message_id: Any, row: bytes | None = None) -> None:
        """Send a new tuple on its way, tracked if it has an id; `row` if it is packed already."""
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
                self._tell_hooks(new_root(self, message_id, self.collector.now, self.pending.newest), True, 0.0)
        else:
            root = new_root(self, message_id, self.collector.now, self.pending.newest)
            self.deliver(route, ports, values, root, row)
            self.pending.newest[root] = None
            if not root.open:
                root.drained()  # nobody in this slot got it

    def _tell_untracked(self) -> None:
        if self._wants_outcomes:
            self._wants_outcomes = False
            log.warning(
                "%s:%d emits without a message id, so its ack and fail are never called; give emit a message_id",
                self.component_id,
                self.task_id,
            )

    # Trees that leave the slot.

    def track(self, root: Root) -> None:
        """Give `root` its id and, while it is pending, a place in the ledger: a tuple of its tree leaves the slot."""
        root_id = self._draw(64)
        while not root_id or root_id in self._left:
            root_id = (root_id + 1) % (1 << 64)  # not drawn again: that would not end with a stuck source of chance
        root.root_id = root_id
        root.edge = here = self.shop.outbox.edge_id()  # stands for all that is still in this slot
        if root.bucket is not None:
            self._left[root_id] = root
            self._ledger.init(root_id, here, self.task_id)

    def part_acked(self, root_id: int, edges: int) -> None:
        """A part of a tree has drained, here or elsewhere."""
        if root_id in self._left:
            self._end(self._ledger.ack(root_id, edges))

    def part_failed(self, root_id: int) -> None:
        if root_id in self._left:
            self._end(self._ledger.fail(root_id))

    def reset_root(self, root_id: int) -> None:
        root = self._left.get(root_id)
        if root is not None:
            self.renew(root)

    def _end(self, outcome: Outcome | None) -> None:
        if outcome is not None:
            self.settle(self._left[outcome.root], outcome.acked)

    # Outcomes.

    def settle(self, root: Root, acked: bool) -> None:
        """`root` is acked or failed; the first word counts. The spout is told in its own time."""
        if root.bucket is not None:
            del root.bucket[root]
            self._close(root)
            (self.acked if acked else self._failed).append(root)

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
        """A message timeout has passed: what was pending before the last one fails."""
        for root in self.pending.rotate():
            self._close(root)
            self._failed.append(root)
        self.collector.bucket = self.pending.newest
        self._ledger.rotate()

    def fail_pending(self) -> None:
        """Fail every pending root now: what was in flight is lost."""
        for root in list(self.pending):
            self.settle(root, acked=False)

    def tell_outcomes(self) -> bool:
        """Call `ack` and `fail` for what has been settled; whether there was anything."""
        if not self.acked and not self._failed:
            return False
        acked, self.acked = self.acked, []
        failed, self._failed = self._failed, []
        now = self.clock.monotonic()
        self.stats.acked += len(acked)
        self.stats.failed += len(failed)
        self.stats.complete_secs += now * len(acked) - sum([root.emitted_at for root in acked])
        if self._hears_ack:
            self._tell(acked, self.spout.ack, "ack")
        self._tell(failed, self.spout.fail, "fail")
        if self.task_hooks:
            for root in acked:
                self._tell_hooks(root, True, 1000 * (now - root.emitted_at))
            for root in failed:
                self._tell_hooks(root, False, 1000 * (now - root.emitted_at))
        return True

    def _tell(self, roots: list[Root], callback: Callable[[Any], None], name: str) -> None:
        left = iter(roots)
        while True:
            try:
                for root in left:
                    callback(root.message_id)
                return
            except BaseException as exc:
                self.report(exc, what=f"{name} of message id {root.message_id!r}")

    def _tell_hooks(self, root: Root, acked: bool, latency_ms: float) -> None:
        for hook in self.task_hooks:
            if acked:
                info = SpoutAckInfo(self.task_id, root.message_id, latency_ms)
                self.guard(hook.spout_ack, "spout_ack of a hook", info)
            else:
                self.guard(
                    hook.spout_fail, "spout_fail of a hook", SpoutFailInfo(self.task_id, root.message_id, latency_ms)
                )

    def counted(self) -> TaskStats:
        stats = super().counted()
        stats.pending = len(self.pending) + len(self.acked) + len(self._failed)
        return stats


def _overrides(spout: Spout, method: str) -> bool:
    return getattr(getattr(spout, method), "__func__", None) is not getattr(Spout, method)
