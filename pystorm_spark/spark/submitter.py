"""Internal. StormSubmitter: runs one topology from a script, until it is killed or interrupted."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from types import FrameType
from typing import Any

from pyspark.sql import SparkSession

from pystorm_spark.naming import java_names
from pystorm_spark.spark.cluster import SparkCluster
from pystorm_spark.topology.graph import Topology


@java_names()
class StormSubmitter:
    """Submits a topology from a script given to `spark-submit`, or run by hand on all cores of this machine."""

    @staticmethod
    def submit_topology(name: str, conf: Mapping[str, Any] | None, topology: Topology) -> None:
        """Run `topology` until SIGINT or SIGTERM, then close its components; raises what ended it earlier."""
        ending = threading.Event()
        with SparkCluster(_session_of_spark_submit()) as cluster, _Signals(ending):
            handle = cluster.submit_topology(name, conf, topology)
            while not ending.is_set():
                if handle.await_termination(timeout=0.2):
                    return


def _session_of_spark_submit() -> SparkSession | None:
    """The session that `spark-submit` configures; None when the script was started by hand."""
    under_spark_submit = "PYSPARK_GATEWAY_PORT" in os.environ
    return SparkSession.builder.getOrCreate() if under_spark_submit else SparkSession.getActiveSession()


class _Signals:
    """Notes SIGINT and SIGTERM instead of letting them interrupt anything, the end of the topology least."""

    def __init__(self, noted: threading.Event) -> None:
        self._noted = noted
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted.set()
