"""Internal. Slot: the tasks of one process. `deliver(frames)`, `turn()`, `take() -> frames`; no thread, no transport.

A turn is a slice of the slot's own work: take in what was delivered, run the timers that are due, run the bolts, tell
spouts what became of their tuples, poll the spouts, run the bolts again to the end, seal what leaves.
"""

from __future__ import annotations

import logging
import math
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from threading import get_ident
from typing import Any

import cloudpickle

from pystorm_spark.clock import Clock
from pystorm_spark.errors import SerializationError, StormError
from pystorm_spark.metrics.consumer import TaskInfo
from pystorm_spark.runtime.bolt_task import BoltTask
from pystorm_spark.runtime.codec import AckFrame, TupleFrame, ValueCodec, decode
from pystorm_spark.runtime.frames import Frame, Outbox, TupleBuffer
from pystorm_spark.runtime.metrics_bolt import METRICS_STREAM
from pystorm_spark.runtime.plan import Plan
from pystorm_spark.runtime.rotating import RotatingMap
from pystorm_spark.runtime.router import Port, Route, Subscription
from pystorm_spark.runtime.spout_task import SpoutTask
from pystorm_spark.runtime.task import Task, Workshop
from pystorm_spark.runtime.trees import UNTRACKED, Branch, join
from pystorm_spark.topology.component import Spout
from pystorm_spark.topology.context import TopologyContext
from pystorm_spark.topology.grouping import CustomGrouping
from pystorm_spark.topology.hooks import WorkerHook
from pystorm_spark.topology.tuple import GlobalStreamId, Origin, Tree, Tuple, new_tuple

log = logging.getLogger(__name__)

TURN_SECS = 0.005
POLLS = 512  # calls of next_tuple in one turn, shared by the spouts
FEWEST_POLLS = 64  # of one spout in one turn, however many spouts there are
ROUNDS = 100  # through the bolts in one turn: in a cycle of bolts tuples may go round for ever
BACKLOG = 4096  # queued tuples above which spouts are not polled and no frame is unpacked
OUTBOX_BYTES = 8 << 20  # sealed and not taken, above which spouts are not polled


@dataclass(slots=True)
class Timer:
    """Something to do every `period` seconds."""

    due: float
    period: float
    fire: Callable[[], None]


class Slot:
    """The tasks of one process, turned by whoever owns it; all of a turn happens in the calling thread."""

    def __init__(
        self, plan: Plan, number: int, components: Mapping[str, bytes], clock: Clock, rng: random.Random
    ) -> None:
        self.plan = plan
        self.number = number
        self.clock = clock
        self.outbox = Outbox(rng)
        self.outbox.forget = self._forget
        self.active = False
        self.paused = False  # by back-pressure: some slot has more than it can take
        self.is_open = False
        codec = ValueCodec(fall_back_on_pickle=plan.conf["topology.fall.back.on.pickle"])
        self._shop = Workshop(clock, self.outbox, codec)
        self._shop.packs_all = plan.conf["topology.testing.always.try.serialize"]
        self._rng = rng
        self._delivered: deque[Frame] = deque()
        self._branches: RotatingMap[int, Branch] = RotatingMap(2)
        self._origins: dict[tuple[int, str], Origin] = {}
        self._keys: dict[tuple[GlobalStreamId, str], dict[Any, int]] = {}  # by source and subscriber, see Subscription
        self._timers: list[Timer] = []
        self._next_timer = math.inf
        self._hooks: list[WorkerHook] = []  # those that have been started
        self.tasks: dict[int, Task] = {}
        for task_id in plan.tasks_in(number):
            self.tasks[task_id] = self._make_task(task_id, components)
        self.bolts = [task for task in self.tasks.values() if isinstance(task, BoltTask)]
        self.spouts = deque(task for task in self.tasks.values() if isinstance(task, SpoutTask))

    # Making.

    def _make_task(self, task_id: int, components: Mapping[str, bytes]) -> Task:
        id_ = self.plan.component_of[task_id]
        component = load_component(id_, components[id_])
        conf = self.plan.confs[id_]
        if isinstance(component, Spout):
            return SpoutTask(task_id, id_, conf, self._shop, component, self._rng)
        return BoltTask(task_id, id_, conf, self._shop, component)

    def open(self) -> None:
        """Open every component, bolts first; an error names the component, and what was opened is closed again."""
        self._shop.thread = get_ident()
        opened: list[Task] = []
        try:
            self._start_hooks()
            for task in [*self.bolts, *self.spouts]:
                task.context = self._context(task)
                task.connect(self._routes(task))
                self._open(task)
                opened.append(task)
        except BaseException:
            for task in opened:
                task.close()
            self._shop.close()
            self._shut_hooks()
            raise
        self._set_timers()
        self.is_open = True

    def _start_hooks(self) -> None:
        for hook in self.plan.topology.worker_hooks:
            try:
                hook.start(self.plan.conf)
            except BaseException as exc:  # SystemExit and the like of user code are failures, never an end
                raise StormError(
                    f"start of the worker hook {type(hook).__name__} raised {type(exc).__name__}: {exc}"
                ) from exc
            self._hooks.append(hook)

    def _open(self, task: Task) -> None:
        try:
            task.open()
        except BaseException as exc:  # SystemExit and the like of user code are failures, never an end
            verb = "open" if isinstance(task, SpoutTask) else "prepare"
            raise StormError(
                f"{verb} of {task.component_id!r} (task {task.task_id}) raised {type(exc).__name__}: {exc}"
            ) from exc

    def _context(self, task: Task) -> TopologyContext:
        plan = self.plan
        worker = (self.number, plan.tasks_in(self.number))
        return TopologyContext(
            plan.topology, task.conf, plan.storm_id, task.task_id, self._visible_tasks(task), worker, task
        )

    def _visible_tasks(self, task: Task) -> dict[str, list[int]]:
        tasks = self.plan.user_tasks
        system = task.component_id not in tasks
        return {**tasks, task.component_id: self.plan.tasks[task.component_id]} if system else tasks

    def _routes(self, task: Task) -> dict[str, Route]:
        java = self.plan.conf["topology.fields.grouping.hash"] == "java"
        routes = {}
        for stream_id, stream in self.plan.outputs_of(task.component_id).items():
            origin = Origin(task.component_id, task.task_id, stream_id, stream.fields)
            routes[stream_id] = Route(origin, self._subscriptions(task, origin), self._rng, java)
        return routes

    def _subscriptions(self, task: Task, origin: Origin) -> list[Subscription]:
        source = GlobalStreamId(origin.component, origin.stream)
        found = []
        for spec, grouping in self.plan.subscribers.get(source, ()):
            targets = self.plan.tasks[spec.id]
            ports = [self._port(target, origin) for target in targets]
            chooser = None
            if isinstance(grouping, CustomGrouping):
                chooser = _prepared(grouping.chooser, spec.id, task.context, source, targets)
            keys = self._keys.setdefault((source, spec.id), {})
            found.append(Subscription(spec.id, grouping, ports, keys, chooser))
        return found

    def _port(self, target: int, origin: Origin) -> Port:
        task = self.tasks.get(target)
        if task is None:
            return Port(target, buffer=TupleBuffer(target, origin.task, origin.stream))
        assert isinstance(task, BoltTask)
        append = task.inbox.append
        if self._shop.packs_all:
            return Port(target, self._serializing(append, task))
        return Port(target, append)

    def _serializing(self, append: Callable[[Tuple], None], task: Task) -> Callable[[Tuple], None]:
        def append_copy(tup: Tuple) -> None:
            (tup.values,) = self._shop.codec.unpack_rows(task.packed(tup._origin, tup.values), 1)
            append(tup)

        return append_copy

    # Timers.

    def _set_timers(self) -> None:
        conf = self.plan.conf
        if conf["topology.enable.message.timeouts"]:
            self._rotation = self._every(conf["topology.message.timeout.secs"], self._rotate)
        for task in self.bolts:
            rate = task.conf["topology.tick.tuple.freq.secs"]
            if rate and task.component_id in self.plan.topology.components:
                self._every(rate, partial(task.tick, rate))
        for any_task in self.tasks.values():
            if METRICS_STREAM in any_task.routes:  # there are consumers, and this task is not one of them
                for period in any_task.metrics.bucket_lengths():
                    self._every(period, partial(self._tell_metrics, any_task))

    def _every(self, period: float, fire: Callable[[], None]) -> Timer:
        timer = Timer(self.clock.monotonic() + period, period, fire)
        self._timers.append(timer)
        self._next_timer = min(timer.due for timer in self._timers)
        return timer

    def _run_timers(self, now: float) -> None:
        for timer in self._timers:
            if timer.due <= now:
                # A slot that was held up does not make up for what it missed.
                missed = (now - timer.due) // timer.period
                timer.due += timer.period * (missed + 1)
                timer.fire()
        self._next_timer = min(timer.due for timer in self._timers)

    def _rotate(self) -> None:
        # Not in step: what a slot that was held up has just emitted must have its whole timeout, too.
        self._rotation.due = self.clock.monotonic() + self._rotation.period
        self._branches.rotate()
        for task in self.tasks.values():
            task.rotate()

    def _tell_metrics(self, task: Task) -> None:
        points = task.metrics.collect(self.clock.monotonic(), task.report_metric)
        for bucket_secs, found in points.items():
            info = TaskInfo(task.component_id, task.task_id, self.number, self.clock.time(), bucket_secs)
            route = task.routes[METRICS_STREAM]
            values = [info, found]
            task.deliver(route, route.choose(values), values, UNTRACKED)

    def next_due(self) -> float:
        """When the next timer fires or a paused spout may be called again, on the monotonic clock."""
        paused = [task.next_poll() for task in self.spouts]
        now = self.clock.monotonic()
        return min([self._next_timer, *(when for when in paused if when > now)])

    # Turning.

    def deliver(self, frames: Iterable[Frame]) -> None:
        """Hand over frames from other slots; another thread may call it."""
        self._delivered.extend(frames)

    def take(self) -> list[Frame]:
        """What has been sealed for other slots since the last call; another thread may call it."""
        return self.outbox.take()

    def reset(self) -> None:
        """Drop what was in flight between slots, and fail every pending root now: the other end may be gone."""
        self._delivered.clear()
        self.outbox.clear()
        self._branches = RotatingMap(2)
        for spout in self.spouts:
            spout.fail_pending()

    def inbox_bytes(self) -> int:
        """The size of what has been delivered and not yet been taken in."""
        return sum(len(frame.payload) for frame in list(self._delivered))

    def turn(self) -> bool:
        """Do a slice of work, some milliseconds unless user code takes longer; whether there was any."""
        self._shop.thread = get_ident()
        now = self.clock.monotonic()
        for spout in self.spouts:
            spout.collector.now = now
        busy = self._shop.run_posted()
        busy |= self._take_in()
        if now >= self._next_timer:
            self._run_timers(now)
            busy = True
        until = now + TURN_SECS
        busy |= self._run_bolts(until)
        for spout in self.spouts:
            spout.set_active(self.active)
            busy |= spout.tell_outcomes()
        if self.active and self._has_room():
            busy |= self._poll_spouts()
            busy |= self._run_bolts(self.clock.monotonic() + TURN_SECS)
        self.outbox.seal()
        return busy

    def _has_room(self) -> bool:
        if self.paused or self.outbox.waiting_bytes() > OUTBOX_BYTES:
            return False
        return self._queued() < BACKLOG

    def _queued(self) -> int:
        return sum(task.waiting() for task in self.bolts)

    def running(self) -> str:
        """The task whose component is being called, for what it prints."""
        task = self._shop.running
        return f"{task.component_id}:{task.task_id}" if task is not None else f"slot {self.number}"

    def _poll_spouts(self) -> bool:
        """Poll every spout once, or as many as there is time for; the next turn begins with the next spout."""
        emitted = False
        most = max(FEWEST_POLLS, POLLS // max(1, len(self.spouts)))
        until = self.clock.monotonic() + TURN_SECS
        for _ in range(len(self.spouts)):
            spout = self.spouts[0]
            self.spouts.rotate(-1)
            emitted |= spout.poll(most, until)
            if self.clock.monotonic() >= until:
                break
        return emitted

    def _run_bolts(self, until: float) -> bool:
        """Run the bolts until their queues are empty, or until `until`."""
        ran = False
        for _ in range(ROUNDS):
            idle = True
            for task in self.bolts:
                if task.inbox or task.backlog:
                    task.run()
                    idle = False
            if idle:
                return ran
            ran = True
            if self.clock.monotonic() >= until:
                break
        return True

    def work_done(self) -> int:
        """How many tuples the spouts have emitted and the bolts have executed."""
        return sum(task.collector.emits for task in self.spouts) + sum(task.stats.executed for task in self.bolts)

    def _take_in(self) -> bool:
        """Unpack what was delivered, as much as the queues should hold: packed it takes a tenth of the memory."""
        took = bool(self._delivered)
        while self._delivered and self._queued() < BACKLOG:
            frame = decode(self._delivered.popleft().payload, self._shop.codec)
            task = self.tasks.get(frame.target)
            if isinstance(frame, AckFrame) and isinstance(task, SpoutTask):
                self._take_acks(frame, task)
            elif isinstance(frame, TupleFrame) and isinstance(task, BoltTask):
                self._take_tuples(frame, task)
            else:
                raise SerializationError(f"slot {self.number} got a frame for task {frame.target}, which is not in it")
        return took

    def _take_acks(self, frame: AckFrame, task: SpoutTask) -> None:
        for root, edges in zip(frame.acked_roots, frame.acked_edges, strict=True):
            task.part_acked(root, edges)
        for root in frame.failed_roots:
            task.part_failed(root)
        for root in frame.reset_roots:
            task.reset_root(root)

    def _take_tuples(self, frame: TupleFrame, task: BoltTask) -> None:
        origin = self._origin(frame.source, frame.stream)
        append = task.inbox.append
        at = 0
        for index, values in enumerate(frame.rows):
            count = 1 if frame.counts is None else frame.counts[index]
            tree = join([self._arrived(frame, anchor) for anchor in range(at, at + count)])
            tree.open += 1
            append(new_tuple(values, origin, tree))
            at += count

    def _arrived(self, frame: TupleFrame, anchor: int) -> Tree:
        """The part of a root's tree in this slot, with one more edge into it."""
        root_id = frame.roots[anchor]
        branch = self._branches.get(root_id)
        if branch is None:
            branch = self._branches.newest[root_id] = Branch(root_id, frame.homes[anchor], self.outbox)
        branch.edge ^= frame.edges[anchor]
        return branch

    def _forget(self, branch: Branch) -> None:
        self._branches.pop(branch.root_id)

    def _origin(self, source: int, stream: str) -> Origin:
        origin = self._origins.get((source, stream))
        if origin is None:
            component = self.plan.component_of[source]
            fields = self.plan.outputs_of(component)[stream].fields
            origin = self._origins[source, stream] = Origin(component, source, stream, fields)
        return origin

    def on_wake(self, wake: Callable[[], None]) -> None:
        """Have `wake` called when another thread has given the slot something to do."""
        self._shop.wake = wake

    # Ending.

    def close(self) -> None:
        """Close every component, spouts first; what their `close` and `cleanup` raise is reported."""
        self.is_open = False
        self._shop.thread = get_ident()
        for spout in self.spouts:
            spout.set_active(False)
        for task in [*self.spouts, *self.bolts]:
            task.close()
        self._shop.close()
        self._shut_hooks()

    def _shut_hooks(self) -> None:
        for hook in self._hooks:
            try:
                hook.shutdown()
            except BaseException:  # SystemExit and the like of user code are failures, never an end
                log.exception("shutdown of the worker hook %s", type(hook).__name__)
        self._hooks.clear()


def _prepared(chooser: Any, bolt_id: str, context: TopologyContext, source: GlobalStreamId, targets: list[int]) -> Any:
    """A copy of the user's own grouping, for one task that emits on `source`."""
    try:
        copied = cloudpickle.loads(cloudpickle.dumps(chooser))
        copied.prepare(context, source, list(targets))
    except BaseException as exc:  # SystemExit and the like of user code are failures, never an end
        raise StormError(
            f"prepare of the custom grouping {type(chooser).__name__} of bolt {bolt_id!r} on stream "
            f"{source.stream_id!r} of {source.component_id!r} raised {type(exc).__name__}: {exc}"
        ) from exc
    return copied


def load_component(id_: str, pickled: bytes) -> Any:
    """A fresh instance of a component."""
    try:
        return cloudpickle.loads(pickled)
    except ModuleNotFoundError as exc:
        raise SerializationError(
            f"component {id_!r} needs the module {exc.name!r}, which is not to be found here; install it or ship it"
        ) from exc
    except Exception as exc:
        raise SerializationError(f"component {id_!r} cannot be unpickled: {type(exc).__name__}: {exc}") from exc


def pickle_components(plan: Plan) -> dict[str, bytes]:
    """Every component as bytes; one that cannot be pickled is an error that names it and the attribute."""
    for source, spec, grouping in plan.topology.subscriptions():
        if isinstance(grouping, CustomGrouping):
            _pickled(f"custom grouping of {spec.id!r} on {source.component_id!r}", grouping.chooser)
    return {id_: _pickled(f"component {id_!r}", spec.component) for id_, spec in plan.specs.items()}


def _pickled(what: str, component: Any) -> bytes:
    try:
        pickled: bytes = cloudpickle.dumps(component)
        return pickled
    except Exception as exc:
        attribute = _unpicklable_attribute(component)
        at = f" because of its attribute {attribute!r}" if attribute else ""
        raise SerializationError(f"{what} cannot be pickled{at}: {exc}; create it in open or prepare instead") from exc


def _unpicklable_attribute(component: Any) -> str | None:
    attributes: dict[str, Any] = getattr(getattr(component, "wrapped", component), "__dict__", {})
    for name, value in attributes.items():
        try:
            cloudpickle.dumps(value)
        except Exception:
            return name
    return None
