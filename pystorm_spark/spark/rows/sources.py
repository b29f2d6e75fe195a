"""Internal. Sources: the streaming queries that feed the DataFrameSpouts of a topology, one for each spout."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from reprlib import repr as short
from typing import Any
from urllib.parse import quote

from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    YearMonthIntervalType,
)

from pystorm_spark.errors import CheckpointError, InvalidTopologyError, StormError, did_you_mean
from pystorm_spark.spark.driver.slots import Slots
from pystorm_spark.spark.errors import reason, spark_errors_ignored, translated
from pystorm_spark.spark.rows.feeding import Feeder, Rows, Share, Stopped
from pystorm_spark.spark.rows.fetching import RowsLost, Shelves
from pystorm_spark.spark.rows.full_disk import FullDisk, is_full
from pystorm_spark.spark.rows.row_batches import selected
from pystorm_spark.spark.session.callback import Callback
from pystorm_spark.spark.session.session import query_settings
from pystorm_spark.spark.slot.fed_spout import StreamSpout
from pystorm_spark.spark.storage.hadoop_folder import HadoopFolder
from pystorm_spark.spark.storage.place import Place
from pystorm_spark.topology.fields import DEFAULT_STREAM
from pystorm_spark.topology.graph import ComponentSpec

log = logging.getLogger(__name__)

# Spark looks for these words in the error of a Python function to tell a requested stop from a failure.
STOPPED = "py4j.protocol.Py4JJavaError: An error occurred while calling foreachBatch: java.lang.InterruptedException"
# By default Spark writes times without microseconds. These formats have no optional parts, because Spark's legacy
# formatter writes brackets as text. They are in UTC, because old offsets of other zones have seconds.
EXACT_TIMES = {
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
NOT_IN_PYTHON = (YearMonthIntervalType, CalendarIntervalType)
# How many partitions Spark makes of small files; by default as many as there are cores.
PARALLELISM = "spark.sql.leafNodeDefaultParallelism"
LAYOUT = "layout.json"  # beside the schema
STOP_TIMEOUT_SECS = 10.0  # for the stop of the query to begin


class Source:
    """The streaming DataFrame of one spout, and the query that feeds the spout from it."""

    def __init__(self, spec: ComponentSpec, session: SparkSession, checkpoint: Place, is_kept: bool = True) -> None:
        self.id = spec.id
        self._is_kept = is_kept  # whether the checkpoint outlives the topology
        self.fields = spec.outputs[DEFAULT_STREAM].fields.to_list()
        self.session = session
        self.place = checkpoint / "sources" / quote(spec.id, safe="")
        self.dead_letters = checkpoint / "dead-letters" / quote(spec.id, safe="")
        built = _built(spec, session)
        check_columns(f"spout {self.id!r}", self.fields, built)
        # Selected here and not in each batch, so that Spark reads only these columns.
        self.df = selected(built, self.fields)
        self.schema = self.df.schema
        if _holds(self.schema, _has_no_fields):
            raise InvalidTopologyError(
                f"spout {self.id!r} has the columns {self.schema.simpleString()}: a struct without fields cannot be "
                "written as a dead letter; leave it out"
            )
        self._check_schema()
        self._layout = Layout.kept(self.place)

    def check_layout(self, batch: int, rows: list[int]) -> None:
        """Store the number of rows of each partition; raise if the same batch had other numbers before a restart.

        Row ids contain the partition. Spark may split a batch into other partitions if its cores or settings change.
        """
        parallelism = int(self.session.conf.get(PARALLELISM, None) or self.session.sparkContext.defaultParallelism)
        if self._layout is None or self._layout.batch != batch:
            layout = Layout(batch, rows, parallelism)
            layout.keep(self.place)
            self._layout = layout
        elif self._layout.rows != rows:
            raise StormError(
                f"batch {batch} of spout {self.id!r} began with partitions of {short(self._layout.rows)} rows, but "
                f"has {short(rows)} now: with exactly-once the partition identifies a row, so rows would be confused; "
                f"start with {PARALLELISM}={self._layout.parallelism} and the same source as before, until that batch "
                "is done"
            )

    def _check_schema(self) -> None:
        """Refuse a source whose columns differ from those in the checkpoint; store them if there are none."""
        kept = self.place.read_text("schema.json")
        if kept is None:
            self.place.write_text("schema.json", self.schema.json())
            return
        try:
            before = StructType.fromJson(json.loads(kept))
        except (KeyError, TypeError, ValueError) as exc:
            raise CheckpointError(
                f"{str(self.place / 'schema.json')!r} is damaged: {exc}; remove that file if the source has the same "
                "columns as before"
            ) from exc
        # Nullability, comments and watermarks may differ: they do not change the values.
        if before.simpleString() != self.schema.simpleString():
            raise CheckpointError(
                f"the source of spout {self.id!r} had the columns {before.simpleString()} when its checkpoint "
                f"{str(self.place)!r} was created, but has {self.schema.simpleString()} now; build the DataFrame "
                "with the former types, or begin a new checkpoint"
            )

    def start(self, feeder: Feeder, token: bytes, name: str, on_error: Callable[[BaseException], None]) -> SourceQuery:
        """Start a query at the first batch that is not done. It calls `on_error` if it ends without a `stop`."""
        return SourceQuery(self, feeder, token, name, on_error)

    def write_dead_letters(self, batch: int, shares: Mapping[int, Share], token: bytes, slots: Slots) -> None:
        """Write the dead letters of a batch, replacing those of an earlier run of the same batch."""
        dead = {task: share for task, share in shares.items() if share.dead}
        place = self.dead_letters / f"batch={batch}"
        if not dead:
            HadoopFolder(self.session, place.uri).remove_all()
            return

        def write(rows: RDD[Any]) -> None:
            letters = self.session.createDataFrame(rows, dead_letter_schema(self.schema), verifySchema=False)
            letters.drop("batch").write.mode("overwrite").options(**EXACT_TIMES).json(place.uri)

        shelves = Shelves(token, [(task, share.round, share.link) for task, share in dead.items()])
        with translated(f"the dead letters of batch {batch} cannot be written"):
            shelves.read(self.session.sparkContext, slots, write)
        count = sum(share.dead for share in dead.values())
        until = "" if self._is_kept else " until the topology ends; name a checkpoint to keep them"
        log.warning("spout %s: batch %d has %d dead letters, in %s%s", self.id, batch, count, place, until)


@dataclass(frozen=True)
class Layout:
    """How a batch was split into partitions when it was first read."""

    batch: int
    rows: list[int]  # of each partition
    parallelism: int

    @classmethod
    def kept(cls, place: Place) -> Layout | None:
        """The layout of the last batch that was begun."""
        text = place.read_text(LAYOUT)
        if not text:  # a replacement that is not atomic leaves it empty for a moment, but no row was released by then
            return None
        try:
            return cls(**json.loads(text))
        except (TypeError, ValueError) as exc:
            raise CheckpointError(
                f"{str(place / LAYOUT)!r} is damaged: {exc}; remove that file if Spark has as many cores as before"
            ) from exc

    def keep(self, place: Place) -> None:
        place.write_text(LAYOUT, json.dumps(asdict(self)))


class SourceQuery:
    """The query that feeds a spout while its slots run.

    Spark ends a query that cannot write its log. If a full disk is the reason, this starts it again until there is
    space.
    """

    def __init__(
        self, source: Source, feeder: Feeder, token: bytes, name: str, on_error: Callable[[BaseException], None]
    ) -> None:
        self._source = source
        self._feeder = feeder
        feeder.check_layout = self._check_layout
        self._token = token
        self._name = name
        self._on_error = on_error
        self._error: BaseException | None = None
        self._done: int | None = None  # the last completed batch, which Spark may not have noted
        self._may_run_again = True  # whether the batch may have run before; only the first batch of a query can
        self._stopping: threading.Thread | None = None
        self._starting = threading.Lock()  # held during a start, so that no query starts after a stop
        self._callback: Callback | None = None
        self._query: Any = None
        self._disk = FullDisk(f"the source of spout {source.id!r}", feeder.slots.pause)
        refused = None
        try:
            self._start()
        except StormError as exc:
            if not is_full(exc):
                raise
            refused = exc
        threading.Thread(target=self._watch, args=(refused,), name=f"pystorm-{source.id}", daemon=True).start()

    def _start(self) -> None:
        with self._starting:
            self._query = None
            if self._stopping is None:
                self._close_callback()
                self._start_query()

    def _start_query(self) -> None:
        source = self._source
        offsets = source.place / "offsets"
        # Spark refuses to begin a first batch if it finds any file, and never removes its unfinished ones.
        (offsets / "offsets").remove_unfinished()
        (offsets / "commits").remove_unfinished()
        with translated(f"the source of spout {source.id!r} cannot be started", InvalidTopologyError):
            self._callback = Callback(self._feed, source.session)
            writer = source.df.writeStream.foreachBatch(self._callback).queryName(self._name)
            with query_settings(source.df.sparkSession):
                self._query = writer.option("checkpointLocation", offsets.uri).start()

    def _close_callback(self) -> None:
        if self._callback is not None:
            self._callback.close()

    def _check_layout(self, batch: int, rows: list[int]) -> None:
        self._disk.outwaited(lambda: self._source.check_layout(batch, rows))

    def _feed(self, df: DataFrame, batch: int) -> None:
        if batch == self._done:
            return  # Spark could not note that it is done, and begins it again
        try:
            rows = Rows(df, self._feeder.chunk_rows())
            shares = self._feeder.feed(rows, batch)
            while not self._disk.outwaited(lambda: self._are_dead_letters_written(batch, shares)):  # noqa: B023
                shares = self._feeder.feed_lost(rows, batch)
        except BaseException as exc:
            if self._stopping is not None or isinstance(exc, Stopped):
                self._await_stop()
                raise Stopped(STOPPED) from None
            self._error = exc
            raise Stopped(str(exc)) from None  # `_watch` reports it
        self._done = batch

    def _are_dead_letters_written(self, batch: int, shares: Mapping[int, Share]) -> bool:
        """Write the dead letters; False if some were lost with their slot, and a share must be fed again."""
        try:
            if self._may_run_again or any(share.dead for share in shares.values()):
                self._source.write_dead_letters(batch, shares, self._token, self._feeder.slots)
        except RowsLost:
            if not any(share.is_lost() for share in shares.values()):
                raise
            return False
        self._may_run_again = False
        return True

    def _await_stop(self) -> None:
        """Wait for the stop of the query to begin: before that, Spark would treat the end of the batch as a failure."""
        deadline = time.monotonic() + STOP_TIMEOUT_SECS
        while (self._stopping is None or self._query is None or self._query.isActive) and time.monotonic() < deadline:
            time.sleep(0.01)

    def _watch(self, refused: StormError | None) -> None:
        """Wait for the end of the query, restart it after a full disk, and report any end that `stop` did not cause."""
        ended = refused or self._await_end()
        while self._stopping is None and self._error is None and self._disk.makes_wait(ended):
            try:
                self._start()
            except StormError as exc:
                ended = exc
            else:
                ended = self._await_end()
        if self._stopping is None:
            self._on_error(ended)

    def _await_end(self) -> StormError:
        """Wait for the end of the query; returns the reason."""
        source = self._source
        try:
            if self._query is not None:
                self._query.awaitTermination()
        except Exception as exc:
            error = self._error or StormError(reason(exc))
            told = StormError(f"the source of spout {source.id!r} failed: {error}")
            told.__cause__ = error
            return told
        return StormError(f"the streaming query of spout {source.id!r} was stopped")

    def stop(self) -> None:
        """Begin to stop the query. It ends with its batch, which ends when the slots do."""
        self._feeder.is_stopping = True
        self._stopping = threading.Thread(target=self._stop, name=f"pystorm-{self._source.id}-stop", daemon=True)
        self._stopping.start()

    def _stop(self) -> None:
        with self._starting, spark_errors_ignored():
            if self._query is not None:
                self._query.stop()
        self._close_callback()

    def join(self) -> None:
        assert self._stopping is not None
        self._stopping.join()


def hush_stops() -> None:
    """Hide Py4J's log lines about `Stopped`, which is no error, or is reported elsewhere."""
    logging.getLogger("py4j.clientserver").addFilter(_is_worth_telling)


def _is_worth_telling(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], Stopped))


def dead_letter_schema(row: StructType) -> StructType:
    """The columns of a dead letter: the origin of the row, its error, and the row."""
    return StructType(
        [
            StructField("component", StringType()),
            StructField("batch", LongType()),
            StructField("partition", IntegerType()),
            StructField("number", LongType()),
            StructField("error", StringType()),
            StructField("row", row),
        ]
    )


def check_columns(who: str, fields: list[str], df: DataFrame) -> None:
    """Refuse a DataFrame that lacks a declared field of a spout, has it twice, or has an unsupported type for it."""
    ignores_case = df.sparkSession.conf.get("spark.sql.caseSensitive") != "true"
    for field in fields:
        if field not in df.columns:
            raise InvalidTopologyError(
                f"{who} declares the field {field!r}, but its DataFrame has no such column; "
                f"{did_you_mean(field, df.columns)}"
            )
        same = [name for name in df.columns if name == field or (ignores_case and name.lower() == field.lower())]
        if len(same) > 1:
            raise InvalidTopologyError(f"{who}: its DataFrame has several columns {field!r}: {same}; rename them")
        if _holds(kind := df.schema[field].dataType, _has_no_values):
            raise InvalidTopologyError(
                f"{who}: PySpark has no Python values for the type {kind.simpleString()} of column {field!r}; cast it, "
                "for example to a string"
            )


def _holds(kind: DataType, is_wanted: Callable[[DataType], bool]) -> bool:
    """Whether `is_wanted` is true for a type or one nested in it."""
    within: list[DataType] = []
    if isinstance(kind, StructType):
        within = [field.dataType for field in kind]
    elif isinstance(kind, MapType):
        within = [kind.keyType, kind.valueType]
    elif isinstance(kind, ArrayType):
        within = [kind.elementType]
    return is_wanted(kind) or any(_holds(each, is_wanted) for each in within)


def _has_no_values(kind: DataType) -> bool:
    return isinstance(kind, NOT_IN_PYTHON)


def _has_no_fields(kind: DataType) -> bool:
    return isinstance(kind, StructType) and not kind.fields


def _built(spec: ComponentSpec, session: SparkSession) -> DataFrame:
    assert isinstance(spec.component, StreamSpout)
    if spec.component.build is None:
        raise InvalidTopologyError(f"spout {spec.id!r} was pickled, which drops its build function; make a new one")
    try:
        df = spec.component.build(session)
    except Exception as exc:
        raise InvalidTopologyError(f"build of spout {spec.id!r} raised {type(exc).__name__}: {reason(exc)}") from exc
    if not isinstance(df, DataFrame):
        raise InvalidTopologyError(f"build of spout {spec.id!r} must return a streaming DataFrame, got {df!r}")
    if not df.isStreaming:
        raise InvalidTopologyError(
            f"build of spout {spec.id!r} returned {df!r}, which is not streaming; read it with spark.readStream, or "
            "run the topology over bounded DataFrames with run_batch"
        )
    return df
