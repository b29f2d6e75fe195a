"""Components look at themselves at the submit, and may refuse."""

import pytest

from pystorm_spark import (
    BasicBolt,
    Fields,
    GlobalStreamId,
    InvalidTopologyError,
    LocalCluster,
    StormError,
    TopologyBuilder,
)
from pystorm_spark.state import StatefulBolt
from tests.behaviour.engine import ONE_PROCESS, advance, chain, run
from tests.behaviour.probes import Rows, Sink, note, noted, numbers


class UnreachableError(StormError):
    """The error of a user's own connector."""


class Refuses(Sink):
    def __init__(self, error=None):
        self.error = error

    def validate(self, conf, view):
        note("views", view)
        note("confs", conf["topology.tick.tuple.freq.secs"])
        if self.error is not None:
            raise self.error

    def component_configuration(self):
        return {"topology.tick.tuple.freq.secs": 9}


class Opened(Rows):
    def open(self, conf, context, collector):
        note("opened", 1)
        super().open(conf, context, collector)


def test_an_error_of_its_own_type_reaches_the_caller_and_nothing_runs(cluster):
    topology = chain(Opened([]), Refuses(UnreachableError("no server at localhost:1")))
    with pytest.raises(UnreachableError, match=r"^no server at localhost:1$"):
        cluster.submit_topology("topology", None, topology)
    cluster.submit_topology("topology", None, chain(numbers(0), Sink()))

    assert noted("opened") == []


def test_any_other_error_is_an_invalid_topology(cluster):
    with pytest.raises(InvalidTopologyError, match="validate of 'a' raised ValueError: what is this") as caught:
        cluster.submit_topology("topology", None, chain(numbers(0), Refuses(ValueError("what is this"))))

    assert isinstance(caught.value.__cause__, ValueError)


def test_a_component_sees_its_streams_and_is_asked_once(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(0))
    builder.set_bolt("a", Refuses(), 3).shuffle_grouping("spout")
    run(cluster, builder.create_topology())

    (view,) = noted("views")
    assert (view.id, view.parallelism, view.checkpoint, dict(view.outputs)) == ("a", 3, None, {})
    assert view.inputs == {GlobalStreamId("spout", "default"): Fields("value")}
    assert noted("confs") == [9]


def test_a_spout_is_asked_too(cluster):
    class Checked(Rows):
        def validate(self, conf, view):
            note("outputs", {stream: declared.fields.to_list() for stream, declared in view.outputs.items()})

    run(cluster, chain(Checked([]), Sink()))

    assert noted("outputs") == [{"default": ["value"]}]


class Windowed(StatefulBolt):
    """Refuses another length than the checkpoint has."""

    def __init__(self, length):
        self.length = length

    @property
    def checkpoint_metadata(self):
        return {"length": self.length}

    def validate(self, conf, view):
        kept = view.checkpoint
        note("kept", kept and (kept.tasks, kept.state_version, kept.metadata))
        if kept is not None and kept.metadata != self.checkpoint_metadata:
            raise UnreachableError(f"the checkpoint has windows of {kept.metadata['length']}, not of {self.length}")

    def prepare(self, conf, context, collector):
        self.collector = collector

    def init_state(self, state):
        self.state = state

    def execute(self, tup):
        self.state.put(tup[0], self.length)
        self.collector.ack(tup)


@pytest.fixture
def start(cluster, tmp_path):
    """A function: another cluster of the same kind, on one checkpoint."""

    def started():
        if isinstance(cluster, LocalCluster):
            return LocalCluster(simulated_time=True, checkpoint=tmp_path / "checkpoint")
        return type(cluster)(cluster.spark, checkpoint=tmp_path / "checkpoint")

    return started


def test_a_component_sees_what_its_checkpoint_has(start):
    soon = {"topology.state.checkpoint.interval.ms": 100}
    with start() as first:
        run(first, chain(numbers(2), Windowed(10)), soon)
        advance(first, 1)
    with start() as second:
        with pytest.raises(UnreachableError, match="the checkpoint has windows of 10, not of 20"):
            second.submit_topology("topology", soon, chain(numbers(2), Windowed(20)))
        run(second, chain(numbers(2), Windowed(10)), soon)

    assert noted("kept") == [None, (1, 1, {"length": 10}), (1, 1, {"length": 10})]


@pytest.mark.local_only(ONE_PROCESS)
def test_metadata_that_no_checkpoint_can_keep_is_refused(cluster):
    with pytest.raises(InvalidTopologyError, match="checkpoint_metadata of Windowed must be numbers, text, lists"):
        chain(numbers(0), Windowed(object()))


@pytest.mark.local_only(ONE_PROCESS)
def test_a_basic_bolt_is_asked_through_what_wraps_it(cluster):
    class Basic(BasicBolt):
        def validate(self, conf, view):
            note("asked", view.id)

    run(cluster, chain(numbers(0), Basic()))

    assert noted("asked") == ["a"]
