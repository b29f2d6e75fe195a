"""A driver with slots that are threads of a scheduler: they do what they are asked, one thing after the other."""

from __future__ import annotations

from collections import deque
from importlib import import_module

from pystorm_spark.spark import driver as driver_package
from pystorm_spark.spark.driver import questions as questions_module
from pystorm_spark.spark.driver.engine import Limits
from pystorm_spark.spark.driver.link import SlotLink
from pystorm_spark.spark.driver.loop import Driver
from pystorm_spark.spark.driver.reception import Reception
from pystorm_spark.spark.protocol.messages import (
    Done,
    Failed,
    Found,
    Frames,
    Prepared,
    Ready,
    Stopped,
    Uncommitted,
)
from pystorm_spark.spark.protocol.wire import WireError
from tests.interleaving.scheduler import Scheduler, Threading

TRACED = (
    "commit_round",
    "commit_schedule",
    "exchanging",
    "loop",
    "questions",
    "reception",
    "restarts",
    "slots",
    "state",
)
MODULES = [import_module(f"{driver_package.__name__}.{name}") for name in TRACED]


class Keeper:
    """Knows what the last commit holds of each slot."""

    interval_secs = 1.0
    is_exactly_once = False

    def __init__(self, slots):
        self.txid = 0
        self.held = dict.fromkeys(range(slots), 0)
        self.while_committing = lambda: None

    def begin(self):
        pass

    def make_commit(self, txid, answers):
        assert (txid, len(answers)) == (self.txid + 1, len(self.held))
        self.txid = txid
        self.held = {slot: answer.written for slot, answer in answers.items()}
        while_committing, self.while_committing = self.while_committing, lambda: None
        while_committing()
        return True

    def acked(self):
        return []

    def forget(self, slot):
        pass


class Process:
    """A slot's process and both ends of its connection. What it changes is a number that grows."""

    def __init__(self, town, slot):
        self.town, self.slot = town, slot
        self.link = SlotLink(slot, 0, self, is_near=False)
        self.mail = deque()
        self.is_dead = self.is_over = self.is_open = self.is_active = False
        self.epoch = 0
        self.changes = self.prepared = self.frames = 0
        self.told_changes = self.told_frames = False

    # As the driver's end of the connection.

    def send(self, message):
        if self.is_dead:
            raise WireError("it has ended")
        self.mail.append(message)

    def close(self):
        self.is_dead = True

    # Its thread.

    def run(self):
        town, driver = self.town, self.town.driver
        self.epoch, self.is_open = driver.slots.admit(self.link)
        self.changes = town.keeper.held[self.slot] if town.keeper else 0
        self.tell(Ready(["slot", self.slot], self.epoch))
        while True:
            town.scheduler.wait_for(lambda: bool(self.mail) or self.is_dead)
            if self.is_dead:
                break
            message = self.mail.popleft()
            getattr(self, f"on_{message['kind']}", lambda message: None)(message)
        driver.on_end(self.link)
        self.is_over = True

    def tell(self, message):
        self.town.reception.on_message(self.link, message)

    def done(self, message):
        self.tell(Done(message["asked"]))

    def on_activate(self, message):
        assert not self.town.is_deactivated, "a slot is activated though the topology was deactivated"
        if not self.is_open and self.town.fails_to_open > 0:
            self.town.fails_to_open -= 1
            self.tell(Failed("it cannot open", "", []))
            self.is_dead = True
            return
        self.is_open = self.is_active = True
        self.done(message)

    def on_deactivate(self, message):
        self.is_active = False
        self.done(message)

    def on_reset(self, message):
        self.epoch = message["epoch"]
        self.changes = self.town.keeper.held[self.slot] if self.town.keeper else 0
        self.told_changes = self.told_frames = False
        self.frames = 0
        self.done(message)

    def on_read(self, message):
        self.tell(Found(message["asked"], 1, b"%d" % self.slot))

    def on_stop(self, message):
        self.tell(Stopped([], False, 0, []))
        self.is_dead = True

    def on_work(self, message):
        self.changes += 1
        self.frames += 1
        self.look()

    def on_mark(self, message):
        self.done(message)

    on_quiesce = on_mark

    def on_prepare(self, message):
        self.prepared = self.changes
        self.tell(Prepared(message["asked"], self.changes, {}, [], {}))

    def on_commit(self, message):
        self.told_changes = False
        self.look()
        self.done(message)

    def look(self):
        """Tell what the driver has to know, as a slot does after each turn."""
        if self.town.keeper is not None and self.changes > self.prepared and not self.told_changes:
            self.told_changes = True
            self.tell(Uncommitted(is_urgent=False))
        if self.frames and not self.told_frames:
            self.told_frames = True
            self.tell(Frames())


class Carried:
    """Exchanges that have come to their end."""

    def __init__(self, statuses):
        self.statuses = statuses

    def done(self):
        return True

    def result(self):
        return self.statuses


class Town:
    """A driver, its loop, its slots, and whoever asks something of them."""

    def __init__(self, schedule, slots=2, commits=False, is_open=True, fails_to_open=0):
        self.scheduler = Scheduler(schedule, MODULES)
        self.keeper = Keeper(slots) if commits else None
        self.slots, self.is_open, self.fails_to_open = slots, is_open, fails_to_open
        self.processes = []
        self.is_started = self.is_deactivated = False

    def play(self, monkeypatch, **threads):
        """Run the driver and `threads`, then have the driver stop when all of these have ended and it is idle."""
        ended = []

        def running(run):
            def guarded():
                self.scheduler.wait_for(lambda: self.is_started)
                run()
                ended.append(run)

            return guarded

        def end():
            self.driver.slots.start(self.is_open)
            self.is_started = True
            self.scheduler.wait_for(lambda: len(ended) == len(threads) and self.is_quiet())
            self.check()
            self.driver.slots.stop()

        with monkeypatch.context() as patch:
            patch.setattr(questions_module, "threading", Threading(self.scheduler))
            changed = self.scheduler.condition()
            self.driver = Driver(self.slots, self, b"", Limits(9, 60.0), changed, self.keeper)
            self.reception = Reception(self.driver, None, self)
            others = {name: running(run) for name, run in threads.items()}
            self.scheduler.run(cluster=end, loop=running(self.loop), **others)
        return self

    def loop(self):
        while not self.driver.state.is_ended:
            self.driver.batch()

    def is_quiet(self):
        """Whether the loop waits for something to happen, and nothing will."""
        is_said = all(process.is_over if process.is_dead else not process.mail for process in self.processes)
        return is_said and self.scheduler.waits("loop")

    def check(self):
        """Every slot has one process, which lives and does what was asked for last."""
        living = [process.link for process in self.processes if not process.is_dead]
        assert sorted(link.slot for link in living) == list(range(self.slots)), self.scheduler.handed_over
        assert set(living) == set(self.driver.slots.links.values())
        assert all(link.state == "ready" for link in living)
        for process in self.processes:
            assert process.is_dead or process.is_active == self.driver.slots.active, self.scheduler.handed_over
            assert process.is_dead or not process.frames
        assert not any(question.unanswered() for question in self.driver.questions._open.values())

    def changes(self):
        """What slots hold, by slot; not what is being rolled back already."""
        epoch = self.driver.slots.epoch
        return {each.slot: each.changes for each in self.processes if not each.is_dead and each.epoch == epoch}

    # The deeds of others.

    def kill(self, slot=0):
        self.process(slot).is_dead = True

    def work(self, slot=0):
        """Have a slot change something, and send a frame."""
        with_mail = self.process(slot)
        if not with_mail.is_dead:
            with_mail.send({"kind": "work"})

    def process(self, slot):
        return [process for process in self.processes if process.slot == slot][-1]

    # As who wants to know what slots say.

    def on_cause(self, message):
        pass

    # As Spark.

    def place(self, slots):
        threading = Threading(self.scheduler)
        for slot in slots:
            process = Process(self, slot)
            self.processes.append(process)
            threading.Thread(target=process.run, name=f"process_{slot}_{len(self.processes)}").start()

    def has_lost(self, slots):
        return any(self.process(slot).is_dead for slot in slots)

    def exchange(self, order, exchanges):
        statuses = {}
        for slot in range(self.slots):
            process = self.process(slot)
            statuses[slot] = "lost" if process.is_dead else "ok"
            process.told_frames, process.frames = False, 0
        return Carried(statuses)
