"""What a slot process does with messages, and when it ends by itself: without threads, sockets and a real clock."""

import random

import pytest

from pystorm_spark.errors import StormError
from pystorm_spark.spark.protocol.messages import DRIVER_TO_SLOT, Assignment, Beat, Failed, Full, Lease, Stop
from pystorm_spark.spark.slot.actor import SlotActor
from pystorm_spark.spark.slot.watch import BEAT_SECS, LEASE_TIMEOUT_SECS, SlotWatch
from tests.runtime.slots import HandClock, web_mesh

LOAD = Assignment(
    plan=b"no pickle",
    start_secs=100.0,
    is_careful=False,
    suspects=[],
    condemned=[],
    checkpoint=None,
    epoch=1,
    opens=False,
)


class Surroundings:
    """The process around a slot, on a clock that is moved by hand: it writes down what it is asked for."""

    def __init__(self):
        self.clock = HandClock()
        self.clock.now = 1000.0
        self.told, self.calls, self.endings = [], [], []
        self.actor = SlotActor(3, self, self.clock, random.Random(1))
        self.watch = SlotWatch(self.actor, self, self.clock, self.longest_call)

    def tell(self, message):
        self.told.append(message)

    def wake(self):
        self.calls.append("wake")

    def stop(self):
        self.calls.append("stop")

    def note_call(self, began):
        self.began = began

    def longest_call(self):
        return (7, self.began) if self.began else None

    def orphaned(self):
        self.endings.append("orphaned")

    def hung(self, secs, thread):
        self.endings.append(("hung", secs, thread))

    def beats(self, count):
        for _ in range(count):
            self.clock.now += BEAT_SECS
            self.watch.look_for_driver()
            self.watch.beat()


@pytest.fixture
def around():
    around = Surroundings()
    around.actor.begin(LOAD)
    return around


def test_message_that_is_not_for_a_running_slot_is_an_error_that_names_it(around):
    with pytest.raises(StormError, match="slot 3 was sent 'assignment'"):
        around.actor.handle(LOAD)


def test_every_message_to_a_slot_has_one_handler():
    assert SlotActor.HANDLERS.keys() == DRIVER_TO_SLOT.classes


def test_slot_that_is_stopped_before_it_is_loaded_is_turned_no_more(around):
    around.actor.handle(Lease(["bolt"]))
    around.actor.handle(Stop())

    assert around.calls == ["stop", "wake"]
    assert around.actor.standing() == {"tasks": [], "is_at_work": False, "inbox_bytes": 0, "full": []}


def test_plan_that_cannot_be_loaded_is_told(around):
    assert not around.actor.load(LOAD)

    (failed,) = around.told
    assert isinstance(failed, Failed)
    assert "UnpicklingError" in failed.traceback


def test_slot_that_hears_of_its_driver_lives(around):
    for _ in range(100):
        around.beats(1)
        around.actor.handle(Lease([]))

    assert around.endings == []
    assert set(around.told) == {Beat()}


def test_slot_whose_driver_is_silent_ends_by_its_own_beats_and_not_by_the_clock(around):
    around.clock.now += 50.0  # the process stood still
    around.beats(int(LEASE_TIMEOUT_SECS / BEAT_SECS))
    assert around.endings == []

    around.beats(1)

    assert around.endings == ["orphaned"]


def test_start_that_takes_too_long_ends_the_process(around):
    around.clock.now += 100.0
    around.watch.beat()
    assert around.endings == []

    around.clock.now += 1.0
    around.watch.beat()

    assert around.endings == [("hung", 101.0, 7)]


def test_slot_whose_full_inbox_is_dropped_says_so_though_nothing_else_has_changed(around):
    mesh = web_mesh(conf={"topology.slot.inbox.max.bytes": 1})
    around.actor.slot, around.actor.is_loaded = mesh.slots[1], True
    around.beats(2)
    mesh.spout().emit("far", mesh.tasks("bolt")[1], message_id="far")
    mesh.turn(0)
    mesh.move()
    around.actor.took_in()
    assert around.told[-1] == Full(["bolt"])

    mesh.slots[1].reset()
    around.beats(1)

    assert around.told[-1].full == []
