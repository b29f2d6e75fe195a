"""Tests on executors that are processes of their own; `test_local_cluster.py` runs them in a process of its own."""

import os
import tempfile
from pathlib import Path

import pytest
from pyspark.sql.functions import udf

from pystorm_spark import Spout, TopologyBuilder
from pystorm_spark.dataframe import run_batch
from tests.spark import faults
from tests.spark.components import DiesOnce, Twice, steady, wait_until
from tests.spark.processes import executor_of, executors_of, kill, python_workers, slots_below

WORKERS = {"topology.workers": 2}
FOLDER = Path(tempfile.gettempdir())  # of this process alone


@pytest.fixture
def executors(spark):
    """Asks for {id: pid} of the executors, of which there are two when a test begins."""

    def ask():
        return executors_of(spark.sparkContext.applicationId)

    wait_until(lambda: len(ask()) == 2)
    return ask


@pytest.fixture(autouse=True)
def nothing_stays():
    yield
    wait_until(lambda: not slots(), secs=10)
    assert not list(FOLDER.glob("pystorm-*"))


def slots():
    return slots_below(FOLDER)


def all_acked(journal, count):
    return set(map(int, journal.noted("acked"))) == set(range(count))


def test_slots_are_spread_over_the_executors(cluster, journal, executors):
    cluster.submit_topology("spread", WORKERS, steady(100, journal))

    assert {executor_of(slot) for slot in slots()} == set(executors())
    wait_until(lambda: len(journal.noted("acked")) >= 100)
    assert sorted(map(int, journal.noted("acked"))) == list(range(100))
    assert journal.noted("failed") == []


def test_slots_of_a_killed_executor_end_and_are_started_beside_another_one(cluster, journal, executors):
    cluster.submit_topology("orphaned", WORKERS, steady(400, journal))
    wait_until(lambda: len(journal.noted("acked")) > 20)
    orphan, other = sorted(slots())
    lost = executor_of(orphan)

    kill(executors()[lost])

    wait_until(lambda: orphan not in slots(), secs=10)
    wait_until(lambda: all_acked(journal, 400))
    assert other in slots()
    (replacement,) = slots() - {other}
    assert executor_of(replacement) != lost


def test_a_topology_goes_on_when_all_its_executors_are_killed(cluster, journal, executors):
    cluster.submit_topology("bereft", WORKERS, steady(200, journal))
    wait_until(lambda: len(journal.noted("acked")) > 20)

    kill(*executors().values())

    wait_until(lambda: all_acked(journal, 200))
    assert cluster.topology_info("bereft").status == "ACTIVE"


def test_spark_starts_its_python_workers_anew_and_slots_live_on(cluster, journal, executors):
    cluster.submit_topology("workers", WORKERS, steady(400, journal))
    for _ in range(3):
        acked = len(journal.noted("acked"))
        wait_until(lambda acked=acked: len(journal.noted("acked")) > acked)
        kill(*python_workers(*executors().values()))

    wait_until(lambda: all_acked(journal, 400))
    assert len(set(journal.noted("prepared"))) == 2


@pytest.mark.parametrize("how", ["kill", "exit"])
def test_a_slot_that_dies_is_started_anew(cluster, journal, tmp_path, how):
    cluster.submit_topology("dying", WORKERS, steady(100, journal, DiesOnce(50, str(tmp_path / "marker"), how)))

    wait_until(lambda: all_acked(journal, 100))
    assert len(set(journal.noted("prepared"))) == 3


# No frame is lost and none is taken twice: no tuple fails, and none is executed twice.

KINDS = [faults.KilledAfterTaking, faults.RaisesAfterTaking, faults.LosesShuffles]


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_that_spark_runs_again_lose_and_repeat_nothing(cluster, journal, tmp_path, monkeypatch, kind):
    run_again = faults.put_in(monkeypatch, kind, tmp_path / "faults", times=5)
    conf = {**WORKERS, "topology.message.timeout.secs": 600}  # a tuple that is lost is not seen again
    cluster.submit_topology("again", conf, steady(200, journal, rate=20))  # outlasts faults that hit empty exchanges
    wait_until(lambda: len(journal.noted("acked")) >= 200)

    assert kind.at in run_again()  # where shuffles are lost, in the stage before the one that failed to fetch
    assert journal.noted("failed") == []
    assert sorted(map(int, journal.noted("executed"))) == list(range(200))
    assert len(set(journal.noted("prepared"))) == 2


class Given(Spout):
    outputs = ("number",)


class FailsOnce:
    """Raises on one number, once: a Spark task that has come so far is run again."""

    def __init__(self, number, marker):
        self.number, self.marker = number, marker

    def __call__(self, number):
        if number == self.number and not os.path.exists(self.marker):
            open(self.marker, "w").close()
            raise OSError("the disk has hiccups")
        return number


def test_a_task_that_spark_runs_again_feeds_no_row_twice(spark, tmp_path, caplog):
    marker = str(tmp_path / "marker")
    numbers = spark.range(0, 6000, 1, 2).select(
        udf(FailsOnce(5500, marker), "long", useArrow=False)("id").alias("number")
    )
    builder = TopologyBuilder()
    builder.set_spout("numbers", Given(), 2)
    builder.set_bolt("twice", Twice(), 2).shuffle_grouping("numbers")

    result = run_batch(spark, builder.create_topology(), {"numbers": numbers}, ["numbers"], WORKERS)

    assert os.path.exists(marker)
    assert "begins anew" not in caplog.text
    assert sorted(row.number for row in result["numbers"].collect()) == list(range(6000))
