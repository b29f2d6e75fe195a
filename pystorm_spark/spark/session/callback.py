"""Internal. Callback: a function for `foreachBatch` whose Py4J connection can be closed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from py4j.clientserver import ClientServer
from pyspark.sql import DataFrame, SparkSession

from pystorm_spark.spark.errors import spark_errors_ignored


class Callback:
    """A function for `foreachBatch`, and the Py4J connection on which Spark calls it.

    Py4J opens a connection for each JVM thread that calls Python: a thread and a file descriptor here, a descriptor in
    the JVM. It keeps them when the JVM thread ends. Each query has a thread of its own, so each would leak one.
    """

    def __init__(self, function: Callable[[DataFrame, int], None], session: SparkSession) -> None:
        self._function = function
        self._gateway: Any = session.sparkContext._gateway
        self._client: Any = None
        self._connection: Any = None

    def __call__(self, df: DataFrame, batch: int) -> None:
        # With PYSPARK_PIN_THREAD=false threads share connections, and Py4J closes idle ones.
        if self._connection is None and isinstance(self._gateway, ClientServer):
            self._client = self._gateway.java_gateway_server.getCallbackClient()
            self._connection = self._client.getPerThreadConnection()  # of the thread that waits for this call
        self._function(df, batch)

    def close(self) -> None:
        """Close the connection after the query has ended."""
        if self._connection is not None:
            with spark_errors_ignored():
                self._connection.shutdown()
                self._client.connectionStopped(self._connection)
