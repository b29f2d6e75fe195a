"""Internal. SparkCluster: the topologies of a SparkSession."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from pyspark.sql import SparkSession

from pystorm_spark.checkpoint.lock import CheckpointLock
from pystorm_spark.cluster.cluster import Cluster
from pystorm_spark.naming import java_names
from pystorm_spark.runtime.plan import Plan, make_plan
from pystorm_spark.spark.session.limits import check_open_files
from pystorm_spark.spark.session.session import (
    check_session,
    own_session,
    reset_file_manager,
    session_folder,
    set_file_manager,
)
from pystorm_spark.spark.session.signals import Interrupts, Patience
from pystorm_spark.spark.session.worker_python import use_this_python
from pystorm_spark.spark.storage.hadoop_folder import HadoopFolder
from pystorm_spark.spark.storage.place import Place, PosixPlace, locked_place, named_place
from pystorm_spark.spark.topology import SparkTopology
from pystorm_spark.topology.graph import Topology


@java_names()
class SparkCluster(Cluster[SparkTopology]):
    """Runs topologies on Spark. `spark` is a SparkSession; None uses the active one, or a new one on this machine.

    `checkpoint` is the folder for the checkpoints of topologies: a path, or a URI for Hadoop (`hdfs://…`). None means a
    temporary folder.
    """

    def __init__(self, spark: Any = None, checkpoint: Any = None) -> None:
        super().__init__()
        check_open_files()
        named = named_place(checkpoint) if checkpoint is not None else None
        self._interrupts = Interrupts()
        try:
            with ExitStack() as made:  # closed at shutdown, or now if this raises
                self._make(made, spark, named)
                self._made = made.pop_all()
        except BaseException as exc:
            self._interrupts.release(exc)
            raise

    def _make(self, made: ExitStack, spark: Any, named: Path | str | None) -> None:
        lock = CheckpointLock(named) if isinstance(named, Path) else None
        if lock is not None:
            made.callback(lock.release)
        self._folder = session_folder(made, spark)
        self._session: SparkSession = own_session(self._folder) if spark is None else spark
        check_session(self._session)
        use_this_python(self._session)
        self._interrupts.replace_sparks()
        self._checkpoint: Place | None = PosixPlace(named, lock) if isinstance(named, Path) else None
        if isinstance(named, str):
            folder = HadoopFolder(self._session, named, self._folder)
            folder.make()
            self._checkpoint = locked_place(folder, made)
        temporary = PosixPlace(self._folder)
        if set_file_manager(self._session, (self._checkpoint or temporary).uri):
            made.callback(reset_file_manager, self._session)

    @property
    def spark(self) -> SparkSession:
        """The session that the topologies run on."""
        return self._session

    def _start(
        self, name: str, storm_id: str, conf: Mapping[str, Any], topology: Topology, active: bool
    ) -> SparkTopology:
        planned = partial(self._plan, topology, storm_id)
        # A named checkpoint is found again under the topology's name. A temporary one is for one submit only.
        temporary: Path | None = None
        if self._checkpoint is not None:
            checkpoint = self._checkpoint / name
        else:
            temporary = self._folder / "checkpoint" / storm_id
            checkpoint = PosixPlace(temporary)
        submitted = SparkTopology(name, planned, conf, self._session, self._folder, checkpoint, temporary)
        try:
            submitted.validate()
            submitted.start(active)
        except BaseException:
            submitted.end()
            raise
        return submitted

    def _plan(self, topology: Topology, storm_id: str, conf: Mapping[str, Any]) -> Plan:
        slots: int = conf["topology.workers"] or self._session.sparkContext.defaultParallelism
        return make_plan(topology, conf, storm_id, slots)

    def shutdown(self) -> None:
        for running in self._all():
            running.refuse_own_thread("shut down")
        try:
            with Patience(lambda: None), self._made:
                super().shutdown()
        finally:
            self._interrupts.release(None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._interrupts.release(error)
