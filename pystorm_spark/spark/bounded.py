"""Internal. run_bounded: runs a topology over bounded DataFrames, and returns its emits as DataFrames."""

from __future__ import annotations

import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, TypeVar
from uuid import uuid4

from pyspark import RDD
from pyspark.sql import DataFrame as DataFrame
from pyspark.sql import SparkSession as SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from pystorm_spark.cluster.checks import check_submission
from pystorm_spark.cluster.info import TopologyInfo
from pystorm_spark.errors import InvalidTopologyError, SlotLostError, StormError, did_you_mean
from pystorm_spark.spark.cluster import SparkCluster
from pystorm_spark.spark.driver.link import SlotLink
from pystorm_spark.spark.errors import SparkError, translated
from pystorm_spark.spark.rows.feeding import Rows, Share, Stopped
from pystorm_spark.spark.rows.fetching import RowsLost, Shelves
from pystorm_spark.spark.rows.fitting import Fitting
from pystorm_spark.spark.rows.row_batches import selected
from pystorm_spark.spark.rows.sinking import struct_type
from pystorm_spark.spark.rows.sources import check_columns
from pystorm_spark.spark.run import Run
from pystorm_spark.spark.session.session import check_session
from pystorm_spark.spark.slot.fed_spout import FedSpout
from pystorm_spark.spark.slot.keeping_bolt import BOUNDED, CollectingBolt, RevertingBolt
from pystorm_spark.spark.topology import SparkTopology
from pystorm_spark.topology.config import resolve
from pystorm_spark.topology.fields import DEFAULT_STREAM, Fields
from pystorm_spark.topology.graph import ComponentSpec, Topology
from pystorm_spark.topology.grouping import LocalOrShuffleGrouping
from pystorm_spark.topology.tuple import GlobalStreamId

log = logging.getLogger(__name__)

RESTARTS_KEY = "topology.slot.max.restarts"
# A pending row is never lost, because a loss restarts the run. A replay after a timeout would count it twice.
TIMEOUT_KEY = "topology.message.timeout.secs"
NO_TIMEOUT_SECS = 1e9  # the engine refuses to turn timeouts off for spouts with a pending limit
PATIENCE_TIMEOUTS = 3  # message timeouts without progress while rows are pending, after which the run fails
PROGRESS_LOG_SECS = 5.0
DRAIN_POLL_SECS = 0.02
DRAIN_QUIET_SECS = 1.0  # after which nothing is in flight: an exchange takes less
SMALL_BATCH_ROWS, LARGE_BATCH_ROWS = 200_000, 1_000_000  # a batch outside this range changes the size of the next one
SHOWN_ROWS = 10  # of the failed rows
Result = dict[str, DataFrame]
T = TypeVar("T")


class Disturbed(StormError):  # noqa: N818 - a reason to restart the run, never shown
    """Something in flight was lost, so the results of the bolts may be wrong."""


def run_bounded(
    spark: SparkSession,
    topology: Topology,
    inputs: Mapping[str, DataFrame],
    collect: Sequence[str] | Mapping[str, Any],
    conf: Mapping[str, Any] | None,
) -> Result:
    """Implement `run_batch`. If a slot is lost, the whole run restarts: feeding some rows again would not be enough."""
    check_submission(topology, conf)
    check_session(spark)
    _check_inputs(topology, inputs)
    wanted = _wanted(topology, collect)
    conf = {**topology.conf, **(conf or {})}
    resolved: Mapping[str, Any] = resolve(conf)
    workers = resolved["topology.workers"] or spark.sparkContext.defaultParallelism
    goes_back = resolved["topology.state.guarantee"] == "exactly-once"
    bounded = _bounded(topology, wanted, RevertingBolt if goes_back else CollectingBolt, workers)
    restarts: int = resolved[RESTARTS_KEY]
    for left in range(restarts, -1, -1):
        try:
            with SparkCluster(spark) as cluster:
                run = _Bounded(cluster, bounded, _without_timeouts(conf or {}, resolved), resolved[TIMEOUT_KEY])
                if left < restarts:
                    run.be_careful()
                return run.run(inputs, wanted)
        except (SlotLostError, RowsLost, Disturbed) as exc:
            if not left:
                raise _given_up(restarts + 1, exc) from exc.__cause__
            log.warning("a slot or tuples in flight were lost, restarting the run: %s", exc)
    raise AssertionError


def _given_up(tries: int, exc: StormError) -> SlotLostError:
    told = "in its only try" if tries == 1 else f"in each of {tries} tries; the last time"
    return SlotLostError(f"run_batch lost a slot or tuples in flight {told}: {exc}")


def _without_timeouts(conf: Mapping[str, Any], resolved: Mapping[str, Any]) -> dict[str, Any]:
    """`conf` for one try. Rows time out only if the user has asked for it."""
    tried = {**conf, RESTARTS_KEY: 0}
    if "topology.enable.message.timeouts" not in conf:
        hangs_after = resolved["topology.execute.timeout.secs"] or 2 * resolved[TIMEOUT_KEY]
        tried.update({TIMEOUT_KEY: NO_TIMEOUT_SECS, "topology.execute.timeout.secs": hangs_after})
    return tried


class _Bounded:
    """One run from its submit to its end."""

    def __init__(self, cluster: SparkCluster, topology: Topology, conf: Mapping[str, Any], timeout: float) -> None:
        self._cluster = cluster
        self._name = f"run-batch-{uuid4().hex}"
        handle = cluster.submit_topology(self._name, conf, topology)
        assert isinstance(handle, SparkTopology)
        handle.is_run_by_us = True
        self._handle = handle
        self._spouts = topology.spouts
        self._ending = topology.in_order(_hears_end(topology))
        self._timeout = timeout  # the user's message timeout, for how long to wait without progress

    @property
    def _run(self) -> Run:
        return self._handle.run

    def be_careful(self) -> None:
        """Make slots announce each tuple before its execute: slower, but it shows which tuple kills a slot."""
        self._run.driver.slots.be_careful()

    def run(self, inputs: Mapping[str, DataFrame], wanted: Mapping[str, StructType | Fields]) -> Result:
        with ThreadPoolExecutor(len(inputs), thread_name_prefix="pystorm-feeding") as pool:
            fed = {id_: pool.submit(self._feed, id_, df) for id_, df in inputs.items()}
            try:
                self._await(fed)
            except BaseException:
                self._handle.end()  # ends the feeding threads, too
                raise
        self._refuse_failed({id_: future.result() for id_, future in fed.items()})
        self._drain()
        for id_ in self._ending:
            self._run.driver.questions.end_input(id_)
            self._drain()
        collected = self._run.driver.questions.collect()
        if len(collected) < len(self._run.driver.slots.links):
            raise Disturbed("a slot has not reported what it has collected")
        result = {id_: self._collected(id_, schema, collected) for id_, schema in wanted.items()}
        if self._run.driver.slots.epoch != 1 + self._run.driver.state.rollbacks:
            raise Disturbed("an exchange was lost")
        return result

    def _feed(self, id_: str, df: DataFrame) -> dict[int, Share]:
        try:
            with translated("the rows cannot be read"):
                return self._feed_all(id_, df)
        except Stopped:
            raise
        except StormError as exc:
            raise StormError(f"the input of spout {id_!r} failed: {exc}") from exc

    def _feed_all(self, id_: str, df: DataFrame) -> dict[int, Share]:
        """Feed partitions in batches, so that slots need not hold all rows; returns the shares of the last batch.

        A batch with dead letters is the last one, because then the run has failed.
        """
        rows = Rows(selected(df, self._spouts[id_].outputs[DEFAULT_STREAM].fields.to_list()))
        partitions, count = deque(range(rows.partitions())), 4 * self._cluster.spark.sparkContext.defaultParallelism
        shares: dict[int, Share] = {}
        for batch in itertools.count():
            if not partitions or any(share.dead for share in shares.values()):
                return shares
            some = [partitions.popleft() for _ in range(min(count, len(partitions)))]
            shares = self._run.feeders[id_].feed(rows, batch, some)
            fed = sum(share.rows for share in shares.values())
            count = 2 * count if fed < SMALL_BATCH_ROWS else max(1, count // 2) if fed > LARGE_BATCH_ROWS else count
        raise AssertionError

    def _await(self, fed: Mapping[str, Future[dict[int, Share]]]) -> None:
        left: set[Future[dict[int, Share]]] = set(fed.values())
        patience = PATIENCE_TIMEOUTS * self._timeout + self._run.commit_secs
        last, since = [(0, 0)], time.monotonic()
        while left:
            done, left = wait(left, min(PROGRESS_LOG_SECS, patience))
            for future in done:
                self._check(future)
            if left:
                info = self._info()
                before, last = last, _counts(info)
                if last != before or not info.pending or self._run.is_moving():
                    since = time.monotonic()
                elif time.monotonic() - since > patience:
                    raise StormError(
                        f"run_batch gave up: {info.pending} rows were neither acked nor failed for {patience:g} s; "
                        "every bolt must ack or fail what it receives"
                    )
                counts = {id_: info.components[id_].acked for id_ in fed}
                log.info(
                    "run_batch: %s", ", ".join(f"{count:,} rows of {id_} are done" for id_, count in counts.items())
                )

    def _check(self, future: Future[Any]) -> None:
        try:
            future.result()
        except Stopped:
            self._handle.await_termination()  # raises what ended the topology
            raise

    def _refuse_failed(self, fed: Mapping[str, dict[int, Share]]) -> None:
        shares = [(task, share) for spout in fed.values() for task, share in spout.items() if share.dead]
        if not shares:
            return
        count = sum(share.dead for _, share in shares)
        told = f"{count} {'row has' if count == 1 else 'rows have'} failed"
        with translated(f"{told}, but cannot be shown"):
            rows = self._read(
                [(task, share.round, share.link) for task, share in shares], lambda rdd: rdd.take(SHOWN_ROWS)
            )
        shown = "\n".join(
            f"  {component}: row {number} of partition {partition}, {row!r}: {why}"
            for component, _, partition, number, why, row in rows
        )
        first = f"; the first {SHOWN_ROWS} are" if count > SHOWN_ROWS else ""
        raise StormError(f"{told}{first}:\n{shown}")

    def _read(self, places: Sequence[tuple[int, int, SlotLink]], read: Callable[[RDD[Any]], T]) -> T:
        return Shelves(self._run.token, places).read(self._cluster.spark.sparkContext, self._run.driver.slots, read)

    def _drain(self) -> None:
        """Wait until untracked tuples are executed, too: a tuple without an anchor may outlive the ack of its row.

        After a rollback the counts of sent and executed tuples differ for good. Then wait until nothing moves for a
        while.
        """
        patience = min(self._timeout, DRAIN_QUIET_SECS) if self._run.driver.state.rollbacks else self._timeout
        last, since = _counts(self._info()), time.monotonic()
        while time.monotonic() - since < patience:
            counts, is_moving = _counts(self._info()), self._run.is_moving()
            if counts == last and not is_moving and all(sent == executed for sent, executed in counts):
                return
            if counts != last or is_moving:
                since = time.monotonic()
            last = counts
            self._handle.await_termination(DRAIN_POLL_SECS)

    def _info(self) -> TopologyInfo:
        self._handle.await_termination(0)  # raises what ended the topology
        return self._cluster.topology_info(self._name)

    def _collected(
        self, id_: str, schema: StructType | Fields, collected: Mapping[int, Mapping[int, int]]
    ) -> DataFrame:
        session, own = self._cluster.spark, set(self._handle.plan.tasks[_collector_of(id_)])
        links = self._run.driver.slots.links
        shelves = [
            (task, BOUNDED, link)
            for slot, counts in collected.items()
            for task, count in counts.items()
            if task in own and count and (link := links[slot]) is not None
        ]
        if not shelves and isinstance(schema, Fields):
            schema = StructType([StructField(name, StringType()) for name in schema])

        def made(rows: RDD[Any]) -> DataFrame:
            columns = schema
            if isinstance(columns, Fields):
                columns = session.createDataFrame(rows, columns.to_list(), samplingRatio=1.0).schema
            df = session.createDataFrame(rows.mapPartitions(Fitting(columns)), columns, verifySchema=False)
            return df.localCheckpoint()  # because the slots will end

        try:
            return self._read(shelves, made)
        except SparkError as exc:
            problem = _misfit(id_, schema, str(exc)) if exc.is_about_types() else f"cannot be fetched: {exc}"
            raise StormError(f"the output of {id_!r} {problem}") from exc.original


def _misfit(id_: str, schema: StructType | Fields, why: str) -> str:
    if isinstance(schema, StructType):
        return f"does not fit collect[{id_!r}], which is {schema.simpleString()}: {why}"
    return f"cannot become a DataFrame: {why}; give its schema: collect={{{id_!r}: 'name type, …'}}"


def _hears_end(topology: Topology) -> set[str]:
    """The components that want to know when the input has come to its end."""
    specs = topology.components.values()
    inner = {spec.id: getattr(spec.component, "wrapped", spec.component) for spec in specs}
    return {id_ for id_, component in inner.items() if callable(getattr(type(component), "input_ended", None))}


def _counts(info: TopologyInfo) -> list[tuple[int, int]]:
    """(tuples transferred, tuples executed) by all components together."""
    components = info.components.values()
    return [(sum(each.transferred for each in components), sum(each.executed for each in components))]


def _collector_of(id_: str) -> str:
    return f"__collect_{id_}"


def _bounded(topology: Topology, wanted: Mapping[str, Any], kind: type[CollectingBolt], workers: int) -> Topology:
    """The topology with spouts that are fed, and with a collecting bolt in every slot for each wanted component."""
    spouts = {id_: replace(spec, component=FedSpout(dict(spec.outputs))) for id_, spec in topology.spouts.items()}
    collectors = {
        _collector_of(id_): ComponentSpec(
            _collector_of(id_),
            kind(),
            workers,
            {},
            {},
            {GlobalStreamId(id_, DEFAULT_STREAM): LocalOrShuffleGrouping()},
        )
        for id_ in wanted
    }
    return replace(topology, components={**topology.components, **spouts, **collectors})


def _check_inputs(topology: Topology, inputs: Mapping[str, DataFrame]) -> None:
    if not isinstance(inputs, Mapping):
        raise InvalidTopologyError(f"inputs must be a mapping of spout to DataFrame, got {inputs!r}")
    for id_, df in inputs.items():
        if id_ not in topology.spouts:
            known = did_you_mean(id_, topology.spouts)
            raise InvalidTopologyError(f"inputs names {id_!r}, which is not a spout; {known}")
        if not isinstance(df, DataFrame):
            raise InvalidTopologyError(f"inputs[{id_!r}] must be a DataFrame, got {df!r}")
        if df.isStreaming:
            raise InvalidTopologyError(
                f"inputs[{id_!r}] is a streaming DataFrame, which never ends; read it with spark.read, or make the "
                "spout a DataFrameSpout and submit the topology to a SparkCluster"
            )
    for id_, spec in topology.spouts.items():
        if id_ not in inputs:
            raise InvalidTopologyError(f"spout {id_!r} has no input; give it a DataFrame: inputs={{{id_!r}: …}}")
        if DEFAULT_STREAM not in spec.outputs:
            raise InvalidTopologyError(f"spout {id_!r} has no default stream to emit its rows on; declare one")
        check_columns(f"spout {id_!r}", spec.outputs[DEFAULT_STREAM].fields.to_list(), inputs[id_])


def _wanted(topology: Topology, collect: Sequence[str] | Mapping[str, Any]) -> dict[str, StructType | Fields]:
    """{component: the schema of its tuples, or its fields if Spark must infer the types}."""
    if isinstance(collect, str):
        collect = [collect]
    if not isinstance(collect, Iterable):
        raise InvalidTopologyError(
            f"collect must be names of components, or a mapping of names to schemas, got {collect!r}"
        )
    wanted: dict[str, StructType | Fields] = {}
    for id_ in collect:
        if id_ not in topology.components:
            known = did_you_mean(id_, topology.components)
            raise InvalidTopologyError(f"collect names {id_!r}, which is not a component; {known}")
        stream = topology.components[id_].outputs.get(DEFAULT_STREAM)
        if stream is None or stream.direct:
            raise InvalidTopologyError(f"collect names {id_!r}, which has no default stream, or only a direct one")
        wanted[id_] = stream.fields
        if isinstance(collect, Mapping):
            schema = wanted[id_] = struct_type(f"collect[{id_!r}]", collect[id_])
            if len(schema) != len(stream.fields):
                raise InvalidTopologyError(
                    f"collect[{id_!r}] has the columns {schema.names}, but {id_!r} emits {stream.fields.to_list()}"
                )
    return wanted
