"""Internal. Sinks: pass the rows that bolts keep in slots to the user's `write`, as one DataFrame for each batch."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructType

from pystorm_spark.errors import CheckpointError, InvalidTopologyError, StormError
from pystorm_spark.spark.driver.link import SlotLink
from pystorm_spark.spark.errors import reason, translated
from pystorm_spark.spark.rows.fetching import fetched
from pystorm_spark.spark.rows.job_tries import JobTries
from pystorm_spark.spark.session.worker_python import renewing_workers
from pystorm_spark.spark.slot.keeping_bolt import WritingBolt
from pystorm_spark.spark.storage.place import Place
from pystorm_spark.topology.graph import ComponentSpec, Topology

log = logging.getLogger(__name__)

WRITE_TRIES = 3
WRITE_RETRY_SECS, LONGEST_RETRY_SECS = 0.5, 5.0  # before the second try; doubles before each later one

NOTE = "sinks.json"  # in the folder of the topology
NOTHING_BEGUN: tuple[int, frozenset[str]] = -1, frozenset()

Shelf = tuple[int, int, SlotLink]  # a task that keeps rows, the commit they are for, and its slot
Pause = Callable[[float], bool]


class Sinks:
    """The sinks of a topology."""

    def __init__(self, topology: Topology, session: SparkSession, place: Place) -> None:
        self._bolts: dict[str, WritingBolt] = {}
        for id_, spec in topology.components.items():
            if isinstance(spec.component, WritingBolt):
                spec.component.columns = _storable(id_, spec.component.schema, session)
                _check_inputs(topology, spec, spec.component.columns)
                self._bolts[id_] = spec.component
        self._session = session
        self._place = place
        self._begun: tuple[int, frozenset[str]] = _begun(place) if self._bolts else NOTHING_BEGUN

    def write(
        self, txid: int, tasks: Mapping[str, list[int]], shelves: list[Shelf], token: bytes, pause: Pause
    ) -> bool:
        """Call `write` of every sink that has rows; False if rows are lost, or if `pause` says that the topology ends.

        Batches are numbered from 0, as in Spark. If a commit failed after a sink wrote its batch, the sink may have no
        rows at the retry, because they may come later. Then it writes an empty DataFrame, which replaces that batch.
        """
        own = {id_: [shelf for shelf in shelves if shelf[0] in tasks[id_]] for id_ in self._bolts}
        due = {id_ for id_, found in own.items() if found}
        if txid == self._begun[0]:
            due |= self._begun[1] & self._bolts.keys()
        self._note_begun(txid, due)
        return all(
            self._write_one(id_, bolt, txid, own[id_], token, pause) for id_, bolt in self._bolts.items() if id_ in due
        )

    def _note_begun(self, txid: int, due: set[str]) -> None:
        """Store which sinks may have written a batch, so that it is known after a crash."""
        if due and (txid, frozenset(due)) != self._begun:
            try:
                self._place.write_text(NOTE, json.dumps({"commit": txid, "sinks": sorted(due)}))
            except OSError as exc:
                raise CheckpointError(f"{str(self._place / NOTE)!r} cannot be written: {exc.strerror or exc}") from exc
            self._begun = txid, frozenset(due)

    def _write_one(
        self, id_: str, bolt: WritingBolt, txid: int, shelves: list[Shelf], token: bytes, pause: Pause
    ) -> bool:
        rows = fetched(self._session.sparkContext, token, shelves)
        secs, batch_id, tries = WRITE_RETRY_SECS, txid - 1, JobTries(WRITE_TRIES)
        while True:
            df = self._session.createDataFrame(rows, bolt.columns, verifySchema=False)
            try:
                with renewing_workers(self._session.sparkContext):
                    bolt.write(df, batch_id)
                return True
            except BaseException as exc:  # user code must not end this thread, not even by sys.exit()
                if any(link.state != "ready" for _, _, link in shelves) or not pause(0.0):
                    return False
                told = f"write of sink {id_!r} raised {type(exc).__name__} in batch {batch_id}: {reason(exc)}"
                if tries.are_over(exc):
                    raise StormError(f"{told}; it was tried {tries.told()}") from exc
                log.warning("%s; retrying in %g s", told, secs)
                if not pause(secs):
                    return False
                secs = min(2 * secs, LONGEST_RETRY_SECS)


def _begun(place: Place) -> tuple[int, frozenset[str]]:
    """(the last commit for which sinks began to write, the ids of these sinks)."""
    kept = place.read_text(NOTE)
    if kept is None:
        return NOTHING_BEGUN
    try:
        note = json.loads(kept)
        return int(note["commit"]), frozenset(map(str, note["sinks"]))
    except (KeyError, TypeError, ValueError) as exc:
        raise CheckpointError(
            f"{str(place)!r} has a damaged {NOTE}: {exc}; remove that file, and check whether the last batch was "
            "written twice"
        ) from exc


def _storable(id_: str, schema: Any, session: SparkSession) -> StructType:
    """The schema of a sink as a `StructType`. Raises if Spark cannot make a DataFrame with it."""
    columns = struct_type(f"sink {id_!r}", schema)
    problem = f"sink {id_!r}: Spark cannot make a DataFrame with the columns {columns.simpleString()}"
    with translated(problem, InvalidTopologyError):
        session.createDataFrame([], columns)
    return columns


def _check_inputs(topology: Topology, spec: ComponentSpec, columns: StructType) -> None:
    for source in spec.inputs:
        fields = topology.components[source.component_id].outputs[source.stream_id].fields.to_list()
        if len(fields) != len(columns):
            raise InvalidTopologyError(
                f"sink {spec.id!r} has the columns {columns.names}, but stream {source.stream_id!r} of "
                f"{source.component_id!r} has the fields {fields}; each field needs a column"
            )


def struct_type(who: str, schema: Any) -> StructType:
    """A schema, or its DDL string, as a `StructType`."""
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
