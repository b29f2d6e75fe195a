"""The simulation: driver, slots and jobs of one scenario in one thread, with one clock and one queue of events."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter

from pystorm_spark.errors import SlotLostError, StormError
from pystorm_spark.spark.driver.engine import START_SECS, Limits
from pystorm_spark.spark.driver.exchanging import FAILING_SECS
from pystorm_spark.spark.driver.loop import Driver
from pystorm_spark.spark.protocol.messages import Assignment
from tests.spark.simulation.control import SimulatedControl
from tests.spark.simulation.jobs import Job, JobError
from tests.spark.simulation.processes import SimulatedProcess
from tests.spark.simulation.state import FaultyFiles, SimulatedCheckpoint, files_for_next_commit
from tests.spark.simulation.world import SILENCE_SECS, World, plan_of

MAX_RESTARTS = 3
LIMIT_SECS = 3600.0  # of simulated time, in which every run must end
FINISH_SECS = 10.0
LATE_SECS = 2.0
QUIET_SECS = 5.0  # between two looks whether all is done


class SimulatedChanges:
    """What the driver waits on: while it waits, events happen."""

    def __init__(self, simulation):
        self._simulation = simulation
        self._depth = 0

    def monotonic(self):
        return self._simulation.now

    def __enter__(self):
        self._depth += 1

    def __exit__(self, *exc):
        self._depth -= 1

    def notify_all(self):
        assert self._depth

    def wait_for(self, condition, timeout=None):
        assert self._depth == 1
        self._depth = 0  # a wait lets go of the lock
        try:
            return self._simulation.run_until(condition, timeout)
        finally:
            self._depth = 1

    def check_unlocked(self):
        assert not self._depth, "the driver's lock is held while something is sent"


class Simulation:
    """Runs one scenario."""

    def __init__(self, scenario):
        self.scenario = scenario
        self.now = 0.0
        self.rng = random.Random(scenario.seed)
        self.world = World(scenario.numbers, scenario.guarantee, scenario.failing)
        self.plan, self._pickled = plan_of(
            scenario.slots,
            scenario.tasks,
            scenario.pending,
            scenario.guarantee,
            scenario.holds,
            scenario.shares,
            scenario.flushes,
        )
        self.changes = SimulatedChanges(self)
        self.files = FaultyFiles()
        self._keeper = SimulatedCheckpoint(self.plan, self.files, self.world) if scenario.guarantee else None
        self.files.fault = self.fault
        limits = Limits(MAX_RESTARTS, SILENCE_SECS)
        self.driver = Driver(scenario.slots, self, b"token", limits, self.changes, self._keeper)
        self.processes = []
        self.is_ended = False  # by its user, or by an error
        self._finish_began = None
        self.settled_at = 0.0  # when all copies have come and all zombies have woken
        self.is_closed = False  # nobody listens to slots any more
        self._faults = {(fault.point, fault.slot, fault.nth): fault for fault in scenario.faults}
        self._passed = Counter()
        self._events = []
        self._order = itertools.count()
        self.control = SimulatedControl(self)
        self._handed = {}  # {parcel: the epoch in which a slot handed it out}
        self._taken = set()

    # Time.

    def monotonic(self):
        return self.now

    time = monotonic

    def delay(self):
        return self.rng.random() * self.scenario.delay_secs

    def at(self, when, call):
        heapq.heappush(self._events, (when, next(self._order), call))

    def after(self, secs, call):
        self.at(self.now + secs, call)

    def soon(self, call):
        self.at(self.now + self.delay(), call)

    def run_until(self, condition, timeout=None):
        """Let things happen until `condition` holds; whether it does."""
        deadline = LIMIT_SECS if timeout is None else self.now + timeout
        while not (result := condition()):
            if not self._events or self._events[0][0] > deadline:
                assert timeout is not None, f"the driver waits for ever: {self.describe()}"
                self.now = max(self.now, deadline)
                return condition()
            self.now, _, call = heapq.heappop(self._events)
            call()
        return result

    def fault(self, point, slot):
        """What happens to `slot` at `point` this time."""
        nth = self._passed[point, slot]
        self._passed[point, slot] = nth + 1
        return self._faults.get((point, slot, nth))

    # What the driver needs from Spark.

    def has_lost(self, slots):
        return False

    def place(self, slots):
        self.changes.check_unlocked()
        for slot in slots:
            fault = self.fault("place", slot)
            deed = fault.deed if fault is not None else None
            if deed != "none":
                self._place(slot, 0.0, deed == "raise")
            if deed == "double":
                self._place(slot, fault.secs, False)

    def _place(self, slot, secs, fails_to_open):
        process = SimulatedProcess(self, slot, len(self.processes))
        self.processes.append(process)
        self.haunt(secs + self.delay(), lambda: process.guarded(lambda: process.start(fails_to_open)))

    def exchange(self, order, exchanges):
        self.changes.check_unlocked()
        assert not self.driver.state.is_ended, "a job was started after the end"
        assert len(order.addresses) == self.scenario.slots
        return Job(self, order, exchanges)

    # What the slots and the tasks need.

    def haunt(self, secs, call):
        """Something comes late, but before the end."""
        self.settled_at = max(self.settled_at, self.now + secs + 1.0)
        self.after(secs, call)

    def assignment(self, link):
        link.heard_at = self.now
        checkpoint = self._keeper.assignment(link.slot) if self._keeper is not None else None
        restarts = self.driver.restarts
        is_careful, told = self.scenario.beats and restarts.has_died(link.slot), restarts.poison.told()
        epoch, opens = self.driver.slots.admit(link)
        return Assignment(self._pickled, START_SECS, is_careful, *told.values(), checkpoint, epoch, opens)

    def process_at(self, address):
        return next(process for process in self.processes if process.address == address)

    def hand_parcel(self, parcel, epoch):
        assert parcel not in self._handed, "a parcel was handed out twice"
        self._handed[parcel] = epoch

    def take_parcel(self, parcel, epoch):
        assert parcel not in self._taken, "a parcel was taken in twice"
        self._taken.add(parcel)
        assert self._handed[parcel] == epoch, f"a parcel of epoch {self._handed[parcel]} came in epoch {epoch}"

    def check_kill(self, process):
        """The driver kills only what is gone, hangs, is not needed, or cannot be reached."""
        deeds = {fault.deed for fault in self.scenario.faults if fault.slot == process.number or fault.deed == "block"}
        is_useless = not process.is_alive or process.was_frozen or process.wire.link.state == "surplus"
        is_unreached = deeds & {"miss", "break"} or process.wire.to_slot.is_full() or self._is_silent(process, deeds)
        assert is_useless or self.is_ended or is_unreached, "the driver kills a sound process"

    def _is_silent(self, process, deeds):
        return deeds & {"unheard", "lag", "block"} and self.now - process.wire.link.heard_at > SILENCE_SECS

    def watch_silence(self):
        if not self.scenario.beats:  # else they are looked after all the time
            self.after(SILENCE_SECS + 1.0, self._look_for_silence)

    def _look_for_silence(self):
        for process in self.processes:
            if process.is_alive and not process.is_frozen and process.wire is not None:
                process.wire.link.heard_at = self.now
        self.driver.look_for_silence()

    # What the user does.

    def end(self):
        if not self.is_ended:
            self.is_ended = True
            self.driver.slots.stop()

    def finish(self):
        """As `Driver.finish`, which nobody can wait for here: there is one thread."""
        if self.is_ended or self._finish_began is not None:
            return
        self._finish_began = self.now
        has_more = any(process.slot.commits.is_wanted() for process in self.living() if self._keeper is not None)
        before = self._keeper.txid if self._keeper is not None else 0
        with self.changes:
            if not self.driver.begin_finish("it was not made in time"):
                has_more = False
        self._look_at_finish(has_more, before)

    def _look_at_finish(self, has_more, before):
        if self.is_ended:
            return
        if not self.driver.state.is_finish_over() and self.now < self._finish_began + FINISH_SECS:
            self.after(0.001, lambda: self._look_at_finish(has_more, before))
            return
        if not self.driver.state.lost:
            self._check_finish(has_more, before)
        self.end()

    def _check_finish(self, has_more, before):
        """It is known whether there was a last commit, and there is one unless something worse than a disk is wrong."""
        if self.driver.state.unfinished is None:
            assert not has_more or self._keeper.txid > before, "a last commit was not made, and nobody is told"
        else:
            deeds = {fault.deed for fault in self.scenario.faults}
            assert deeds - {"finish", "full", "doubt"} or self.scenario.failing, self.driver.state.unfinished

    def deactivate(self):
        if not self.is_ended:
            self.driver.questions.set_active(False)
            self.after(1.0, self._go_on)

    def _go_on(self):
        if not self.is_ended:
            self.driver.questions.set_active(True)

    # The run.

    def run(self):
        try:
            self.driver.slots.start(is_open=not self.scenario.late)
            self.after(LATE_SECS if self.scenario.late else 0.0, self._activate)
            self.after(QUIET_SECS, self._end_when_quiet)
            while not self.is_ended:
                self.driver.batch()
        except (StormError, JobError) as exc:
            if not self.is_ended:
                self._check_error(exc)
            self.is_ended = True
            self.driver.slots.stop()
        self._check_end()

    def _activate(self):
        if not self.is_ended:
            self.driver.questions.set_active(True)

    def _end_when_quiet(self):
        if self.is_ended:
            return
        if self.world.is_done() and self.is_quiet() and self.now > self.settled_at:
            self._check_quiet()
            self.end()
        else:
            self.after(QUIET_SECS, self._end_when_quiet)

    def living(self):
        """The processes that the driver counts on."""
        links = self.driver.slots.links.values()
        return [process for process in self.processes if process.wire is not None and process.wire.link in links]

    def is_quiet(self):
        """Whether nothing is on its way: no tuple, no frame, no command, no death."""
        if self.driver.state.lost or not self.driver.slots.active or not all(self.driver.slots.links.values()):
            return False
        for process in self.living():
            slot = process.slot
            if not process.is_alive or process.is_frozen or process.actor._calls or process.held_until > self.now:
                return False
            if slot.outbox.has_frames() or slot.inbox_bytes() or any(task.waiting() for task in slot.bolts):
                return False
            if any(spout.counted().pending for spout in slot.spouts):
                return False
            if slot.commits is not None and slot.commits.is_wanted():
                return False
        return True

    # What must hold.

    def _check_quiet(self):
        """Every number is done, every emission of a living spout was told, and nothing is kept."""
        ready = [process.number for process in self.processes if process.wire and process.wire.link.state == "ready"]
        assert len(ready) == self.scenario.slots, f"the slots {ready} run beside each other"
        for process in self.living():
            for task in process.slot.tasks.values():
                assert not task.errors, task.errors[0].traceback
            for task in process.slot.spouts:
                emissions = [emission for emission in self.world.emissions if emission.spout is task.spout]
                told = Counter(verb for emission in emissions for verb in emission.told)
                assert sum(told.values()) == len(emissions), "some emission of a living spout was not told"
                assert (task.stats.acked, task.stats.failed) == (told["ack"], told["fail"])
                assert not task._left
                assert not len(task._ledger)
            assert not len(process.slot.outbox.branches)
        if self._keeper is not None:
            self._check_state()

    def _check_state(self):
        """What was counted is committed, and it is what the bolts have; with exactly-once as if nothing had failed."""
        for number in range(self.world.numbers):
            self.world.check_committed(number)
        counted = {}
        for process in self.living():
            counted.update(process.slot.commits.read("end", None))
        assert counted == self.world.committed
        if {fault.deed for fault in self.scenario.faults} <= {"kill", "full", "fail", "repeat", "refetch", "retry"}:
            self._check_files()

    def _check_files(self):
        """Each file is needed, or waits for the next commit in a slot that lives."""
        waiting = set().union(*(files_for_next_commit(process.actor.state) for process in self.living()))
        assert self._keeper.unneeded() <= waiting, f"nobody needs {self._keeper.unneeded() - waiting}"

    def _check_error(self, exc):
        deeds = Counter(fault.deed for fault in self.scenario.faults)
        if isinstance(exc, SlotLostError):
            assert len(self.scenario.faults) > MAX_RESTARTS, f"given up too early: {exc}"
        elif isinstance(exc, JobError):
            assert deeds["fail"]
            assert self.now > FAILING_SECS, f"given up too early: {exc}"
        else:
            assert self.driver.slots.epoch == 1, f"only the first start may fail: {exc}"

    def _check_end(self):
        """A batch that comes late does nothing, and all processes end."""
        placed = len(self.processes)
        self.driver.batch()
        self._close_control()
        self.run_until(lambda: False, 200.0)
        assert len(self.processes) == placed
        left = [process.number for process in self.processes if process.is_alive]
        assert not left, f"processes of the slots {left} live on"

    def _close_control(self):
        """As `Control.close` does."""
        self.is_closed = True
        for process in self.processes:
            if process.wire is not None:
                process.wire.close()

    def describe(self):
        states = {slot: link and link.state for slot, link in self.driver.slots.links.items()}
        return f"at {self.now:.1f} s, epoch {self.driver.slots.epoch}, slots {states}, done {sorted(self.world.done)}"


def run(scenario):
    """Run `scenario`; how it went, in short. An AssertionError says what does not hold."""
    simulation = Simulation(scenario)
    simulation.run()
    told = [(emission.number, *emission.told) for emission in simulation.world.emissions]
    return simulation.now, simulation.driver.slots.epoch, len(simulation.processes), told
