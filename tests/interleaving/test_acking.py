"""Acking with several threads: whatever the order of their steps, a message is acked only if its whole tree was."""

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.interleaving.scheduler import HandOver
from tests.interleaving.stage import Asks, Fan, Leaf, Numbers, Pairs, Stage

hand_overs = st.lists(st.builds(HandOver, st.integers(1, 400), st.integers(0, 2)), max_size=5)


def two_subscribers(builder):
    builder.set_spout("numbers", Numbers())
    builder.set_bolt("quick", Leaf()).shuffle_grouping("numbers")
    builder.set_bolt("fails", Leaf(0, 1)).shuffle_grouping("numbers")


def fan_to_two(builder):
    builder.set_spout("numbers", Numbers())
    builder.set_bolt("fan", Fan()).shuffle_grouping("numbers")
    builder.set_bolt("quick", Leaf()).shuffle_grouping("fan")
    builder.set_bolt("fails", Leaf(1)).shuffle_grouping("fan")


def joined_by_two(builder):
    builder.set_spout("numbers", Numbers())
    builder.set_bolt("pairs", Pairs()).shuffle_grouping("numbers")
    builder.set_bolt("quick", Leaf()).shuffle_grouping("pairs")
    builder.set_bolt("fails", Leaf(0)).shuffle_grouping("pairs")


def joint_passed_on(builder):
    builder.set_spout("numbers", Numbers())
    builder.set_bolt("pairs", Pairs()).shuffle_grouping("numbers")
    builder.set_bolt("fan", Fan()).shuffle_grouping("pairs")
    builder.set_bolt("quick", Leaf()).shuffle_grouping("fan")
    builder.set_bolt("fails", Leaf(0, 1)).shuffle_grouping("numbers")


def joined_and_acked(builder):
    builder.set_spout("numbers", Numbers())
    builder.set_bolt("pairs", Pairs()).shuffle_grouping("numbers")
    builder.set_bolt("quick", Leaf()).shuffle_grouping("pairs")
    builder.set_bolt("slow", Leaf()).shuffle_grouping("pairs")


def all_over_two_slots(builder):
    builder.set_spout("numbers", Numbers(1))
    builder.set_bolt("quick", Asks(), 2).all_grouping("numbers")
    builder.set_bolt("slow", Leaf(), 2).all_grouping("numbers")


def failing_in_another_slot(builder):
    builder.set_spout("numbers", Numbers(1))
    builder.set_bolt("quick", Asks(), 2).all_grouping("numbers")
    builder.set_bolt("fails", FailsElsewhere(), 2).all_grouping("numbers")


class FailsElsewhere(Leaf):
    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        self.failing = [0] if context.this_task_index else []


# (topology, bolts that have threads of their own, numbers that fail)
SCENES = {
    "a subscriber of two is aside": (two_subscribers, ["quick"], [0, 1]),
    "both subscribers are aside": (two_subscribers, ["quick", "fails"], [0, 1]),
    "a subscriber behind a bolt is aside": (fan_to_two, ["quick"], [1]),
    "a bolt with two subscribers is aside": (fan_to_two, ["fan"], [1]),
    "a bolt and its subscriber are aside": (fan_to_two, ["fan", "quick"], [1]),
    "a subscriber of a joint is aside": (joined_by_two, ["quick"], [0, 1]),
    "a joining bolt is aside": (joined_by_two, ["pairs"], [0, 1]),
    "a joining bolt and its subscriber are aside": (joined_by_two, ["pairs", "quick"], [0, 1]),
    "a subscriber of a bolt that passes a joint on is aside": (joint_passed_on, ["quick", "fails"], [0, 1]),
    "all of a joint is acked": (joined_and_acked, ["quick", "slow"], []),
}
ACROSS = {
    "subscribers in two slots ask for ids": (all_over_two_slots, ["quick"], []),
    "subscribers in two slots are aside": (all_over_two_slots, ["quick", "slow"], []),
    "one in another slot fails": (failing_in_another_slot, ["quick"], [0]),
}
scenes = pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())


def played(scene, schedule, slots=1, messages=2):
    build, aside, failing = scene
    stage = Stage(build, aside, schedule, slots=slots).play(turns=2 + slots)
    stage.check(failing, messages)
    return stage


@pytest.mark.slow
@scenes
def test_each_single_hand_over_leaves_every_fate_as_it_is(scene):
    _, aside, _ = scene
    for thread in range(1 + len(aside)):
        for point in count(1):
            if point > played(scene, [HandOver(point, thread)]).scheduler.points:
                break


@scenes
@settings(max_examples=60, deadline=None)
@given(schedule=hand_overs)
def test_any_hand_overs_leave_every_fate_as_it_is(scene, schedule):
    played(scene, schedule)


@pytest.mark.slow
def test_each_single_hand_over_leaves_fates_across_slots_as_they_are():
    scene = ACROSS["subscribers in two slots ask for ids"]
    for point in count(1):
        if point > played(scene, [HandOver(point, 1)], slots=2, messages=1).scheduler.points:
            break


@pytest.mark.parametrize("scene", ACROSS.values(), ids=ACROSS.keys())
@settings(max_examples=60, deadline=None)
@given(schedule=st.lists(st.builds(HandOver, st.integers(1, 800), st.integers(0, 4)), max_size=5))
def test_any_hand_overs_leave_fates_across_slots_as_they_are(scene, schedule):
    played(scene, schedule, slots=2, messages=1)
