"""Joins of what a window holds."""

import pytest

from pystorm_spark import InvalidTopologyError, LocalCluster, Spout, TopologyBuilder
from pystorm_spark.aggregators import Count as Counting
from pystorm_spark.testing import CaptureBolt, FeederSpout
from pystorm_spark.windowing import Count, Duration, JoinBolt

ORDERS = [["o1", "u1", 5], ["o2", "u2", 7], ["o3", "u9", 9], ["o4", None, 1]]
USERS = [["u1", "Ada"], ["u2", "Bob"], ["u3", "Cid"], [None, "Nobody"]]


def joined(bolt, tables=None, then=None):
    """What `bolt` emits for tables of orders and users in one window, and the ids that are acked."""
    tables = tables or {"orders": (["order", "user", "total"], ORDERS), "users": (["id", "name"], USERS)}
    builder, feeders, capture = TopologyBuilder(), {}, CaptureBolt()
    declarer = builder.set_bolt("join", bolt)
    for name, (fields, rows) in tables.items():
        feeders[name] = FeederSpout(fields)
        builder.set_spout(name, feeders[name])
        declarer.fields_grouping(name, fields[:1])
        for number, row in enumerate(rows):
            feeders[name].feed(row, message_id=(name, number))
    builder.set_bolt("capture", capture).shuffle_grouping("join")
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit_topology("topology", None, builder.create_topology())
        cluster.advance_time(1)
        if then is not None:
            then(feeders)
            cluster.advance_time(1)
        assert cluster.topology_info("topology").components["join"].errors == []
    return capture.captured


def tumbling(bolt):
    return bolt.with_tumbling_window(Duration.seconds(1))


def orders():
    return JoinBolt("orders", "user")


def test_an_inner_join_keeps_what_has_an_equal():
    bolt = tumbling(orders().join("users", "id", "orders").select("order, name"))
    assert joined(bolt) == [["o1", "Ada"], ["o2", "Bob"]]


def test_a_left_join_keeps_rows_without_an_equal_but_not_those_without_a_key():
    bolt = tumbling(orders().left_join("users", "id", "orders").select("order, name"))
    assert joined(bolt) == [["o1", "Ada"], ["o2", "Bob"], ["o3", None]]


def test_a_right_join_keeps_every_row_of_the_new_stream():
    bolt = tumbling(orders().right_join("users", "id", "orders").select("order, name"))
    assert joined(bolt) == [["o1", "Ada"], ["o2", "Bob"], [None, "Cid"], [None, "Nobody"]]


def test_a_full_join_keeps_everything():
    bolt = tumbling(orders().full_join("users", "id", "orders").select("order, name"))
    assert joined(bolt) == [
        ["o1", "Ada"],
        ["o2", "Bob"],
        ["o3", None],
        ["o4", None],
        [None, "Cid"],
        [None, "Nobody"],
    ]


def test_outer_joins_of_nothing():
    tables = {"orders": (["order", "user", "total"], []), "users": (["id", "name"], USERS[:1])}
    for kind, expected in (
        ("join", []),
        ("left_join", []),
        ("right_join", [[None, "Ada"]]),
        ("full_join", [[None, "Ada"]]),
    ):
        bolt = getattr(orders(), kind)("users", "id", "orders").select("order, name")
        assert joined(tumbling(bolt), tables) == expected


TABLES = {
    "orders": (["key", "user"], [[1, {"id": "u1", "at": {"city": "Bern"}}], [2, {"id": "u2"}]]),
    "users": (["id", "key"], [["u1", "k1"], ["u2", "k2"]]),
    "notes": (["about", "text"], [["u1", "first"], ["u1", "second"]]),
}


def test_three_streams_paths_and_names_with_and_without_an_id():
    bolt = JoinBolt("orders", "user.id").join("users", "id", "orders").leftJoin("notes", "about", "users")
    bolt = tumbling(bolt.select("key, users:key, user.at.city, notes:text"))
    assert joined(bolt, TABLES) == [
        [1, "k1", "Bern", "first"],
        [1, "k1", "Bern", "second"],
        [2, "k2", None, None],
    ]


def test_names_keep_their_ids_as_field_names():
    bolt = JoinBolt("orders", "user.id").join("users", "id", "orders").select(" key ,users:key")
    builder = TopologyBuilder()
    for name, (fields, _) in TABLES.items():
        builder.set_spout(name, FeederSpout(fields))
    builder.set_bolt("join", tumbling(bolt).with_output_stream("rows")).shuffle_grouping("orders").shuffle_grouping(
        "users"
    )
    assert builder.create_topology().components["join"].outputs["rows"].fields.to_list() == ["key", "users:key"]


class TwoStreams(Spout):
    outputs = {"left": ["key", "value"], "right": ["key", "value"]}

    def open(self, conf, context, collector):
        collector.emit([1, "l"], stream="left")
        collector.emit([1, "r"], stream="right")


def test_the_ids_may_be_those_of_streams():
    by = JoinBolt.Selector.STREAM
    bolt = JoinBolt(by, "left", "key").join("right", "key", "left").select("left:value, right:value")
    builder, capture = TopologyBuilder(), CaptureBolt()
    builder.set_spout("spout", TwoStreams())
    join = builder.set_bolt("join", tumbling(bolt))
    join.shuffle_grouping("spout", "left").shuffle_grouping("spout", "right")
    builder.set_bolt("capture", capture).shuffle_grouping("join")
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit_topology("topology", None, builder.create_topology())
        cluster.advance_time(1)
    assert capture.captured == [["l", "r"]]


def more(feeders):
    feeders["users"].feed(["u9", "Eve"], message_id="more")


def test_sliding_windows_repeat_rows_unless_only_new_ones_are_wanted():
    def bolt():
        join = orders().join("users", "id", "orders").select("order, name")
        return join.with_window(Duration.seconds(5), Duration.seconds(1))

    first, new = [["o1", "Ada"], ["o2", "Bob"]], [["o3", "Eve"]]
    assert joined(bolt(), then=more) == first + first + new
    assert joined(bolt().with_new_rows_only(), then=more) == first + new


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: JoinBolt("a"), "a join field"),
        (lambda: JoinBolt("a", "x:y"), "without ':'"),
        (lambda: JoinBolt(JoinBolt.Selector.STREAM, "a", "x", "y"), "a JoinBolt.Selector, an id and a field, got"),
        (lambda: JoinBolt(None, "x"), "the id of a component"),
        (lambda: JoinBolt("stream", "a", "x"), "JoinBolt.Selector"),
        (lambda: JoinBolt("a", "x").join("b", "y:z", "a"), "without ':'"),
        (lambda: JoinBolt("a", "x").join("a", "y", "a"), "already joined"),
        (lambda: JoinBolt("a", "x").join("b", "y", "a").left_join("b", "z", "a"), "already joined"),
        (lambda: JoinBolt("a", "x").join("b", "y", "c"), "'c' is not joined before 'b'"),
        (lambda: JoinBolt("a", "x").select("a, , b"), "separated by commas"),
        (lambda: JoinBolt("a", "x").with_output_stream(""), "the id of a stream"),
        (lambda: JoinBolt("a", "x").with_persistence(), "not there yet"),
    ],
)
def test_refused_at_the_call(call, says):
    with pytest.raises(InvalidTopologyError, match=says):
        call()


def ab():
    return JoinBolt("orders", "user").join("users", "id", "orders")


@pytest.mark.parametrize(
    ("bolt", "says"),
    [
        (ab(), "call select"),
        (JoinBolt("orders", "user").left_join("users", "id", "orders").select("id").with_new_rows_only(), "outer join"),
        (ab().select("other:name"), "'other' is not joined"),
        (ab().select("id").with_aggregate(Counting()), "has an aggregate"),
        # at the submit
        (ab().join("nobody", "id", "users").select("id"), "joins source 'nobody', which is no input"),
        (JoinBolt("orders", "user").select("user"), "reads source 'users', which it does not join"),
        (JoinBolt("orders", "usr").join("users", "id", "orders").select("id"), "did you mean 'user'"),
        (ab().select("nam"), "did you mean 'name'"),
        (ab().select("orders:name"), "selects 'orders:name'"),
    ],
)
def test_refused_by_create_topology_or_at_the_submit(bolt, says):
    with pytest.raises(InvalidTopologyError, match=says):
        joined(bolt.with_tumbling_window(Count(5)))


def test_a_row_is_anchored_to_its_own_tuples_only():
    class FailsOne(CaptureBolt):
        def prepare(self, conf, context, collector):
            self.collector = collector

        def execute(self, tup):
            (self.collector.fail if tup[0] == "o1" else self.collector.ack)(tup)

    builder = TopologyBuilder()
    feeders = {"orders": FeederSpout(["order", "user"]), "users": FeederSpout(["id", "name"])}
    bolt = ab().select("order, name").with_tumbling_window(Duration(10))
    declarer = builder.set_bolt("join", bolt)
    for name, feeder in feeders.items():
        builder.set_spout(name, feeder)
        declarer.global_grouping(name)
    builder.set_bolt("fails", FailsOne()).shuffle_grouping("join")
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit_topology("topology", None, builder.create_topology())
        for number in (1, 2):
            feeders["orders"].feed([f"o{number}", number], number)
            feeders["users"].feed([number, "name"], number)
        cluster.advance_time(1)
    for feeder in feeders.values():
        assert (feeder.tracker.acked, feeder.tracker.failed) == ([2], [1])
