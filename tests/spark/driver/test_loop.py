"""When the driver commits: a slot that answers at once, exchanges that end when told to, and a clock that jumps."""

from threading import Thread

import pytest

from pystorm_spark.errors import CheckpointError, SlotLostError
from pystorm_spark.spark.driver import loop
from pystorm_spark.spark.driver.commit_schedule import LAST_DRAIN_SECS
from pystorm_spark.spark.driver.engine import Limits
from pystorm_spark.spark.driver.link import SlotLink
from pystorm_spark.spark.driver.loop import Driver
from pystorm_spark.spark.driver.reception import Reception
from pystorm_spark.spark.driver.slots import Slots
from pystorm_spark.spark.driver.state import RETRY_SECS, Last
from pystorm_spark.spark.protocol.messages import Broken, Done, Frames, Mark, Ready, Uncommitted

INTERVAL_SECS = 1.0
LIMITS = Limits(max_restarts=3, silence_secs=60.0)


class JumpingChanges:
    """What the driver waits on: time passes at once, and nothing else happens but what is due for the first wait."""

    def __init__(self):
        self.now = 100.0
        self.while_waiting = self.when_notified = lambda: None

    def monotonic(self):
        return self.now

    def __enter__(self):
        pass

    def __exit__(self, *exc):
        pass

    def notify_all(self):
        self.when_notified()

    def wait_for(self, condition, timeout=None):
        if not condition():
            while_waiting, self.while_waiting = self.while_waiting, lambda: None
            while_waiting()
        if not condition():
            assert timeout is not None, "the driver would wait for ever"
            self.now += timeout
        return condition()


class EagerSlot:
    """Does all it is asked to at once, and has something to commit again as soon as a commit is made."""

    def __init__(self, driver):
        self._driver = driver
        self._reception = Reception(driver, None, None)
        self.link = SlotLink(0, 0, self, is_near=False)
        self.link.state = "ready"
        driver.slots.links[0] = self.link

    def send(self, message):
        if "asked" not in message:
            return
        self.say(Done(message["asked"]))
        if message["kind"] == "commit":
            self.has_uncommitted()

    def say(self, message):
        self._reception.on_message(self.link, message)

    def has_uncommitted(self):
        self.say(Uncommitted(is_urgent=False))

    def has_frames(self):
        self.say(Frames())


class Hearing(EagerSlot):
    """Remembers all that it is told."""

    def __init__(self, driver):
        super().__init__(driver)
        self.heard = []

    def send(self, message):
        self.heard.append(message)
        super().send(message)


def test_slots_are_told_when_a_chain_of_exchanges_has_ended_and_no_other_begins(changes, commits):
    driver = driver_of(changes, commits)
    slot = Hearing(driver)
    driver.warm_up()
    assert slot.heard == [{"kind": "exchanged", "epoch": 1, "job": 1}]


class QuiescingSlot(EagerSlot):
    """Says that nothing is in flight, or never does."""

    def __init__(self, driver, drains):
        super().__init__(driver)
        self.drains = drains
        self.heard = []

    def send(self, message):
        self.heard.append(message["kind"])
        if "asked" in message and (message["kind"] != "quiesce" or self.drains):
            self.say(Done(message["asked"]))


class Commits:
    """The times at which commits were made."""

    interval_secs = INTERVAL_SECS
    is_exactly_once = False
    txid = 0

    def __init__(self, changes):
        self._changes = changes
        self.made_at = []
        self.while_committing = lambda: None

    def begin(self):
        pass

    def make_commit(self, txid, answers):
        self.made_at.append(self._changes.now)
        while_committing, self.while_committing = self.while_committing, lambda: None
        while_committing()
        return True

    def forget(self, slot):
        pass

    def acked(self):
        return []


class ExchangesUntil:
    """Exchanges that go on until a condition holds."""

    def __init__(self, done):
        self.done = done

    def exchange(self, order, exchanges):
        return self

    def result(self):
        return {}


def throw(error):
    raise error


@pytest.fixture
def changes():
    return JumpingChanges()


@pytest.fixture
def commits(changes):
    return Commits(changes)


def driver_of(changes, commits, done=lambda: True):
    return Driver(1, ExchangesUntil(done), b"token", LIMITS, changes, commits)


def test_a_commit_is_made_while_exchanges_go_on(changes, commits):
    driver = driver_of(changes, commits, done=lambda: bool(commits.made_at))
    slot = EagerSlot(driver)
    slot.has_frames()
    slot.has_uncommitted()
    driver.batch()
    assert commits.made_at == [100.0 + INTERVAL_SECS]


def test_commits_are_an_interval_apart_though_there_is_always_something_to_commit(changes, commits):
    driver = driver_of(changes, commits)
    EagerSlot(driver).has_uncommitted()
    for _ in range(4):
        driver.batch()
    assert commits.made_at == [100.0 + number * INTERVAL_SECS for number in range(1, 5)]


class EndingSoon(ExchangesUntil):
    """Exchanges during which the last commit is asked for; when they have come to their end, a slot has changes."""

    def __init__(self, slot):
        self._slot, self._looks = slot, 0

    def done(self):
        self._looks += 1
        if self._looks == 1:
            self._slot()._driver.state.last = Last.ASKED
        elif self._looks == 3:
            self._slot().has_uncommitted()
        return self._looks > 2


def test_the_last_commit_holds_what_exchanges_bring_that_run_when_it_is_asked_for(changes, commits):
    driver = Driver(1, EndingSoon(lambda: slot), b"token", LIMITS, changes, commits)
    slot = EagerSlot(driver)
    slot.has_frames()
    driver.batch()
    assert len(commits.made_at) == 1
    assert not driver.state.is_finishing()


def test_a_commit_that_runs_when_the_last_one_is_asked_for_is_not_the_last_one(changes, commits):
    driver = driver_of(changes, commits)
    driver.slots.is_open = True
    slot = EagerSlot(driver)
    commits.while_committing = lambda: driver.finish(0.0)
    slot.has_uncommitted()
    driver.batch()
    assert len(commits.made_at) == 2
    assert not driver.state.is_finishing()


@pytest.mark.parametrize("drains", [True, False])
def test_the_last_commit_waits_for_a_moment_for_what_is_in_flight(changes, commits, drains):
    driver = driver_of(changes, commits)
    driver.slots.is_open = True
    slot = QuiescingSlot(driver, drains)
    slot.has_uncommitted()
    driver.state.last = Last.ASKED
    driver.batch()
    assert slot.heard == ["quiesce", "mark", "prepare", "commit"]
    assert commits.made_at == [100.0 if drains else 100.0 + LAST_DRAIN_SECS]


def test_time_that_a_commit_takes_is_not_taken_for_that_of_exchanges(changes, commits):
    driver = driver_of(changes, commits, done=lambda: bool(commits.made_at))
    driver.exchanging.exchanges = 8
    slot = EagerSlot(driver)
    commits.while_committing = lambda: setattr(changes, "now", changes.now + 60.0)
    slot.has_frames()
    slot.has_uncommitted()
    driver.batch()
    assert driver.exchanging.exchanges == 8


class TalkingSlot:
    """Answers questions, and those of its neighbours too, whenever somebody looks how it stands."""

    def __init__(self, driver, slot):
        self.slot, self._driver = slot, driver
        self._reception = Reception(driver, None, None)
        driver.slots.links[slot] = self

    @property
    def state(self):
        for asked in list(self._driver.questions._open):
            for link in self._driver.slots.links.values():
                self._reception.on_message(link, Done(asked))
        return "ready"

    def tell(self, message):
        pass


def test_slots_may_answer_while_the_driver_looks_who_has_not(changes, commits):
    driver = Driver(3, ExchangesUntil(lambda: True), b"token", LIMITS, changes, commits)
    for slot in range(3):
        TalkingSlot(driver, slot)
    question = driver.questions.ask(Mark(1))
    question.unanswered()
    assert question.is_answered()
    assert set(question.answers) == {0, 1, 2}


def test_a_last_commit_is_not_awaited_when_the_loop_has_ended_by_an_error(changes, commits):
    commits.while_committing = lambda: throw(OSError("the disk is gone"))
    driver = driver_of(changes, commits)
    driver.slots.is_open = True
    EagerSlot(driver).has_uncommitted()
    with pytest.raises(OSError, match="the disk is gone"):
        driver.batch()
    driver.finish(3600.0)
    assert changes.now < 3600.0


def finishing(driver):
    """Ask for the last commit, and end when that is over."""

    def look():
        driver.state.is_ended = driver.state.is_finish_over()

    driver.slots.is_open = True
    with driver._changed:
        driver.begin_finish("it was not made in time")
    driver._changed.when_notified = look
    driver.batch()
    assert driver.state.is_ended


def test_a_last_commit_that_cannot_be_written_is_tried_again(changes, commits):
    commits.while_committing = lambda: throw(CheckpointError("the disk is full"))
    driver = driver_of(changes, commits)
    EagerSlot(driver).has_uncommitted()
    finishing(driver)
    assert commits.made_at == [100.0, 100.0 + RETRY_SECS]
    assert driver.state.unfinished is None


def test_there_is_no_last_commit_where_nothing_is_to_be_committed(changes, commits):
    driver = driver_of(changes, commits)
    EagerSlot(driver)
    finishing(driver)
    assert (commits.made_at, driver.state.unfinished) == ([], None)


class FailingOnce(EagerSlot):
    """A tree fails while slots quiesce; it is replayed if spouts are active."""

    has_failed = False

    def send(self, message):
        if message["kind"] == "quiesce" and not self.has_failed:
            self.has_failed = True
            self.say(Broken())
            return
        super().send(message)
        if message["kind"] == "activate":
            self._driver._changed.while_waiting = self.has_uncommitted


@pytest.mark.parametrize("active", [True, False], ids=["active", "inactive"])
def test_a_last_commit_whose_states_were_rolled_back_is_made_when_they_come_again(changes, commits, active):
    commits.is_exactly_once = True
    driver = driver_of(changes, commits)
    driver.slots.active = active
    FailingOnce(driver).has_uncommitted()
    finishing(driver)
    assert len(commits.made_at) == active
    assert driver.state.unfinished == (None if active else "all that was not committed was rolled back")


def test_a_last_commit_is_given_up_when_a_slot_dies_before_it_is_made(changes, commits):
    engine = start_dying(changes, commits, last_word="prepare", slots=2)
    finishing(engine.driver)
    assert not engine.driver.finish(0.0)
    assert engine.driver.state.unfinished == "a slot was lost"


def test_a_last_commit_is_made_though_a_slot_dies_when_it_hears_of_it(changes, commits):
    engine = start_dying(changes, commits, last_word="commit", slots=2)
    finishing(engine.driver)
    assert engine.driver.state.unfinished is None


def come(slot, driver):
    """A process connects to the driver, and has started."""
    driver.slots.links[0], slot.link.state = None, "starting"
    driver.slots.admit(slot.link)
    slot.say(Ready(["there", 1], driver.slots.epoch))


class DyingSlot(EagerSlot):
    """Dies of the first word of a kind that it hears, once it has answered."""

    def __init__(self, driver, last_word):
        super().__init__(driver)
        self._last_word = last_word
        come(self, driver)

    def send(self, message):
        if self.link.state == "ready" and "asked" in message:
            super().send(message)
            if message["kind"] == self._last_word:
                self._driver.on_end(self.link)


class DyingSlots(ExchangesUntil):
    """Starts slots that die, and says when enough have."""

    def __init__(self, last_word, slots):
        self.last_word, self.left = last_word, slots

    def has_lost(self, slots):
        return False

    def place(self, slots):
        self.left -= 1
        slot = DyingSlot(self.driver, self.last_word)
        slot.has_uncommitted()
        if not self.left:
            self.driver.state.end()


def start_dying(changes, commits, last_word, slots=20, kind=DyingSlots):
    engine = kind(last_word, slots)
    engine.driver = Driver(1, engine, b"token", LIMITS, changes, commits)
    engine.place([0])
    return engine


class AskedWhilePlacing(DyingSlots):
    """The last commit is asked for while a slot is started in the place of one that has died."""

    def place(self, slots):
        if self.driver.slots.epoch == 1:
            super().place(slots)
            return
        with self.driver._changed:
            self.driver.begin_finish("it was not made in time")
        DyingSlot(self.driver, "nothing")


def test_a_last_commit_asked_for_while_a_lost_slot_is_started_is_not_taken_for_made(changes, commits):
    engine = start_dying(changes, commits, last_word="prepare", kind=AskedWhilePlacing)
    driver = engine.driver
    driver.slots.is_open = True

    def look():
        driver.state.is_ended = driver.state.unfinished is not None and driver.state.is_finish_over()

    changes.when_notified = look
    driver.batch()
    assert commits.made_at == []
    assert driver.state.unfinished == "a slot was lost"


def test_deaths_of_a_slot_do_not_count_if_there_was_a_commit_in_between(changes, commits):
    engine = start_dying(changes, commits, last_word="commit")
    engine.driver.batch()
    assert engine.left == 0


def test_deaths_of_a_slot_without_a_commit_in_between_end_the_topology(changes, commits):
    engine = start_dying(changes, commits, last_word="mark")
    with pytest.raises(SlotLostError, match="slot 0 died 4 times in a row"):
        engine.driver.batch()


class WatchedSlots(Slots):
    """Lets another thread do something each time that it looks whether spouts shall emit."""

    on_look = staticmethod(lambda: None)

    @property
    def active(self):
        self.on_look()
        return self._active

    @active.setter
    def active(self, active):
        self._active = active


def test_a_deactivation_that_comes_as_a_recovery_ends_is_the_last_that_slots_hear(monkeypatch):
    monkeypatch.setattr(loop, "Slots", WatchedSlots)
    driver = Driver(1, None, b"token", LIMITS)
    slot = QuiescingSlot(driver, drains=True)
    driver.questions.set_active(True)
    user = Thread(target=driver.questions.set_active, args=(False,))

    def deactivate():
        if slot.heard[-1] != "reset":
            return
        driver.slots.on_look = lambda: None
        user.start()
        user.join(0.2)  # it has had its chance to come in between

    driver.slots.on_look = deactivate
    driver._recover()
    user.join()

    assert slot.heard == ["activate", "reset", "activate", "deactivate"]
    assert not driver.slots.active


class WatchedChanges(JumpingChanges):
    """While nothing is heard, somebody looks now and then whether slots are silent."""

    def wait_for(self, condition, timeout=None):
        until = self.now + (3600.0 if timeout is None else timeout)
        while not condition() and self.now < until:
            self.now = min(until, self.now + 10.0)
            self.look()
        assert timeout is not None or condition(), "the driver would wait for ever"
        return condition()


class StuckSlot(EagerSlot):
    """Beats, and never answers one kind of question."""

    def __init__(self, driver, stuck_at):
        super().__init__(driver)
        self.stuck_at = stuck_at
        come(self, driver)
        self.has_uncommitted()

    def send(self, message):
        if "asked" in message and message["kind"] != self.stuck_at:
            self.say(Done(message["asked"]))

    def close(self):
        self._driver.on_end(self.link)


class StuckSlots(ExchangesUntil):
    """Starts a slot that gets stuck, then one that does not."""

    def __init__(self, changes, commits, stuck_at):
        self.stuck_at, self.slots = stuck_at, []
        self.driver = Driver(1, self, b"token", Limits(3, 60.0, 30.0, drain_secs=60.0), changes, commits)
        changes.look = self.look

    def look(self):
        self.driver.slots.links[0].heard_at = self.driver._changed.now
        self.driver.look_for_silence()

    def place(self, slots):
        self.slots.append(StuckSlot(self.driver, None if self.slots else self.stuck_at))


@pytest.mark.parametrize(
    ("stuck_at", "secs"), [("quiesce", 240.0), ("mark", 240.0), ("prepare", 180.0), ("commit", 180.0)]
)
def test_a_slot_that_lives_and_does_not_answer_for_a_commit_is_replaced_in_the_end(commits, stuck_at, secs):
    changes = commits._changes = WatchedChanges()
    commits.is_exactly_once = True
    engine = StuckSlots(changes, commits, stuck_at)
    engine.place([0])

    engine.driver.batch()

    assert engine.slots[0].link.last_words() == f"it has not answered {stuck_at!r} of commit 1 in time"
    assert 100.0 + secs <= changes.now <= 100.0 + secs + 30.0
    assert len(engine.slots) == 2
    assert len(commits.made_at) == (2 if stuck_at == "commit" else 1)
