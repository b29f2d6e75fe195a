"""The two cores: which one runs, and that both do the same."""

import importlib.util
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pystorm_spark.core import CORE
from pystorm_spark.errors import EmitError
from pystorm_spark.runtime.bolt_collector import BoltCollector
from pystorm_spark.runtime.keys.hashing import stable_hash
from pystorm_spark.runtime.router import Port
from pystorm_spark.runtime.spout_collector import emit_numbered
from pystorm_spark.runtime.trees import Root
from pystorm_spark.topology.builder import TopologyBuilder
from pystorm_spark.topology.component import Bolt
from pystorm_spark.topology.fields import Fields
from pystorm_spark.topology.tuple import SETTLED

from .slots import HoldingBolt, Mesh, ScriptedSpout

ROOT = Path(__file__).parent.parent.parent
IS_BUILT = importlib.util.find_spec("pystorm_spark._core") is not None
needs_compiled = pytest.mark.skipif(not IS_BUILT, reason="the compiled core has not been built")
TASKS = 5


def python(*args, pure):
    """Return the output of a new Python process."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "PYSTORM_SPARK_PURE": pure}
    return subprocess.run([sys.executable, *args], cwd=ROOT, env=env, text=True, check=True, capture_output=True).stdout


def core_of(pure):
    return python("-c", "from pystorm_spark.core import CORE; print(CORE)", pure=pure).strip()


def test_the_environment_can_choose_python_alone():
    assert core_of(pure="1") == "pure"


@pytest.mark.parametrize("unset", ["", "0"])
def test_the_compiled_core_runs_where_it_is_built(unset):
    assert core_of(pure=unset) == ("compiled" if IS_BUILT else "pure")


def test_without_the_global_interpreter_lock_python_alone_runs():
    program = "import sys; sys._is_gil_enabled = lambda: False; from pystorm_spark.core import CORE; print(CORE)"
    assert python("-c", program, pure="").strip() == "pure"


@needs_compiled
def test_both_cores_have_the_same_transcript():
    name, *compiled = python("-m", "tests.runtime.transcript", pure="").splitlines()
    other, *pure = python("-m", "tests.runtime.transcript", pure="1").splitlines()
    assert (name, other) == ("compiled", "pure")
    assert compiled == pure


def test_a_compiled_method_has_the_name_of_its_python_function():
    assert (BoltCollector.ack.__name__, BoltCollector.ack.__qualname__) == ("ack", "BoltCollector.ack")
    assert BoltCollector.ack.__module__ == BoltCollector.__module__


@pytest.mark.parametrize("function", [BoltCollector.ack, emit_numbered])
def test_a_compiled_function_is_pickled_by_its_name(function):
    assert pickle.loads(pickle.dumps(function)) is function


@needs_compiled
def test_a_function_that_the_compiled_core_lacks_is_refused():
    from pystorm_spark import _core

    with pytest.raises(TypeError, match=r"does not know the function .*core_of"):
        _core.compiled(core_of)
    with pytest.raises(TypeError, match=r"does not know the class .*EmitError"):
        _core.laid_out(EmitError)
    with pytest.raises(TypeError, match="is no function"):
        _core.compiled(3)


@needs_compiled
def test_a_class_without_the_slots_that_the_compiled_core_reads_is_refused():
    from pystorm_spark import _core

    with pytest.raises(AttributeError, match="append"):
        _core.laid_out(port())
    with pytest.raises(TypeError, match=r"append of .*Port.* is no slot"):
        _core.laid_out(port(append=None))
    with pytest.raises(TypeError, match=r"append of .*Port.* is no slot"):
        _core.laid_out(port(append=Port.append))  # the slot of another class
    with pytest.raises(AttributeError, match="buffer"):
        _core.laid_out(port(__slots__=("other", "append")))


def port(**attributes):
    """Make another class with the name of `Port`."""
    return type("Port", (), {"__module__": Port.__module__, **attributes})


@needs_compiled
def test_a_class_that_is_not_a_tree_is_refused():
    from pystorm_spark import _core

    slots = ("bucket", "emitted_at", "message_id", "task", "why")
    with pytest.raises(TypeError, match=r"Root.* is no Travelling"):
        _core.laid_out(type("Root", (), {"__module__": Root.__module__, "__slots__": slots}))


def _rows(columns):
    """Has the name of a compiled function."""


@needs_compiled
def test_a_function_with_a_compiled_name_in_another_module_is_refused():
    from pystorm_spark import _core

    with pytest.raises(TypeError, match=r"does not know the function .*_rows"):
        _core.compiled(_rows)
    with pytest.raises(TypeError, match=r"does not know the class .*Port"):
        _core.laid_out(type("Port", (), {"__slots__": Port.__slots__}))


# Keys.


class KeyedBolt(HoldingBolt):
    outputs = ["key"]


def keyed_mesh():
    builder = TopologyBuilder()
    builder.set_spout("spout", ScriptedSpout())
    builder.set_bolt("first", KeyedBolt()).shuffle_grouping("spout")
    builder.set_bolt("last", HoldingBolt(), TASKS).fields_grouping("first", Fields("key"))
    mesh = Mesh(builder.create_topology(), 1)
    mesh.spout().emit("label", message_id=1)
    mesh.slots[0].turn()
    mesh.slots[0]._open_short_way()  # as a turn does
    return mesh


@pytest.mark.parametrize(
    "key",
    ["", "a", "word", "\0", "\x7f", "x" * 63, "x" * 64, "x" * 65, "é", "naïve", "語", "\ud800", 1, 1.0, None, b"b"],
)
def test_a_key_goes_to_the_task_of_its_hash(key):
    mesh = keyed_mesh()
    chosen = mesh.bolt("first").collector.emit([key])
    assert chosen == [mesh.tasks("last")[stable_hash([key]) % TASKS]]


def test_words_go_to_the_tasks_of_their_hashes():
    mesh = keyed_mesh()
    words = [f"word {number}" for number in range(2000)]
    chosen = [mesh.bolt("first").collector.emit([word])[0] for word in words]
    assert chosen == [mesh.tasks("last")[stable_hash([word]) % TASKS] for word in words]


@dataclass(frozen=True)
class Meddling:
    """A key whose hash acks the anchor that it is emitted with."""

    bolt: Bolt = field(compare=False)

    def __hash__(self):
        for tup in self.bolt.held:
            if tup._tree is not SETTLED:
                self.bolt.collector.ack(tup)
        return 0


def test_an_emit_whose_anchor_is_acked_while_the_task_is_chosen_is_refused():
    mesh = keyed_mesh()
    first = mesh.bolt("first")
    tree = first.held[0]._tree
    with pytest.raises(EmitError, match="already acked or failed"):
        first.collector.emit([Meddling(first)], anchors=first.held[0])
    assert (tree.unsettled, [task.waiting() for task in mesh.slots[0].bolts]) == (0, [0] * (1 + TASKS))


def test_the_log_says_which_core_runs(caplog):
    caplog.set_level("DEBUG", "pystorm_spark.runtime.slot")
    keyed_mesh()
    assert f"slot 0 runs on the {CORE} core" in caplog.messages
