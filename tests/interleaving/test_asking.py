"""What a driver asks its slots while some die: each question is answered or its slot replaced, the last word holds."""

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystorm_spark.errors import StormError
from tests.interleaving.scheduler import HandOver
from tests.interleaving.town import Town

hand_overs = st.lists(st.builds(HandOver, st.integers(1, 900), st.integers(0, 7)), max_size=6)


def deactivated(schedule, monkeypatch):
    """A slot dies while the topology is deactivated: once that has returned, no slot is activated."""
    town = Town(schedule)

    def change():
        town.driver.questions.set_active(True)
        town.driver.questions.set_active(False)
        town.is_deactivated = True

    return town.play(monkeypatch, user=change, killer=town.kill)


def changed_by_two(schedule, monkeypatch):
    """A slot dies while two change the topology: all slots do at last what one of the two has said."""
    town = Town(schedule)
    return town.play(
        monkeypatch,
        user=lambda: town.driver.questions.set_active(True),
        other=lambda: town.driver.questions.set_active(False),
        killer=town.kill,
    )


def read(schedule, monkeypatch):
    """A slot dies while all are asked for a state: what is found is that of all slots."""
    town = Town(schedule)

    def look():
        assert sorted(town.driver.questions.read("count", None)) == [b"0", b"1"]

    return town.play(monkeypatch, user=look, killer=town.kill)


def moving(schedule, monkeypatch):
    """Slots have frames now and then, and one dies: none is left behind."""
    town = Town(schedule)

    def work():
        for slot in (0, 1, 1):
            town.work(slot)

    return town.play(monkeypatch, user=work, killer=town.kill)


def opened(schedule, monkeypatch):
    """A slot dies while components are opened for the first time, which fails in one: it is told, or started anew."""
    town = Town(schedule, is_open=False, fails_to_open=1)

    def activate():
        try:
            town.driver.questions.set_active(True)
        except StormError:
            town.check = lambda: None  # the cluster starts all slots anew

    return town.play(monkeypatch, user=activate, killer=town.kill)


def finished(schedule, monkeypatch, dies=False):
    """If the last commit is said to be made, it holds what the slots held when it was asked for."""
    town = Town(schedule, commits=True)

    def finish():
        town.driver.questions.set_active(True)
        town.work(0)
        town.driver.questions.set_active(False)
        there = town.changes()
        if town.driver.finish(20.0):
            held = town.keeper.held
            assert all(held[slot] >= changes for slot, changes in there.items()), town.scheduler.handed_over
        else:
            assert dies, town.driver.state.unfinished

    def work():
        town.work(1)

    return town.play(monkeypatch, user=finish, other=work, **({"killer": town.kill} if dies else {}))


def finished_though_one_dies(schedule, monkeypatch):
    """The same, while a slot dies."""
    return finished(schedule, monkeypatch, dies=True)


def finished_after_a_commit(schedule, monkeypatch):
    """The same, where a slot has changed something since it has prepared for a commit that has just been made."""
    town = Town(schedule, commits=True)
    town.keeper.while_committing = lambda: town.work(1)

    def finish():
        town.work(0)
        town.scheduler.wait_for(lambda: town.driver.commits.made == 1)
        changes = town.process(1).changes
        assert town.driver.finish(20.0)
        assert town.keeper.held[1] >= changes, town.scheduler.handed_over

    return town.play(monkeypatch, user=finish)


SCENES = [
    deactivated,
    changed_by_two,
    read,
    moving,
    opened,
    finished,
    finished_though_one_dies,
    finished_after_a_commit,
]
scenes = pytest.mark.parametrize("scene", SCENES)


@pytest.mark.slow
@scenes
def test_a_hand_over_at_each_point_leaves_slots_as_they_were_asked_to_be(monkeypatch, scene):
    for point in count(1):
        if point > scene([HandOver(point, 1 + point % 3)], monkeypatch).scheduler.points:
            break


@scenes
def test_any_hand_overs_leave_slots_as_they_were_asked_to_be(scene):
    monkeypatch = pytest.MonkeyPatch()

    @settings(max_examples=40, deadline=None)
    @given(hand_overs)
    def play(schedule):
        scene(schedule, monkeypatch)

    play()
