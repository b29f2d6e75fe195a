"""The component that a slot is calling; printed lines are attributed to it."""

from threading import Thread, get_ident

import pytest

from pystorm_spark.runtime.slot import Slot
from pystorm_spark.topology.builder import TopologyBuilder
from pystorm_spark.topology.grouping import CustomStreamGrouping
from tests.runtime.slots import HoldingBolt, Mesh, ScriptedSpout


class WatchfulSpout(ScriptedSpout):
    """Notes at every call which component is running according to its slot."""

    slot = None

    def note(self, *called):
        if self.slot is not None:
            self.told.append((*called, self.slot.running(get_ident())))

    def ack(self, message_id):
        self.note("ack")

    def fail(self, message_id):
        self.note("fail")

    def activate(self):
        self.note("activate")

    def deactivate(self):
        self.note("deactivate")


class SettlingBolt(HoldingBolt):
    """Acks tuples labelled "ack", fails those labelled "fail", and holds the rest."""

    def execute(self, tup):
        super().execute(tup)
        if tup["label"] in ("ack", "fail"):
            getattr(self, tup["label"])(tup["label"])


def watched():
    """Build a slot with a watching spout and a bolt; returns the mesh, the spout, and the slot's name for it."""
    builder = TopologyBuilder()
    builder.set_spout("spout", WatchfulSpout())
    builder.set_bolt("bolt", SettlingBolt()).shuffle_grouping("spout")
    mesh = Mesh(builder.create_topology(), 1)
    spout = mesh.spout()
    spout.slot = mesh.slots[0]
    return mesh, spout, f"spout:{spout.task_id}"


def bolt_runs_last(mesh, spout, label):
    """Have the bolt execute a tuple, without polling a spout after it."""
    spout.emit(label, message_id=label)
    mesh.slots[0].active = False
    mesh.slots[0]._run_bolts(0)
    assert mesh.slots[0].running(get_ident()) == f"bolt:{mesh.bolt().task_id}"


@pytest.mark.parametrize("what", ["ack", "fail"])
def test_a_spout_is_running_during_ack_and_fail(what):
    mesh, spout, itself = watched()
    bolt_runs_last(mesh, spout, what)

    mesh.task("spout").tell_outcomes()

    assert spout.told == [(what, itself)]


def test_a_spout_is_running_while_it_is_activated_and_deactivated():
    mesh, spout, itself = watched()

    for active in (False, True):
        bolt_runs_last(mesh, spout, "hold")
        mesh.slots[0].set_active(active)

    assert spout.told == [("deactivate", itself), ("activate", itself)]


class WatchfulGrouping(CustomStreamGrouping):
    """Notes which component is running according to the slot that is being opened."""

    slot = None
    told = None

    def prepare(self, context, stream, target_tasks):
        self.targets = target_tasks
        self.told.append((context.this_component_id, self.slot.running(get_ident())))

    def choose_tasks(self, task_id, values):
        return self.targets


def test_a_component_is_running_while_the_groupings_of_its_streams_are_prepared(monkeypatch):
    monkeypatch.setattr(WatchfulGrouping, "told", [])
    opening = Slot.open

    def watching(slot):
        monkeypatch.setattr(WatchfulGrouping, "slot", slot)
        opening(slot)

    monkeypatch.setattr(Slot, "open", watching)
    builder = TopologyBuilder()
    builder.set_spout("spout", ScriptedSpout())
    builder.set_bolt("first", HoldingBolt()).custom_grouping("spout", WatchfulGrouping())
    builder.set_bolt("second", HoldingBolt()).custom_grouping("first", WatchfulGrouping())
    mesh = Mesh(builder.create_topology(), 1)

    emitting = [("first", f"first:{mesh.bolt('first').task_id}"), ("spout", f"spout:{mesh.spout().task_id}")]
    assert sorted(WatchfulGrouping.told) == emitting


def test_a_thread_unknown_to_the_slot_runs_no_component():
    mesh, *_ = watched()
    found = []
    thread = Thread(target=lambda: found.append(mesh.slots[0].running(get_ident())))
    thread.start()
    thread.join()

    assert found == [None]


def test_posted_calls_of_threads_run_within_a_call_of_another_bolt():
    builder = TopologyBuilder()
    builder.set_spout("spout", ScriptedSpout())
    builder.set_bolt("threaded", HoldingBolt()).shuffle_grouping("spout")
    builder.set_bolt("watched", HoldingBolt()).shuffle_grouping("spout")
    mesh = Mesh(builder.create_topology(), 1)
    mesh.spout().emit("held", message_id=1)
    mesh.settle()
    task, held, found = mesh.task("watched"), mesh.bolt("threaded").take("held"), []
    task.watch()

    def execute(tup):
        thread = Thread(target=mesh.bolt("threaded").collector.fail, args=(held,))
        thread.start()
        thread.join()
        task.collector.ack(tup)
        found.append(mesh.slots[0].running(get_ident()))

    task._execute = execute
    mesh.spout().emit("now", message_id=2)
    mesh.settle()

    assert mesh.spout().failed == [1]
    assert found == [f"watched:{task.task_id}"]
