"""Internal. SparkCluster: the topologies of a SparkSession."""

from __future__ import annotations

import itertools
import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pystorm_spark.cluster import Cluster, TopologyHandle, TopologyInfo, check_name, check_submission
from pystorm_spark.errors import AlreadyAliveError, NotAliveError, did_you_mean
from pystorm_spark.naming import java_names
from pystorm_spark.runtime.plan import Plan, make_plan
from pystorm_spark.spark.session import own_session, prepare_session
from pystorm_spark.spark.topology import SparkTopology
from pystorm_spark.spark.wire import private_folder
from pystorm_spark.topology.config import resolve
from pystorm_spark.topology.graph import Topology


@java_names()
class SparkCluster(Cluster):
    """Runs topologies on Spark. `spark` is a SparkSession, or None for one on all cores of this machine.

    `checkpoint` is a folder for the topologies' checkpoints; None means a temporary one.
    """

    _numbers = itertools.count(1)

    def __init__(self, spark: Any = None, checkpoint: Any = None) -> None:
        self._folder = private_folder()
        self._own_session = spark is None and SparkSession.getActiveSession() is None
        self._session: SparkSession = own_session(self._folder) if spark is None else spark
        try:
            prepare_session(self._session)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._checkpoint = Path(checkpoint) if checkpoint is not None else self._folder / "checkpoint"
        self._running: dict[str, SparkTopology] = {}
        self._lock = threading.RLock()

    @property
    def spark(self) -> SparkSession:
        """The session that the topologies run on."""
        return self._session

    def submit_topology(
        self, name: str, conf: Mapping[str, Any] | None, topology: Topology, active: bool = True
    ) -> TopologyHandle:
        check_name(name)
        check_submission(topology, conf)
        with self._lock:
            self._bury()
            if name in self._running:
                raise AlreadyAliveError(
                    f"a topology named {name!r} is already running; kill it first, or choose another name"
                )
            storm_id = f"{name}-{next(self._numbers)}-{int(time.time())}"
            plan = self._plan({**resolve(conf), "topology.name": name}, topology, storm_id)
            submitted = SparkTopology(name, plan, self._session, self._folder, self._checkpoint / storm_id)
            try:
                submitted.start(active)
            except BaseException:
                submitted.close()
                raise
            self._running[name] = submitted
            return submitted

    def _plan(self, conf: Mapping[str, Any], topology: Topology, storm_id: str) -> Plan:
        slots: int = conf["topology.workers"] or self._session.sparkContext.defaultParallelism
        return make_plan(topology, conf, storm_id, slots)

    def activate(self, name: str) -> None:
        self._find(name).set_active(True)

    def deactivate(self, name: str) -> None:
        self._find(name).set_active(False)

    def rebalance(self, name: str, num_workers: int | None = None, wait_secs: float = 0) -> None:
        topology = self._find(name)
        conf = {**topology.plan.conf, **({"topology.workers": num_workers} if num_workers is not None else {})}
        plan = self._plan(resolve(conf), topology.plan.topology, topology.id)
        topology.rebalance(plan, wait_secs)

    def kill_topology(self, name: str, wait_secs: float = 0) -> None:
        topology = self._find(name)
        if wait_secs:
            topology.set_active(False)
            topology.ended.wait(wait_secs)
        topology.close()
        with self._lock:
            self._running.pop(name, None)

    def topology_info(self, name: str) -> TopologyInfo:
        return self._find(name).info()

    def list_topologies(self) -> list[TopologyInfo]:
        with self._lock:
            self._bury()
            return [topology.info() for topology in self._running.values()]

    def shutdown(self) -> None:
        for name in list(self._running):
            topology = self._running.pop(name, None)
            if topology is not None:
                topology.close()
        if self._own_session:
            self._session.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _find(self, name: str) -> SparkTopology:
        with self._lock:
            self._bury()
            try:
                return self._running[name]
            except KeyError:
                raise NotAliveError(
                    f"no topology named {name!r} is running; {did_you_mean(name, self._running)}"
                ) from None

    def _bury(self) -> None:
        for name in [name for name, topology in self._running.items() if topology.ended.is_set()]:
            del self._running[name]
