"""What a slot does for a commit, and what it tells the driver, without a driver."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pystorm_spark import TopologyBuilder
from pystorm_spark.checkpoint.slot_side import Assignment
from pystorm_spark.errors import CheckpointError
from pystorm_spark.runtime.components import pickle_components
from pystorm_spark.runtime.plan import make_plan
from pystorm_spark.runtime.slot import Slot
from pystorm_spark.spark.protocol.messages import Done, NotDone, Uncommitted, Unwritten
from pystorm_spark.spark.slot import state as slot_state
from pystorm_spark.spark.slot.rows import RowTasks
from pystorm_spark.spark.slot.state import SlotState
from pystorm_spark.state import StatefulBolt
from pystorm_spark.testing import FixedTupleSpout, ManualClock
from pystorm_spark.topology.config import resolve


class Remembers(StatefulBolt):
    def init_state(self, state):
        state.put("told", "x" * 100)


class Files:
    """A place for files in which all writing fails."""

    def __init__(self, error):
        self.error = error

    def write(self, name, data):
        raise self.error


class Told:
    """What was told the driver, from whatever thread."""

    def __init__(self):
        self.messages = []
        self.came = threading.Event()

    def __call__(self, message):
        self.messages.append(message)
        self.came.set()


def opened(told, files=None):
    """The durable side of a slot with one stateful bolt that has something to be committed."""
    slot, state = made(told, files)
    slot.open(state.restored())
    return state


def made(told, files=None):
    """The same with its slot, which is not open."""
    builder = TopologyBuilder()
    builder.set_spout("rows", FixedTupleSpout([], ["n"]))
    builder.set_bolt("keep", Remembers()).shuffle_grouping("rows")
    plan = make_plan(builder.create_topology(), resolve({}), "storm-id", 1)
    slot = Slot(plan, 0, pickle_components(plan), ManualClock(), random.Random(1))
    assignment = Assignment((), (), {}).to_plain()
    state = SlotState(slot, RowTasks(slot, told), files, assignment, told, lambda name: ThreadPoolExecutor(1, name))
    return slot, state


def test_a_slot_that_is_not_open_has_nothing_that_could_go_back(monkeypatch):
    slot, state = made(Told())
    monkeypatch.setattr(Remembers, "pre_rollback", lambda bolt: pytest.fail("it is not prepared"))
    state.before_reset(0, None)
    slot.reset()
    assert [error for task in slot.tasks.values() for error in task.errors] == []


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (CheckpointError("the disk is full"), Unwritten),
        (MemoryError("no room"), NotDone),
        (ValueError("a bug"), NotDone),
    ],
    ids=["disk", "memory", "bug"],
)
def test_the_driver_hears_of_whatever_goes_wrong_with_writing(error, outcome):
    told = Told()
    state = opened(told, Files(error))

    state.prepare(1, asked=7)

    assert told.came.wait(10)
    (answer,) = told.messages
    assert (type(answer), answer.asked) == (outcome, 7)
    assert str(error) in answer.why


def test_a_state_that_is_too_large_is_not_told_at_once(monkeypatch):
    told = Told()
    state = opened(told)
    state.commit(1)
    told.messages.clear()

    state.read("keep", None, asked=8)
    monkeypatch.setattr(slot_state, "READ_LIMIT", 1)
    state.read("keep", None, asked=9)

    whole, too_much = told.messages
    assert len(whole.found) == whole.size
    assert (too_much.found, too_much.size) == (None, whole.size)


def test_the_driver_hears_of_what_is_to_be_committed_next_before_a_commit_is_done():
    told = Told()
    state = opened(told)
    state.look()
    told.messages.clear()

    state.commit(1, asked=5)

    assert told.messages == [Uncommitted(is_urgent=False), Done(5)]
