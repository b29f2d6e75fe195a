"""Internal. BoltCollector: the collector of one bolt task. `emit` and `ack` are the hot path of the engine."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any

from pystorm_spark.core import compiled, laid_out
from pystorm_spark.errors import EmitError
from pystorm_spark.runtime.durable.uncommitted import FAILED_IT, IN_FLIGHT
from pystorm_spark.runtime.router import Port, Route
from pystorm_spark.runtime.slot_context import UserCall
from pystorm_spark.runtime.trees import ROLLED_BACK, UNTRACKED, join, release
from pystorm_spark.topology.collector import MISSING, Anchors, OutputCollector, anchor_tuples, bolt_emit
from pystorm_spark.topology.fields import DEFAULT_STREAM
from pystorm_spark.topology.tuple import SETTLED, Tree, Tuple, is_tick

if TYPE_CHECKING:
    from pystorm_spark.runtime.bolt_task import BoltTask

log = logging.getLogger(__name__)

MOST_WHY = 1000  # characters of the reason of a fail


@laid_out
class BoltCollector(OutputCollector):
    """The collector of one bolt task. `emit` and `ack` are the hot path: they do nothing per tuple that can wait.

    User threads may use the short way through them, too. It makes no call between a check and the change that relies on
    it, and the interpreter's lock changes hands only at calls and at jumps back. Every other request of a user thread
    is posted to the slot's own thread, which makes posted calls before later ones of the same bolt.
    """

    __slots__ = (
        "_slot_context",
        "_task",
        "acked",
        "default",
        "failed",
        "held",
        "posted",
        "routes",
        "short_way",
        "transaction",
        "watched",
    )

    def __init__(self, task: BoltTask) -> None:
        self.acked = 0
        self.failed = 0
        self.held: dict[Tuple, float] = {}  # {tuple neither acked nor failed by its execute: when that began}
        self.short_way = False  # whether `emit` and `ack` may use it: during a turn, without hooks or posted calls
        self.posted = 0  # posted calls that the slot's thread has not yet made
        self.watched = task.debug
        self.transaction: Tree | None = None  # which whatever is emitted now joins, see `BoltTask.in_transaction`
        self._task = task
        self._slot_context = task.slot_context
        self.routes = task.user_routes  # for the compiled core
        self.default: Route | None = None  # the route of the default stream

    @compiled
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
        if not self.short_way:
            return self._emit_unusual(stream, anchors, values)
        route = self.default if stream is DEFAULT_STREAM else self._task.route(stream)
        if route is None or type(values) is not list or len(values) != route.arity:
            route, values = self._task.checked(stream, values)
        if type(anchors) is not Tuple and anchors is not None:
            return self._emit_unusual(stream, anchors, values)
        port = route.only
        if port is None and route.pick is not None:
            try:
                port = route.pick(values) if route.keys is None else route.ports[route.keys[values[route.key_at]]]
            except (KeyError, TypeError):
                port = route.pick(values)
        if port is None or port.append is None:
            return self._emit_picked(route, port, values, anchors)
        tup = Tuple()  # `new_tuple`, without the call
        tup.values = values
        tup._origin = route.origin
        # No call from this check to the end of the change, or another thread might settle the anchor in between.
        tree: Tree = UNTRACKED if anchors is None else anchors._tree
        if tree is SETTLED or tree is ROLLED_BACK:
            return self._emit_unusual(stream, anchors, values)
        tup._tree = tree
        tree.unsettled += 1  # before any thread can see the tuple
        port.append(tup)
        route.emitted += 1
        return [port.task_id]

    def _emit_picked(self, route: Route, port: Port | None, values: list[Any], anchor: Tuple | None) -> list[int]:
        """Emit to a port in another slot, or to several ports."""
        if not self._slot_context.enter():
            return self._emit_unusual(route.origin.stream, anchor, values)
        try:
            ports = route.choose(values) if port is None else (port,)
            # No tree drains until `leave`: other threads post their drains.
            tree: Tree = UNTRACKED if anchor is None else anchor._tree
            if tree is SETTLED or tree is ROLLED_BACK:
                return self._emit_unusual(route.origin.stream, anchor, values)
            if port is not None and port.buffer is not None:
                self._task.send(route, port.buffer, values, tree)
            else:
                tree.unsettled += 1  # for this emit, until all ports are served
                try:
                    self._task.deliver(route, ports, values, tree)
                finally:
                    release([tree])
        finally:
            self._slot_context.leave()
        route.emitted += 1
        route.extra += len(ports) - 1
        return [port.task_id for port in ports]

    def emit_direct(self, task_id: int, *args: Any, **kwargs: Any) -> None:
        stream, anchors, values = bolt_emit("emit_direct", args, **kwargs)
        self._emit_unusual(stream, anchors, values, task_id)

    @compiled
    def ack(self, tup: Tuple) -> None:
        if not self.short_way:
            self._settle_unusual(tup, "ack")
            return
        try:
            tree, tup._tree = tup._tree, SETTLED  # of two threads that ack at once, one gets the tree
        except AttributeError:
            raise _not_a_tuple("ack", tup) from None
        if tree is SETTLED:
            self._settled_already("ack", tup)
            return
        if self.held:
            self._released(tup)
        self.acked += 1
        tree.unsettled -= 1
        if not tree.unsettled:
            slot_context = self._slot_context
            slot_context.inside += 1  # `enter`, without the call
            if get_ident() == slot_context.thread:
                tree.drained()
            else:
                self._post(tree.drained)
            slot_context.inside -= 1

    def fail(self, tup: Tuple) -> None:
        self._settle_unusual(tup, "fail")

    def reset_timeout(self, tup: Tuple) -> None:
        if not isinstance(tup, Tuple):
            raise _not_a_tuple("reset_timeout", tup)
        if self._slot_context.enter():
            try:
                tup._tree.reset_timeout()
            finally:
                self._slot_context.leave()
        else:
            self._slot_context.post(lambda: tup._tree.reset_timeout())

    def report_error(self, error: BaseException) -> None:
        self._report_failure(error, None)

    def _report_failure(self, error: BaseException, tup: Tuple | None) -> None:
        if get_ident() != self._slot_context.thread:
            self._slot_context.post(lambda: self._task.report_from_user(error, tup))
        else:
            self._task.report_from_user(error, tup)

    def run(self, function: Callable[[Any], object]) -> None:
        self._slot_context.post(UserCall(self._task.call, partial(function, self), "run"))

    def dead_letter(self, letter: Mapping[str, Any]) -> None:
        self._task.write_dead_letter(letter)

    def _crash(self, error: BaseException) -> None:
        self._task.crash_cause = error

    def flush(self) -> None:
        pass

    def watch(self) -> None:
        self.watched = True
        self.short_way = False

    # Beside the hot path.

    def _emit_unusual(self, stream: str, anchors: Anchors, values: Any, task_id: Any = MISSING) -> list[int]:
        """Emit with hooks, from another thread, or to one task."""
        route, values = self._task.checked(stream, values)
        rollbacks, trees = self._slot_context.rollbacks, self._reserve(anchors)
        try:
            with self._slot_context.lock:
                ports = route.choose(values) if task_id is MISSING else [route.port_for_direct(task_id)]
            out_tasks = [port.task_id for port in ports]
            row = self._task.row_for(route, ports, values)  # before it is posted, because it may raise
        except BaseException:
            self._make(lambda: release(trees))
            raise

        def deliver() -> None:
            if rollbacks != self._slot_context.rollbacks or ROLLED_BACK in trees:
                self._give_up(trees)
                return
            tree = join(trees) if ports else UNTRACKED
            tree.unsettled += 1  # for this emit, until all ports are served
            try:
                self._task.deliver(route, ports, values, tree, row)
            finally:
                release([tree, *trees])
            route.emitted += 1
            route.extra += len(ports) - 1
            if self.watched:
                self._task.tell_emit(route, values, out_tasks)

        self._make(deliver)
        return out_tasks

    def _give_up(self, trees: list[Tree]) -> None:
        """Drop an emit of which an anchor was rolled back, and fail its other anchors, so that they are replayed."""
        self._slot_context.outbox.why = IN_FLIGHT
        for tree in trees:
            tree.fail()
        release(trees)

    def _settle_unusual(self, tup: Tuple, verb: str) -> None:
        """Ack or fail with hooks, or from another thread."""
        if self._slot_context.enter():
            try:
                self._slot_context.run_earlier()
            finally:
                self._slot_context.leave()
        with self._slot_context.lock:
            tree = self._claim(tup, verb)
        if tree is not None:
            why = self._why() if verb == "fail" else ""  # before it is posted: the exception is this thread's
            self._make(lambda: self._close(tup, tree, verb, why))

    def _make(self, call: Callable[[], None]) -> None:
        """Make `call` in the slot's own thread: at once if this is it, otherwise before the bolt's next ack."""
        if self._slot_context.enter():
            try:
                self._slot_context.run_earlier()
                call()
            finally:
                self._slot_context.leave()
        else:
            self._post(call)

    def _post(self, call: Callable[[], None]) -> None:
        self.posted += 1
        self.short_way = False
        self._slot_context.post(lambda: self._make_posted(call))

    def _make_posted(self, call: Callable[[], None]) -> None:
        self._task.guard(call, "emit, ack or fail of another thread")
        self.posted -= 1

    def _claim(self, tup: Tuple, verb: str) -> Tree | None:
        """Mark `tup` as settled; return its tree, or None if it was settled before."""
        try:
            tree, tup._tree = tup._tree, SETTLED
        except AttributeError:
            raise _not_a_tuple(verb, tup) from None
        if tree is SETTLED:
            self._settled_already(verb, tup)
            return None
        return tree

    def _close(self, tup: Tuple, tree: Tree, verb: str, why: str) -> None:
        if self.held:
            self._released(tup)
        if verb == "ack" or is_tick(tup):  # whose `drained` subtracts it again
            self.acked += 1
        else:
            self.failed += 1
        if verb == "fail":
            self._slot_context.outbox.why = why
            self._task.fail_tree(tree)
        release([tree])
        if self.watched:
            self._task.tell_settled(tup, verb)

    def _why(self) -> str:
        """The reason of a fail: the exception being handled, if there is one."""
        error = sys.exc_info()[1]
        what = FAILED_IT if error is None else "".join(traceback.format_exception_only(type(error), error)).strip()
        return f"{self._task.component_id}:{self._task.task_id} {what}"[:MOST_WHY]

    def _released(self, tup: Tuple) -> None:
        began = self.held.pop(tup, None)
        if began is not None:
            waited = self._task.clock.monotonic() - began
            self._task.stats.process_secs += waited
            self._task.stats.process_count += 1

    def _reserve(self, anchors: Anchors) -> list[Tree]:
        """The trees of `anchors`, each counting this emit, so that none completes before the emit is made."""
        trees: list[Tree] = []
        for anchor in anchor_tuples(anchors):
            tree = anchor._tree
            if tree is SETTLED:
                self._make(lambda: release(trees))
                raise self._settled_anchor(anchor)
            tree.unsettled += 1
            trees.append(tree)
        if self.transaction is not None and get_ident() == self._slot_context.thread:
            self.transaction.unsettled += 1
            trees.append(self.transaction)
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
    """The collector without ackers: acks and fails do nothing, as in Storm."""

    def ack(self, tup: Tuple) -> None:
        pass

    def fail(self, tup: Tuple) -> None:
        pass

    def reset_timeout(self, tup: Tuple) -> None:
        pass


def _not_a_tuple(verb: str, tup: object) -> TypeError:
    return TypeError(f"{verb} takes a tuple that this bolt received, got {tup!r} of type {type(tup).__name__}")
