"""A topology on Spark loses nothing when its processes die, in any way."""

import os
import signal

import pytest

from pystorm_spark import SlotLostError, TopologyBuilder
from tests.spark import faults
from tests.spark.components import DiesOnce, EatsMemoryOnce, Numbers, Sum, die, steady, wait_until
from tests.spark.processes import kill, python_workers, slot_processes

pytestmark = pytest.mark.spark


def dying(count, journal, bolt):
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(count, journal), 2)
    builder.set_bolt("dies", bolt, 2).fields_grouping("numbers", ["number"])
    builder.set_bolt("sum", Sum(journal), 2).fields_grouping("dies", ["number"])
    return builder.create_topology()


@pytest.mark.parametrize("how", ["kill", "exit", "segfault"])
def test_a_slot_that_dies_is_restarted_and_every_number_arrives(cluster, journal, tmp_path, how):
    topology = dying(100, journal, DiesOnce(50, str(tmp_path / "marker"), how))
    cluster.submit_topology("dying", {"topology.workers": 2}, topology)

    # The spout of the lost slot starts again; the other one gets fails for its lost numbers.
    wait_until(lambda: set(map(int, journal.noted("acked"))) == set(range(100)))

    assert set(map(int, journal.noted("executed"))) == set(range(100))
    assert len(set(journal.noted("prepared"))) == 3
    assert cluster.topology_info("dying").status == "ACTIVE"


def test_a_slot_killed_from_outside_between_batches_comes_back(cluster, journal):
    before = slot_processes()
    cluster.submit_topology("idle", {"topology.workers": 2}, dying(20, journal, DiesOnce(-1, "/nonexistent")))
    wait_until(lambda: len(set(journal.noted("acked"))) == 20)
    victim = min(slot_processes() - before)

    os.kill(victim, signal.SIGKILL)

    wait_until(lambda: len(slot_processes() - before) == 2 and victim not in slot_processes())
    wait_until(lambda: len(set(journal.noted("prepared"))) == 3)


class DiesAlways(DiesOnce):
    def __init__(self):
        pass

    def execute(self, tup, collector):
        die("exit")


def test_a_slot_that_keeps_dying_ends_the_topology_with_the_reason(cluster, journal):
    topology = dying(4, journal, DiesAlways())
    handle = cluster.submit_topology("doomed", {"topology.workers": 1, "topology.slot.max.restarts": 2}, topology)

    with pytest.raises(SlotLostError, match=r"died 3 times"):
        handle.await_termination(timeout=60)

    assert cluster.list_topologies() == []


class Hangs(DiesOnce):
    def execute(self, tup, collector):
        if tup[0] == self.number and not os.path.exists(self.marker):
            open(self.marker, "w").close()
            while True:
                pass
        collector.emit([tup[0]])


def test_a_slot_that_hangs_is_killed_and_replaced(cluster, journal, tmp_path, caplog):
    topology = dying(10, journal, Hangs(5, str(tmp_path / "marker")))
    conf = {"topology.workers": 2, "topology.execute.timeout.secs": 2}
    cluster.submit_topology("hanging", conf, topology)

    wait_until(lambda: set(map(int, journal.noted("acked"))) == set(range(10)))

    assert "dies:" in caplog.text
    assert "has not returned" in caplog.text


def test_a_stopped_slot_is_replaced_and_changes_nothing_when_it_wakes(cluster, journal):
    before = slot_processes()
    conf = {"topology.workers": 2, "topology.execute.timeout.secs": 2}
    cluster.submit_topology("stopped", conf, dying(400, journal, DiesOnce(-1, "/nonexistent")))
    wait_until(lambda: len(slot_processes() - before) == 2)
    victim = max(slot_processes() - before)

    os.kill(victim, signal.SIGSTOP)
    wait_until(lambda: victim not in slot_processes())

    wait_until(lambda: set(map(int, journal.noted("acked"))) == set(range(400)))


@pytest.mark.parametrize("kind", [faults.KilledAfterTaking, faults.RaisesAfterTaking])
def test_a_job_that_fails_runs_again_and_its_frames_arrive(cluster, journal, tmp_path, monkeypatch, caplog, kind):
    # On local[2] Spark runs no task twice: one that fails fails its job.
    faults.put_in(monkeypatch, kind, tmp_path / "faults", times=3)
    conf = {"topology.workers": 2, "topology.message.timeout.secs": 600}  # a lost tuple would not be replayed
    cluster.submit_topology("unlucky", conf, steady(200, journal, rate=20))
    wait_until(lambda: len(journal.noted("acked")) >= 200)

    assert caplog.text.count("an exchange failed and is run again") == 3
    assert journal.noted("failed") == []
    assert sorted(map(int, journal.noted("executed"))) == list(range(200))
    assert len(set(journal.noted("prepared"))) == 2


def test_a_topology_outlives_python_workers_that_are_killed_as_soon_as_they_are_there(cluster, journal):
    cluster.submit_topology("hunted", {"topology.workers": 2}, steady(4000, journal))
    spark = cluster.spark.sparkContext._gateway.proc.pid
    for _ in range(8):
        wait_until(lambda: python_workers(spark))
        kill(*python_workers(spark))
    killed_at = len(journal.noted("acked"))

    wait_until(lambda: len(journal.noted("acked")) > killed_at + 20)

    assert cluster.topology_info("hunted").status == "ACTIVE"
    assert len(set(journal.noted("prepared"))) == 2


def test_a_python_worker_that_is_killed_while_it_starts_slots_fails_no_submit(cluster, journal, tmp_path, monkeypatch):
    before = slot_processes()
    faults.put_in_placing(monkeypatch, tmp_path / "faults", times=2)

    cluster.submit_topology("unlucky", {"topology.workers": 2}, steady(20, journal))

    wait_until(lambda: set(map(int, journal.noted("acked"))) == set(range(20)))
    wait_until(lambda: len(slot_processes() - before) == 2)  # duplicate slots have ended


def test_a_tuple_that_exhausts_memory_fails_and_its_slot_lives_on(cluster, journal, tmp_path):
    topology = dying(100, journal, EatsMemoryOnce(50, str(tmp_path / "marker")))
    cluster.submit_topology("hungry", {"topology.workers": 2}, topology)

    wait_until(lambda: set(map(int, journal.noted("acked"))) == set(range(100)))

    assert journal.noted("failed") == ["50"]
    assert cluster.topology_info("hungry").components["dies"].errors[0].exception.startswith("MemoryError")
    assert len(set(journal.noted("prepared"))) == 2
