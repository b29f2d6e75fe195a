"""A slot taken over from threads that its bolts hold up: one thread turns it at a time, and every fate is true."""

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystorm_spark.runtime.bolt_task import Relieved
from pystorm_spark.spark.slot import relief as relief_module
from pystorm_spark.spark.slot import turners as turners_module
from pystorm_spark.spark.slot.relief import Relief
from pystorm_spark.spark.slot.turners import Turners
from tests.interleaving.scheduler import HandOver, Threading
from tests.interleaving.stage import MODULES, Fan, Leaf, Numbers, Stage

hand_overs = st.lists(st.builds(HandOver, st.integers(1, 900), st.integers(0, 4)), max_size=6)


class Pausing:
    """A bolt that takes so long that others have so many looks at it meanwhile; two looks relieve a thread of it."""

    looks = 2
    pause = None  # of the scheduler, when the stage is set

    def execute(self, tup):
        for _ in range(self.looks):
            self.pause()
        super().execute(tup)


class Slow(Pausing, Leaf):
    pass


class SlowFan(Pausing, Fan):
    pass


class LookedAt(Slow):
    looks = 1


class LookedAtFan(SlowFan):
    looks = 1


def slow_beside_quick(builder):
    builder.set_spout("numbers", Numbers(3))
    builder.set_bolt("slow", Slow()).shuffle_grouping("numbers")
    builder.set_bolt("fails", Leaf(1)).shuffle_grouping("numbers")


def slow_fan(builder):
    builder.set_spout("numbers", Numbers(3))
    builder.set_bolt("fan", SlowFan()).shuffle_grouping("numbers")
    builder.set_bolt("quick", Leaf()).shuffle_grouping("fan")
    builder.set_bolt("fails", Leaf(1)).shuffle_grouping("fan")


def two_slow(builder):
    builder.set_spout("numbers", Numbers(3))
    builder.set_bolt("slow", Slow(1)).shuffle_grouping("numbers")
    builder.set_bolt("other", Slow()).shuffle_grouping("numbers")


def looked_at(builder):
    builder.set_spout("numbers", Numbers(1))
    builder.set_bolt("fan", LookedAtFan()).shuffle_grouping("numbers")
    builder.set_bolt("slow", LookedAt()).shuffle_grouping("fan")
    builder.set_bolt("quick", Leaf()).shuffle_grouping("fan")


SCENES = {"a slow bolt beside a quick one": slow_beside_quick, "a slow fan": slow_fan, "two slow bolts": two_slow}
scenes = pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())


class Relay(Stage):
    """A slot that is turned by `Turners` with `Relief`, whose threads are the scheduler's."""

    def __init__(self, build, schedule, quick_secs):
        super().__init__(build, (), schedule, modules=(*MODULES, relief_module, turners_module))
        for task in self.slot.bolts:
            task.component().pause = self.scheduler.pause
        self._quick_secs = quick_secs
        self.relieved = 0
        self._set_aside, self.slot.set_aside = self.slot.set_aside, self.set_aside

    def set_aside(self, task, thread, wake):
        assert not self.slot.slot_context.inside, "the slot was taken over from a thread that is in the engine"
        self._set_aside(task, thread, wake)

    def step(self):
        try:
            return self.slot.turn()
        except Relieved:
            self.relieved += 1
            raise
        finally:
            if self.is_over():
                self.turners.stop()

    def is_over(self):
        (spout,) = self.slot.spouts
        return len(spout.spout.told) == spout.spout.count and not any(task.waiting() for task in self.slot.bolts)

    def play(self, monkeypatch):
        with monkeypatch.context() as patch:
            threading = Threading(self.scheduler)
            patch.setattr(relief_module, "threading", threading)
            patch.setattr(turners_module, "threading", threading)
            patch.setattr(relief_module, "QUICK_SECS", self._quick_secs)
            self.turners = Turners(self.step, lambda idle: self.scheduler.pause(), self.crash)
            relief = Relief(self.slot, slow_secs=0.0)
            self.scheduler.run(turner=lambda: self.turners.run(relief))
        return self

    def crash(self, error):
        raise error


def played(monkeypatch, scene, schedule, quick_secs=10.0, failing=(1,), count=3):
    relay = Relay(scene, schedule, quick_secs).play(monkeypatch)
    relay.check(failing, count)
    return relay


@scenes
def test_the_slot_is_taken_over_from_a_thread_that_a_bolt_holds_up(monkeypatch, scene):
    assert played(monkeypatch, scene, []).relieved


@pytest.mark.slow
def test_a_thread_is_relieved_at_any_point_between_two_looks(monkeypatch):
    relieved = 0
    for point in count(1):
        relay = played(monkeypatch, looked_at, [HandOver(point, 1)], failing=(), count=1)
        relieved += relay.relieved
        if point > relay.scheduler.points:
            break
    assert relieved


@pytest.mark.parametrize("quick_secs", [10.0, -1.0], ids=["stays aside", "comes back at once"])
@scenes
def test_any_hand_overs_leave_every_fate_as_it_is(scene, quick_secs):
    monkeypatch = pytest.MonkeyPatch()

    @settings(max_examples=60, deadline=None)
    @given(hand_overs)
    def play(schedule):
        played(monkeypatch, scene, schedule, quick_secs)

    play()
