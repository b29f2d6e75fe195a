"""Calls of every compiled function, with the objects that each of them reads.

`python -m tests.runtime.scenes` repeats every call, each time with one argument, or one slot that the call reads, empty
or of a wrong type. Any exception but SystemError is fine; a crash is not.
"""

from __future__ import annotations

import faulthandler
import logging
import sys
from array import array
from dataclasses import dataclass, field
from typing import Any

from pystorm_spark.core import CORE
from pystorm_spark.runtime import arrivals, spout_collector
from pystorm_spark.runtime.codec import arrow_rows
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.runtime.durable import uncommitted
from pystorm_spark.runtime.frames import AckBuffer
from pystorm_spark.runtime.rotating import RotatingMap
from pystorm_spark.runtime.trees import ROLLED_BACK, new_root
from pystorm_spark.state.key_value import KeyValueState
from pystorm_spark.topology.tuple import SETTLED, new_tuple

from .twins import stage

FIRST, LAST, SOURCE = 3, 5, 8  # the tasks of the first slot
NEAR, FAR = "a", "c"  # keys for the task of bolt "last" in this slot, and for the one in the other slot
NUMBER = 5  # a key that the core does not hash, for the task in the first slot
SIDE_NEAR = "e"
HOME = 8  # the spout task to which the branches belong
EMPTY = object()


@dataclass
class Call:
    """One call, and the objects whose slots it reads."""

    holder: Any
    name: str
    args: list[Any]
    objects: list[Any]
    kwargs: dict[str, Any] = field(default_factory=dict)

    def make(self):
        return getattr(self.holder, self.name)(*self.args, **self.kwargs)


class Scenes:
    """Makes the calls; each method prepares one call, and all share one stage."""

    def __init__(self):
        self.mesh = stage()
        self.slot = self.mesh.slots[0]
        self.slot_context, self.outbox = self.slot.slot_context, self.slot.outbox
        self.first, self.last, self.source = (self.slot.tasks[task] for task in (FIRST, LAST, SOURCE))
        self.origin = self.first.routes["default"].origin
        self.collector, self.emitter = self.first.collector, self.source.collector
        self.ids = iter(range(1, sys.maxsize))
        self.state = KeyValueState(ValueCodec())
        self.state._committed.update({"a": 1, 2: "b"})
        self.state._prepared.update({"c": 1.5})
        self.state._changed.update({"a": 2})
        self.collector.emit([NUMBER, 0])  # the route caches the key
        self.tidy()

    def tidy(self):
        """Reset the stage after a call."""
        for task in self.slot.bolts:
            task.inbox.clear()
            task.backlog.clear()
        self.outbox.clear()
        self.outbox.branches = RotatingMap(2)
        for holder in (self.source._left, self.source.acked, self.source.pending.newest, self.slot_context._posted):
            holder.clear()
        for bucket in self.source._ledger._entries._buckets:
            bucket.clear()
        self.collector.held.clear()
        self.collector.posted = self.collector.acked = self.emitter.emits = self.slot_context.inside = 0
        self.collector.short_way = self.emitter.short_way = True
        for task in (self.first, self.source):
            for route in task.routes.values():
                route.emitted = route.extra = 0
        self.state._changed = {"a": 2}
        self.source._draw = self.mesh.rng.getrandbits

    def root(self, leaves=False):
        root = new_root(self.source, next(self.ids), 0.5, self.source.pending.newest)
        self.source.pending.newest[root] = None
        root.unsettled = 1
        if leaves:
            self.source.track(root)
        return root

    def branch(self):
        branch = self.outbox.enter(2**63 + next(self.ids), HOME, 77)
        branch.unsettled = 1
        self.outbox._acks.setdefault(HOME, AckBuffer(HOME))
        return branch

    def tuple(self, tree):
        return new_tuple(["a", 1], self.origin, tree)

    # The calls.

    def _emit(self, values, tree=None, open_buffer=False, stream="default", far=False):
        route = self.first.routes[stream]
        ports = [port for port in route.ports or [route.only] if port and (port.buffer is not None) == far]
        objects = [self.collector, route, *ports[:1], self.slot_context]
        if open_buffer:
            self.outbox.send(ports[0].buffer, ["c", 1], self.root())
        if far:
            objects += [ports[0].buffer, self.outbox]
        args, kwargs = [values], {"stream": stream} if stream != "default" else {}
        if tree is not None:
            anchor = self.tuple(tree)
            objects += [anchor, tree]
            kwargs["anchors"] = anchor
        return Call(self.collector, "emit", args, objects, kwargs)

    def emit_of_a_root(self):
        return self._emit([NEAR, 1], self.root())

    def emit_of_a_branch(self):
        return self._emit([NEAR, 1], self.branch())

    def emit_of_nothing(self):
        return self._emit([NEAR, 1])

    def emit_by_a_number(self):
        return self._emit([NUMBER, 1], self.root())

    def emit_on_another_stream(self):
        return self._emit([NEAR], self.root(), stream="side")

    def emit_to_the_only_port(self):
        return self._emit([1], self.root(), stream="lone")

    def emit_to_all_tasks(self):
        return self._emit([1], self.root(), stream="all")

    def emit_to_nobody(self):
        return self._emit([1], self.root(), stream="unheard")

    def emit_anchored_to_a_rolled_back_tuple(self):
        return self._emit([NEAR, 1], ROLLED_BACK)

    def emit_of_what_is_settled(self):
        return self._emit([NEAR, 1], SETTLED)

    def emit_far_of_a_root(self):
        return self._emit([FAR, 1], self.root(), open_buffer=True, far=True)

    def emit_far_that_fails(self):
        self.source._draw = self.mesh.rng.getrandbits
        call = self.emit_far_of_a_root()
        self.source._draw = self._fail
        return call

    def _fail(self, bits):
        self.slot_context.inside = None
        raise RuntimeError(bits)

    def emit_far_of_a_root_that_has_left(self):
        return self._emit([FAR, 1], self.root(leaves=True), open_buffer=True, far=True)

    def emit_far_of_a_branch(self):
        return self._emit([FAR, 1], self.branch(), open_buffer=True, far=True)

    def emit_far_in_a_run(self):
        call = self._emit([FAR, 1], self.root(), open_buffer=True, far=True)
        buffer = next(each for each in call.objects if type(each).__name__ == "TupleBuffer")
        self.outbox.send(buffer, ["c", 1], call.kwargs["anchors"]._tree)
        return call

    def emit_positional(self):
        call = self._emit([NEAR, 1], self.root())
        call.args[:0] = [call.kwargs.pop("anchors")]
        return call

    def ack_of_a_root(self):
        root = self.root()
        tup = self.tuple(root)
        return Call(self.collector, "ack", [tup], [self.collector, tup, root, self.slot_context, self.source])

    def ack_of_a_root_that_has_left(self):
        root = self.root(leaves=True)
        tup, ledger = self.tuple(root), self.source._ledger
        objects = [self.collector, tup, root, self.slot_context, ledger, ledger._entries, self.source]
        return Call(self.collector, "ack", [tup], [*objects, ledger._entries.newest[root.root_id]])

    def ack_of_a_branch(self):
        branch = self.branch()
        tup, acks = self.tuple(branch), self.outbox._acks[HOME]
        objects = [self.collector, tup, branch, self.slot_context, self.outbox, self.outbox.branches, acks]
        return Call(self.collector, "ack", [tup], objects)

    def ack_of_one_of_two(self):
        call = self.ack_of_a_root()
        call.args[0]._tree.unsettled = 2
        return call

    def _spout_emit(self, values, stream="default"):
        route = self.source.routes[stream]
        port = route.only or route.ports[0]
        kwargs = {"message_id": next(self.ids), **({} if stream == "default" else {"stream": stream})}
        return Call(self.emitter, "emit", [values], [self.emitter, route, port], kwargs)

    def emit_of_a_spout(self):
        return self._spout_emit(["a", 1])

    def emit_of_a_spout_by_key(self):
        return self._spout_emit([SIDE_NEAR], "side")

    def emit_numbered(self):
        route = self.source.routes["default"]
        args = [self.emitter, [["a", 1], ["too short"], ["b", 2]], ("rows",), 5, lambda *refused: None]
        return Call(spout_collector, "emit_numbered", args, [self.emitter, route, route.only])

    def track(self):
        root, ledger = self.root(), self.source._ledger
        return Call(self.source, "track", [root], [root, ledger, ledger._entries, self.slot_context, self.outbox])

    def _part_acked(self, edges):
        root, ledger = self.root(leaves=True), self.source._ledger
        entry = ledger._entries.newest[root.root_id]
        args = [root.root_id, entry.edges ^ edges]
        return Call(self.source, "subtree_acked", args, [self.source, root, ledger, ledger._entries, entry])

    def subtree_acked(self):
        return self._part_acked(1)

    def last_part_acked(self):
        return self._part_acked(0)

    def part_acked_of_what_is_unknown(self):
        return Call(self.source, "subtree_acked", [1, 1], [self.source])

    def next_batch(self):
        self.last.inbox[:] = [self.tuple(self.root())]
        return Call(self.last, "_next_batch", [], [self.last])

    def send(self):
        call = self.emit_far_of_a_root()
        route, anchor = self.first.routes["default"], call.kwargs["anchors"]
        buffer = next(each for each in call.objects if type(each).__name__ == "TupleBuffer")
        objects = [route, buffer, anchor._tree, self.slot_context, self.outbox]
        return Call(self.first, "send", [route, buffer, ["c", 1], anchor._tree], objects)

    def fill(self):
        known = self.branch()
        columns = array("Q", [known.root_id, 2**62 + next(self.ids)]), array("I", [8, 8]), array("Q", [5, 6]), [1, 2]
        args = [self.last.inbox, self.origin, [["a"], ["b"], ["c"]], columns, self.outbox]
        return Call(arrivals, "_fill", args, [self.outbox, self.outbox.branches, known])

    def read(self):
        roots = [self.root(), self.root()]
        return Call(uncommitted, "_read", [roots], [roots[1]])

    def texts(self):
        return Call(arrow_rows, "_texts", [memoryview(array("i", [0, 1, 3])), "aé".encode()], [])

    def rows(self):
        return Call(arrow_rows, "_rows", [[[1, 2], ["a", "b"]]], [])

    def get(self):
        return Call(self.state, "get", ["c"], [self.state])

    def get_of_what_is_committed(self):
        return Call(self.state, "get", [2, "other"], [self.state])

    def get_of_what_is_missing(self):
        return Call(self.state, "get", ["z", None], [self.state])

    def put(self):
        return Call(self.state, "put", ["a", 3], [self.state])


RAISING = {"emit_of_what_is_settled", "emit_far_that_fails"}
SCENES = [name for name in vars(Scenes) if name[0] != "_" and name not in ("tidy", "root", "branch", "tuple")]


def slots_of(value):
    """The names of the slots of an object, as `setattr` takes them."""
    for cls in type(value).__mro__:
        yield from (name for name in getattr(cls, "__slots__", ()) if not name.startswith("__"))


def wrongs():
    """Return values that no slot or argument should hold; new ones each time, because calls may fill the containers."""
    return [EMPTY, None, 7, -1, 2**70, "x", [], {}, [1, 2, 3], {1: 2}, (), object()]


def faults(call):
    """Yield all faults of a call: (name of the slot or argument, wrong value, place for `spoil`)."""
    for number, each in enumerate(call.objects):
        if each in (ROLLED_BACK, SETTLED):
            continue  # all tests share it
        for name in slots_of(each):
            for wrong in wrongs():
                yield f"{type(each).__name__}.{name}", wrong, ("object", number, name)
    for number in range(len(call.args)):
        for wrong in wrongs():
            yield f"argument {number}", wrong, ("args", number, None)
    for name in call.kwargs:
        for wrong in wrongs():
            yield f"argument {name}", wrong, ("kwargs", name, None)


def spoil(call, wrong, kind, number, name):
    """Put a wrong value into one place of a call; return a function that restores the right one."""
    if kind != "object":
        values = getattr(call, kind)
        values[number] = None if wrong is EMPTY else wrong
        return lambda: None
    holder = call.objects[number]
    before = getattr(holder, name, EMPTY)

    def put(value):
        if value is not EMPTY:
            setattr(holder, name, value)
        elif hasattr(holder, name):
            delattr(holder, name)

    put(wrong)
    return lambda: put(before)


def made_wrongly(scenes, scene, may_be=lambda wrong: True):
    """Make a call once with each of its faults; yield (description of the fault, exception or None)."""
    for what, wrong, where in list(faults(getattr(scenes, scene)())):
        if not may_be(wrong):
            continue
        call = getattr(scenes, scene)()
        mend = spoil(call, wrong, *where)
        try:
            call.make()
            raised = None
        except Exception as error:
            raised = error
        finally:
            mend()
            scenes.tidy()
        yield f"{scene} with {what} {'empty' if wrong is EMPTY else repr(wrong)}", raised


def main():
    logging.disable()
    faulthandler.enable()
    scenes, made, bad = Scenes(), 0, 0
    for scene in SCENES:
        print(scene, file=sys.stderr, flush=True)
        for what, raised in made_wrongly(scenes, scene):
            made += 1
            if isinstance(raised, SystemError):
                bad += 1
                print(f"{what}: {raised!r}")
    print(f"{CORE}: {made} calls")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
