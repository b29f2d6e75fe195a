"""Durable state on Spark: commits survive crashes of slots and drivers, and a change of the number of workers."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pystorm_spark import CheckpointError, SparkCluster, StormError, TopologyBuilder
from tests.spark.components import DiesOnce, wait_until
from tests.spark.conftest import Journal
from tests.spark.durable import CONF, EXACTLY_ONCE, BlocksOnce, Count, Replayed, acked, counting

pytestmark = pytest.mark.spark
ROOT = Path(__file__).resolve().parents[3]
GUARANTEES = pytest.mark.parametrize("conf", [CONF, EXACTLY_ONCE], ids=["at-least-once", "exactly-once"])


@pytest.fixture
def start(spark, tmp_path):
    """Return a function that starts a new cluster on the same checkpoint, and shuts down the previous one."""
    clusters = []

    def started():
        if clusters:
            clusters.pop().shutdown()
        clusters.append(SparkCluster(spark, checkpoint=tmp_path / "checkpoint"))
        return clusters[-1]

    yield started
    clusters[-1].shutdown()


def count(cluster):
    return cluster.read_state("counting", "count")


def wait_for_acks(journal, number):
    wait_until(lambda: acked(journal) == set(range(number)))


def check(counts, number, conf):
    """Check that nothing is lost, and that with exactly-once nothing is counted twice."""
    assert set(counts) == set(range(number))
    if conf is EXACTLY_ONCE:
        assert set(counts.values()) == {1}


@GUARANTEES
def test_a_state_follows_its_tasks_to_another_number_of_workers(start, journal, tmp_path, conf):
    cluster = start()
    cluster.submit_topology("counting", conf, counting(40, journal))
    wait_for_acks(journal, 40)
    cluster.rebalance("counting", num_workers=1)
    assert count(cluster) == dict.fromkeys(range(40), 1)
    cluster = start()
    cluster.submit_topology("counting", {**conf, "topology.workers": 3}, counting(80, journal))
    wait_for_acks(journal, 80)
    assert count(cluster) == dict.fromkeys(range(80), 1)
    assert (cluster.read_state("counting", "count", 79), cluster.read_state("counting", "count", 80)) == (1, None)
    cluster.kill_topology("counting")
    assert list((tmp_path / "checkpoint" / "counting" / "state").glob("manifest-*"))


def test_killing_a_topology_commits(start, journal):
    cluster = start()
    conf = {**EXACTLY_ONCE, "topology.state.checkpoint.interval.ms": 60_000}
    cluster.submit_topology("counting", conf, counting(40, journal))
    wait_until(lambda: cluster.topology_info("counting").components["count"].acked == 40)
    assert (count(cluster), acked(journal)) == ({}, set())
    cluster.kill_topology("counting")
    assert (acked(journal), journal.noted("committed")) == (set(range(40)), ["1", "1"])


class HangsOnce(Count):
    """Blocks in a hook, once."""

    def __init__(self, journal, hook):
        super().__init__(journal)
        self.hook = hook

    def pre_prepare(self, txid):
        self.hang("pre_prepare")

    def pre_commit(self, txid):
        self.hang("pre_commit")
        super().pre_commit(txid)

    def hang(self, hook):
        if hook == self.hook and not self.journal.noted("hung"):
            self.journal.note("hung", hook)
            time.sleep(600)


@pytest.mark.parametrize("hook", ["pre_prepare", "pre_commit"])
def test_a_slot_that_hangs_in_a_commit_is_replaced(cluster, journal, hook):
    builder = TopologyBuilder()
    builder.set_spout("numbers", Replayed(40, journal))
    builder.set_bolt("count", HangsOnce(journal, hook)).fields_grouping("numbers", ["number"])
    cluster.submit_topology("counting", {**EXACTLY_ONCE, "topology.execute.timeout.secs": 3}, builder.create_topology())
    wait_for_acks(journal, 40)
    assert count(cluster) == dict.fromkeys(range(40), 1)
    assert journal.noted("hung") == [hook]


def test_a_topology_without_the_stateful_bolt_of_its_checkpoint_is_refused(start, journal):
    cluster = start()
    cluster.submit_topology("counting", CONF, counting(10, journal))
    wait_for_acks(journal, 10)
    builder = TopologyBuilder()
    builder.set_spout("numbers", Replayed(10, journal))
    with pytest.raises(CheckpointError, match=r"holds state of 'count', which the .* there is none; name another"):
        start().submit_topology("counting", CONF, builder.create_topology())


def test_an_unnamed_checkpoint_ends_with_its_topology(cluster, journal):
    cluster.submit_topology("counting", CONF, counting(10, journal))
    wait_for_acks(journal, 10)
    temporary = cluster._folder / "checkpoint"
    assert len(list(temporary.iterdir())) == 1
    cluster.kill_topology("counting")
    assert not list(temporary.iterdir())


class KeepsMuch(Count):
    def execute(self, tup):
        self.state.put(tup[0], b"x" * (70 << 20))
        print("y" * (70 << 20))
        self.collector.ack(tup)


def test_values_and_prints_of_many_megabytes_reach_the_driver(cluster, journal, capsys):
    builder = TopologyBuilder()
    builder.set_spout("numbers", Replayed(1, journal))
    builder.set_bolt("count", KeepsMuch(journal)).global_grouping("numbers")
    cluster.submit_topology("counting", {**CONF, "topology.workers": 1}, builder.create_topology())
    wait_for_acks(journal, 1)

    assert len(count(cluster)[0]) == 70 << 20
    assert len(journal.noted("prepared")) == 1  # the slot is the same
    shown = []
    wait_until(lambda: shown.append(len(capsys.readouterr().out)) or sum(shown) > 70 << 20)


def test_an_invalid_read_is_refused_and_the_topology_goes_on(cluster, journal):
    cluster.submit_topology("counting", CONF, counting(10, journal))
    with pytest.raises(StormError, match="the topology has no stateful bolt 'pass'"):
        cluster.read_state("counting", "pass")
    with pytest.raises(TypeError, match="unhashable"):
        cluster.read_state("counting", "count", [1])
    wait_for_acks(journal, 10)
    assert len(journal.noted("prepared")) == 2


@GUARANTEES
def test_a_slot_that_dies_between_commits_is_rolled_back_to_the_last_one(cluster, journal, tmp_path, conf):
    bolt = DiesOnce(150, str(tmp_path / "marker"))
    cluster.submit_topology("counting", conf, counting(200, journal, bolt))
    wait_for_acks(journal, 200)
    assert len(set(journal.noted("prepared"))) == 3
    check(count(cluster), 200, conf)


@pytest.mark.parametrize("points", ["part-written:2,part-renamed:1", "part-renamed:2,part-written:2"])
@GUARANTEES
def test_a_slot_that_dies_during_a_commit_loses_no_acked_message(cluster, journal, tmp_path, conf, points):
    crashes = {"PYSTORM_SPARK_CRASH_AT": points, "PYSTORM_SPARK_CRASH_MARKS": str(tmp_path / "mark")}
    # A small limit: complete messages wait for commits, so there are several commits.
    often = {**conf, "topology.max.spout.pending": 50, "topology.environment": crashes}
    cluster.submit_topology("counting", often, counting(300, journal))
    wait_for_acks(journal, 300)
    assert len(list(tmp_path.glob("mark.*"))) == 2
    check(count(cluster), 300, conf)


SCRIPT = """
import sys
from pathlib import Path
from pystorm_spark import SparkCluster
from tests.spark.components import wait_until
from tests.spark.conftest import Journal
from tests.spark.durable import EXACTLY_ONCE, acked, counting

journal = Journal(Path(sys.argv[1], "journal"), exist_ok=True)
with SparkCluster(checkpoint=Path(sys.argv[1], "checkpoint")) as cluster:
    cluster.submit_topology("counting", EXACTLY_ONCE, counting(200, journal, rate=60))
    wait_until(lambda: acked(journal) == set(range(200)))
    counts = cluster.read_state("counting", "count")
    assert counts == dict.fromkeys(range(200), 1), counts
"""


@pytest.mark.slow
def test_a_restarted_driver_continues_from_the_last_commit(tmp_path):
    journal = Journal(tmp_path / "journal")
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYSTORM_SPARK_CRASH_AT": "manifest-renamed:3",
        "PYSTORM_SPARK_CRASH_MARKS": str(tmp_path / "mark"),
    }
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    assert subprocess.run(command, env=env, timeout=300).returncode == 137
    before = len(journal.noted("acked"))
    script = subprocess.Popen(command, env=env)
    wait_until(lambda: len(journal.noted("acked")) > before)
    script.send_signal(signal.SIGKILL)
    script.wait()
    assert subprocess.run(command, env=env, timeout=300).returncode == 0
    assert acked(journal) == set(range(200))


def test_exchanges_go_on_while_a_commit_waits_for_a_slow_bolt(cluster, journal, tmp_path):
    gate = tmp_path / "gate"
    conf = {**CONF, "topology.execute.slow.secs": 0}  # else it would not wait
    cluster.submit_topology("counting", conf, counting(100_000, journal, BlocksOnce(50, str(gate), journal)))
    wait_until(lambda: journal.noted("blocked"))
    run = cluster._find("counting").run
    wait_until(lambda: run.driver.commits.round is not None)
    jobs, round_ = run.jobs, run.driver.commits.round
    wait_until(lambda: run.jobs > jobs + 3)
    assert run.driver.commits.round is round_
    gate.touch()
    wait_until(lambda: 50 in acked(journal))
    assert set(count(cluster).values()) == {1}


@pytest.mark.parametrize("problem", ["damaged", "writable"])
def test_a_damaged_or_writable_checkpoint_is_refused_at_the_submit(start, journal, tmp_path, problem):
    cluster = start()
    cluster.submit_topology("counting", CONF, counting(10, journal))
    wait_for_acks(journal, 10)
    cluster.kill_topology("counting")
    state = tmp_path / "checkpoint" / "counting" / "state"
    if problem == "damaged":
        for part in state.glob("*.part"):
            part.write_bytes(part.read_bytes()[:-1])
    else:
        state.chmod(0o777)
    told = rf"{re.escape(str(state))}\S* (is damaged|can be written by others)"
    with pytest.raises(CheckpointError, match=told):
        cluster.submit_topology("counting", CONF, counting(10, journal))
    assert cluster.list_topologies() == []
