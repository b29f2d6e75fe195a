"""A slot's process without threads and sockets: the real handlers, fence and slot, driven by simulated events."""

from __future__ import annotations

import random
from collections import deque

import msgpack

from pystorm_spark.errors import StormError
from pystorm_spark.runtime.slot import Slot
from pystorm_spark.spark.announcer import Announcer
from pystorm_spark.spark.answers import Exchanges
from pystorm_spark.spark.control import SlotLink
from pystorm_spark.spark.row_tasks import RowTasks
from pystorm_spark.spark.slot_actor import SlotActor
from pystorm_spark.spark.slot_watch import LEASE_SECS
from pystorm_spark.spark.wire import MISSED, Address
from tests.spark.simulation.state import SimulatedState
from tests.spark.simulation.world import TICK_SECS

STEP_SECS = 0.002


class Killed(BaseException):
    """The process has ended at this point."""


class Wire:
    """The control connection of one slot: messages keep their order, each takes its time."""

    def __init__(self, simulation, process):
        self._simulation = simulation
        self._process = process
        self._arrived = {"driver": 0.0, "slot": 0.0}
        self.is_open = True
        self._ended = False
        self.link = SlotLink(process.number, 0, self, is_near=False)

    def send(self, message):
        """The driver tells the slot something."""
        self._simulation.changes.check_unlocked()
        if self.is_open:
            self._carry("slot", lambda: self._process.hear(message))

    def tell(self, message):
        """The slot tells the driver something."""
        if self.is_open:
            self._carry("driver", lambda: self._heard(message))

    def _heard(self, message):
        if self.is_open:
            self.link.heard_at = self._simulation.now
            self._simulation.driver.on_message(self.link, message)

    def _carry(self, to, call):
        at = max(self._arrived[to], self._simulation.now + self._simulation.delay())
        self._arrived[to] = at
        self._simulation.at(at, call)

    def close(self):
        """The driver lets go of the slot, and kills it if it can."""
        if self.is_open:
            self.is_open = False
            self._simulation.check_kill(self._process)
            self._simulation.after(0.0, self._end)
            if self._simulation.scenario.near:
                self._process.die()
            else:
                self._process.orphaned_in(LEASE_SECS)

    def broken(self):
        """The process is gone, or cannot be heard any more: what it has said still arrives."""
        self._carry("driver", self._break)

    def _break(self):
        if self.is_open:
            self.is_open = False
            self._end()

    def _end(self):
        if not self._ended:
            self._ended = True
            self._simulation.driver.on_end(self.link)


class SimulatedProcess(SlotActor):
    """One slot process."""

    def __init__(self, simulation, number, address):
        self.simulation = simulation
        self.number = number
        self.address = Address(f"process-{address}")
        self.is_alive = True
        self.is_frozen = self.was_frozen = False
        self.frozen_calls = []  # what came while it stood still
        self.callers = []  # who waits for an answer
        self.wire = None
        self.slot = None
        self.epoch = 0
        self.held_until = 0.0
        self.stalled_until = 0.0
        self._calls = deque()
        self.is_stopping = False
        self._process = self
        self._now = simulation.monotonic
        self._announcer = Announcer(self.tell)
        self.state = None
        self._told_frames = False
        self._step_due = False
        self.sealed_in = {}  # {payload: the epoch in which the slot sealed it}
        self.taken_in = {}  # {payload: the epoch in which the slot got it}

    # Life.

    def guarded(self, call):
        """Run `call` now, or when the process goes on; what the process ends in ends there."""
        if self.is_frozen:
            self.frozen_calls.append(call)
        elif self.is_alive:
            try:
                call()
            except Killed:
                self.die()

    def passes(self, point):
        fault = self.simulation.fault(point, self.number)
        if fault is not None:
            getattr(self, f"_suffer_{fault.deed}")(fault.secs)

    def _suffer_kill(self, secs):
        raise Killed

    def _suffer_cut(self, secs):
        if self.wire is not None:
            self.wire.broken()
            self.orphaned_in(min(secs, LEASE_SECS))

    def _suffer_freeze(self, secs):
        if self.is_frozen:
            return
        self.is_frozen = self.was_frozen = True
        self.simulation.haunt(secs, self._thaw)
        self.simulation.watch_silence()

    def _suffer_hold(self, secs):
        self.held_until = max(self.held_until, self.simulation.now + secs)

    def _suffer_stall(self, secs):
        self.stalled_until = max(self.stalled_until, self.simulation.now + secs)

    def _thaw(self):
        self.is_frozen = False
        calls, self.frozen_calls = self.frozen_calls, []
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
        callers, self.callers = self.callers, []
        for reply in callers:
            self.simulation.soon(lambda reply=reply: reply("lost", []))
        if self.wire is not None:
            self.wire.broken()

    # The way to `ready`, as in `run`.

    def start(self, fails_to_open):
        self.passes("starting")
        if self.simulation.is_closed:
            raise Killed
        self.wire = Wire(self.simulation, self)
        assignment = self.simulation.assignment(self.wire.link)
        self.epoch = self.told_epoch = assignment["epoch"]
        self.passes("assigned")
        self._in_time(lambda: self._open(assignment["open"], fails_to_open, assignment["checkpoint"]))

    def _open(self, opens, fails_to_open, checkpoint):
        simulation = self.simulation
        rng = random.Random(simulation.rng.getrandbits(64))
        self.slot = Slot(simulation.plan, self.number, simulation.components, simulation, rng)
        self.rows = RowTasks(self.slot, self.tell)
        for spout in self.slot.spouts:
            spout.spout.world = simulation.world
            spout.spout.process = self
            spout.spout.fails_to_open = fails_to_open
        for bolt in self.slot.bolts:
            getattr(bolt.bolt, "wrapped", bolt.bolt).world = simulation.world
        self.slot.on_wake(self.wake)
        self.exchanges = Exchanges(self.slot, self.epoch, self.frames_taken)
        if checkpoint is not None:
            self.state = SimulatedState(self, checkpoint["assignment"])
        try:
            if opens:
                self.slot.open(self.state.restored() if self.state is not None else None)
        except StormError as exc:
            self.fail_start(exc)
            self.die()
            return
        self.passes("opened")
        self._in_time(self._ready)

    def _ready(self):
        self.tell("ready", address=list(self.address), epoch=self.epoch)
        self.step_soon()

    def _in_time(self, call):
        at = max(self.held_until, self.simulation.now + self.simulation.delay())
        self.simulation.at(at, lambda: self.guarded(call))

    # The control connection.

    def tell(self, kind, **content):
        self.wire.tell({"kind": kind, **content})

    def wake(self):
        self.step_soon()

    def stop(self):
        self.is_stopping = True

    def note_call(self, began):
        pass

    def hear(self, message):
        self.guarded(lambda: self._hear(message))

    def _hear(self, message):
        self.told_epoch = message.get("epoch", self.told_epoch)
        self.handle(message)

    def _reset(self, *args):
        self.passes("resetting")
        super()._reset(*args)
        waiting = [frame.payload for frame in self.slot.arrivals._delivered]
        old = [self.taken_in[payload] for payload in waiting if self.taken_in[payload] != self.epoch]
        assert not old, f"frames of the epochs {old} are still there in epoch {self.epoch}"
        self.passes("reset")

    def _set_active(self, *args):
        self.passes("activating")
        super()._set_active(*args)
        self.passes("activated")

    # Turning.

    def step_soon(self):
        if not self._step_due:
            self._step_due = True
            self.simulation.after(STEP_SECS, lambda: self.guarded(self._take_step))

    def _take_step(self):
        self._step_due = False
        if self.held_until > self.simulation.now:
            self._step_due = True
            self.simulation.at(self.held_until, lambda: self.guarded(self._take_step))
            return
        if self.is_stopping:
            self._finish()
            return
        self.passes("turning")
        if self.held_until > self.simulation.now:
            self.step_soon()
            return
        busy = self.step()
        for frame in self.slot.outbox._sealed:
            self.sealed_in.setdefault(frame.payload, self.epoch)
        self.passes("turned")
        if busy or self._calls:
            self.exchanges.note_work(STEP_SECS)
            self.step_soon()
        elif self.slot.is_open and self.slot.next_due() < self.simulation.now + 2 * TICK_SECS:
            self.simulation.at(self.slot.next_due(), lambda: self.guarded(self.step_soon))
        elif self.simulation.scenario.shares:  # something may come from another spout, which wakes nobody
            self.simulation.after(TICK_SECS, lambda: self.guarded(self.step_soon))

    def _finish(self):
        self.slot.close()
        self.tell("stopped")
        self.die()

    # Exchanges.

    def visited(self, request, reply):
        """A Spark task asks; `reply(status, parcels)` is called once."""
        self.callers.append(reply)
        self.guarded(lambda: self._take_in(request, reply))
        if not self.is_alive and reply in self.callers:
            self.callers.remove(reply)
            self.simulation.soon(lambda: reply("lost", []))

    def _take_in(self, request, reply):
        epoch, job, number, is_last, parcels = request
        self.passes("taking in")
        answer, is_first = self.exchanges.take_in(epoch, job, number, parcels)
        if is_first:
            self._note_arrival(epoch, parcels)
            self.passes("taken in")
            self.wake()
            self._hand_out(answer, epoch, is_last)
        self._reply(answer, reply)

    def _note_arrival(self, epoch, parcels):
        assert epoch == self.told_epoch, f"an exchange of epoch {epoch} was let in, in epoch {self.told_epoch}"
        for parcel in parcels:
            if parcel == MISSED:
                continue
            self.simulation.take_parcel(parcel, epoch)
            for _, payload in msgpack.unpackb(parcel):
                self.taken_in[payload] = epoch

    def _hand_out(self, answer, epoch, is_last):
        if (not is_last and self.exchanges.held_secs()) or self.stalled_until > self.simulation.now:
            self._again(lambda: self._hand_out(answer, epoch, is_last))
            return
        self.passes("handing out")
        self.exchanges.hand_out(answer, epoch, is_last)
        for _, parcel in answer.wait()[2]:
            assert epoch == self.told_epoch, f"frames of epoch {self.told_epoch} were handed to epoch {epoch}"
            self.simulation.hand_parcel(parcel, epoch)
            for _, payload in msgpack.unpackb(parcel):
                sealed_in = self.sealed_in.get(payload, self.epoch)
                assert sealed_in == epoch, f"a frame sealed in epoch {sealed_in} was handed out in epoch {epoch}"
        self.passes("handed out")

    def _reply(self, answer, reply):
        if not answer.is_given() or self.stalled_until > self.simulation.now:
            self._again(lambda: self._reply(answer, reply))
            return
        self.callers.remove(reply)
        status, _, parcels = answer.wait()
        self.simulation.soon(lambda: reply(status, parcels))

    def _again(self, call):
        at = max(self.stalled_until, self.simulation.now + 2 * STEP_SECS)
        self.simulation.at(at, lambda: self.guarded(call))
