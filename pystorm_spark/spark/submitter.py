"""Internal. StormSubmitter: runs one topology from a script, until it is killed or interrupted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from pystorm_spark.naming import java_names
from pystorm_spark.spark.cluster import SparkCluster
from pystorm_spark.spark.session.signals import Terminated
from pystorm_spark.topology.graph import Topology


@java_names()
class StormSubmitter:
    """Submits a topology from a script that runs under `spark-submit`, or on all cores of this machine without it."""

    @staticmethod
    def submit_topology(name: str, conf: Mapping[str, Any] | None, topology: Topology) -> None:
        """Run `topology` until SIGINT or SIGTERM, then close its components. Raises the error that ends it earlier."""
        try:
            with SparkCluster(_session_of_spark_submit()) as cluster:
                cluster.submit_topology(name, conf, topology).await_termination()
        except (KeyboardInterrupt, Terminated):
            pass  # the normal end of the script


def _session_of_spark_submit() -> SparkSession | None:
    """The session that `spark-submit` configures; without `spark-submit` the active one, or None."""
    under_spark_submit = "PYSPARK_GATEWAY_PORT" in os.environ
    return SparkSession.builder.getOrCreate() if under_spark_submit else SparkSession.getActiveSession()
