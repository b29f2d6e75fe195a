"""complete_topology runs a topology on given rows to its end and tells what every component emitted."""

import threading

import pytest

from pystorm_spark import (
    BasicBolt,
    Bolt,
    EmitError,
    FailedException,
    InvalidConfigError,
    InvalidTopologyError,
    LambdaBolt,
    LambdaSpout,
    LocalCluster,
    SlotLostError,
    Spout,
    StormError,
    Stream,
    TickAwareBolt,
    TopologyBuilder,
    Values,
)
from pystorm_spark.testing import FixedTupleSpout, complete_topology, read_tuples


@pytest.fixture(params=[True, False], ids=["simulated time", "real time"])
def cluster(request):
    with LocalCluster(simulated_time=request.param) as cluster:
        yield cluster


@pytest.fixture
def simulated():
    with LocalCluster(simulated_time=True) as cluster:
        yield cluster


class Sentences(Spout):
    """Never ends, so a test has to replace it."""

    outputs = {"default": ["sentence"], "errors": ["code", "text"]}

    def open(self, conf, context, collector):
        raise AssertionError("a mocked spout must not be opened")


class Split(BasicBolt):
    outputs = ("word",)

    def execute(self, tup, collector):
        for word in tup["sentence"].split():
            collector.emit([word])


class Count(BasicBolt):
    outputs = ("word", "count")

    def prepare(self, conf, context):
        self.counts = {}

    def execute(self, tup, collector):
        word = tup["word"]
        self.counts[word] = self.counts.get(word, 0) + 1
        collector.emit([word, self.counts[word]])


class Rich(Bolt):
    def prepare(self, conf, context, collector):
        self.context, self.collector = context, collector


class Forget(Rich):
    """Neither acks nor fails."""

    outputs = ("n",)

    def execute(self, tup):
        self.collector.emit(tup.values, anchors=tup)


def word_count(tasks=1):
    builder = TopologyBuilder()
    builder.set_spout("sentences", Sentences(), tasks)
    builder.set_bolt("split", Split(), tasks).shuffle_grouping("sentences")
    builder.set_bolt("count", Count(), tasks).fields_grouping("split", ["word"])
    return builder.create_topology()


def line(*bolts, rows=((1,), (2,), (3,))):
    """A topology of numbers and `bolts` in a row, named a, b, c and so on."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", FixedTupleSpout(rows, ["n"]))
    source = "numbers"
    for id_, bolt in zip("abc", bolts, strict=False):
        builder.set_bolt(id_, bolt).shuffle_grouping(source)
        source = id_
    return builder.create_topology()


# Captured tuples


def test_the_result_holds_the_emits_of_every_component_spouts_included(cluster):
    result = complete_topology(cluster, word_count(), {"sentences": [Values("a b"), ["a"]]})
    assert result == {
        "sentences": {"default": [["a b"], ["a"]], "errors": []},
        "split": {"default": [["a"], ["b"], ["a"]]},
        "count": {"default": [["a", 1], ["b", 1], ["a", 2]]},
    }


@pytest.mark.parametrize("tasks", [2, 3])
def test_each_row_is_emitted_once_in_total_whatever_the_parallelism(cluster, tasks):
    sentences = [[f"word{number} same"] for number in range(10)]
    result = complete_topology(cluster, word_count(tasks), {"sentences": sentences})
    assert sorted(read_tuples(result, "sentences")) == sentences
    assert ["same", 10] in read_tuples(result, "count")


def test_rows_may_be_given_by_stream(cluster):
    rows = {"default": [["a"]], "errors": [[404, "not found"], [500, "broken"]]}
    result = complete_topology(cluster, word_count(), {"sentences": rows})
    assert result["sentences"] == rows
    assert read_tuples(result, "count") == [["a", 1]]


def test_a_fixed_tuple_spout_needs_no_mock(cluster):
    result = complete_topology(cluster, line(LambdaBolt(lambda tup, out: out.emit([-tup[0]]), ["m"])))
    assert result == {"numbers": {"default": [[1], [2], [3]]}, "a": {"default": [[-1], [-2], [-3]]}}


def test_a_fixed_tuple_spout_can_be_mocked(cluster):
    result = complete_topology(cluster, line(Forget()), {"numbers": []})
    assert result == {"numbers": {"default": []}, "a": {"default": []}}


def test_a_bolt_without_streams_has_an_empty_entry(cluster):
    assert complete_topology(cluster, line(LambdaBolt(lambda tup: None)))["a"] == {}


class Direct(Rich):
    outputs = {"chosen": Stream(["n"], direct=True)}

    def execute(self, tup):
        tasks = self.context.component_tasks("reader")
        self.collector.emit_direct(tasks[tup["n"] % len(tasks)], tup.values, anchors=tup, stream="chosen")
        self.collector.ack(tup)


def test_direct_streams_are_captured(cluster):
    builder = TopologyBuilder()
    builder.set_spout("numbers", FixedTupleSpout([[1], [2]], ["n"]))
    builder.set_bolt("sender", Direct()).shuffle_grouping("numbers")
    builder.set_bolt("reader", LambdaBolt(lambda tup: None), 2).direct_grouping("sender", "chosen")
    result = complete_topology(cluster, builder.create_topology())
    assert read_tuples(result, "sender", "chosen") == [[1], [2]]


def test_an_emit_to_many_tasks_is_captured_once(cluster):
    builder = TopologyBuilder()
    builder.set_spout("numbers", FixedTupleSpout([[1]], ["n"]))
    builder.set_bolt("all", LambdaBolt(lambda tup, out: out.emit([tup[0]]), ["n"]), 3).all_grouping("numbers")
    result = complete_topology(cluster, builder.create_topology())
    assert (read_tuples(result, "numbers"), read_tuples(result, "all")) == ([[1]], [[1], [1], [1]])


class Unanchored(Rich):
    outputs = ("n",)

    def execute(self, tup):
        self.collector.ack(tup)
        self.collector.emit([tup["n"]])


class Many(Rich):
    outputs = ("n",)

    def execute(self, tup):
        self.collector.ack(tup)
        for number in range(20_000):  # more than a slot executes before the spout gets the ack
            self.collector.emit([number])


def test_an_unanchored_tuple_emitted_after_the_ack_is_captured(cluster):
    result = complete_topology(cluster, line(Many(), Unanchored(), rows=[[1]]))
    assert read_tuples(result, "b") == [[number] for number in range(20_000)]


looked_often = threading.Event()


class PatientCluster(LocalCluster):
    """Sets `looked_often` after ten looks at a topology, when a slow bolt has long seemed idle."""

    def __init__(self):
        super().__init__()
        self.looks = 0

    def topology_info(self, name):
        self.looks += 1
        if self.looks == 10:
            looked_often.set()
        return super().topology_info(name)


class Slow(Unanchored):
    def execute(self, tup):
        assert looked_often.wait(10)
        super().execute(tup)


def test_a_slow_bolt_behind_an_acked_row_is_waited_for():
    looked_often.clear()
    with PatientCluster() as cluster:
        result = complete_topology(
            cluster, line(Unanchored(), Slow(), rows=[[1]]), conf={"topology.acker.executors": 0}
        )
    assert read_tuples(result, "b") == [[1]]


def test_without_ackers_the_run_is_complete_too(cluster):
    result = complete_topology(cluster, line(Unanchored(), Unanchored()), conf={"topology.acker.executors": 0})
    assert read_tuples(result, "b") == [[1], [2], [3]]


class Overwrite(Rich):
    def execute(self, tup):
        tup.values[0] = "overwritten"
        self.collector.ack(tup)


def test_captured_values_do_not_change_with_the_tuple(cluster):
    assert read_tuples(complete_topology(cluster, line(Overwrite())), "numbers") == [[1], [2], [3]]


def test_captured_values_are_lists_even_of_emitted_tuples(cluster):
    result = complete_topology(cluster, line(LambdaBolt(lambda tup, out: out.emit((tup[0], 0)), ["n", "zero"])))
    assert read_tuples(result, "a") == [[1, 0], [2, 0], [3, 0]]


# The end of a run


class FailOdd(BasicBolt):
    outputs = ("n",)

    def execute(self, tup, collector):
        if tup["n"] % 2:
            raise FailedException
        collector.emit([tup["n"]])


def test_failed_rows_end_the_run_and_are_not_emitted_again(cluster):
    result = complete_topology(cluster, line(FailOdd()))
    assert (read_tuples(result, "numbers"), read_tuples(result, "a")) == ([[1], [2], [3]], [[2]])


def test_unacked_rows_end_the_run_by_their_timeout(cluster):
    # The message timeout is short, because it passes in real time, too.
    result = complete_topology(cluster, line(Forget()), conf={"topology.message.timeout.secs": 0.05})
    assert read_tuples(result, "a") == [[1], [2], [3]]


def test_rows_held_back_by_max_spout_pending_are_emitted_after_others_time_out(simulated):
    conf = {"topology.max.spout.pending": 1, "topology.message.timeout.secs": 30}
    assert read_tuples(complete_topology(simulated, line(Forget()), conf=conf), "a") == [[1], [2], [3]]


class AckOnTick(TickAwareBolt):
    outputs = ("total",)

    def prepare(self, conf, context, collector):
        self.collector, self.held = collector, []

    def process(self, tup):
        self.held.append(tup)

    def on_tick(self, tup):
        if self.held:
            self.collector.emit([sum(held["n"] for held in self.held)], anchors=self.held)
        while self.held:
            self.collector.ack(self.held.pop())


def test_simulated_time_passes_if_rows_wait_for_it(simulated):
    result = complete_topology(simulated, line(AckOnTick()), conf={"topology.tick.tuple.freq.secs": 5})
    assert read_tuples(result, "a") == [[6]]


def test_simulated_time_stands_still_if_rows_need_none(simulated):
    copy = LambdaBolt(lambda tup, out: out.emit([tup[0]]), ["n"])  # ticks too
    rows = [[number] for number in range(3000)]
    conf = {"topology.tick.tuple.freq.secs": 0.001, "topology.max.spout.pending": 1}
    assert read_tuples(complete_topology(simulated, line(copy, rows=rows), conf=conf), "a") == rows


def test_an_endless_run_is_an_error_that_names_the_spout(simulated):
    conf = {"topology.enable.message.timeouts": False}
    with pytest.raises(StormError, match=r"rows of \{'numbers': 3\} were neither acked nor failed for 90 s"):
        complete_topology(simulated, line(Forget()), conf=conf)


class Refuse(Bolt):
    def prepare(self, conf, context, collector):
        raise ValueError("no")


class Key:
    """A value whose hash depends on the process, so a fields grouping refuses it."""


def test_a_row_that_cannot_be_emitted_is_an_error(cluster):
    builder = TopologyBuilder()
    builder.set_spout("keys", FixedTupleSpout([[Key()]], ["key"]))
    builder.set_bolt("bolt", LambdaBolt(lambda tup: None), 2).fields_grouping("keys", ["key"])
    with pytest.raises(StormError, match=r"spout 'keys' cannot emit its rows: .*grouped on"):
        complete_topology(cluster, builder.create_topology())


def test_the_error_that_ends_the_topology_is_raised(cluster):
    conf = {"topology.bolt.on.error": "restart", "topology.slot.max.restarts": 1}
    with pytest.raises(SlotLostError, match="ZeroDivisionError"):
        complete_topology(cluster, line(LambdaBolt(lambda tup: 1 / 0)), conf=conf)


class CrashOnce(BasicBolt):
    crashed = False

    def execute(self, tup, collector):
        if tup["n"] == 2 and not CrashOnce.crashed:
            CrashOnce.crashed = True
            raise ValueError("once")


def test_rows_lost_with_their_slot_are_emitted_again_and_end_the_run(simulated):
    CrashOnce.crashed = False
    result = complete_topology(simulated, line(CrashOnce()), conf={"topology.bolt.on.error": "restart"})
    assert read_tuples(result, "numbers") == [[1], [2], [3], [1], [2], [3]]


def test_an_error_of_the_submit_is_raised(cluster):
    with pytest.raises(StormError, match=r"prepare of 'a' .* raised ValueError: no"):
        complete_topology(cluster, line(Refuse()))


@pytest.mark.parametrize("bolt", [LambdaBolt(lambda tup: None), LambdaBolt(lambda tup: 1 / 0)], ids=["acks", "fails"])
def test_the_topology_is_killed_at_the_end(cluster, bolt):
    complete_topology(cluster, line(bolt))
    assert cluster.list_topologies() == []


def test_the_topology_is_killed_on_an_error_too(simulated):
    with pytest.raises(StormError, match="gave up"):
        complete_topology(simulated, line(Forget()), conf={"topology.enable.message.timeouts": False})
    assert simulated.list_topologies() == []


def test_two_runs_on_one_cluster_are_independent(cluster):
    topology = word_count()
    first = complete_topology(cluster, topology, {"sentences": [["a"]]})
    second = complete_topology(cluster, topology, {"sentences": [["a"]]})
    assert first == second


def test_another_topology_of_the_cluster_runs_on(cluster):
    builder = TopologyBuilder()
    builder.set_spout("quiet", LambdaSpout(lambda: None))
    cluster.submit_topology("other", None, builder.create_topology())
    complete_topology(cluster, line(LambdaBolt(lambda tup: None)))
    assert [info.name for info in cluster.list_topologies()] == ["other"]


# What a run leaves unchanged


def test_the_given_topology_is_unchanged(cluster):
    topology = word_count()
    components, spout = dict(topology.components), topology.components["sentences"].component
    complete_topology(cluster, topology, {"sentences": [["a"]]})
    assert topology.components == components
    assert topology.components["sentences"].component is spout


class TellTasks(Rich):
    outputs = ("tasks",)

    def execute(self, tup):
        self.collector.emit([self.context.task_to_component], anchors=tup)
        self.collector.ack(tup)


def test_capturing_does_not_change_the_tasks(cluster):
    result = complete_topology(cluster, line(TellTasks(), rows=[[1]]))
    assert read_tuples(result, "a") == [[{2: "a", 3: "numbers"}]]


class TellHooks(Rich):
    outputs = ("hook",)

    def execute(self, tup):
        self.collector.emit([type(self.context.hooks[0]).__name__], anchors=tup)
        self.collector.ack(tup)


def test_hooks_of_the_configuration_are_kept(cluster):
    conf = {"topology.auto.task.hooks": ["pystorm_spark.topology.hooks:TaskHook"]}
    result = complete_topology(cluster, line(TellHooks(), rows=[[1]]), conf=conf)
    assert read_tuples(result, "a") == [["TaskHook"]]


def test_the_given_configuration_is_unchanged(cluster):
    conf = {"topology.message.timeout.secs": 5}
    complete_topology(cluster, line(LambdaBolt(lambda tup: None)), conf=conf)
    assert conf == {"topology.message.timeout.secs": 5}


# Refused arguments


def test_a_spout_that_is_neither_mocked_nor_fixed_is_named(simulated):
    with pytest.raises(StormError, match="spout 'sentences' may never end: give its rows in mock_sources"):
        complete_topology(simulated, word_count())


def test_an_unknown_spout_is_an_error_that_names_the_nearest(simulated):
    with pytest.raises(StormError, match="names 'sentence', which is not a spout; did you mean 'sentences'"):
        complete_topology(simulated, word_count(), {"sentence": [["a"]]})


def test_a_bolt_cannot_be_mocked(simulated):
    with pytest.raises(StormError, match="names 'split', which is not a spout; known: sentences"):
        complete_topology(simulated, word_count(), {"sentences": [], "split": [["a"]]})


def test_a_mock_row_of_wrong_arity_is_an_error_that_names_the_spout(simulated):
    with pytest.raises(EmitError, match=r"mock_sources\['sentences'\]: .* 2 values for 1 fields \['sentence'\]"):
        complete_topology(simulated, word_count(), {"sentences": [["a", "b"]]})


def test_a_mock_of_an_undeclared_stream_is_an_error_that_names_the_nearest(simulated):
    with pytest.raises(EmitError, match=r"mock_sources\['sentences'\]: .* did you mean 'errors'"):
        complete_topology(simulated, word_count(), {"sentences": {"error": [[1, "a"]]}})


def test_a_wrong_configuration_is_an_error(simulated):
    with pytest.raises(InvalidConfigError, match=r"topology\.auto\.task\.hooks"):
        complete_topology(simulated, line(Forget()), conf={"topology.auto.task.hooks": "not a list"})


def test_an_object_that_is_not_a_topology_is_refused(simulated):
    with pytest.raises(InvalidTopologyError, match="create_topology"):
        complete_topology(simulated, TopologyBuilder())


# read_tuples


def test_read_tuples_reads_a_stream_by_name():
    result = {"a": {"default": [[1]], "errors": [[2]]}}
    assert (read_tuples(result, "a"), read_tuples(result, "a", "errors")) == ([[1]], [[2]])


def test_read_tuples_of_a_component_without_streams_is_empty(simulated):
    result = complete_topology(simulated, line(LambdaBolt(lambda tup: None)))
    assert read_tuples(result, "a") == []


def test_read_tuples_of_an_unknown_component_names_the_nearest():
    with pytest.raises(StormError, match="no component 'cuont'; did you mean 'count'"):
        read_tuples({"count": {"default": []}}, "cuont")


def test_read_tuples_of_an_unknown_stream_names_the_nearest():
    with pytest.raises(StormError, match="component 'count' has no stream 'eror'; did you mean 'error'"):
        read_tuples({"count": {"default": [], "error": []}}, "count", "eror")
