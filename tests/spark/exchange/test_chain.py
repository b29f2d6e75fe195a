"""What exchanges leave on the disks of Spark: nothing for long."""

from pathlib import Path

import pytest

from tests.spark.components import steady, wait_until


def shuffle_files(spark):
    """The files of all shuffles that there are now."""
    return list(Path(spark.sparkContext.getConf().get("spark.local.dir")).rglob("shuffle_*"))


@pytest.mark.spark
def test_shuffle_files_do_not_outlive_the_exchanges_that_wrote_them(cluster, spark, journal):
    before = len(shuffle_files(spark))
    handle = cluster.submit_topology("steady", {"topology.workers": 2}, steady(300, journal))
    most = 0
    while len(journal.noted("acked")) < 300:
        most = max(most, len(shuffle_files(spark)) - before)

    wait_until(lambda: len(shuffle_files(spark)) <= before, secs=10)
    assert handle.run.jobs >= 2
    assert most > 0
