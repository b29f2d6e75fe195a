"""Mistakes of users, and modules or versions that slots lack: a clear error at submit, and nothing left behind."""

import importlib.util
import os
import resource
import sys
import threading
import time

import pytest

from pystorm_spark import (
    BasicBolt,
    Bolt,
    CustomStreamGrouping,
    SerializationError,
    SlotLostError,
    Spout,
    StormError,
    TopologyBuilder,
)
from tests.spark.components import Numbers, Sum, die, wait_until
from tests.spark.processes import slot_processes

pytestmark = pytest.mark.spark

START_LIMIT = "supervisor.worker.start.timeout.secs"


@pytest.fixture(autouse=True)
def nothing_left():
    """Waits after each test until its slot processes have ended."""
    before = slot_processes()
    yield
    wait_until(lambda: not slot_processes() - before, secs=10)


def with_bolt(journal, bolt, count=1):
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(count, journal))
    builder.set_bolt("bolt", bolt).fields_grouping("numbers", ["number"])
    return builder.create_topology()


def refusal(cluster, topology, error=StormError, **conf):
    """Return the error of the submit."""
    with pytest.raises(error) as raised:
        cluster.submit_topology("refused", {"topology.workers": 1, **conf}, topology)
    assert cluster.list_topologies() == []
    return str(raised.value)


# Modules and versions that slots lack.


def test_a_component_whose_module_a_slot_lacks_is_named_with_the_module(cluster, journal, tmp_path, monkeypatch):
    path = tmp_path / "driver_only.py"
    path.write_text("from pystorm_spark import Bolt\nclass Lonely(Bolt):\n    def execute(self, tup): pass\n")
    spec = importlib.util.spec_from_file_location("driver_only", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "driver_only", module)
    spec.loader.exec_module(module)

    told = refusal(cluster, with_bolt(journal, module.Lonely()))

    assert "'bolt'" in told
    assert "'driver_only'" in told


@pytest.mark.parametrize(
    ("patch", "theirs"),
    [
        ("import platform; platform.python_version_tuple = lambda: ('3', '8', '1')", "python 3.11 .* 3.8"),
        ("import pystorm_spark.version as v; v.__version__ = '0.0.1'", "pystorm-spark .* 0.0.1"),
    ],
    ids=["python", "package"],
)
def test_a_slot_with_other_versions_is_refused_and_both_versions_are_named(
    cluster, journal, tmp_path, monkeypatch, patch, theirs
):
    (tmp_path / "sitecustomize.py").write_text(patch)  # every slot imports it first, with the driver's path
    monkeypatch.syspath_prepend(str(tmp_path))
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"

    with pytest.raises(StormError, match=theirs.replace("3.11", ours)) as raised:
        cluster.submit_topology("refused", {"topology.workers": 1}, with_bolt(journal, Sum(journal)))

    assert "same versions" in str(raised.value)


# Components that do not start.


class HoldsALock(Sum):
    def __init__(self, journal):
        super().__init__(journal)
        self.guard = threading.Lock()


def test_a_component_that_cannot_be_pickled_is_named_with_its_attribute_before_anything_starts(cluster, journal):
    told = refusal(cluster, with_bolt(journal, HoldsALock(journal)), SerializationError)

    assert "'bolt'" in told
    assert "'guard'" in told


class Misbehaves(Bolt):
    """Fails in `prepare`, in one of several ways."""

    def __init__(self, how):
        self.how = how

    def prepare(self, conf, context, collector):
        self.how()

    def execute(self, tup):
        pass


def raise_in_prepare():
    raise LookupError("no such table")


def hang():
    while True:
        time.sleep(0.01)


def test_an_exception_in_prepare_names_component_and_task(cluster, journal):
    told = refusal(cluster, with_bolt(journal, Misbehaves(raise_in_prepare)))

    assert "prepare of 'bolt' (task 2) raised LookupError: no such table" in told


def test_a_prepare_that_hangs_ends_the_submit_and_shows_its_stack(cluster, journal):
    told = refusal(cluster, with_bolt(journal, Misbehaves(hang)), **{START_LIMIT: 5})

    assert "prepare of bolt:2" in told
    assert START_LIMIT in told
    assert "in hang" in told


class Imports(Bolt):
    """Unpickling it takes a long time."""

    def __init__(self, secs):
        self.secs = secs

    def __setstate__(self, state):
        self.__dict__.update(state)
        time.sleep(self.secs)

    def execute(self, tup):
        pass


def test_a_load_that_hangs_ends_the_submit_too(cluster, journal):
    told = refusal(cluster, with_bolt(journal, Imports(600)), **{START_LIMIT: 5})

    assert "loading the components" in told
    assert "__setstate__" in told


def test_a_prepare_that_ends_the_process_is_named(cluster, journal):
    told = refusal(cluster, with_bolt(journal, Misbehaves(lambda: os._exit(1))))

    assert "did not start" in told
    assert "bolt:2" in told


class SlowStart(Sum):
    """Imports for long, and prepares for long: longer than an execute may take."""

    def prepare(self, conf, context, collector):
        print("preparing")  # what is printed while a slot starts is shown as well
        time.sleep(2)
        super().prepare(conf, context, collector)


@pytest.mark.parametrize("active", [True, False])
def test_a_long_start_is_not_taken_for_a_dead_slot(cluster, journal, active):
    conf = {"topology.workers": 1, "topology.execute.timeout.secs": 1}
    cluster.submit_topology("slow", conf, with_bolt(journal, SlowStart(journal)), active=active)
    if not active:
        cluster.activate("slow")

    wait_until(lambda: journal.noted("acked"))
    assert len(journal.noted("prepared")) == 1


class HoldsTheInterpreter(BasicBolt):
    """Blocks all other threads of its process for a while, as a C library may."""

    def execute(self, tup, collector):
        before = sys.getswitchinterval()
        sys.setswitchinterval(30)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            pass
        sys.setswitchinterval(before)


def test_a_bolt_that_holds_the_interpreter_for_longer_than_the_lease_lives_on(cluster, journal):
    cluster.submit_topology("held", {"topology.workers": 1}, with_bolt(journal, HoldsTheInterpreter()))
    before = slot_processes()

    wait_until(lambda: journal.noted("acked"))

    assert slot_processes() == before
    assert journal.noted("acked") == ["0"]


class ExhaustsOpenFiles(BasicBolt):
    """Opens files until the system gives no more, and keeps them."""

    def prepare(self, conf, context):
        self.kept = []

    def execute(self, tup, collector):
        if tup[0] == 0:
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            while True:
                self.kept.append(os.open(os.devnull, os.O_RDONLY))  # raises at last
        time.sleep(0.1)


def test_a_slot_that_has_no_open_files_left_lives_on(cluster, journal):
    topology = with_bolt(journal, ExhaustsOpenFiles(), count=30)
    conf = {"topology.workers": 1, "topology.max.spout.pending": 1}
    cluster.submit_topology("exhausted", conf, topology)
    before = slot_processes()

    wait_until(lambda: cluster.topology_info("exhausted").components["bolt"].acked == 29)

    assert slot_processes() == before
    assert "Too many open files" in cluster.topology_info("exhausted").components["bolt"].errors[0].exception


# Slots that keep dying.


class DiesOn(BasicBolt):
    def __init__(self, number, how):
        self.number, self.how = number, how

    def execute(self, tup, collector):
        if tup[0] == self.number:
            die(self.how)


@pytest.mark.parametrize("how", ["kill", "segfault"])
def test_the_error_that_ends_a_topology_names_the_component_and_the_tuple_that_killed_its_slot(cluster, journal, how):
    conf = {"topology.workers": 1, "topology.slot.max.restarts": 1}
    handle = cluster.submit_topology("doomed", conf, with_bolt(journal, DiesOn(7, how), count=20))

    with pytest.raises(SlotLostError, match=r"bolt:2 on Tuple\(number=7; from numbers:3") as raised:
        handle.await_termination(timeout=60)

    assert "died 2 times" in str(raised.value)


class Fails(Spout):
    outputs = ("value",)

    def next_tuple(self):
        die("exit")


def test_a_spout_that_kills_its_slot_is_named(cluster, journal):
    builder = TopologyBuilder()
    builder.set_spout("deadly", Fails())
    builder.set_bolt("sum", Sum(journal)).shuffle_grouping("deadly")
    conf = {"topology.workers": 1, "topology.slot.max.restarts": 1}
    handle = cluster.submit_topology("doomed", conf, builder.create_topology())

    with pytest.raises(SlotLostError, match="deadly:2"):
        handle.await_termination(timeout=60)


# Large values.


class ToTheLast(CustomStreamGrouping):
    """Sends all tuples to the last task, which is not in the slot of the first."""

    def prepare(self, context, stream, targets):
        self.target = max(targets)

    def choose_tasks(self, task_id, values):
        return [self.target]


class Blobs(Numbers):
    """Emits bytes beside each number."""

    outputs = ("number", "blob")

    def __init__(self, count, journal, size):
        super().__init__(count, journal)
        self.size = size

    def next_tuple(self):
        if self.next < self.count:
            self.collector.emit([self.next, bytes(self.size)], message_id=self.next)
            self.next += 1


class Weighs(BasicBolt):
    def __init__(self, journal, pause_secs=0.0):
        self.journal, self.pause_secs = journal, pause_secs

    def execute(self, tup, collector):
        time.sleep(self.pause_secs)
        self.journal.note("weighed", len(tup["blob"]))


def weighing(spout, bolt):
    builder = TopologyBuilder()
    builder.set_spout("blobs", spout)
    builder.set_bolt("weighs", bolt, 2).custom_grouping("blobs", ToTheLast())
    return builder.create_topology()


def test_values_of_many_megabytes_travel_between_slots(cluster, journal):
    topology = weighing(Blobs(3, journal, 20_000_000), Weighs(journal))
    cluster.submit_topology("large", {"topology.workers": 2}, topology)

    wait_until(lambda: len(journal.noted("acked")) == 3, secs=180)
    assert journal.noted("weighed") == ["20000000"] * 3


def test_a_slow_bolt_pauses_the_spouts_before_memory_is_full(cluster, journal):
    size = 100_000
    topology = weighing(Blobs(10_000_000, journal, size), Weighs(journal, pause_secs=0.05))
    conf = {"topology.workers": 2, "topology.slot.inbox.max.bytes": 1_000_000, "topology.message.timeout.secs": 600}
    cluster.submit_topology("slow", conf, topology)
    wait_until(lambda: len(journal.noted("weighed")) >= 60)

    components = cluster.topology_info("slow").components
    waiting = components["blobs"].emitted - components["weighs"].executed
    assert waiting * size < 150_000_000  # without back-pressure the spout would have emitted gigabytes by then
