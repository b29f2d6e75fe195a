"""The driver's loop, the fences of the slots and the slots themselves against a Spark that goes wrong in every way.

Nothing here needs Spark or a thread, and time is simulated: see `tests/spark/simulation`. What must hold is checked
there, while a scenario runs and at its end.
"""

import logging
from dataclasses import replace
from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pystorm_spark.checkpoint.merging as merging
import pystorm_spark.runtime.slot as runtime_slot
import pystorm_spark.spark.slot.state as slot_state
from tests.spark.simulation.jobs import JobError
from tests.spark.simulation.run import Simulation, run
from tests.spark.simulation.scenario import (
    COMMIT_POINTS,
    CRASH_POINTS,
    CRASHES,
    LINE_DEEDS,
    MISHAPS,
    MISWRITINGS,
    Fault,
    Scenario,
    scenario_of,
    scenario_with_lines,
    scenarios,
)

GUARANTEES = ("at-least-once", "exactly-once")
SEEDS = range(96)
BLOCKS = 8  # of seeds, so that a failure is known early

FOUND = {
    "two processes are started for one slot": Scenario(
        1, 2, 5, near=False, faults=(Fault("double", "place", 0, 0, 7.0),)
    ),
    "a commit is being made when all is quiet": Scenario(
        3, 3, 8, delay_secs=0.2, near=False, seed=351, guarantee="at-least-once", failing=(2, 5)
    ),
    "a late process comes while its slot is about to be started again": Scenario(
        1,
        2,
        4,
        pending=2,
        delay_secs=0.0,
        near=False,
        seed=4036,
        faults=(
            Fault("hold", "assigned", 0, 0, 7.0),
            Fault("cut", "turned", 0, 0, 45.0),
            Fault("double", "place", 0, 1, 0.003),
            Fault("cut", "assigned", 0, 1, 0.003),
        ),
    ),
    "user code keeps a slot from its reset": Scenario(
        3, 3, 8, seed=17, faults=(Fault("hold", "turned", 1, 1, 100.0), Fault("fail", "visit", 0, 3, 0.05))
    ),
    "a task cannot reach its slot for a moment": Scenario(
        2, 3, 8, pending=2, delay_secs=0.2, seed=423, faults=(Fault("break", "visit", 1, 3),)
    ),
    "the last task of a chain cannot reach its slot": Scenario(
        2, 3, 8, pending=2, delay_secs=0.2, seed=4, faults=(Fault("miss", "visit", 0, 9),)
    ),
    "what a task missed comes when the stages run again": Scenario(
        2,
        2,
        6,
        pending=1,
        seed=1865,
        faults=(Fault("retry", "visit", 1, 5), Fault("break", "visit", 1, 3), Fault("refetch", "visit", 0, 0)),
    ),
    "the user activates while a slot fails to start again": Scenario(
        3,
        1,
        1,
        pending=1,
        delay_secs=0.2,
        near=False,
        seed=1757,
        faults=(
            Fault("raise", "place", 0, 1),
            Fault("deactivate", "visit", 1, 0, 0.4),
            Fault("freeze", "taken in", 0, 3, 0.05),
            Fault("kill", "taken in", 0, 1),
        ),
    ),
    "a copy of a task comes in a later job": Scenario(2, 2, 6, pending=1, faults=(Fault("copy", "visit", 1, 1, 0.05),)),
    "an answer is given when the epoch is over": Scenario(
        2,
        2,
        6,
        pending=1,
        delay_secs=0.2,
        faults=(Fault("stall", "taken in", 1, 3, 0.4), Fault("fail", "visit", 0, 3)),
    ),
    "a spout that has not heard of its acks comes to the last of them after another commit": Scenario(
        2,
        3,
        6,
        pending=1,
        delay_secs=0.2,
        near=False,
        seed=245,
        faults=(Fault("kill", "taken in", 1, 2), Fault("kill", "committing", 0, 0)),
        guarantee="exactly-once",
    ),
}


@pytest.fixture(scope="module", autouse=True)
def quick_and_quiet():
    """Slots share their codec, which takes longest to make; what the driver logs of every fault helps nobody."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime_slot, "ValueCodec", cache(runtime_slot.ValueCodec))
        patch.setattr(slot_state, "ValueCodec", cache(slot_state.ValueCodec))
        patch.setattr(merging, "FEWEST", 2)
        logging.disable(logging.ERROR)
        yield
        logging.disable(logging.NOTSET)


def run_block(block, guarantee=None, make=scenario_of, **changes):
    """Run the scenarios of some seeds, each changed in the same way."""
    for seed in SEEDS[block::BLOCKS]:
        scenario = replace(make(seed, guarantee), **changes)
        try:
            run(scenario)
        except Exception as exc:
            raise AssertionError(f"seed {seed}: {scenario}") from exc


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_frame_is_lost_or_repeated_whatever_goes_wrong(block):
    run_block(block)


@given(scenarios())
@settings(max_examples=30)
def test_no_frame_is_lost_or_repeated_in_what_hypothesis_thinks_of(scenario):
    run(scenario)


@pytest.mark.parametrize("point", CRASH_POINTS)
def test_a_slot_may_come_to_grief_at_every_point(point):
    for deed in CRASHES:
        for nth in range(3):
            run(Scenario(near=nth != 1, faults=(Fault(deed, point, 1, nth, 7.0),)))


@pytest.mark.parametrize("guarantee", [None, *GUARANTEES])
@pytest.mark.parametrize("deed", CRASHES)
def test_a_slot_may_come_to_grief_before_anything_is_opened(deed, guarantee):
    for nth in range(3):
        faults = (Fault(deed, "turning", 1, nth, 7.0),)
        run(Scenario(near=nth != 1, faults=faults, guarantee=guarantee, late=True))


@pytest.mark.parametrize("deed", MISHAPS)
def test_every_visit_of_a_slot_may_go_wrong(deed):
    for nth in range(10):
        run(Scenario(numbers=6, pending=1, faults=(Fault(deed, "visit", 1, nth, 0.4),)))


@pytest.mark.parametrize("guarantee", [None, *GUARANTEES])
def test_a_job_that_fails_is_run_again_and_nothing_is_lost_with_it(guarantee):
    for nth in range(10):
        faults = tuple(Fault("fail", "visit", 1, nth + after, 0.05) for after in (0, 2, 4))
        _, epoch, _, told = run(Scenario(numbers=6, pending=1, faults=faults, guarantee=guarantee))

        assert epoch == 1
        assert [verbs for _, *verbs in told] == [["ack"]] * 6


def test_jobs_that_fail_for_long_end_the_topology():
    faults = tuple(Fault("fail", "visit", 1, nth) for nth in range(1000))
    simulation = Simulation(Scenario(faults=faults))

    simulation.run()

    assert isinstance(simulation.driver.state.error, JobError)
    assert 60 < simulation.now < 300


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_once_holds(name):
    run(FOUND[name])


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_what_is_acked_is_committed_whatever_goes_wrong(block, guarantee):
    run_block(block, guarantee)


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_tuples_that_a_bolt_holds_count_as_those_that_travel(block, guarantee):
    run_block(block, guarantee, holds=True)


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_another_spout_may_be_given_what_a_dead_one_has_not_heard_of(block, guarantee):
    run_block(block, guarantee, shares=True)


@given(st.one_of([scenarios(guarantee) for guarantee in GUARANTEES]))
@settings(max_examples=30)
def test_what_is_acked_is_committed_in_what_hypothesis_thinks_of(scenario):
    run(scenario)


@pytest.mark.parametrize("guarantee", [None, *GUARANTEES])
@pytest.mark.parametrize("block", range(0, BLOCKS, 3))
def test_nothing_is_lost_where_slots_and_driver_do_not_hear_each_other(block, guarantee):
    run_block(block, guarantee, scenario_with_lines)


@pytest.mark.parametrize("point", CRASH_POINTS)
def test_slot_and_driver_may_stop_hearing_each_other_at_every_point(point):
    for deed in LINE_DEEDS:
        for secs in (2.0, 40.0, 100.0):
            run(Scenario(near=secs != 40.0, faults=(Fault(deed, point, 1, 0, secs),), beats=True))


@given(st.one_of([scenarios(guarantee, beats=True) for guarantee in (None, *GUARANTEES)]))
@settings(max_examples=30)
def test_nothing_is_lost_in_what_hypothesis_thinks_of_where_slots_beat(scenario):
    run(scenario)


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("point", COMMIT_POINTS)
def test_a_slot_may_come_to_grief_at_every_point_of_a_commit(point, guarantee):
    for deed in CRASHES:
        for nth in range(3):
            faults = (Fault(deed, point, 1, nth, 7.0),)
            run(Scenario(2, 2, 16, 1, near=nth != 1, faults=faults, guarantee=guarantee, failing=(2,)))


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("point", ["quiescing", "marking", "preparing", "committing"])
def test_spouts_may_emit_when_they_are_deactivated_or_activated_in_the_middle_of_a_commit(point, guarantee):
    for nth, secs in product(range(3), (0.0, 0.003, 0.01, 0.02)):
        faults = (Fault("deactivate", point, 1, nth, secs),)
        run(Scenario(2, 2, 16, 1, seed=nth, faults=faults, guarantee=guarantee, flushes=True))


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("kind", ["part", "manifest"])
def test_every_file_of_a_commit_may_fail_to_be_written(kind, guarantee):
    for deed in MISWRITINGS:
        for nth in range(6):
            faults = (Fault(deed, kind, 0, nth, 1.0), Fault(deed, kind, 0, nth + 1), Fault("kill", "turned", 1, 9))
            run(Scenario(numbers=8, pending=1, faults=faults, guarantee=guarantee, failing=(2,)))


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("deed", MISWRITINGS)
def test_a_last_commit_is_tried_again_when_its_manifest_cannot_be_written(deed, guarantee):
    for nth, manifest in product(range(1, 8), range(5)):
        faults = (Fault("finish", "visit", 1, nth), Fault(deed, "manifest", 0, manifest))
        run(Scenario(numbers=16, pending=2, seed=nth, faults=faults, guarantee=guarantee))


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_it_is_known_whether_there_was_a_last_commit_when_trees_fail_meanwhile(guarantee):
    for nth in range(1, 12):
        faults = (Fault("finish", "visit", 1, nth),)
        run(Scenario(numbers=16, pending=2, seed=nth, faults=faults, guarantee=guarantee, failing=tuple(range(16))))


def test_a_scenario_always_runs_the_same_way():
    assert [run(scenario_of(seed)) for seed in range(20)] == [run(scenario_of(seed)) for seed in range(20)]
