"""Internal. SpoutTask: polls one spout, holds its pending roots, and hands back ack and fail: the circle's two ends."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Mapping
from threading import get_ident
from typing import Any

from pystorm_spark.metrics.stats import TaskStats
from pystorm_spark.runtime.acker import AckLedger, Outcome
from pystorm_spark.runtime.rotating import RotatingMap
from pystorm_spark.runtime.router import Ports, Route
from pystorm_spark.runtime.task import Task, Workshop
from pystorm_spark.runtime.trees import UNTRACKED, Root
from pystorm_spark.topology.collector import MISSING, SpoutOutputCollector, spout_emit
from pystorm_spark.topology.component import Spout
from pystorm_spark.topology.fields import DEFAULT_STREAM
from pystorm_spark.topology.hooks import SpoutAckInfo, SpoutFailInfo
from pystorm_spark.topology.tuple import Tuple

log = logging.getLogger(__name__)

EMPTY_CALLS = 3  # in a row end a poll
FIRST_PAUSE_SECS = 0.1  # after an exception in next_tuple; doubles up to the longest
LONGEST_PAUSE_SECS = 5.0
CLOCK_EVERY = 64  # calls of a quick next_tuple between two looks at the clock


class SpoutCollector(SpoutOutputCollector):
    """The collector of one spout task."""

    def __init__(self, task: SpoutTask) -> None:
        self._task = task
        self._shop = task.shop
        self._routes = task.user_routes
        self._unusual = task.debug
        self.emits = 0
        self.now = 0.0  # of the current poll: one look at the clock for many emits
        self.bucket = task.pending.newest  # where new roots are pending
        self.tracking: bool = task.conf["topology.acker.executors"] != 0

    def emit(
        self,
        values: Any = MISSING,
        second: Any = MISSING,
        third: Any = MISSING,
        *,
        message_id: Any = None,
        stream: str = DEFAULT_STREAM,
    ) -> list[int]:
        if second is not MISSING or values is MISSING:
            given = tuple(arg for arg in (values, second, third) if arg is not MISSING)
            stream, values, message_id = spout_emit("emit", given, message_id=message_id, stream=stream)
        if self._unusual or get_ident() != self._shop.thread:
            return self._emit_unusual(stream, values, message_id)
        route = self._routes.get(stream)
        if route is None or type(values) is not list or len(values) != route.arity:
            route, values = self._task.checked(stream, values)
        ports = route.choose(values)
        self.emits += 1
        if len(ports) == 1 and route.local and message_id is not None and self.tracking:
            port = ports[0]
            root = Root(1, self._task, message_id, self.now, self.bucket)
            port.append(Tuple(values, route.origin, root))  # type: ignore[misc]
            self.bucket[root] = None
            route.emitted += 1
            return [port.task_id]
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

    getPendingCount = pending_count  # noqa: N815 - the base class's alias would not see this override

    def flush(self) -> None:
        pass

    def watch(self) -> None:
        self._unusual = True

    def _emit_unusual(self, stream: str, values: Any, message_id: Any, task_id: int | None = None) -> list[int]:
        """Emit with hooks, from another thread, or to one task."""
        route, values = self._task.checked(stream, values)
        with self._shop.lock:
            ports = route.choose(values) if task_id is None else [route.port_for_direct(task_id)]
        out_tasks = [port.task_id for port in ports]

        def launch() -> None:
            self.emits += 1
            self._task.launch(route, ports, values, message_id)
            if self._unusual:
                self._task.tell_emit(route, values, out_tasks)

        if get_ident() == self._shop.thread:
            launch()
        else:
            self._shop.post(launch)
        return out_tasks


class SpoutTask(Task):
    """One instance of a spout, with its pending roots and the ledger of those whose trees have left the slot."""

    def __init__(
        self, task_id: int, component_id: str, conf: Mapping[str, Any], shop: Workshop, spout: Spout, rng: random.Random
    ) -> None:
        super().__init__(task_id, component_id, conf, shop)
        self.spout = spout
        self.pending: RotatingMap[Root, None] = RotatingMap(2)
        self.collector = SpoutCollector(self)
        self._limit: int | None = conf["topology.max.spout.pending"]
        self._draw = rng.getrandbits
        self._ledger = AckLedger()
        self._left: dict[int, Root] = {}  # {root id: root whose tree has left the slot}
        self.acked: list[Root] = []  # complete, the spout not yet told
        self._failed: list[Root] = []  # failed or timed out, the spout not yet told
        self._paused_until = 0.0
        self._pause_secs = 0.0
        self._active = False
        self._clock_every = 1
        self._wants_outcomes = _overrides(spout, "ack") or _overrides(spout, "fail")

    def open(self) -> None:
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
        emits_before, empty, calls = collector.emits, 0, 0
        next_tuple, newest = self.spout.next_tuple, self.pending.newest
        room = math.inf if self._limit is None else self._limit - (len(self.pending) - len(newest))
        look = self._clock_every
        while calls < most and empty < EMPTY_CALLS and len(newest) < room:
            emits = collector.emits
            try:
                next_tuple()
            except BaseException as exc:
                self._pause(exc)
                return collector.emits != emits_before
            calls += 1
            empty = empty + 1 if collector.emits == emits else 0
            if calls == look:
                collector.now = self.clock.monotonic()
                if collector.now >= until:
                    self._clock_every = max(1, self._clock_every // 2)
                    break
                self._clock_every = min(CLOCK_EVERY, 2 * self._clock_every)
                look += self._clock_every
        self._pause_secs = 0.0
        return collector.emits != emits_before

    def next_poll(self) -> float:
        """When the spout may be called again, if an exception has paused it; else 0."""
        return self._paused_until

    def _pause(self, exc: BaseException) -> None:
        self._pause_secs = min(LONGEST_PAUSE_SECS, 2 * self._pause_secs or FIRST_PAUSE_SECS)
        self._paused_until = self.clock.monotonic() + self._pause_secs
        self.report(exc, what=f"next_tuple, called again in {self._pause_secs:g} s")

    def launch(self, route: Route, ports: Ports, values: list[Any], message_id: Any) -> None:
        """Send a new tuple on its way, tracked if it has an id."""
        route.emitted += 1
        route.extra += len(ports) - 1
        if message_id is None:
            self._tell_untracked()
            self.deliver(route, ports, values, UNTRACKED)
        elif not self.collector.tracking:
            self.deliver(route, ports, values, UNTRACKED)
            self.stats.acked += 1
            self.guard(self.spout.ack, "ack", message_id)
        else:
            root = Root(0, self, message_id, self.collector.now, self.pending.newest)
            self.deliver(route, ports, values, root)
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
        """Give `root` its id and a place in the ledger, before a tuple of its tree leaves the slot."""
        root_id = self._draw(64)
        while not root_id or root_id in self._left:
            root_id = self._draw(64) ^ len(self._left) ^ 1  # a collision is redrawn, even with a stuck source of chance
        root.root_id = root_id
        root.edge = here = self.shop.outbox.edge_id()  # stands for all that is still in this slot
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
        if root.bucket is not None and root.bucket is not self.pending.newest:
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
    return getattr(type(spout), method) is not getattr(Spout, method)
