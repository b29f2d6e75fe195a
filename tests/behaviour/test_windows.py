"""Windowed bolts, on every engine. What fires to the millisecond is tested in `tests/windowing`."""

from pystorm_spark import Bolt, TopologyBuilder
from pystorm_spark.aggregators import Count as Counting
from pystorm_spark.windowing import Count, DetachedTuple, Duration, JoinBolt, WindowedBolt
from tests.behaviour.engine import advance, chain, component, run, run_until_idle
from tests.behaviour.probes import Does, Fed, Rows, Sink, acks, feed, note, noted, numbers

SOON = {"topology.bolts.watermark.event.interval.ms": 100}


class Values(WindowedBolt):
    """Notes and emits the values of each window."""

    outputs = ("values",)

    def prepare(self, conf, context, collector):
        self.context = context
        self.collector = collector

    def execute(self, window):
        values = [tup[0] for tup in window]
        note(self.context.this_component_id, values)
        note(f"{self.context.this_component_id} by task", (self.context.this_task_id, values))
        self.collector.emit([values])


def test_windows_of_tuples_fire_and_their_tuples_are_acked(cluster):
    run(cluster, chain(numbers(7), Values().with_window(Count(3), Count(2)), Sink()))

    assert noted("a") == [[0, 1], [1, 2, 3], [3, 4, 5]]
    assert noted("b") == [[[0, 1]], [[1, 2, 3]], [[3, 4, 5]]]
    assert sorted(noted("acked")) == [0, 1, 2, 3, 4]  # those that no window to come can hold


def test_each_tuple_is_in_one_tumbling_window_of_a_time(cluster):
    run(cluster, chain(numbers(50), Values().with_tumbling_window(Duration(200))))
    advance(cluster, 1)

    assert [value for values in noted("a") for value in values] == list(range(50))
    assert sorted(noted("acked")) == list(range(50))


def test_windows_of_event_time_fire_by_the_watermark(cluster):
    rows = [["a", 5], ["b", 12], ["c", 3], ["d", 40]]
    bolt = Values().with_tumbling_window(Duration(10)).with_timestamp_field("at")
    run(cluster, chain(Rows(rows, ["value", "at"]), bolt), SOON)
    advance(cluster, 1)

    assert noted("a") == [["a", "c"], ["b"], ["d"]]


class NotesLate(Bolt):
    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        late = tup["late_tuple"]
        note("late", (isinstance(late, DetachedTuple), late.values, late.source_component, late == DetachedTuple(tup)))
        self.collector.ack(tup)


def test_late_tuples_travel_on_a_stream_of_their_own(cluster):
    bolt = Values().with_tumbling_window(Duration(10)).with_timestamp_field("at").with_late_tuple_stream("late")
    builder = TopologyBuilder()
    builder.set_spout("spout", Fed(["value", "at"]))
    builder.set_bolt("windows", bolt).shuffle_grouping("spout")
    builder.set_bolt("late", NotesLate(), 2).shuffle_grouping("windows", "late")
    run(cluster, builder.create_topology(), SOON)
    feed("spout", ["a", 25], 0)
    run_until_idle(cluster)
    advance(cluster, 1)
    feed("spout", ["b", 5], 1)
    run_until_idle(cluster)

    assert noted("late") == [(True, ["b", 5], "spout", False)]
    assert noted("acked by spout") == [1]


class Raises(Values):
    def execute(self, window):
        super().execute(window)
        raise ValueError("no good")


def test_an_exception_fails_all_tuples_of_the_window(cluster):
    run(cluster, chain(numbers(4), Raises().with_tumbling_window(Count(2))))

    assert sorted(noted("failed")) == [0, 1, 2, 3]
    errors = component(cluster, "a").errors
    assert len(errors) == 2
    assert "raised ValueError: no good" in errors[0].exception


class RaisesOnce(Values):
    def execute(self, window):
        super().execute(window)
        if len(noted("a")) == 1:
            raise ValueError("once")


def test_on_request_an_exception_in_a_window_that_the_clock_fires_restarts_the_slot(cluster):
    conf = {"topology.bolt.on.error": "restart", "topology.workers": 1}
    run(cluster, chain(Rows([["a"]]), RaisesOnce().with_tumbling_window(Duration(200))), conf)
    advance(cluster, 3)

    assert noted("a") == [["a"], ["a"]]
    assert noted("acked") == [0]


def test_ticks_of_the_whole_topology_enter_no_window(cluster):
    bolt = Values().with_window(Count(2), Count(1))
    run(cluster, chain(numbers(2), bolt), {"topology.tick.tuple.freq.secs": 0.1})
    advance(cluster, 1)

    assert noted("a") == [[0], [0, 1]]


def test_a_windowed_bolt_may_be_the_target_of_all_and_of_direct_grouping(cluster):
    def emits_direct(bolt, tup):
        tasks = bolt.context.component_tasks("direct")
        bolt.collector.emit_direct(tasks[tup[0] % 2], tup.values, anchors=tup)
        bolt.collector.ack(tup)

    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(4))
    builder.set_bolt("all", Values().with_tumbling_window(Count(4)), 2).all_grouping("spout")
    builder.set_bolt("sends", Does(emits_direct, ["value"])).shuffle_grouping("spout")
    builder.set_bolt("direct", Values().with_tumbling_window(Count(2)), 2).direct_grouping("sends")
    run(cluster, builder.create_topology())

    assert noted("all") == [[0, 1, 2, 3]] * 2
    assert sorted(noted("direct")) == [[0, 2], [1, 3]]
    assert sorted(noted("acked")) == [0, 1, 2, 3]


class Results(Values):
    def execute(self, window):
        self.collector.emit([sorted(window.results.items())])


def test_aggregates_are_those_of_each_key(cluster):
    rows = [[word] for word in ["a", "b", "a", "c", "b", "a"]]
    bolt = Results().with_tumbling_window(Count(3)).with_aggregate(Counting(), key="word")
    run(cluster, chain(Rows(rows, ["word"]), bolt, Sink()))

    assert noted("b") == [[[("a", 2), ("b", 1)]], [[("a", 1), ("b", 1), ("c", 1)]]]


def test_two_streams_are_joined(cluster):
    builder = TopologyBuilder()
    builder.set_spout("orders", Rows([["o1", "u1"], ["o2", "u2"]], ["order", "user"], ids=["o1", "o2"]))
    builder.set_spout("users", Rows([["u2", "Bob"], ["u1", "Ada"]], ["id", "name"], ids=["u2", "u1"]))
    join = JoinBolt("orders", "user").join("users", "id", "orders").select("order, users:name")
    join.with_tumbling_window(Count(4))
    builder.set_bolt("join", join).global_grouping("orders").global_grouping("users")
    builder.set_bolt("sink", Sink()).shuffle_grouping("join")
    run(cluster, builder.create_topology())

    assert sorted(noted("sink")) == [["o1", "Ada"], ["o2", "Bob"]]
    assert sorted(noted("acked")) == ["o1", "o2", "u1", "u2"]


def test_windows_go_on_while_the_topology_is_deactivated(cluster):
    run(cluster, chain(numbers(2), Values().with_tumbling_window(Duration(500)), Does(acks)))
    cluster.deactivate("topology")
    advance(cluster, 1)

    assert [value for values in noted("a") for value in values] == [0, 1]
