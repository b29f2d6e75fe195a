"""Internal. Slot: the tasks of one process. `deliver(frames)`, `turn()`, `take() -> frames`; no thread, no transport.

A turn is a slice of the slot's work: take in delivered frames, run the timers that are due, run the bolts, call the
spouts' `ack` and `fail`, poll the spouts, run the bolts again, and seal the frames for other slots.
"""

from __future__ import annotations

import gc
import logging
import math
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from threading import get_ident

from pystorm_spark.clock import Clock
from pystorm_spark.core import CORE
from pystorm_spark.errors import StormError, in_words
from pystorm_spark.metrics.consumer import TaskInfo
from pystorm_spark.runtime.arrivals import Arrivals
from pystorm_spark.runtime.back_pressure import BackPressure
from pystorm_spark.runtime.bolt_task import BoltTask
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.runtime.durable.commits import Commits, Restored
from pystorm_spark.runtime.frames import Frame, Outbox
from pystorm_spark.runtime.metrics_bolt import METRICS_STREAM
from pystorm_spark.runtime.plan import Plan
from pystorm_spark.runtime.slot_context import HAS_LOCK, SlotContext
from pystorm_spark.runtime.spout_task import SpoutTask
from pystorm_spark.runtime.task import Task, defined
from pystorm_spark.runtime.task_timers import TimerQueue
from pystorm_spark.runtime.timers import Timer, Timers
from pystorm_spark.runtime.trees import UNTRACKED
from pystorm_spark.runtime.wiring import Wiring
from pystorm_spark.runtime.worker_hooks import WorkerHooks
from pystorm_spark.topology.tuple import Tuple

log = logging.getLogger(__name__)

TURN_SECS = 0.005
SLOW_SECS = 0.1  # a turn that takes longer is spent in user code
# A round is a few polls and then all executions they cause. It is short, so that its tuples stay in the
# processor's cache and die young, but long enough to give every bolt some tuples. See benchmarks/word_count.py.
ROUND_TUPLES = 128
ROUND_TUPLES_PER_BOLT = 32
MOST_ROUND_TUPLES = 2048
MOST_ROUND_POLLS = 512
SPOUT_POLLS = 32  # of one spout at least, before the next spout is polled
POLL_ROUNDS = 16  # in one turn at most
ROUNDS = 100  # through the bolts in one turn at most: tuples may circle for ever


class Slot:
    """The tasks of one process. Its engine calls `turn`; all work of a turn is done in the calling thread."""

    def __init__(
        self, plan: Plan, number: int, components: Mapping[str, bytes], clock: Clock, rng: random.Random
    ) -> None:
        self.plan = plan
        self.number = number
        self.clock = clock
        self.active = False
        self.is_open = False
        codec = ValueCodec(fall_back_on_pickle=plan.conf["topology.fall.back.on.pickle"])
        self.outbox = Outbox(rng, codec)
        self.slot_context = SlotContext(clock, self.outbox, codec)
        self._wiring = Wiring(plan, number, self.slot_context, rng)
        self._timers = Timers()
        self._hooks = WorkerHooks()
        self.tasks: dict[int, Task] = self._wiring.make_tasks(components)
        self.bolts = [task for task in self.tasks.values() if isinstance(task, BoltTask)]
        self._turned = list(self.bolts)  # the bolts without threads of their own
        self._aside: dict[int, tuple[BoltTask, Callable[[], None]]] = {}  # {thread: its bolt, call to wake it}
        self.spouts = deque(task for task in self.tasks.values() if isinstance(task, SpoutTask))
        self._collectors = [task.collector for task in self.tasks.values()]
        self.arrivals = Arrivals(plan, codec, self.tasks, self.outbox)
        self.back_pressure = BackPressure(plan, {task.component_id for task in self.spouts}, self.bolts, self.arrivals)
        self.slot_context.with_transactions = frozenset(task for id_ in plan.durable_bolts for task in plan.tasks[id_])
        self.commits = Commits(plan, self.tasks) if plan.has_commits else None
        self._round_polls = SPOUT_POLLS
        self._round_emitted = 0
        self._slow = False  # whether the last turn took long
        self._idling: list[Task] = []  # those whose components define `idle`

    # Beginning.

    def open(self, restored: Restored | None = None) -> None:
        """Open every component, bolts first. An error names the component; components opened before are closed.

        Bolts with state start from `restored`.
        """
        log.debug("slot %d runs on the %s core", self.number, CORE)
        self.slot_context.thread = get_ident()
        if self.commits is not None and restored is not None:
            self.commits.restore(restored)
        opened: list[Task] = []
        try:
            self._hooks.start(self.plan.topology.worker_hooks, self.plan.conf)
            for task in [*self.bolts, *self.spouts]:
                self._wiring.connect(task)
                self._open(task)
                opened.append(task)
        except BaseException:
            self.slot_context.timers.clear()
            for task in opened:
                task.close()
            self._end()
            raise
        self._set_timers()
        self._idling = [task for task in self.tasks.values() if task.idle is not None]
        self.is_open = True

    def _open(self, task: Task) -> None:
        try:
            if self.slot_context.before is not None:
                self.slot_context.before(task, None)
            task.open()
        except BaseException as exc:  # SystemExit and the like of user code are failures, never an end
            told = f"{task.starting()} of {task.component_id!r} (task {task.task_id}) raised {in_words(exc)}"
            raise StormError(told) from exc

    # Timers.

    def _set_timers(self) -> None:
        conf = self.plan.conf
        if conf["topology.enable.message.timeouts"]:
            self._rotation = self._every(conf["topology.message.timeout.secs"], self._rotate)
        else:
            for task in self.bolts:  # commits wait for these, and not for ever
                self._every(conf["topology.message.timeout.secs"], task.rotate_transactions)
        for task in self.bolts:
            rate = task.conf["topology.tick.tuple.freq.secs"]
            if rate and task.component_id in self.plan.topology.components:
                self._every(rate, partial(task.tick, rate))
        for any_task in self.tasks.values():
            if METRICS_STREAM in any_task.routes:  # there are consumers, and this task is none of them
                any_task.register_builtin_metrics(conf["topology.builtin.metrics.bucket.size.secs"])
                for period in any_task.metrics.bucket_lengths():
                    self._every(period, partial(self._tell_metrics, any_task))

    def _every(self, period: float, fire: Callable[[], None]) -> Timer:
        return self._timers.every(period, self.clock.monotonic(), fire)

    def _rotate(self) -> None:
        # From now, not from the due time: roots emitted just before a late rotation must have their whole timeout.
        self._rotation.restart(self.clock.monotonic())
        self.arrivals.rotate()
        for task in self.tasks.values():
            task.rotate()

    def _tell_metrics(self, task: Task) -> None:
        self.slot_context.running = task
        points = task.metrics.collect(self.clock.monotonic(), task.report_metric)
        for bucket_secs, found in points.items():
            info = TaskInfo(task.component_id, task.task_id, self.number, self.clock.time(), bucket_secs)
            route = task.routes[METRICS_STREAM]
            values = [info, found]
            task.deliver(route, route.choose(values), values, UNTRACKED)

    def next_due(self) -> float:
        """When, on the monotonic clock, the next timer fires or a paused spout or waiting bolt may be called again."""
        paused = [task.next_poll() for task in self.spouts] + [task.waits_until for task in self.bolts]
        now = self.clock.monotonic()
        timers = min(self._timers.next_due, self.slot_context.timers.next_due(self.active))
        return min([timers, *(when for when in paused if when > now)])

    # Turning.

    def deliver(self, frames: Iterable[Frame]) -> None:
        """Hand in frames from other slots; another thread may call it."""
        self.arrivals.deliver(frames)

    def take(self, enough_bytes: float = math.inf) -> list[Frame]:
        """Remove and return frames for other slots, until they reach `enough_bytes`. Another thread may call it."""
        return self.outbox.take(enough_bytes)

    def reset(self) -> None:
        """Drop all tuples in flight between slots and fail every pending root, because another slot may be gone.

        States roll back to the last commit, and the messages since that commit fail, too.
        """
        self.slot_context.run_posted()  # calls posted before the reset are dropped with the rest
        self.arrivals.clear()
        self.outbox.clear()
        self.slot_context.put_off = [(task, tup) for task, tup in self.slot_context.put_off if tup._tree is UNTRACKED]
        self.quiescing = self.deferring = False
        if not self.is_open:
            return  # no component was prepared yet, so there is nothing to roll back
        if self.commits is not None:
            for bolt in self.bolts:
                bolt.drop_tracked()
                if bolt.transactions is not None:
                    bolt.transactions.clear()
            if self.commits.is_exactly_once:
                self._roll_back_held()
            self.commits.rollback()
        for spout in self.spouts:
            spout.fail_pending()

    def _roll_back_held(self) -> None:
        self.slot_context.rollbacks += 1
        for bolt in self.bolts:
            bolt.roll_back_held()

    @property
    def quiescing(self) -> bool:
        """Whether no tree may begin until the next commit."""
        return self.slot_context.quiescing

    @quiescing.setter
    def quiescing(self, quiescing: bool) -> None:
        self.slot_context.quiescing = quiescing
        if not quiescing and self.slot_context.has_posted():
            self.slot_context.wake()

    @property
    def deferring(self) -> bool:
        """Whether timers and ticks of bolts with state wait, until a commit."""
        return self.slot_context.deferring

    @deferring.setter
    def deferring(self, deferring: bool) -> None:
        was_deferring, self.slot_context.deferring = self.slot_context.deferring, deferring
        if was_deferring and not deferring:
            for bolt in self.bolts:
                bolt.go_on()

    def set_active(self, active: bool) -> None:
        """Activate or deactivate the spouts now. Setting `active` does so in the next turn instead."""
        self.active = active
        now = self.clock.monotonic()
        for spout in self.spouts:
            spout.collector.now = now
            spout.set_active(active)

    def is_idling(self) -> bool:
        """Whether a component wants to be called while there is nothing to do."""
        return bool(self._idling)

    def end_input(self, component: str) -> str | None:
        """Tell the tasks of a component that all input has come; what one of them has raised, in words."""
        told: list[str] = []
        for task in self.tasks.values():
            if task.component_id == component:
                task.call(partial(_end_input, task, told), "input_ended")
        return told[0] if told else None

    def inbox_bytes(self) -> int:
        """The size of the delivered frames that are not yet taken in."""
        return self.arrivals.waiting_bytes()

    def full_components(self) -> list[str]:
        """The components that overload this slot's inbox; all slots pause the spouts that feed them."""
        return self.arrivals.full(self.plan.conf["topology.slot.inbox.max.bytes"])

    def turn(self) -> bool:
        """Do a slice of work, some milliseconds unless user code takes longer; return whether there was any.

        The garbage collector is off until the end of the turn. Most objects of a turn are freed by then, and scanning
        them before costs up to half of the speed. After a slow turn it stays on.
        """
        holds_collector = gc.isenabled() and not self._slow
        if holds_collector:
            gc.disable()
        try:
            return self._turn()
        finally:
            self._close_short_way()
            if holds_collector:
                gc.enable()

    def _turn(self) -> bool:
        self.slot_context.thread = get_ident()
        now = self.clock.monotonic()
        for spout in self.spouts:
            spout.collector.now = now
        busy = self.slot_context.run_posted()
        self._open_short_way()
        busy |= self.arrivals.take_in()
        if now >= self._timers.next_due:
            self._timers.run(now)
            busy = True
        if now >= self.slot_context.timers.of_bolts.next_due():
            self._call_due(self.slot_context.timers.of_bolts, now)
            busy = True
        until = now + TURN_SECS
        busy |= self._run_bolts(until) > 0
        for spout in self.spouts:
            spout.set_active(self.active)
            busy |= spout.tell_outcomes()
        if self.active and now >= self.slot_context.timers.of_spouts.next_due():
            self._call_due(self.slot_context.timers.of_spouts, now)
            busy = True
        for _ in range(POLL_ROUNDS):
            if not (self.active and self._poll_spouts(until)):
                break
            busy = True
            executed = self._run_bolts(self.clock.monotonic() + TURN_SECS)
            self._fit_round(executed)
            for spout in self.spouts:
                spout.tell_outcomes()
        for task in self._idling:
            task.call_idle()
        self.outbox.seal()
        self._slow = self.clock.monotonic() - now > SLOW_SECS
        return busy or any(task.can_run() for task in self._turned)  # user threads may have emitted meanwhile

    def _call_due(self, timers: TimerQueue, now: float) -> None:
        """Make the calls of user code that are due; a bolt that is executed by a thread of its own makes its own.

        A task that is held up has one call of each timer before it. One of the calls may close the slot.
        """
        for timer in timers.take_due(now):
            if self.is_open and not timer.is_handed_over:
                timer.is_handed_over = True
                timer.task.call(timer.fire, "a timer")

    def _open_short_way(self) -> None:
        # The short way makes no call between its check and its change: see BoltCollector.
        for collector in self._collectors:
            collector.short_way = HAS_LOCK and not (collector.posted or collector.watched)
        if self.quiescing:
            for spout in filter(_takes_part, self.spouts):
                spout.collector.short_way = False  # its emits must wait

    def _close_short_way(self) -> None:
        """Between turns every emit must wake the slot, which the short way does not."""
        for collector in self._collectors:
            collector.short_way = False

    def running(self, thread: int) -> str | None:
        """The task whose component `thread` is calling, if it turns the slot or has a bolt of its own."""
        aside = self._aside.get(thread)
        task: Task | None = aside[0] if aside is not None else None
        if thread == self.slot_context.thread:
            task = self.slot_context.running
        return f"{task.component_id}:{task.task_id}" if task is not None else None

    def _poll_spouts(self, until: float) -> bool:
        """Poll the spouts in turn for one round, not after `until`. The next round begins with the next spout."""
        emitted = 0
        if self.quiescing and all(map(_takes_part, self.spouts)):
            return False
        with_room = self.back_pressure.with_room(self.outbox.waiting_bytes())
        most = max(SPOUT_POLLS, self._round_polls // max(1, len(self.spouts)))
        for _ in range(len(self.spouts)):
            if emitted >= self._round_polls or self.clock.monotonic() >= until:
                break
            spout = self.spouts[0]
            self.spouts.rotate(-1)
            if spout.component_id in with_room and not (self.quiescing and spout.takes_part):
                if self.slot_context.before is not None:
                    self.slot_context.before(spout, None)
                emitted += spout.poll(most, until)
        self._round_emitted = emitted
        return emitted > 0

    def _fit_round(self, executed: int) -> None:
        """Size the next round by the number of executions that the last one caused."""
        wanted = max(ROUND_TUPLES, min(MOST_ROUND_TUPLES, ROUND_TUPLES_PER_BOLT * len(self.bolts)))
        polls = wanted * self._round_emitted // max(1, executed)
        self._round_polls = min(MOST_ROUND_POLLS, max(SPOUT_POLLS, polls))

    def _run_bolts(self, until: float) -> int:
        """Run the bolts until their queues are empty, not after `until`; return the number of executed tuples."""
        executed = 0
        slot_context = self.slot_context
        slot_context.now = self.clock.monotonic()
        for _ in range(ROUNDS):
            before = executed
            for task in self._turned:
                if task.inbox or task.backlog:
                    executed += task.run()
            if executed == before or slot_context.now >= until:
                break
        for task, wake in self._aside.values():
            if task.inbox or task.backlog:
                wake()
        return executed

    def set_aside(self, task: BoltTask, thread: int, wake: Callable[[], None]) -> None:
        """Give a bolt a thread of its own; `wake` is called when the bolt has tuples to execute."""
        self._turned = [other for other in self._turned if other is not task]
        self._aside = {**self._aside, thread: (task, wake)}
        task.is_apart = True
        task.wake_apart = wake

    def bring_back(self, task: BoltTask) -> None:
        """Run a bolt in turns again, after its own thread has left it."""
        self._aside = {thread: aside for thread, aside in self._aside.items() if aside[0] is not task}
        task.wake_apart = None
        while task.calls:
            task.calls.popleft()()
        apart = [other for other, _ in self._aside.values()]
        self._turned = [other for other in self.bolts if other not in apart]

    def note_end_aside(self, task: BoltTask) -> None:
        """A bolt with a thread of its own has executed a batch: wake the slot if the bolt has a backlog."""
        if not task.can_run() and self.arrivals.has_backlog_for(task):
            self.slot_context.wake()

    def is_at_work(self) -> bool:
        """Whether there is work that shows in no count yet: frames to be taken, or calls of other threads."""
        is_apart = any(task.is_apart or task.has_deferred() for task in self.bolts)
        return is_apart or self.outbox.has_frames() or self.slot_context.has_posted() or bool(self.slot_context.put_off)

    def work_done(self) -> int:
        """The number of emits of the spouts plus the number of executes of the bolts."""
        return sum(task.collector.emits for task in self.spouts) + sum(task.stats.executed for task in self.bolts)

    def on_wake(self, wake: Callable[[], None]) -> None:
        """Call `wake` from then on whenever another thread gives the slot work."""
        self.slot_context.wake = wake

    def before_calls(self, tell: Callable[[Task, Tuple | None], str | None] | None) -> None:
        """Call `tell` before each `open`, `prepare` and `execute`, and before each poll; None ends that.

        If it returns a reason, the tuple is not executed and fails. If it returns `LATER`, the tuple is put off.
        """
        self.slot_context.before = tell

    def bring_forward(self) -> None:
        """Queue the tuples that were put off."""
        put_off, self.slot_context.put_off = self.slot_context.put_off, []
        for task, tup in put_off:
            task.inbox.append(tup)

    # Ending.

    def close(self) -> None:
        """Close every component, spouts first. Exceptions of `close` and `cleanup` are reported."""
        self.is_open = False
        self.slot_context.thread = get_ident()
        self.slot_context.timers.clear()
        for spout in self.spouts:
            spout.set_active(False)
        for task in [*self.spouts, *self.bolts]:
            task.close()
        self._end()

    def _end(self) -> None:
        self.slot_context.close()
        self.slot_context.running = None
        self._hooks.shut_down()


def _takes_part(spout: SpoutTask) -> bool:
    return spout.takes_part


def _end_input(task: Task, told: list[str]) -> None:
    ended = defined(task.component(), "input_ended", 0)
    try:
        if ended is not None:
            ended()
    except BaseException as exc:
        told.append(f"input_ended of {task.component_id!r} (task {task.task_id}) raised {in_words(exc)}")
        raise
