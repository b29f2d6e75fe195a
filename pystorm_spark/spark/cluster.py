"""Internal. SparkCluster: the topologies of a SparkSession."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pystorm_spark.cluster import Cluster
from pystorm_spark.naming import java_names
from pystorm_spark.runtime.plan import Plan, make_plan
from pystorm_spark.spark.session import own_session, prepare_session
from pystorm_spark.spark.topology import SparkTopology
from pystorm_spark.spark.wire import private_folder
from pystorm_spark.topology.graph import Topology


@java_names()
class SparkCluster(Cluster[SparkTopology]):
    """Runs topologies on Spark. `spark` is a SparkSession, or None for one on all cores of this machine.

    `checkpoint` is a folder for the topologies' checkpoints; None means a temporary one.
    """

    def __init__(self, spark: Any = None, checkpoint: Any = None) -> None:
        super().__init__()
        self._folder = private_folder()
        self._own_session = spark is None and SparkSession.getActiveSession() is None
        self._session: SparkSession = own_session(self._folder) if spark is None else spark
        try:
            prepare_session(self._session)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._checkpoint = Path(checkpoint) if checkpoint is not None else self._folder / "checkpoint"

    @property
    def spark(self) -> SparkSession:
        """The session that the topologies run on."""
        return self._session

    def _start(
        self, name: str, storm_id: str, conf: Mapping[str, Any], topology: Topology, active: bool
    ) -> SparkTopology:
        planned = partial(self._plan, topology, storm_id)
        submitted = SparkTopology(name, planned, conf, self._session, self._folder, self._checkpoint / storm_id)
        try:
            submitted.start(active)
        except BaseException:
            submitted.end()
            raise
        return submitted

    def _plan(self, topology: Topology, storm_id: str, conf: Mapping[str, Any]) -> Plan:
        slots: int = conf["topology.workers"] or self._session.sparkContext.defaultParallelism
        return make_plan(topology, conf, storm_id, slots)

    def shutdown(self) -> None:
        try:
            super().shutdown()
        finally:
            if self._own_session:
                self._session.stop()
            shutil.rmtree(self._folder, ignore_errors=True)
