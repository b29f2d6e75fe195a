"""An idle topology costs nothing: no Spark job runs while there is nothing to move."""

import time

import pytest

from pystorm_spark import TopologyBuilder
from tests.spark.components import Numbers, Sum, wait_until

pytestmark = pytest.mark.spark

IDLE_SECS = 3


class Later(Numbers):
    """Emits a number whenever the journal has a new request for one."""

    def next_tuple(self):
        if self.next < len(self.journal.noted("wanted")):
            super().next_tuple()


def jobs(spark):
    """Return the number of jobs that Spark has run so far."""
    return spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()


def test_no_job_runs_while_there_is_nothing_to_move(spark, cluster, journal):
    builder = TopologyBuilder()
    builder.set_spout("later", Later(1000, journal))
    builder.set_bolt("sum", Sum(journal), 2).fields_grouping("later", ["number"])
    cluster.submit_topology("idle", {"topology.workers": 2}, builder.create_topology())
    for number in range(20):  # some of the tuples go to the other slot
        journal.note("wanted", number)
    wait_until(lambda: len(journal.noted("acked")) == 20)
    at_rest = wait_until_quiet(spark)

    time.sleep(IDLE_SECS)
    assert jobs(spark) == at_rest

    for number in range(20):
        journal.note("wanted", number)
    wait_until(lambda: len(journal.noted("acked")) == 40)
    assert jobs(spark) > at_rest


def wait_until_quiet(spark):
    """Wait for the last acks; return the number of jobs at that time."""
    seen = []
    wait_until(lambda: seen.append(jobs(spark)) or (time.sleep(0.5) or jobs(spark)) == seen[-1])
    return seen[-1]
