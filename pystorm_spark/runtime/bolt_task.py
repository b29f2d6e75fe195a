"""Internal. BoltTask: runs the tuples in its queue through one bolt; `BoltCollector` is the bolt's way out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import get_ident
from typing import Any

from pystorm_spark.errors import EmitError, SlotLostError
from pystorm_spark.metrics.stats import TaskStats
from pystorm_spark.runtime.router import Ports, Route
from pystorm_spark.runtime.task import Task, Workshop
from pystorm_spark.runtime.trees import UNTRACKED, Tick, join
from pystorm_spark.topology.collector import MISSING, Anchors, OutputCollector, anchor_tuples, bolt_emit
from pystorm_spark.topology.component import Bolt
from pystorm_spark.topology.fields import DEFAULT_STREAM
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
BATCH_SECS = 0.002  # how long one run may take, as far as the last one tells
MAX_BATCH = 1024
HELD_MEASURED = 4096  # tuples held beyond their execute whose process latency is measured


class SlotCrash(Exception):  # noqa: N818 - the way a slot ends, not an error of ours
    """User code asked for Storm's fail-fast (`topology.bolt.on.error: restart`): the slot ends and starts anew."""

    def __init__(self, component_id: str, task_id: int, tup: Tuple, cause: BaseException) -> None:
        super().__init__(f"{component_id}:{task_id} raised {type(cause).__name__}: {cause} on {tup!r}")
        self.tup = tup
        self.cause = cause

    def as_error(self) -> SlotLostError:
        """What ends the topology when the slot has died too often."""
        return SlotLostError(f"the slot died too often, last because {self}")


class BoltCollector(OutputCollector):
    """The collector of one bolt task. `emit` and `ack` are the hot path: nothing is done per tuple that can wait."""

    def __init__(self, task: BoltTask) -> None:
        self.acked = 0
        self.failed = 0
        self.held: dict[Tuple, float] = {}  # {tuple neither acked nor failed by its execute: when that began}
        self.watched = task.debug
        self._task = task
        self._shop = task.shop
        self._routes = task.user_routes
        self.default: Route | None = None  # the route of the default stream
        # The thread that may take the short way through `emit` and `ack`: the slot's own; none (0) while hooks or
        # debugging watch, or while calls posted by other threads must be made before the next ack.
        self._thread = 0

    def emit(
        self,
        values: Any,
        *more: Any,
        anchors: Anchors = None,
        stream: str = DEFAULT_STREAM,
    ) -> list[int]:
        if more:
            if type(values) is Tuple and len(more) == 1 and anchors is None:
                anchors, (values,) = values, more
            else:
                stream, anchors, values = bolt_emit("emit", (values, *more), anchors=anchors, stream=stream)
        if get_ident() != self._thread:
            return self._emit_unusual(stream, anchors, values)
        route = self.default if stream is DEFAULT_STREAM else self._routes.get(stream)
        if route is None or type(values) is not list or len(values) != route.arity:
            route, values = self._task.checked(stream, values)
        if type(anchors) is Tuple:
            tree = anchors._tree
            if tree is SETTLED:
                raise self._settled_anchor(anchors)
        elif anchors is None:
            tree = UNTRACKED
        else:
            return self._emit_unusual(stream, anchors, values)
        ports: Ports
        pick = route.pick
        if pick is None:
            ports = route.choose(values)
        else:
            try:
                port = pick(values) if route.keys is None else route.ports[route.keys[values[route.key_at]]]
            except (KeyError, TypeError):
                port = pick(values)
            if port.append is not None:
                tup = Tuple()  # `new_tuple`, without the call
                tup.values = values
                tup._origin = route.origin
                tup._tree = tree
                port.append(tup)
                tree.open += 1
                route.emitted += 1
                return [port.task_id]
            ports = (port,)
        self._task.deliver(route, ports, values, tree)
        route.emitted += 1
        route.extra += len(ports) - 1
        return [port.task_id for port in ports]

    def emit_direct(self, task_id: int, *args: Any, **kwargs: Any) -> None:
        stream, anchors, values = bolt_emit("emit_direct", args, **kwargs)
        self._emit_unusual(stream, anchors, values, task_id)

    def ack(self, tup: Tuple) -> None:
        if get_ident() != self._thread:
            self._settle_unusual(tup, "ack")
            return
        try:
            tree = tup._tree
        except AttributeError:
            raise _not_a_tuple("ack", tup) from None
        if tree is SETTLED:
            self._settled_already("ack", tup)
            return
        tup._tree = SETTLED
        if self.held:
            self._released(tup)
        self.acked += 1
        tree.open -= 1
        if not tree.open:
            tree.drained()

    def fail(self, tup: Tuple) -> None:
        if get_ident() != self._thread:
            self._settle_unusual(tup, "fail")
            return
        tree = self._claim(tup, "fail")
        if tree is not None:
            self._close(tup, tree, "fail")

    def reset_timeout(self, tup: Tuple) -> None:
        if not isinstance(tup, Tuple):
            raise _not_a_tuple("reset_timeout", tup)
        if get_ident() != self._shop.thread:
            self._shop.post(lambda: tup._tree.reset_timeout())
        else:
            tup._tree.reset_timeout()

    def report_error(self, error: BaseException) -> None:
        if get_ident() != self._shop.thread:
            self._shop.post(lambda: self._task.report_from_user(error))
        else:
            self._task.report_from_user(error)

    def flush(self) -> None:
        pass

    def watch(self) -> None:
        self.watched = True
        self._thread = 0

    # What is not the hot path.

    def _emit_unusual(self, stream: str, anchors: Anchors, values: Any, task_id: Any = MISSING) -> list[int]:
        """Emit with hooks, from another thread, or to one task."""
        route, values = self._task.checked(stream, values)
        trees = self._trees(anchors)
        with self._shop.lock:
            ports = route.choose(values) if task_id is MISSING else [route.port_for_direct(task_id)]
        out_tasks = [port.task_id for port in ports]
        row = self._task.row_for(route, ports, values)  # here, because it may raise

        def deliver() -> None:
            tree = join(trees) if ports else UNTRACKED
            try:
                self._task.deliver(route, ports, values, tree, row)
            finally:
                if not tree.open:
                    tree.drained()  # a joint that has no tuple in this slot
            route.emitted += 1
            route.extra += len(ports) - 1
            if self.watched:
                self._task.tell_emit(route, values, out_tasks)

        self._make(deliver)
        return out_tasks

    def _settle_unusual(self, tup: Tuple, verb: str) -> None:
        """Ack or fail with hooks, or from another thread."""
        if get_ident() == self._shop.thread:
            self._attend()
        with self._shop.lock:
            tree = self._claim(tup, verb)
        if tree is not None:
            self._make(lambda: self._close(tup, tree, verb))

    def _make(self, call: Callable[[], None]) -> None:
        """Make `call` in the slot's own thread: now if this is it, else before the next ack of this bolt."""
        if get_ident() == self._shop.thread:
            self._attend()
            call()
        else:
            self._shop.post(lambda: self._task.guard(call, "emit, ack or fail of another thread"))
            self._thread = 0

    def _attend(self) -> None:
        # Set before the calls are made: one that is posted meanwhile clears it again.
        self._thread = 0 if self.watched else self._shop.thread
        self._shop.run_posted()

    def _claim(self, tup: Tuple, verb: str) -> Tree | None:
        """Settle `tup`: its tree, or None if it was settled before."""
        try:
            tree = tup._tree
        except AttributeError:
            raise _not_a_tuple(verb, tup) from None
        if tree is SETTLED:
            self._settled_already(verb, tup)
            return None
        tup._tree = SETTLED
        return tree

    def _close(self, tup: Tuple, tree: Tree, verb: str) -> None:
        if self.held:
            self._released(tup)
        if verb == "ack" or is_tick(tup):  # which takes itself out of the acked ones
            self.acked += 1
        else:
            self.failed += 1
        if verb == "fail":
            tree.fail()
        tree.open -= 1
        if not tree.open:
            tree.drained()
        if self.watched:
            self._task.tell_settled(tup, verb)

    def _released(self, tup: Tuple) -> None:
        began = self.held.pop(tup, None)
        if began is not None:
            self._task.stats.process_secs += self._task.clock.monotonic() - began
            self._task.stats.process_count += 1

    def _trees(self, anchors: Anchors) -> list[Tree]:
        trees = []
        for anchor in anchor_tuples(anchors):
            if anchor._tree is SETTLED:
                raise self._settled_anchor(anchor)
            trees.append(anchor._tree)
        return trees

    def _settled_anchor(self, anchor: Tuple) -> EmitError:
        return EmitError(
            f"bolt {self._task.component_id!r} emits anchored to {anchor!r}, which is already acked or failed; "
            "emit first, then ack"
        )

    def _settled_already(self, verb: str, tup: Tuple) -> None:
        log.warning(
            "%s:%d: %s of %r is ignored: it is already acked or failed; settle each tuple once",
            self._task.component_id,
            self._task.task_id,
            verb,
            tup,
        )


class UntrackedBoltCollector(BoltCollector):
    """The collector where there are no ackers: acks and fails do nothing, as in Storm."""

    def ack(self, tup: Tuple) -> None:
        pass

    def fail(self, tup: Tuple) -> None:
        pass

    def reset_timeout(self, tup: Tuple) -> None:
        pass


class BoltTask(Task):
    """One instance of a bolt with its queue."""

    def __init__(self, task_id: int, component_id: str, conf: Mapping[str, Any], shop: Workshop, bolt: Bolt) -> None:
        super().__init__(task_id, component_id, conf, shop)
        self.bolt = bolt
        self.inbox: list[Tuple] = []
        tracked = conf["topology.acker.executors"] != 0
        self.collector = BoltCollector(self) if tracked else UntrackedBoltCollector(self)
        self.backlog: list[Tuple] = []  # taken out of the inbox, not yet executed from `_at` on
        self._at = 0
        self._batch = 1
        self._ticks = 0  # in the queue
        self._restart: bool = conf["topology.bolt.on.error"] == "restart"

    def open(self) -> None:
        self.start(lambda: self.bolt.prepare(self.conf, self.context, self.collector))
        self._execute = self.bolt.execute

    def close(self) -> None:
        self.end(self.bolt.cleanup, "cleanup")

    def watch(self) -> None:
        self.collector.watch()

    def waiting(self) -> int:
        """How many tuples are queued."""
        return len(self.inbox) + len(self.backlog) - self._at

    def tick(self, rate_secs: float) -> None:
        """Queue a tick behind the data."""
        self._ticks += 1
        self.inbox.append(new_tuple([rate_secs], TICK_ORIGIN, Tick(self.collector)))

    def run(self) -> None:
        """Execute a batch of the queue: as many tuples as take about `BATCH_SECS`, by the speed of the last batch."""
        batch = self._next_batch()
        collector, stats = self.collector, self.stats
        # Held tuples that are settled now have their own latency: `_released` counts them.
        others = collector.acked + collector.failed - stats.process_count
        self.shop.running = self
        began = self.clock.monotonic()
        try:
            if self.task_hooks or self.debug:
                self._execute_watched(batch)
            else:
                self._execute_all(batch)
        except SlotCrash as crash:
            done = batch[: batch.index(crash.tup) + 1]
            stats.executed += len(done) - self._ticks_in(done)
            raise
        took = self.clock.monotonic() - began
        self._batch = min(
            MAX_BATCH, 2 * self._batch, max(1, int(len(batch) * BATCH_SECS / took)) if took else MAX_BATCH
        )
        stats.executed += len(batch) - self._ticks_in(batch)
        stats.execute_secs += took
        settled = collector.acked + collector.failed - stats.process_count - others
        stats.process_secs += took / len(batch) * settled
        stats.process_count += settled
        if settled < len(batch) and len(collector.held) < HELD_MEASURED:
            collector.held.update((tup, began) for tup in batch if tup._tree is not SETTLED)

    def _next_batch(self) -> list[Tuple]:
        if not self.backlog:
            self.backlog, self._at = self.inbox[:], 0
            self.inbox.clear()  # in place: ports hold its append
        if self._at == 0 and len(self.backlog) <= self._batch:
            batch, self.backlog = self.backlog, []
            return batch
        batch = self.backlog[self._at : self._at + self._batch]
        self._at += len(batch)
        if self._at == len(self.backlog):
            self.backlog, self._at = [], 0
        return batch

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

    def _execute_watched(self, batch: list[Tuple]) -> None:
        for tup in batch:
            if self.debug:
                log.info("%s:%d executes %r", self.component_id, self.task_id, tup)
            began = self.clock.monotonic()
            self._execute_all([tup])
            if not is_tick(tup):
                info = BoltExecuteInfo(tup, self.task_id, 1000 * (self.clock.monotonic() - began))
                for hook in self.task_hooks:
                    self.guard(hook.bolt_execute, "bolt_execute of a hook", info)

    def _failed(self, tup: Tuple, exc: BaseException) -> None:
        self.report(exc, tup, "execute")
        if self._restart:
            raise SlotCrash(self.component_id, self.task_id, tup, exc)
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
        """A message timeout has passed: what is still held is not measured any more."""
        self.collector.held.clear()

    def counted(self) -> TaskStats:
        stats = super().counted()
        stats.acked, stats.failed = self.collector.acked, self.collector.failed
        return stats


def _not_a_tuple(verb: str, tup: object) -> TypeError:
    return TypeError(f"{verb} takes a tuple that this bolt received, got {tup!r} of type {type(tup).__name__}")
