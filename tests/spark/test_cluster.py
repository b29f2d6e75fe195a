"""SparkCluster: what a topology gets on Spark, through the public API."""

import gc
import os
import re
from threading import Thread, Timer

import pytest

from pystorm_spark import (
    AlreadyAliveError,
    BasicBolt,
    Bolt,
    NotAliveError,
    SparkCluster,
    Spout,
    StormError,
    TopologyBuilder,
)
from tests.spark.components import Numbers, Sum, doubling, wait_until
from tests.spark.conftest import Journal
from tests.spark.processes import slot_processes

pytestmark = pytest.mark.spark


def test_every_tuple_is_acked_once_and_executed_once_when_nothing_fails(cluster, journal):
    cluster.submit_topology("doubling", {"topology.workers": 2}, doubling(200, journal))
    wait_until(lambda: len(journal.noted("acked")) >= 200)
    info = cluster.topology_info("doubling")
    cluster.kill_topology("doubling")

    assert sorted(map(int, journal.noted("acked"))) == list(range(200))
    assert sorted(map(int, journal.noted("executed"))) == sorted([*range(200), *range(200)])
    assert journal.noted("failed") == []
    assert len(set(journal.noted("prepared"))) == 2  # two processes, neither of them this one
    assert str(os.getpid()) not in journal.noted("prepared")
    assert (info.components["numbers"].emitted, info.components["numbers"].acked) == (200, 200)
    assert (info.components["twice"].executed, info.components["twice"].emitted) == (200, 400)
    assert (info.components["sum"].executed, info.components["sum"].acked, info.pending) == (400, 400, 0)


def test_python_workers_of_spark_do_not_look_for_garbage_in_their_modules_after_each_exchange(spark, cluster, journal):
    cluster.submit_topology("doubling", {"topology.workers": 2}, doubling(10, journal))
    wait_until(lambda: len(journal.noted("acked")) >= 10)

    looked_at = spark.sparkContext.range(2, numSlices=2).map(lambda _: len(gc.get_objects())).collect()
    assert min(looked_at) < 20_000  # of a hundred thousand and more


def test_leaving_the_cluster_closes_components_and_leaves_no_process_behind(spark, journal):
    before = slot_processes()
    with SparkCluster(spark) as cluster:
        cluster.submit_topology("doubling", {"topology.workers": 2}, doubling(10, journal))
        wait_until(lambda: len(journal.noted("acked")) >= 10)
        assert len(slot_processes() - before) == 2

    assert journal.noted("closed") == ["spout"] * 2
    assert journal.noted("cleaned") == ["bolt"] * 2
    wait_until(lambda: not slot_processes() - before, secs=5)


class NotesEnvironment(Numbers):
    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        self.journal.note("environment", os.environ.get("ONLY_THE_DRIVER_HAS_SET_THIS"))


def test_slots_on_the_drivers_machine_get_its_environment_as_it_is_at_the_submit(cluster, journal, monkeypatch):
    monkeypatch.setenv("ONLY_THE_DRIVER_HAS_SET_THIS", "yes")
    builder = TopologyBuilder()
    builder.set_spout("numbers", NotesEnvironment(3, journal))
    cluster.submit_topology("environment", None, builder.create_topology())
    wait_until(lambda: journal.noted("environment"))
    assert journal.noted("environment") == ["yes"]


def test_slots_get_the_environment_of_the_topology(cluster, journal, monkeypatch):
    monkeypatch.setenv("ONLY_THE_DRIVER_HAS_SET_THIS", "yes")
    builder = TopologyBuilder()
    builder.set_spout("numbers", NotesEnvironment(3, journal))
    conf = {"topology.environment": {"ONLY_THE_DRIVER_HAS_SET_THIS": "the topology has, too"}}
    cluster.submit_topology("environment", conf, builder.create_topology())
    wait_until(lambda: journal.noted("environment"))
    assert journal.noted("environment") == ["the topology has, too"]


class FailsToOpen(Spout):
    outputs = ("value",)

    def open(self, conf, context, collector):
        raise ValueError("no such source")


def test_a_spout_that_cannot_be_opened_is_named_at_submit_and_leaves_nothing_running(cluster, journal):
    before = slot_processes()
    builder = TopologyBuilder()
    builder.set_spout("broken", FailsToOpen())
    builder.set_bolt("sum", Sum(journal)).shuffle_grouping("broken")

    with pytest.raises(StormError, match=r"open of 'broken'.*no such source"):
        cluster.submit_topology("broken", {"topology.workers": 2}, builder.create_topology())

    assert cluster.list_topologies() == []
    wait_until(lambda: not slot_processes() - before, secs=5)


def test_names_are_unique_and_unknown_ones_refused(cluster, journal):
    cluster.submit_topology("twin", {"topology.workers": 1}, doubling(1, journal, tasks=1))

    with pytest.raises(AlreadyAliveError, match="twin"):
        cluster.submit_topology("twin", None, doubling(1, journal, tasks=1))
    with pytest.raises(NotAliveError, match="did you mean 'twin'"):
        cluster.topology_info("twinn")


def test_a_topology_submitted_inactive_opens_nothing_until_it_is_activated(cluster, journal):
    cluster.submit_topology("later", {"topology.workers": 2}, doubling(20, journal), active=False)
    assert cluster.topology_info("later").status == "INACTIVE"
    assert journal.noted("opened") == []

    cluster.activate("later")
    wait_until(lambda: len(journal.noted("acked")) >= 20)
    assert cluster.topology_info("later").status == "ACTIVE"


def test_a_rebalance_starts_tasks_anew_on_another_number_of_workers_and_keeps_the_counts(cluster, journal):
    cluster.submit_topology("moved", {"topology.workers": 1}, doubling(20, journal))
    wait_until(lambda: len(journal.noted("acked")) >= 20)

    cluster.rebalance("moved", num_workers=2)
    wait_until(lambda: len(journal.noted("acked")) >= 40)  # the spouts begin again

    info = cluster.topology_info("moved")
    assert (info.workers, info.status) == (2, "ACTIVE")
    assert info.components["numbers"].acked == 40
    assert len(set(journal.noted("prepared"))) == 3


class Raises(BasicBolt):
    def execute(self, tup, collector):
        raise ValueError(f"cannot bear {tup[0]}")


def test_errors_of_user_code_come_with_their_own_traceback_and_the_tuple(cluster, journal):
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(1, journal))
    builder.set_bolt("raises", Raises()).shuffle_grouping("numbers")
    cluster.submit_topology("raising", {"topology.workers": 2}, builder.create_topology())
    wait_until(lambda: journal.noted("failed"))

    error = cluster.topology_info("raising").components["raises"].errors[0]
    assert error.exception == "ValueError: cannot bear 0"
    assert "test_cluster.py" in error.traceback.splitlines()[1]
    assert "number=0" in error.input


class PrintsEverywhere(Spout):
    """Prints in each of its methods, and has a thread, a timer and a pool print, too."""

    outputs = ("number",)

    def open(self, conf, context, collector):
        self.collector = collector
        self.emitted = False
        print("spout: open")
        Thread(target=print, args=("spout: thread",)).start()
        Timer(0.1, print, args=("spout: timer",)).start()
        context.shared_executor.submit(print, "spout: pool")

    def activate(self):
        print("spout: activate")

    def next_tuple(self):
        if not self.emitted:
            self.emitted = True
            self.collector.emit([0], message_id=0)

    def ack(self, message_id):
        print("spout: ack")

    def close(self):
        print("spout: close")


class PrintsByThreads(Bolt):
    def prepare(self, conf, context, collector):
        self.collector, self.context = collector, context

    def execute(self, tup):
        print("bolt: execute")
        self.context.shared_executor.submit(print, "bolt: pool")
        thread = Thread(target=lambda: Thread(target=print, args=("bolt: thread of a thread",)).start())
        thread.start()
        thread.join()
        self.collector.ack(tup)


def test_what_is_printed_is_shown_by_the_driver_with_its_component_and_task_in_front(cluster, capsys):
    builder = TopologyBuilder()
    builder.set_spout("talks", PrintsEverywhere())
    builder.set_bolt("prints", PrintsByThreads()).shuffle_grouping("talks")
    cluster.submit_topology("printing", {"topology.workers": 1}, builder.create_topology())
    shown = []
    wait_until(lambda: shown.append(capsys.readouterr().out) or len(re.findall("spout: |bolt: ", "".join(shown))) == 9)
    cluster.kill_topology("printing")

    lines = ("".join(shown) + capsys.readouterr().out).splitlines()
    spout = ["open", "thread", "timer", "pool", "activate", "ack", "close"]
    bolt = ["execute", "pool", "thread of a thread"]
    expected = [f"talks:3: spout: {what}" for what in spout] + [f"prints:2: bolt: {what}" for what in bolt]
    assert sorted(line for line in lines if "spout: " in line or "bolt: " in line) == sorted(expected)


class Gated(BasicBolt):
    """Waits for a file on every tuple."""

    def __init__(self, gate, journal):
        self.gate, self.journal = gate, journal

    def execute(self, tup, collector):
        self.journal.note("held", tup[0])
        wait_until(self.gate.exists, secs=240)


def test_a_bolt_that_is_held_up_by_its_first_tuple_holds_up_no_submit(cluster, journal, tmp_path, caplog):
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(1, journal))
    builder.set_bolt("gated", Gated(tmp_path / "gate", journal)).shuffle_grouping("numbers")

    cluster.submit_topology("held", {"topology.workers": 1}, builder.create_topology())

    (tmp_path / "gate").touch()
    wait_until(lambda: journal.noted("acked"))
    assert "busy with user code" not in caplog.text


def test_a_bolt_that_is_held_up_holds_up_no_other_task_of_its_slot(cluster, journal, tmp_path):
    held = Journal(tmp_path / "held")
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(10**6, journal, rate=100))
    builder.set_bolt("sum", Sum(journal)).shuffle_grouping("numbers")
    builder.set_spout("held-numbers", Numbers(5, held))
    builder.set_bolt("gated", Gated(tmp_path / "gate", held)).shuffle_grouping("held-numbers")
    cluster.submit_topology("held", {"topology.workers": 1}, builder.create_topology())
    wait_until(lambda: held.noted("held"))
    acked = len(journal.noted("acked"))
    wait_until(lambda: len(journal.noted("acked")) > acked + 50)
    assert (held.noted("held"), held.noted("acked")) == (["0"], [])
    (tmp_path / "gate").touch()
    wait_until(lambda: sorted(held.noted("acked")) == list("01234"))
    cluster.kill_topology("held")
    assert (len(journal.noted("cleaned")), len(journal.noted("closed")), held.noted("closed")) == (1, 1, ["spout"])


class Flood(Spout):
    """Emits numbers without ids, as fast as it may, up to `count`."""

    outputs = ("number",)

    def __init__(self, count):
        self.count = count

    def open(self, conf, context, collector):
        self.collector, self.emitted = collector, 0

    def next_tuple(self):
        if self.emitted < self.count:
            self.emitted += 1
            self.collector.emit([self.emitted])


def test_what_is_queued_for_a_bolt_that_is_held_up_holds_up_no_other_task_and_no_ack(cluster, journal, tmp_path):
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(10**6, journal, rate=100))
    builder.set_bolt("sum", Sum(journal), 2).fields_grouping("numbers", ["number"])
    builder.set_spout("flood", Flood(20_000), 2)
    builder.set_bolt("gated", Gated(tmp_path / "gate", Journal(tmp_path / "held"))).shuffle_grouping("flood")
    cluster.submit_topology("flooded", {"topology.workers": 2}, builder.create_topology())
    wait_until(lambda: cluster.topology_info("flooded").components["flood"].emitted > 20_000, secs=180)

    every = set(range(max(map(int, journal.noted("acked")), default=0) + 200))  # half of them go to the other slot
    wait_until(lambda: every <= set(map(int, journal.noted("acked"))), secs=60)
    (tmp_path / "gate").touch()
    assert journal.noted("failed") == []
