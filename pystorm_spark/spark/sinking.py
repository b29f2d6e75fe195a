"""Internal. Sinks: what bolts keep in the slots is handed to the user's `write`, one DataFrame for each batch."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructType

from pystorm_spark.errors import CheckpointError, InvalidTopologyError, StormError
from pystorm_spark.spark.control import SlotLink
from pystorm_spark.spark.fetching import fetched
from pystorm_spark.spark.keeping_bolt import WritingBolt
from pystorm_spark.spark.placing import reason
from pystorm_spark.topology.graph import ComponentSpec, Topology

log = logging.getLogger(__name__)

TRIES = 3
PAUSE_SECS = 0.5  # before the second try; doubles


class Sinks:
    """The sinks of a topology."""

    def __init__(self, topology: Topology, session: SparkSession, folder: Path) -> None:
        self._bolts: dict[str, WritingBolt] = {}
        for id_, spec in topology.components.items():
            if isinstance(spec.component, WritingBolt):
                spec.component.columns = struct_type(f"sink {id_!r}", spec.component.schema)
                _check_inputs(topology, spec, spec.component.columns)
                self._bolts[id_] = spec.component
        self._session = session
        self._path = folder / "sinks" / "last-batch"
        self._last = self._read_last() if self._bolts else -1

    def _read_last(self) -> int:
        try:
            return int(self._path.read_text())
        except FileNotFoundError:
            return -1
        except (OSError, ValueError) as exc:
            raise CheckpointError(f"{str(self._path)!r} does not say which batch was written last: {exc}") from exc

    def next_txid(self) -> int:
        """The id of the next batch; the same again until that is written, also after a restart."""
        return self._last + 1

    def write(
        self,
        txid: int,
        tasks: Mapping[str, list[int]],
        links: list[SlotLink],
        token: bytes,
        pause: Callable[[float], bool],
    ) -> bool:
        """Have every sink that has rows write them; False if they are lost, or `pause` says that all is ending."""
        for id_, bolt in self._bolts.items():
            own = set(tasks[id_])
            shelves = [
                (task, txid, link)
                for link in links
                for task, count in (link.frozen[1] if link.frozen else {}).items()
                if task in own and count
            ]
            if shelves and not self._write_one(id_, bolt, txid, shelves, token, pause):
                return False
        self._keep_last(txid)
        return True

    def _write_one(
        self,
        id_: str,
        bolt: WritingBolt,
        txid: int,
        shelves: list[tuple[int, int, SlotLink]],
        token: bytes,
        pause: Callable[[float], bool],
    ) -> bool:
        rows = fetched(self._session.sparkContext, token, shelves)
        secs = PAUSE_SECS
        for tries in range(1, TRIES + 1):
            df = self._session.createDataFrame(rows, bolt.columns, verifySchema=False)
            try:
                bolt.write(df, txid)
                return True
            except Exception as exc:
                if any(link.state != "ready" for _, _, link in shelves) or not pause(0.0):
                    return False
                told = f"write of sink {id_!r} raised {type(exc).__name__} in batch {txid}: {reason(exc)}"
                if tries == TRIES:
                    raise StormError(f"{told}; it was tried {TRIES} times") from exc
                log.warning("%s; it is tried again in %g s", told, secs)
                if not pause(secs):
                    return False
                secs *= 2
        raise AssertionError

    def _keep_last(self, txid: int) -> None:
        fresh = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with open(fresh, "w") as file:
                file.write(str(txid))
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, self._path)
        except OSError as exc:
            raise CheckpointError(f"batch {txid} is written, but {str(self._path)!r} cannot be: {exc}") from exc
        self._last = txid


def _check_inputs(topology: Topology, spec: ComponentSpec, columns: StructType) -> None:
    for source in spec.inputs:
        fields = topology.components[source.component_id].outputs[source.stream_id].fields.to_list()
        if len(fields) != len(columns):
            raise InvalidTopologyError(
                f"sink {spec.id!r} has the columns {columns.names}, but stream {source.stream_id!r} of "
                f"{source.component_id!r} has the fields {fields}; each field needs a column"
            )


def struct_type(who: str, schema: Any) -> StructType:
    """A schema, or the DDL string of one, as a `StructType`."""
    if isinstance(schema, StructType):
        return schema
    if not isinstance(schema, str):
        raise InvalidTopologyError(f"{who}: its schema must be a StructType or a DDL string, got {schema!r}")
    try:
        parsed: DataType = StructType.fromDDL(schema)
    except Exception as exc:
        raise InvalidTopologyError(f"{who}: its schema {schema!r} cannot be read: {reason(exc)}") from exc
    if not isinstance(parsed, StructType):
        raise InvalidTopologyError(f"{who}: its schema {schema!r} is {parsed.simpleString()}, but must have columns")
    return parsed
