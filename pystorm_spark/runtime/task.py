"""Internal. Task: the base of spout and bolt tasks. Routes, errors, hooks, metrics, and the services of a context."""

from __future__ import annotations

import logging
import os
import reprlib
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from threading import get_ident
from typing import Any, ClassVar

from pystorm_spark.core import compiled
from pystorm_spark.errors import EmitError, SerializationError, StormError, did_you_mean, shown
from pystorm_spark.metrics.builtin import builtin_metrics
from pystorm_spark.metrics.registry import MetricRegistry
from pystorm_spark.metrics.stats import ERRORS_KEPT, ErrorInfo, TaskStats
from pystorm_spark.runtime.frames import LARGE_BYTES, MOST_ROWS, TupleBuffer
from pystorm_spark.runtime.keys.hashing import stable_hash
from pystorm_spark.runtime.keys.java_hash import java_fields_index
from pystorm_spark.runtime.letters import line_of
from pystorm_spark.runtime.router import Ports, Route
from pystorm_spark.runtime.slot_context import SlotContext
from pystorm_spark.runtime.timers import Timer
from pystorm_spark.topology.collector import SpoutOutputCollector
from pystorm_spark.topology.component import takes
from pystorm_spark.topology.config import load_class
from pystorm_spark.topology.context import TopologyContext
from pystorm_spark.topology.durable import ATOMS
from pystorm_spark.topology.fields import DEFAULT_STREAM
from pystorm_spark.topology.hooks import EmitInfo, TaskHook
from pystorm_spark.topology.timers import TimerHandle
from pystorm_spark.topology.tuple import Origin, Tree, Tuple, new_tuple

log = logging.getLogger(__name__)

MOST_SHOWN = 20_000  # characters of an error: errors are kept, and Spark slots send them repeatedly
TEXT_TYPES = frozenset({str, bytes})
IDLE_CALL_SECS = 0.001  # between two calls of `idle`
MOST_ROW_BYTES = 1 << 30  # Spark carries less than 2 GiB in one piece, and a frame may have several rows
_PACKAGE = f"{Path(__file__).resolve().parent.parent}{os.sep}"


class Task:
    """One instance of a component in a slot."""

    is_spout: ClassVar[bool] = False

    def __init__(self, task_id: int, component_id: str, conf: Mapping[str, Any], slot_context: SlotContext) -> None:
        self.task_id = task_id
        self.component_id = component_id
        self.conf = conf
        self.slot_context = slot_context
        self.clock = slot_context.clock
        self.routes: dict[str, Route] = {}
        self.user_routes: dict[str, Route] = {}  # the routes of streams that the component declares
        self.stats = TaskStats()
        self.errors: deque[ErrorInfo] = deque(maxlen=ERRORS_KEPT)
        self.metrics = MetricRegistry()
        self.task_hooks: list[TaskHook] = []
        self.debug: bool = conf["topology.debug"]
        self.context: TopologyContext
        self.collector: Any  # a SpoutCollector or a BoltCollector
        self.idle: Callable[[], object] | None = None  # the component's own, if it is defined
        self._idle_again = 0.0
        self._opening = False
        self._throttle_until = 0.0
        self._throttled = 0

    # The services of the context.

    def register_metric(self, name: str, metric: Any, bucket_secs: float) -> Any:
        if not self._opening:
            raise StormError(f"metric {name!r} must be registered in open or prepare, not later")
        return self.metrics.register(name, metric, bucket_secs, self.clock.monotonic())

    def register_builtin_metrics(self, bucket_secs: float) -> None:
        """Register the counts of the engine as metrics."""
        metrics = builtin_metrics(
            isinstance(self.collector, SpoutOutputCollector),
            self.counted,
            lambda: {stream: route.emitted for stream, route in self.user_routes.items()},
            lambda: {stream: route.emitted + route.extra for stream, route in self.user_routes.items()},
        )
        for name, metric in metrics.items():
            self.metrics.register(name, metric, bucket_secs, self.clock.monotonic())

    def registered_metric(self, name: str) -> Any:
        return self.metrics.get(name)

    def add_hook(self, hook: TaskHook) -> None:
        self.task_hooks.append(hook)
        self.watch()

    def hooks(self) -> list[TaskHook]:
        return list(self.task_hooks)

    def monotonic(self) -> float:
        return self.clock.monotonic()

    def time(self) -> float:
        return self.clock.time()

    def call_at(self, when: float, function: Callable[[], object], period: float | None) -> TimerHandle:
        every = None if period is None else Timer(period, when - period, function)
        return self.slot_context.timers.set(self, when, function, every)

    def task_index(self, values: list[Any], tasks: int) -> int:
        if self.conf["topology.fields.grouping.hash"] == "java":
            return java_fields_index(values, tasks)
        return stable_hash(values) % tasks

    def shared_executor(self) -> Executor:
        return self.slot_context.shared_executor(self.conf["topology.worker.shared.thread.pool.size"])

    # Start and end.

    def connect(self, routes: Mapping[str, Route]) -> None:
        """Take the routes of the component's streams, including system streams."""
        self.routes.update(routes)
        self.user_routes.update((id_, route) for id_, route in routes.items() if not id_.startswith("__"))
        self.collector.default = routes.get(DEFAULT_STREAM)

    def start(self, prepare: Callable[[], None]) -> None:
        """Call the component's own `open` or `prepare`. Metrics may be registered only during this call."""
        self._opening = True
        self.slot_context.running = self
        try:
            for name in self.conf.get("topology.auto.task.hooks") or ():
                self.context.add_task_hook(load_class(name)())
            prepare()
        finally:
            self._opening = False
        self.idle = defined(self.component(), "idle", 0)

    def end(self, close: Callable[[], None], name: str) -> None:
        """Call the hooks' `cleanup`, then the component's `close` or `cleanup`. Their exceptions are reported."""
        self.slot_context.running = self
        for hook in self.task_hooks:
            self.guard(hook.cleanup, "cleanup of a hook")
        self.guard(close, name)

    def component(self) -> Any:
        """The user's own object."""
        raise NotImplementedError

    def open(self) -> None:
        """Call the component's own `open` or `prepare`."""
        raise NotImplementedError

    def starting(self) -> str:
        """The name of the component's method that `open` is calling."""
        raise NotImplementedError

    def close(self) -> None:
        """Call the component's own `close` or `cleanup`."""
        raise NotImplementedError

    def rotate(self) -> None:
        """A message timeout has passed."""
        raise NotImplementedError

    def watch(self) -> None:
        """Report emits and acks from now on: there are hooks, or debugging is on."""
        raise NotImplementedError

    def make_call(self, call: Callable[[], object], what: str) -> None:
        """Make a call into user code between two executes: a timer, or what another thread has handed over."""
        if self.slot_context.before is not None:
            self.slot_context.before(self, None)
        self.guard(call, what)

    def call(self, call: Callable[[], object], what: str) -> None:
        """Make a call into user code, in the thread of the task; the slot's own thread asks for it."""
        self.make_call(call, what)

    def call_idle(self) -> None:
        """Call the component's own `idle`, where it has one."""
        if self.idle is not None and self.has_nothing_to_do():
            now = self.clock.monotonic()
            if now >= self._idle_again:
                self._idle_again = now + IDLE_CALL_SECS
                self.make_call(self.idle, "idle")

    def has_nothing_to_do(self) -> bool:
        raise NotImplementedError

    def write_dead_letter(self, letter: Mapping[str, Any]) -> None:
        """`collector.dead_letter`."""
        if not isinstance(letter, Mapping):
            raise StormError(f"dead_letter takes a mapping, got {shown(letter)}")
        line = line_of(letter, self.conf["topology.name"], self.clock.time())
        self.slot_context.write_letter(self.component_id, line)

    # Errors.

    def guard(self, call: Callable[..., Any], name: str, *args: Any) -> None:
        """Call user code and report what it raises. The call may come in the middle of another one."""
        slot_context = self.slot_context
        before = slot_context.running
        if get_ident() == slot_context.thread:
            slot_context.running = self
        try:
            call(*args)
        except BaseException as exc:
            self.report(exc, what=name)
        if get_ident() == slot_context.thread:
            slot_context.running = before

    def report(self, error: BaseException, tup: Tuple | None = None, what: str = "") -> None:
        """Keep `error` for the topology's status, and log it unless too many were logged recently."""
        trace = _shortened("".join(traceback.format_exception(type(error), error, user_frames(error))))
        text = _shortened("".join(traceback.format_exception_only(type(error), error)).strip())
        input_shown = _shortened(repr(tup)) if tup is not None else ""
        self.errors.append(ErrorInfo(self.clock.time(), self.task_id, text, trace, input_shown))
        if not self.throttled():
            on = f" on {input_shown}" if tup is not None else ""
            log.error("%s:%d %s%s\n%s", self.component_id, self.task_id, what or "reported", on, trace)

    def report_metric(self, name: str, error: BaseException) -> None:
        """Report that a metric could not be read."""
        self.report(error, what=f"get_value_and_reset of metric {name!r}")

    def throttled(self) -> bool:
        """Count a report; return whether this interval has had its share of them."""
        now = self.clock.monotonic()
        if now >= self._throttle_until:
            self._throttle_until = now + self.conf["topology.error.throttle.interval.secs"]
            self._throttled = 0
        self._throttled += 1
        return bool(self._throttled > self.conf["topology.max.error.report.per.interval"])

    def report_from_user(self, error: BaseException, tup: Tuple | None = None) -> None:
        """Report an error for `collector.report_error`, throttled as in Storm."""
        if not isinstance(error, BaseException):
            error = StormError(f"report_error got {shown(error)}; give it an exception")
        if not self.throttled():
            self._throttled -= 1  # `report` counts it
            self.report(error, tup)

    # Emits.

    def route(self, stream: Any) -> Route | None:
        """The route of `stream`, if the component declares it."""
        return self.user_routes.get(stream) if isinstance(stream, str) else None

    def checked(self, stream: Any, values: Any) -> tuple[Route, list[Any]]:
        """The route of `stream` and `values` as a list of the declared length, or an `EmitError`."""
        route = self.route(stream)
        if route is None:
            raise EmitError(
                f"component {self.component_id!r} emits on stream {stream!r}, which it does not declare; "
                f"{did_you_mean(stream, self.user_routes)}"
            )
        if not isinstance(values, (list, tuple)):
            raise EmitError(
                f"component {self.component_id!r} emits {type(values).__name__} {reprlib.repr(values)} on stream "
                f"{stream!r}; values must be a list or a tuple, for example [value]"
            )
        if len(values) != route.arity:
            raise EmitError(
                f"component {self.component_id!r} emits {len(values)} values on stream {stream!r}, which declares "
                f"{route.arity} fields {route.origin.fields.to_list()}: {reprlib.repr(values)}"
            )
        return route, values if isinstance(values, list) else list(values)

    @compiled
    def send(self, route: Route, buffer: TupleBuffer, values: list[Any], tree: Tree) -> None:
        """Send `values` to one task in another slot: `deliver` for the most common case."""
        for value in values:
            kind = type(value)
            if kind not in ATOMS or (kind in TEXT_TYPES and len(value) > LARGE_BYTES):
                row: list[Any] | bytes = self.packed(route.origin, values)
                break
        else:
            row = values
            if tree is buffer.run and len(buffer.rows) < MOST_ROWS - 1:  # `Outbox.send`, without the call
                buffer.counts[-1] += 1
                buffer.rows.append(row)
                return
        self.slot_context.outbox.send(buffer, row, tree)

    def deliver(self, route: Route, ports: Ports, values: list[Any], tree: Tree, row: bytes | None = None) -> None:
        """Send `values` to every port, each as a new tuple of `tree`. `row` is their packed form, if known.

        The caller has counted its emit in `tree`: another thread may ack a tuple while the next port is served.
        """
        row = row or self.row_for(route, ports, values)
        for port in ports:
            if port.put is not None:
                tup = new_tuple(values, route.origin, tree)
                tree.unsettled += 1  # before any thread can see the tuple
                port.put(tup)
            else:
                assert port.buffer is not None
                assert row is not None
                self.slot_context.outbox.send(port.buffer, row, tree)

    def row_for(self, route: Route, ports: Ports, values: list[Any]) -> bytes | None:
        """`values` packed, if a port leads to another slot. It raises before any port has got the tuple."""
        for port in ports:
            if port.append is None:
                return self.packed(route.origin, values)
        return None

    def packed(self, origin: Origin, values: list[Any]) -> bytes:
        """`values` as bytes, or a `SerializationError` that names component, stream and field."""
        try:
            row = self.slot_context.codec.pack(values)
        except SerializationError as exc:
            index = getattr(exc, "index", None)
            field = f" in field {origin.fields[index]!r}" if index is not None else ""
            raise SerializationError(
                f"component {origin.component!r} emits on stream {origin.stream!r}{field} a value that cannot be "
                f"packed: {exc}"
            ) from exc
        if len(row) > MOST_ROW_BYTES:
            sizes = [len(self.slot_context.codec.pack([value])) for value in values]
            field = origin.fields[sizes.index(max(sizes))]
            raise SerializationError(
                f"component {origin.component!r} emits on stream {origin.stream!r} a tuple of {len(row):,} bytes, most "
                f"of them in field {field!r}; between slots a tuple may have {MOST_ROW_BYTES:,}: split it, or emit a "
                "reference to the data instead"
            )
        return row

    def tell_emit(self, route: Route, values: list[Any], out_tasks: list[int]) -> None:
        """Report an emit to the log and the hooks."""
        if self.debug:
            log.info(
                "%s:%d emits [%s] on %s to %s",
                self.component_id,
                self.task_id,
                ", ".join(map(shown, values)),
                route.origin.stream,
                out_tasks,
            )
        for hook in self.task_hooks:
            info = EmitInfo(values, route.origin.stream, self.task_id, out_tasks)
            self.guard(hook.emit, "emit of a hook", info)

    def counted(self) -> TaskStats:
        """The stats, including the counts of the routes."""
        user_routes = self.user_routes.values()
        self.stats.emitted = sum(route.emitted for route in user_routes)
        self.stats.transferred = sum(route.emitted + route.extra for route in user_routes)
        return self.stats


def defined(component: Any, method: str, arguments: int) -> Any:
    """A method that a component may have or not; an attribute of that name that is none does not count."""
    found = getattr(component, method, None) if callable(getattr(type(component), method, None)) else None
    return found if callable(found) and takes(found, arguments) else None


def user_frames(error: BaseException) -> Any:
    """The traceback from the first frame of user code."""
    found = error.__traceback__
    while found is not None and found.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        found = found.tb_next
    return found or error.__traceback__


def _shortened(text: str) -> str:
    left_out = len(text) - MOST_SHOWN
    if left_out <= 0:
        return text
    return f"{text[: MOST_SHOWN // 2]} … {left_out} characters left out … {text[-MOST_SHOWN // 2 :]}"
