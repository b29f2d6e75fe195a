"""A slot's process without threads and sockets: the real actor, watch, fence and slot, driven by simulated events."""

from __future__ import annotations

import random

from pystorm_spark.errors import StormError
from pystorm_spark.spark.protocol.messages import Failed, Hung, Reset
from pystorm_spark.spark.protocol.wire import Address
from pystorm_spark.spark.slot.actor import SlotActor
from pystorm_spark.spark.slot.watch import BEAT_SECS, LEASE_TIMEOUT_SECS, SlotWatch
from tests.spark.simulation.answering import SimulatedAnswering
from tests.spark.simulation.state import Later
from tests.spark.simulation.wires import Wire
from tests.spark.simulation.world import TICK_SECS

STEP_SECS = 0.002
# What of the actor and of its state something can happen around, and what these points are called.
ACTOR_POINTS = {"_reset": ("resetting", "reset"), "_set_active": ("activating", "activated")}
STATE_POINTS = {
    "quiesce": ("quiescing", None),
    "mark": ("marking", "marked"),
    "prepare": ("preparing", "prepared"),
    "_write": ("writing", "written"),
    "_merge": ("merging", "merged"),
    "commit": ("committing", "committed"),
}


class Killed(BaseException):
    """The process has ended at this point."""


class SimulatedProcess:
    """One slot process: what its threads would do happens one after the other, on the clock of the simulation."""

    def __init__(self, simulation, number, address):
        self.simulation = simulation
        self.number = number
        self.address = Address(f"process-{address}")
        self.is_alive = True
        self.is_frozen = self.was_frozen = False
        self._frozen_calls = []  # what came while it stood still
        self._blocked_calls = []  # of threads that wait until the driver reads
        self.wire = None
        self._rng = random.Random()
        self.actor = SlotActor(number, self, simulation, self._rng)
        self._watch = SlotWatch(self.actor, self, simulation, self._longest_call)
        self.answering = SimulatedAnswering(self)
        self.told_epoch = 0
        self._is_stopping = False
        self._step_due = False
        self.held_until = self._held_since = 0.0
        self._fails_to_open = False
        self._add_points(self.actor, ACTOR_POINTS)

    @property
    def slot(self):
        return self.actor.slot if self.actor.is_loaded else None

    # What can happen to it.

    def guarded(self, call):
        """Run `call` now, or when the process goes on; what the process ends in ends there."""
        if self.is_frozen:
            self._frozen_calls.append(call)
        elif self.is_alive:
            try:
                call()
            except Killed:
                self.die()

    def talkative(self, call):
        """Run `call` of a thread that tells the driver something, when there is room for that."""
        if self.wire.to_driver.is_full():
            self._blocked_calls.append(call)
        else:
            self.guarded(call)

    def go_on(self):
        """The driver has read all there was."""
        calls, self._blocked_calls = self._blocked_calls, []
        for call in calls:
            self.talkative(call)

    def passes(self, point):
        fault = self.simulation.fault(point, self.number)
        if fault is not None:
            getattr(self, f"_suffer_{fault.deed}")(fault.secs)

    def _add_points(self, part, points):
        """Something can happen before and after calls of methods of `part`."""
        for name, (before, after) in points.items():
            setattr(part, name, self._between(before, getattr(part, name), after))

    def _between(self, before, method, after):
        def call(*args):
            self.passes(before)
            method(*args)
            if after == "reset":
                self.answering.check_reset(self.actor.epoch)
            if after is not None:
                self.passes(after)

        return call

    def _suffer_kill(self, secs):
        raise Killed

    def _suffer_cut(self, secs):
        if self.wire is not None:
            self.wire.broken()
            self.orphaned_in(min(secs, LEASE_TIMEOUT_SECS))

    def _suffer_freeze(self, secs):
        if self.is_frozen:
            return
        self.is_frozen = self.was_frozen = True
        self.simulation.haunt(secs, self._thaw)
        self.simulation.watch_silence()

    def _suffer_hold(self, secs):
        if not self._is_held():
            self._held_since = self.simulation.now
        self.held_until = max(self.held_until, self.simulation.now + secs)

    def _suffer_stall(self, secs):
        self.answering.stalled_until = max(self.answering.stalled_until, self.simulation.now + secs)

    def _suffer_deaf(self, secs):
        if self.wire is not None:
            self.wire.to_slot.leave_unread(secs)

    def _suffer_unheard(self, secs):
        if self.wire is not None:
            self.wire.to_driver.leave_unread(secs)

    def _suffer_block(self, secs):
        self.simulation.control.block(secs)

    def _suffer_lag(self, secs):
        if self.wire is not None:
            self.wire.delay(secs)

    def _is_held(self):
        return self.held_until > self.simulation.now

    def _suffer_deactivate(self, secs):
        self.simulation.after(secs, self.simulation.deactivate)

    def _thaw(self):
        self.is_frozen = False
        calls, self._frozen_calls = self._frozen_calls, []
        for call in calls:
            self.guarded(call)

    def orphaned_in(self, secs):
        """It ends by itself once it notices that it has no driver any more."""
        self.simulation.after(secs, lambda: self.guarded(self.die))

    def die(self):
        if not self.is_alive:
            return
        self.is_alive = False
        self.is_frozen = False
        self.answering.end()
        if self.wire is not None:
            self.wire.broken()

    # What the actor and the watch need of their process.

    def tell(self, message):
        is_failure = isinstance(message, Failed)
        assert not is_failure or self._fails_to_open, f"slot {self.number} fails to start: {message.error}"
        self.wire.tell(message)

    def wake(self):
        if not self._step_due:
            self._step_due = True
            self.simulation.after(STEP_SECS, lambda: self.talkative(self._take_step))

    def stop(self):
        self._is_stopping = True

    def note_call(self, began):
        pass  # no time passes in a call: `hold` says how long user code takes

    def checkpoint_files(self, place, is_handed):
        return self.simulation.files

    def background(self, name):
        return Later(self)

    def orphaned(self):
        raise Killed

    def hung(self, secs, thread):
        if self.actor.is_starting:
            self._fails_to_open = True
            self.actor.fail_start(StormError(f"not started after {secs} s"))
        else:
            self.tell(Hung(**self.actor.standing(), secs=secs, stacks="", where=self.actor.running(thread) or ""))
        raise Killed

    def _longest_call(self):
        return (0, self._held_since) if self._is_held() else None

    # The way to `ready`, as in `SlotProcess.run`.

    def start(self, fails_to_open):
        self.passes("starting")
        if self.simulation.is_closed:
            raise Killed
        self._fails_to_open = fails_to_open
        self.wire = Wire(self.simulation, self)
        assignment = self.simulation.assignment(self.wire.link)
        self.told_epoch = assignment.epoch
        self.actor.begin(assignment)
        if self.simulation.scenario.beats:
            self.simulation.after(BEAT_SECS, lambda: self.guarded(self._look))
            self.simulation.after(BEAT_SECS, lambda: self.talkative(self._beat))
        self.passes("assigned")
        self._in_time(lambda: self._open(assignment))

    def _open(self, assignment):
        self._rng.seed(self.simulation.rng.getrandbits(64))
        if not (self.actor.load(assignment) and self._join_world() and self.actor.start(assignment.opens)):
            self.die()
            return
        self.passes("opened")
        self._in_time(self._ready)

    def _join_world(self):
        for spout in self.slot.spouts:
            spout.spout.world = self.simulation.world
            spout.spout.process = self
            spout.spout.fails_to_open = self._fails_to_open
        for bolt in self.slot.bolts:
            getattr(bolt.bolt, "wrapped", bolt.bolt).world = self.simulation.world
        if self.actor.state is not None:
            self._add_points(self.actor.state, STATE_POINTS)
        return True

    def _ready(self):
        self.actor.be_ready(self.address)
        self.wake()

    def _in_time(self, call):
        at = max(self.held_until, self.simulation.now + self.simulation.delay())
        self.simulation.at(at, lambda: self.guarded(call))

    # Its threads.

    def hear(self, message):
        self.guarded(lambda: self._hear(message))

    def _hear(self, message):
        if isinstance(message, Reset):
            self.told_epoch = message.epoch
        self.actor.handle(message)

    def _look(self):
        self.simulation.after(BEAT_SECS, lambda: self.guarded(self._look))
        self._watch.look_for_driver()

    def _beat(self):
        self.simulation.after(BEAT_SECS, lambda: self.talkative(self._beat))
        self._watch.beat()
        call = self._longest_call()
        assert call is None or self.simulation.now - call[1] <= self.actor.call_limit, "a call that hangs is borne"

    def _take_step(self):
        self._step_due = False
        if self._is_held():
            self._step_due = True
            self.simulation.at(self.held_until, lambda: self.talkative(self._take_step))
            return
        if self._is_stopping:
            self.actor.finish()
            self.die()
            return
        self.passes("turning")
        if self._is_held():
            self.wake()
            return
        busy = self.actor.step()
        self.answering.note_sealed(self.actor.epoch)
        self.passes("turned")
        if busy or self.actor._calls:
            self.actor.exchanges.note_work(STEP_SECS)
            self.wake()
        elif self.slot.is_open and self.slot.next_due() < self.simulation.now + 2 * TICK_SECS:
            self.simulation.at(self.slot.next_due(), lambda: self.guarded(self.wake))
        elif self.simulation.scenario.shares:  # something may come from another spout, which wakes nobody
            self.simulation.after(TICK_SECS, lambda: self.guarded(self.wake))
