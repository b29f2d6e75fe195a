"""complete_topology: runs a topology on given rows to the end, and returns the emits of every component."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

from pystorm_spark.cluster.checks import check_submission
from pystorm_spark.cluster.cluster import Cluster
from pystorm_spark.cluster.info import TopologyInfo
from pystorm_spark.cluster.running import TopologyHandle
from pystorm_spark.errors import EmitError, NotAliveError, StormError, did_you_mean
from pystorm_spark.local import LocalCluster
from pystorm_spark.testing.emissions import Emissions, Mailbox, watching
from pystorm_spark.testing.fixed import FixedTupleSpout
from pystorm_spark.topology.fields import DEFAULT_STREAM
from pystorm_spark.topology.graph import ComponentSpec, Topology

Rows = Iterable[Any]
Result = dict[str, dict[str, list[list[Any]]]]  # {component: {stream: [values, ...]}}

PROGRESS_POLL_SECS = 0.005  # between two polls of a topology that runs in its own thread or processes
DRAIN_QUIET_SECS = 1.0  # without any execute, after which tuples in flight count as lost with their slot
PATIENCE_TIMEOUTS = 3  # message timeouts without any row acked or failed; a row may time out after two


def complete_topology(
    cluster: Cluster[Any],
    topology: Topology,
    mock_sources: Mapping[str, Rows | Mapping[str, Rows]] | None = None,
    conf: Mapping[str, Any] | None = None,
) -> Result:
    """Run `topology` on given rows until each is acked or failed; returns the emits of every component.

    `mock_sources` replaces spouts by rows: `{spout: rows}` or `{spout: {stream: rows}}`. Every other spout must be a
    `FixedTupleSpout`. The result, `{component: {stream: [values, ...]}}`, has every declared stream of every component,
    spouts included, in the order of the emits; with several processes only the order within each process is kept. The
    topology object is not changed. The run is killed at the end, also after an error.

    >>> from pystorm_spark import LambdaBolt, LambdaSpout, LocalCluster, TopologyBuilder
    >>> builder = TopologyBuilder()
    >>> _ = builder.set_spout("words", LambdaSpout(lambda: "endless"))
    >>> upper = LambdaBolt(lambda tup, collector: collector.emit([tup[0].upper()]), ["word"])
    >>> _ = builder.set_bolt("upper", upper).shuffle_grouping("words")
    >>> with LocalCluster() as cluster:
    ...     complete_topology(cluster, builder.create_topology(), {"words": [["storm"], ["spark"]]})
    {'words': {'default': [['storm'], ['spark']]}, 'upper': {'default': [['STORM'], ['SPARK']]}}
    """
    check_submission(topology, conf)
    mocked = _with_mocks(topology, mock_sources or {})
    emissions = Emissions(mocked)
    name = f"complete-topology-{uuid4().hex}"
    with ExitStack() as stack:
        address = emissions.address
        if not isinstance(cluster, LocalCluster):  # tasks in other processes
            address = stack.enter_context(Mailbox(emissions)).address
        handle = cluster.submit_topology(name, watching(conf, address), mocked)
        try:
            run = _Run(cluster, handle, mocked, emissions)
            run.settle_rows()
            run.drain()
        finally:
            with suppress(NotAliveError):
                cluster.kill_topology(name)
    return emissions.rows


def read_tuples(result: Result, component: str, stream: str = DEFAULT_STREAM) -> list[list[Any]]:
    """The emits of `component` on `stream`, from the result of `complete_topology`; empty if it declares no stream.

    >>> read_tuples({"words": {"default": [["storm"]]}}, "words")
    [['storm']]
    """
    if component not in result:
        raise StormError(f"the result has no component {component!r}; {did_you_mean(component, result)}")
    streams = result[component]
    if not streams and stream == DEFAULT_STREAM:
        return []
    if stream not in streams:
        raise StormError(f"component {component!r} has no stream {stream!r}; {did_you_mean(stream, streams)}")
    return streams[stream]


def _with_mocks(topology: Topology, mock_sources: Mapping[str, Any]) -> Topology:
    for id_ in mock_sources:
        if id_ not in topology.spouts:
            raise StormError(f"mock_sources names {id_!r}, which is not a spout; {did_you_mean(id_, topology.spouts)}")
    mocks = {id_: _mock(topology.spouts[id_], rows) for id_, rows in mock_sources.items()}
    for id_, spec in topology.spouts.items():
        if id_ not in mocks and not isinstance(spec.component, FixedTupleSpout):
            raise StormError(
                f"spout {id_!r} may never end: give its rows in mock_sources, or make it a FixedTupleSpout"
            )
    return replace(topology, components={**topology.components, **mocks})


def _mock(spec: ComponentSpec, rows: Rows | Mapping[str, Rows]) -> ComponentSpec:
    try:
        return replace(spec, component=FixedTupleSpout(rows, spec.outputs))
    except EmitError as exc:
        raise EmitError(f"mock_sources[{spec.id!r}]: {exc}") from None


class _Run:
    """A submitted topology whose spouts have a fixed number of rows."""

    def __init__(self, cluster: Cluster[Any], handle: TopologyHandle, topology: Topology, emissions: Emissions) -> None:
        self._cluster = cluster
        self._handle = handle
        self._simulated = cluster if isinstance(cluster, LocalCluster) and cluster.simulated_time else None
        self._rows = {id_: _row_count(spec) for id_, spec in topology.spouts.items()}
        self._settled = emissions.settled
        timeout = self._info().conf["topology.message.timeout.secs"]
        self._patience = PATIENCE_TIMEOUTS * timeout
        self._step = min(1.0, timeout / 10)  # how far to move simulated time when nothing else happens

    def settle_rows(self) -> None:
        """Let the topology run until every row is acked or failed."""
        left, since, pause = self._left(), 0.0, 0.0
        while left:
            info = self._go_on(pause)
            self._check_spouts(info)
            before, left = left, self._left()
            # Simulated time does not move while rows are acked or failed without it.
            pause = 0.0 if left != before else self._step
            if left != before:
                since = info.uptime_secs
            elif info.uptime_secs - since > self._patience:
                raise StormError(
                    f"complete_topology gave up: rows of {left} were neither acked nor failed for "
                    f"{self._patience:g} s; every bolt must ack or fail what it receives, or "
                    "topology.enable.message.timeouts must be on"
                )

    def drain(self) -> None:
        """Wait until untracked tuples are executed, too: a tuple without an anchor may outlive the ack of its row."""
        info = self._go_on(0.0)
        counts, since, pause, end = _counts(info), info.uptime_secs, 0.0, info.uptime_secs + self._patience
        while info.uptime_secs < end:
            info = self._go_on(pause)
            before, counts = counts, _counts(info)
            if counts != before:  # tuples may circulate forever, so let simulated time pass, too
                since, pause = info.uptime_secs, self._step
            # The counts of one poll are not from one moment; two equal polls are.
            elif self._simulated or not _in_flight(info) or info.uptime_secs - since > DRAIN_QUIET_SECS:
                return

    def _left(self) -> dict[str, int]:
        """{spout: how many of its rows are neither acked nor failed}, for spouts that have any."""
        left = {id_: rows - len(self._settled[id_]) for id_, rows in self._rows.items()}
        return {id_: count for id_, count in left.items() if count > 0}

    def _go_on(self, secs: float) -> TopologyInfo:
        """Let the topology run for a moment: for `secs` in simulated time."""
        if self._simulated is not None:
            self._simulated.advance_time(secs)
        self._handle.await_termination(0 if self._simulated else PROGRESS_POLL_SECS)
        return self._info()

    def _info(self) -> TopologyInfo:
        try:
            return self._cluster.topology_info(self._handle.name)
        except NotAliveError:
            self._handle.await_termination()  # raises what ended the topology
            raise StormError("the topology was killed before each of its rows was acked or failed") from None

    def _check_spouts(self, info: TopologyInfo) -> None:
        for id_ in self._rows:
            errors = info.components[id_].errors
            if errors:
                raise StormError(f"spout {id_!r} cannot emit its rows: {errors[-1].exception}")


def _row_count(spec: ComponentSpec) -> int:
    assert isinstance(spec.component, FixedTupleSpout)
    return spec.component.row_count


def _counts(info: TopologyInfo) -> list[tuple[int, int]]:
    return [(component.transferred, component.executed) for component in info.components.values()]


def _in_flight(info: TopologyInfo) -> int:
    return sum(transferred - executed for transferred, executed in _counts(info))
