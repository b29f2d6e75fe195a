"""Rows that a spout emits in one call, with numbers as ids: the effect is that of single emits."""

from threading import Thread

import pytest

from pystorm_spark.errors import EmitError
from pystorm_spark.runtime.spout_collector import emit_numbered
from pystorm_spark.topology.builder import TopologyBuilder
from pystorm_spark.topology.hooks import TaskHook

from .slots import HoldingBolt, Mesh, ScriptedSpout, web_mesh

ROWS = [[label, []] for label in "abc"]


def shuffled_mesh(slots=1, **conf):
    builder = TopologyBuilder()
    builder.set_spout("spout", ScriptedSpout())
    builder.set_bolt("bolt", HoldingBolt(), 2).shuffle_grouping("spout")
    return Mesh(builder.create_topology(), slots, conf)


def emit(mesh, rows=ROWS, first=5):
    """Emit rows as during a turn; returns the refused ones."""
    refused = []
    collector = mesh.spout().collector
    mesh.slots[0]._open_short_way()
    emit_numbered(collector, rows, ("rows", 1), first, lambda *message: refused.append(message))
    mesh.settle()
    return refused


def bolts(mesh):
    return [mesh.bolt(index=index) for index in range(2)]


def ids(*numbers):
    return [("rows", 1, number) for number in numbers]


@pytest.mark.parametrize("slots", [1, 2])
def test_each_row_has_an_id_and_a_tree_of_its_own(slots):
    mesh = shuffled_mesh(slots)
    assert emit(mesh) == []
    assert sorted(label for bolt in bolts(mesh) for label in bolt.seen) == ["a", "b", "c"]
    assert mesh.leftovers()["pending"] == 3
    for bolt in bolts(mesh):
        bolt.ack_all()
    mesh.settle()
    assert sorted(mesh.spout().acked) == ids(5, 6, 7)
    assert not mesh.leftovers()


def test_rows_are_counted_as_emitted():
    mesh = shuffled_mesh(2)
    emit(mesh)
    task = mesh.task("spout")
    assert (task.collector.emits, task.routes["default"].emitted, task.counted().pending) == (3, 3, 3)


def test_an_empty_list_emits_nothing():
    mesh = shuffled_mesh()
    assert emit(mesh, []) == []
    assert mesh.task("spout").collector.emits == 0


def test_a_row_that_cannot_be_emitted_is_refused_and_later_ones_are_emitted():
    mesh = shuffled_mesh(2)
    (message_id, row, error), *others = emit(mesh, [["a", []], ["too short"], ["c", []]])
    assert (message_id, row, others) == (*ids(6), ["too short"], [])
    assert isinstance(error, EmitError)
    assert error.__traceback__ is not None
    assert [label for bolt in bolts(mesh) for label in bolt.seen] == ["a", "c"]


def test_an_exception_in_a_grouping_refuses_the_row():
    mesh = web_mesh(slots=1)
    target = mesh.tasks("bolt")[0]
    refused = emit(mesh, [["a", [target]], ["b", [-1]], ["c", [target]]])
    assert [message_id for message_id, _, _ in refused] == ids(6)
    assert mesh.bolt().seen == ["a", "c"]


def test_an_exception_in_refused_ends_the_call():
    def refused(*message):
        raise RuntimeError("nowhere to put it")

    mesh = shuffled_mesh()
    mesh.slots[0]._open_short_way()
    with pytest.raises(RuntimeError, match="nowhere to put it"):
        emit_numbered(mesh.spout().collector, [["a", []], [], ["c", []]], (), 0, refused)
    assert mesh.task("spout").collector.emits == 1


class NotingHook(TaskHook):
    def __init__(self):
        self.emitted = []

    def emit(self, info):
        self.emitted.append(info.values)


def test_hooks_get_the_emits():
    mesh = shuffled_mesh()
    hook = NotingHook()
    mesh.task("spout").add_hook(hook)
    assert emit(mesh) == []
    assert hook.emitted == ROWS


def test_without_tracking_rows_are_acked_at_once():
    mesh = shuffled_mesh(**{"topology.acker.executors": 0})
    emit(mesh)
    assert mesh.spout().acked == ids(5, 6, 7)


def test_another_thread_may_emit_them():
    mesh = shuffled_mesh(2)
    thread = Thread(target=emit_numbered, args=(mesh.spout().collector, ROWS, ("rows", 1), 5, None))
    thread.start()
    thread.join()
    mesh.settle()
    assert sorted(label for bolt in bolts(mesh) for label in bolt.seen) == ["a", "b", "c"]
