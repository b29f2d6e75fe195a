"""FixedTupleSpout emits each of its rows once, with a message id."""

import pytest

from pystorm_spark import EmitError, LambdaBolt, LocalCluster, Stream, TopologyBuilder, Values
from pystorm_spark.testing import AckFailTracker, CaptureBolt, FixedTupleSpout


class Tracked(FixedTupleSpout):
    def __init__(self, rows, fields):
        super().__init__(rows, fields)
        self.tracker = AckFailTracker()

    def ack(self, message_id):
        self.tracker.ack(message_id)

    def fail(self, message_id):
        self.tracker.fail(message_id)


def run(spout, tasks=1, stream="default"):
    capture, builder = CaptureBolt(), TopologyBuilder()
    builder.set_spout("rows", spout, tasks)
    builder.set_bolt("capture", capture).global_grouping("rows", stream)
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit_topology("fixed", None, builder.create_topology())
        cluster.wait_until_idle()
    return capture.captured


def test_rows_are_emitted_in_order():
    assert run(FixedTupleSpout([["a", 1], Values("b", 2), ("c", 3)], ["word", "n"])) == [["a", 1], ["b", 2], ["c", 3]]


@pytest.mark.parametrize("tasks", [2, 3, 20])
def test_each_row_is_emitted_once_whatever_the_parallelism(tasks):
    rows = [[number] for number in range(10)]
    assert sorted(run(FixedTupleSpout(rows, ["n"]), tasks)) == rows


def test_every_row_has_a_message_id_of_its_own():
    spout = Tracked([["a"], ["a"], ["a"]], ["word"])
    run(spout, tasks=2)
    assert sorted(spout.tracker.acked) == [0, 1, 2]


def test_a_row_that_fails_is_not_emitted_again():
    spout, builder = Tracked([["a"]], ["word"]), TopologyBuilder()
    builder.set_spout("rows", spout)
    builder.set_bolt("broken", LambdaBolt(lambda tup: 1 / 0)).shuffle_grouping("rows")
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit_topology("fixed", None, builder.create_topology())
        cluster.advance_time(100)
    assert (spout.tracker.acked, spout.tracker.failed) == ([], [0])


def test_rows_by_stream_go_to_their_streams():
    spout = FixedTupleSpout(
        {"default": [["a"]], "errors": [["b", 1]]}, {"default": ["word"], "errors": Stream(["e", "n"])}
    )
    assert run(spout) == [["a"]]
    assert run(spout, stream="errors") == [["b", 1]]


def test_rows_may_come_from_a_generator():
    assert run(FixedTupleSpout(([number] for number in range(3)), "n")) == [[0], [1], [2]]


def test_a_spout_without_rows_emits_nothing():
    assert run(FixedTupleSpout([], ["n"])) == []


def test_wrong_arity_is_an_error_at_construction():
    with pytest.raises(EmitError, match=r"stream 'default' is 2 values for 1 fields \['word'\]: \['a', 1\]"):
        FixedTupleSpout([["a", 1]], ["word"])


def test_a_row_that_is_not_a_list_is_an_error_at_construction():
    with pytest.raises(EmitError, match="'storm' of type str; values must be a list or a tuple"):
        FixedTupleSpout(Values("storm"), ["word"])


def test_an_undeclared_stream_is_an_error_that_names_the_nearest():
    with pytest.raises(EmitError, match="the undeclared stream 'eror'; did you mean 'error'"):
        FixedTupleSpout({"eror": [["a"]]}, {"error": ["word"]})
