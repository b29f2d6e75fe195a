"""While a slot is quiescing no tree begins: emits of spouts wait until it ends, and keep their order."""

import pytest

from pystorm_spark import TopologyBuilder
from tests.runtime.slots import STREAMS, HoldingBolt, Mesh, ScriptedSpout


class Flushing(ScriptedSpout):
    """Emits its buffer in `activate`, `deactivate` and `ack`."""

    outputs = STREAMS

    def deactivate(self):
        self.flush("deactivate")

    def activate(self):
        self.flush("activate")

    def ack(self, message_id):
        super().ack(message_id)
        if message_id == "first":
            self.flush("ack")

    def flush(self, label):
        self.emit(label, message_id=label)


class Lends(Flushing):
    """Lends its collector to the bolts of its process."""

    lent = None

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        Lends.lent = self

    def activate(self):
        pass


class Borrows(HoldingBolt):
    def execute(self, tup):
        super().execute(tup)
        if tup["label"] == "borrow":
            Lends.lent.flush("borrowed")


def line(spout, bolt=None):
    """A spout and a bolt in one slot, turned until both have nothing to do."""
    builder = TopologyBuilder()
    builder.set_spout("spout", spout)
    builder.set_bolt("bolt", bolt or HoldingBolt()).shuffle_grouping("spout")
    mesh = Mesh(builder.create_topology(), 1)
    mesh.settle()
    return mesh


@pytest.mark.parametrize("active", [False, True], ids=["deactivate", "activate"])
def test_emits_of_activate_and_deactivate_wait_until_the_slot_goes_on(active):
    mesh = line(Flushing())
    (slot,), spout, bolt = mesh.slots, mesh.task("spout"), mesh.bolt()
    slot.set_active(not active)
    mesh.settle()
    bolt.ack_all()
    mesh.settle()
    seen = len(bolt.seen)
    slot.quiescing = True
    slot.set_active(active)
    mesh.settle()
    assert (len(spout.pending), bolt.seen[seen:]) == (0, [])
    slot.quiescing = False
    mesh.settle()
    assert bolt.seen[seen:] == ["activate" if active else "deactivate"]


def test_waiting_emits_go_before_later_ones():
    mesh = line(Flushing())
    (slot,), bolt = mesh.slots, mesh.bolt()
    mesh.spout().emit("first", message_id="first")
    mesh.settle()
    slot.quiescing = True
    slot.set_active(False)
    bolt.seen.clear()
    slot.quiescing = False
    bolt.ack("first")
    mesh.task("spout").tell_outcomes()  # a commit does this before the next turn of the slot
    mesh.settle()
    assert bolt.seen == ["deactivate", "ack"]


def test_emits_through_a_spouts_collector_in_a_bolt_wait_too():
    mesh = line(Lends(), Borrows())
    (slot,), bolt = mesh.slots, mesh.bolt()
    mesh.spout().emit("borrow", message_id="borrow")
    slot.quiescing = True
    mesh.settle()
    assert bolt.seen == ["borrow"]
    slot.quiescing = False
    mesh.settle()
    assert bolt.seen == ["borrow", "borrowed"]
