"""The compiled core owns the objects it uses and checks their types, so no input makes it read freed memory.

Some of these faults show only under AddressSanitizer; `make test-sanitized` runs these tests, too.
"""

import gc
import subprocess
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from pystorm_spark.core import CORE
from pystorm_spark.runtime.codec import arrow_rows
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.runtime.durable import uncommitted
from pystorm_spark.runtime.durable.committed_ids import CommittedIds
from pystorm_spark.runtime.durable.uncommitted import UncommittedOutcomes
from pystorm_spark.runtime.trees import ROLLED_BACK
from pystorm_spark.state.key_value import KeyValueState

from .scenes import FAR, RAISING, SCENES, Scenes
from .twins import compiled_functions, drawn, python_alone

ROOT = Path(__file__).parent.parent.parent
needs_compiled = pytest.mark.skipif(CORE != "compiled", reason="the compiled core does not run")


@dataclass(frozen=True, eq=False)
class Meddling:
    """A key that equals another one of its number; computing its hash calls a function, once."""

    number: int
    deeds: list = field(default_factory=list)

    def __hash__(self):
        if self.deeds:
            self.deeds.pop()()
        return hash(self.number)

    def __eq__(self, other):
        return self.number == other.number if isinstance(other, Meddling) else NotImplemented


class Leaving:
    """A key that removes itself from the list of values when it is compared, and calls a function when it is freed."""

    def __init__(self, values, deed):
        self.values = values
        self.deed = deed

    def __hash__(self):
        return 1

    def __eq__(self, other):
        self.values.clear()
        return True

    def __del__(self):
        self.deed()


def full_state():
    state = KeyValueState(ValueCodec())
    state._changed.update((Meddling(number), number) for number in range(50))
    return state


def roll_back(state, kept):
    """Roll back a state, and fill the memory that its old layers leave."""
    state.rollback()
    kept.extend({Meddling(7): "of another one"} for _ in range(200))


def test_a_look_up_during_a_rollback_returns_the_value_before_it():
    for _ in range(50):
        state, kept = full_state(), []
        assert state.get(Meddling(7, [partial(roll_back, state, kept)]), "missing") == 7
        assert state.get(Meddling(7), "missing") == "missing"


def test_a_put_during_a_rollback_counts():
    state, kept = full_state(), []
    state.put(Meddling(7, [partial(roll_back, state, kept)]), 8)
    assert state.changes() == {Meddling(7): 8}


def near(scenes):
    return scenes.first.routes["default"].ports[0]


def test_a_key_may_replace_the_index_during_its_look_up():
    scenes = Scenes()
    route = scenes.first.routes["default"]
    route.keys = {Meddling(1): 0}

    def replace():
        route.keys, route.ports = {}, list(route.ports)

    assert scenes.collector.emit([Meddling(1, [replace]), 1]) == [near(scenes).task_id]


def test_a_key_may_be_freed_before_its_port_is_read():
    scenes = Scenes()
    route = scenes.first.routes["default"]
    values, kept = [], []

    def forget():
        route.keys.clear()
        kept.extend(int("9" * 4) for _ in range(50))  # reuse the memory of the index

    values += [Leaving(values, forget), 1]
    route.ports = [near(scenes)] * 1000
    route.keys = {Meddling(1): int("300")}
    assert scenes.collector.emit(values) == [near(scenes).task_id]


def test_a_route_may_be_replaced_while_a_message_is_looked_up():
    scenes = Scenes()
    scenes.emitter._plainly = False
    scenes.source.uncommitted = UncommittedOutcomes(CommittedIds("source", scenes.slot_context.codec), True, None)
    kept = []

    def replace():
        scenes.emitter.default = None
        scenes.source.user_routes.clear()
        scenes.source.routes.clear()
        kept.extend(object() for _ in range(200))

    assert scenes.emitter.emit(["a", 1], message_id=Meddling(1, [replace])) == [scenes.first.task_id]


def test_a_buffer_may_be_sealed_while_a_tree_gets_its_id():
    scenes = Scenes()
    call = scenes.emit_far_of_a_root()
    buffer = scenes.first.routes["default"].ports[1].buffer
    draw = scenes.mesh.rng.getrandbits

    def draw_and_seal(bits):
        buffer.clear()
        return draw(bits)

    scenes.source._draw = draw_and_seal
    call.make()
    assert (buffer.rows, buffer.counts) == ([[FAR, 1]], [1])


def emit_while_rolled_back(key):
    scenes = Scenes()
    tup = scenes.tuple(scenes.root())
    scenes.collector.held[tup] = 0.0
    chosen = scenes.collector.emit([Meddling(key, [scenes.first.roll_back_held]), 1], anchors=tup)
    assert tup._tree is ROLLED_BACK
    scenes.first._stale.clear()
    return (
        chosen,
        [task.inbox for task in scenes.slot.bolts],
        [scenes.first.routes["default"].emitted, scenes.slot_context],
    )


@pytest.mark.parametrize("key", range(6))
def test_an_emit_is_dropped_if_its_anchor_is_rolled_back_while_its_task_is_chosen(key):
    with python_alone():
        expected = drawn(emit_while_rolled_back(key))
    chosen, inboxes, (emitted, _) = emitted_now = emit_while_rolled_back(key)
    assert (len(chosen), inboxes, emitted) == (1, [[], [], []], 0)
    assert drawn(emitted_now) == expected


class Shrinking:
    """Garbage that shortens a list when it is collected."""

    def __init__(self, items):
        self.items = items
        self.circle = self

    def __del__(self):
        del self.items[1:]


def collected_meanwhile(function, argument, items):
    """Return the outcome of a function that is interrupted by a garbage collection, which shortens the items."""
    threshold = gc.get_threshold()
    gc.collect()
    Shrinking(items)
    gc.set_threshold(1)
    try:
        return function(argument)
    except ValueError as error:
        return error
    finally:
        gc.set_threshold(*threshold)


def test_columns_may_become_shorter_while_their_rows_are_made():
    column = [[number] for number in range(500)]
    made = collected_meanwhile(arrow_rows._rows, [column, list(range(500))], column)
    assert isinstance(made, ValueError) or len(made) in (1, 500)


def test_roots_may_become_fewer_while_they_are_read():
    scenes = Scenes()
    roots = [scenes.root() for _ in range(500)]
    ids, _ = collected_meanwhile(uncommitted._read, roots, roots)
    assert len(ids) in (1, 500)


def test_wrong_objects_are_refused_and_crash_nothing():
    command = [sys.executable, "-m", "tests.runtime.scenes"]
    ran = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    assert ran.returncode == 0, f"{ran.stdout}{ran.stderr}"


@needs_compiled
def test_every_compiled_function_has_a_scene():
    scenes = Scenes()
    called = set()
    for scene in SCENES:
        call = getattr(scenes, scene)()
        called.add(getattr(call.holder, call.name).__qualname__)
        scenes.tidy()
    assert called == {function.__qualname__ for _, _, function in compiled_functions()}


LONG_WAYS = {
    "emit_to_all_tasks",
    "emit_to_nobody",
    "emit_anchored_to_a_rolled_back_tuple",
    "emit_numbered",
    *RAISING,
}  # a numbered emit of one row


@needs_compiled
@pytest.mark.parametrize("scene", [scene for scene in SCENES if scene not in LONG_WAYS])
def test_a_common_call_never_leaves_c(scene):
    scenes = Scenes()
    call = getattr(scenes, scene)()
    ran = set()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, arg: ran.add(frame.f_code) if event == "call" else None)
    try:
        call.make()
    finally:
        sys.setprofile(before)
    assert not ran & {function.__wrapped__.__code__ for _, _, function in compiled_functions()}


LOAD_TWICE = """
import sys
from pystorm_spark import _core
del sys.modules["pystorm_spark._core"]
import pystorm_spark._core as again
from pystorm_spark.runtime.slot import Slot
"""
LOAD_IN_ANOTHER = """
import importlib.util, _xxsubinterpreters as interpreters
from pystorm_spark import _core
load = '''
import importlib.util
spec = importlib.util.spec_from_file_location("pystorm_spark._core", PATH)
spec.loader.exec_module(importlib.util.module_from_spec(spec))
'''
interpreters.run_string(interpreters.create(), load.replace("PATH", repr(_core.__file__)))
"""


@needs_compiled
def test_the_core_can_be_loaded_twice():
    subprocess.run([sys.executable, "-c", LOAD_TWICE], cwd=ROOT, check=True)


@needs_compiled
def test_a_second_interpreter_of_the_process_cannot_load_the_core():
    pytest.importorskip("_xxsubinterpreters")
    ran = subprocess.run([sys.executable, "-c", LOAD_IN_ANOTHER], cwd=ROOT, text=True, capture_output=True)
    assert "ImportError" in ran.stderr


STATELESS = """
import sys
from tests.runtime.slots import Mesh
from pystorm_spark import Bolt, Spout, TopologyBuilder
from pystorm_spark.runtime.bolt_collector import BoltCollector

class Numbers(Spout):
    outputs = ["number"]
    def open(self, conf, context, collector):
        self.collector, self.acked = collector, 0
    def next_tuple(self):
        self.collector.emit([1], message_id=1)
    def ack(self, message_id):
        self.acked += 1

class Acks(Bolt):
    def prepare(self, conf, context, collector):
        self.collector = collector
    def execute(self, tup):
        self.collector.ack(tup)

builder = TopologyBuilder()
builder.set_spout("numbers", Numbers())
builder.set_bolt("acks", Acks()).shuffle_grouping("numbers")
mesh, ran = Mesh(builder.create_topology(), 1), set()
sys.setprofile(lambda frame, event, arg: ran.add(frame.f_code) if event == "call" else None)
mesh.turn(0)
sys.setprofile(None)
assert mesh.spout("numbers").acked
assert "pystorm_spark.state.key_value" not in sys.modules
assert BoltCollector.ack.__wrapped__.__code__ not in ran
"""


@needs_compiled
def test_the_core_runs_where_no_states_are_imported():
    ended = subprocess.run([sys.executable, "-c", STATELESS], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
