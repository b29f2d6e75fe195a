"""Internal. Callback: the connection on which Spark calls a Python function from the thread of a streaming query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from py4j.clientserver import ClientServer
from pyspark.sql import DataFrame, SparkSession

from pystorm_spark.spark.errors import spark_errors_ignored


class Callback:
    """A function for `foreachBatch`, and the connection of Py4J on which it is called.

    Py4J makes one for each thread of the JVM that calls Python, with a thread and a descriptor here and a descriptor
    there, and keeps it when that thread has ended. Every query has a thread of its own.
    """

    def __init__(self, function: Callable[[DataFrame, int], None], session: SparkSession) -> None:
        self._function = function
        self._gateway: Any = session.sparkContext._gateway
        self._client: Any = None
        self._connection: Any = None

    def __call__(self, df: DataFrame, batch: int) -> None:
        # Without threads of their own (PYSPARK_PIN_THREAD=false) connections are shared, and closed when they are idle.
        if self._connection is None and isinstance(self._gateway, ClientServer):
            self._client = self._gateway.java_gateway_server.getCallbackClient()
            self._connection = self._client.getPerThreadConnection()  # of the thread that waits for this call
        self._function(df, batch)

    def close(self) -> None:
        """The query has ended: close the connection, and have Py4J forget it."""
        if self._connection is not None:
            with spark_errors_ignored():
                self._connection.shutdown()
                self._client.connectionStopped(self._connection)
