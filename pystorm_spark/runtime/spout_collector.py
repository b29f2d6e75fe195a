"""Internal. SpoutCollector: the collector of one spout task. `emit` begins a tuple tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any

from pystorm_spark.core import compiled, laid_out
from pystorm_spark.runtime.router import Port, Route
from pystorm_spark.runtime.trees import Root
from pystorm_spark.topology.collector import MISSING, SpoutOutputCollector, spout_emit
from pystorm_spark.topology.fields import DEFAULT_STREAM
from pystorm_spark.topology.tuple import Tuple

if TYPE_CHECKING:
    from pystorm_spark.runtime.spout_task import SpoutTask


@laid_out
class SpoutCollector(SpoutOutputCollector):
    """The collector of one spout task."""

    __slots__ = (
        "_plainly",
        "_slot_context",
        "_task",
        "bucket",
        "default",
        "emits",
        "kept",
        "now",
        "posted",
        "routes",
        "short_way",
        "tracking",
        "watched",
        "why",
    )

    def __init__(self, task: SpoutTask) -> None:
        self._task = task
        self._slot_context = task.slot_context
        self.routes = task.user_routes  # for the compiled core
        self.default: Route | None = None  # the route of the default stream
        self.short_way = False  # whether `emit` may use it: during a turn, without hooks or posted calls
        self.posted = 0  # posted calls that the slot's thread has not yet made
        self.kept = 0  # those posted by the slot's own thread: emits while the slot is quiescing
        self.watched = task.debug
        self.emits = 0
        self.now = 0.0  # read once per turn or poll, for many emits
        self.bucket = task.pending.newest  # the newest bucket of pending roots
        self.why = ""  # why the message failed whose `fail` is being called
        self.tracking: bool = task.conf["topology.acker.executors"] != 0
        # With exactly-once, messages that are already committed are not executed.
        self._plainly = self.tracking and (task.uncommitted is None or task.uncommitted.looked_up is None)

    @compiled
    def emit(
        self,
        values: Any,
        *more: Any,
        message_id: Any = None,
        stream: str = DEFAULT_STREAM,
    ) -> list[int]:
        if more:
            stream, values, message_id = spout_emit("emit", (values, *more), message_id=message_id, stream=stream)
        if not self.short_way:
            return self._emit_unusual(stream, values, message_id)
        route = self.default if stream is DEFAULT_STREAM else self._task.route(stream)
        if route is None or type(values) is not list or len(values) != route.arity:
            route, values = self._task.checked(stream, values)
        port = route.only
        if port is None and route.pick is not None:
            try:
                port = route.pick(values) if route.keys is None else route.ports[route.keys[values[route.key_at]]]
            except (KeyError, TypeError):
                port = route.pick(values)
        if (
            port is not None
            and port.append is not None
            and message_id is not None
            and (self._plainly or self._is_new(message_id))
        ):
            root = Root()  # `new_root` and `new_tuple`, without the calls
            root.unsettled = 1
            root.root_id = 0
            root.task = self._task
            root.message_id = message_id
            root.emitted_at = self.now
            tup = Tuple()
            tup.values = values
            tup._origin = route.origin
            tup._tree = root
            root.bucket = bucket = self.bucket  # read now: a rotation after an earlier read would shorten its timeout
            bucket[root] = None  # before anybody can see the tuple
            port.append(tup)
            route.emitted += 1
            self.emits += 1
            return [port.task_id]
        return self._emit_picked(route, port, values, message_id)

    def _emit_picked(self, route: Route, port: Port | None, values: list[Any], message_id: Any) -> list[int]:
        """Emit to a port in another slot, to several ports, or without tracking."""
        if get_ident() != self._slot_context.thread:
            return self._emit_unusual(route.origin.stream, values, message_id)
        self.emits += 1
        ports = route.choose(values) if port is None else (port,)
        self._task.launch(route, ports, values, message_id)
        return [port.task_id for port in ports]

    def emit_direct(self, task_id: int, *args: Any, **kwargs: Any) -> None:
        stream, values, message_id = spout_emit("emit_direct", args, **kwargs)
        self._emit_unusual(stream, values, message_id, task_id)

    def report_error(self, error: BaseException) -> None:
        if get_ident() != self._slot_context.thread:
            self._slot_context.post(lambda: self._task.report_from_user(error))
        else:
            self._task.report_from_user(error)

    def pending_count(self) -> int:
        return len(self._task.pending)

    def run(self, function: Callable[[Any], object]) -> None:
        call = partial(self._task.call, partial(function, self), "run")
        if self._task.takes_part:
            self._slot_context.post_beginning(call)  # behind what threads have emitted before
        else:
            self._slot_context.post(call)

    def dead_letter(self, letter: Mapping[str, Any]) -> None:
        self._task.write_dead_letter(letter)

    def flush(self) -> None:
        pass

    def watch(self) -> None:
        self.watched = True
        self.short_way = False

    def _is_new(self, message_id: Any) -> bool:
        """Whether a message was never emitted before. False in other threads, which may miss that the slot quiesces."""
        if not self.tracking or get_ident() != self._slot_context.thread:
            return False
        return self._task.uncommitted is not None and self._task.uncommitted.is_new(message_id)

    def _emit_unusual(self, stream: str, values: Any, message_id: Any, task_id: Any = MISSING) -> list[int]:
        """Emit with hooks, from another thread, to one task, or while the slot is quiescing."""
        route, values = self._task.checked(stream, values)
        with self._slot_context.lock:
            ports = route.choose(values) if task_id is MISSING else [route.port_for_direct(task_id)]
        out_tasks = [port.task_id for port in ports]
        row = self._task.row_for(route, ports, values)  # before it is posted, because it may raise

        position = self._task.position
        rollbacks = position.rollbacks if position is not None else 0

        def launch() -> None:
            if position is not None and position.rollbacks != rollbacks:
                return  # the spout emits it again
            self.emits += 1
            self._task.launch(route, ports, values, message_id, row)
            if self.watched:
                self._task.tell_emit(route, values, out_tasks)

        if get_ident() != self._slot_context.thread:
            self._post(launch, "emit of another thread")
        elif self._task.takes_part and (self._slot_context.quiescing or self.kept):
            # From `activate`, `ack` and the like: no tree may begin now.
            self.kept += 1
            self._post(launch, "emit while the slot is quiescing", kept=1)
        else:
            launch()
        return out_tasks

    def _post(self, launch: Callable[[], None], what: str, kept: int = 0) -> None:
        """Have the slot's own thread `launch` a tuple once the slot is not quiescing."""

        def launch_posted() -> None:
            self._task.guard(launch, what)
            self.posted -= 1
            self.kept -= kept

        self.posted += 1
        self.short_way = False
        if self._task.takes_part:
            self._slot_context.post_beginning(launch_posted)
        else:
            self._slot_context.post(launch_posted)


@compiled
def emit_numbered(
    collector: SpoutOutputCollector,
    rows: list[list[Any]],
    where: tuple[Any, ...],
    first: int,
    refused: Callable[[Any, list[Any], BaseException], None],
) -> None:
    """Emit `rows` with the message ids `(*where, first)`, `(*where, first + 1)` and so on.

    A row that cannot be emitted is passed to `refused`, with its message id and the exception.
    """
    for number, row in enumerate(rows, first):
        message_id = (*where, number)
        try:
            collector.emit(row, message_id=message_id)
        except BaseException as exc:  # a custom grouping may raise anything
            refused(message_id, row, exc)
