"""Acks, anchors and failures of windows."""

from pystorm_spark import Bolt, FailedException, LocalCluster, ReportedFailedException, TopologyBuilder
from pystorm_spark.testing import FeederSpout
from pystorm_spark.windowing import Count, Duration, EveryCount, WindowedBolt
from tests.windowing.running import Noting, Run


class Does(WindowedBolt):
    """Calls a function of (bolt, window)."""

    outputs = ("value",)

    def __init__(self, action):
        self.action = action

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, window):
        self.action(self, window)


class FailsWhatItGets(Bolt):
    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.collector.fail(tup)


def feed_two(bolt, *then, conf=None):
    """Two tuples into a tumbling window of two, behind which everything fails; (acked, failed, errors)."""
    spout, builder = FeederSpout(["value"]), TopologyBuilder()
    builder.set_spout("spout", spout)
    builder.set_bolt("windows", bolt).shuffle_grouping("spout")
    builder.set_bolt("fails", FailsWhatItGets()).shuffle_grouping("windows")
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit_topology("topology", conf, builder.create_topology())
        for value in range(2 + len(then)):
            spout.feed([value], value)
        cluster.wait_until_idle()
        errors = [error.exception for error in cluster.topology_info("topology").components["windows"].errors]
        return sorted(spout.tracker.acked), sorted(spout.tracker.failed), errors


def two(action):
    return Does(action).with_tumbling_window(Count(2))


def test_tuples_of_a_tumbling_window_are_acked_right_after_execute():
    with Run(Noting().with_tumbling_window(Duration(10))) as run:
        run.feed("a")
        run.advance(9)
        assert run.acked == []
        run.advance(1)
        assert run.acked == [0]


def test_tuples_of_a_sliding_window_are_acked_when_no_window_to_come_can_hold_them():
    with Run(Noting().with_window(Duration(30), Duration(10))) as run:
        run.feed("a")
        run.advance(29)
        assert run.acked == []
        run.advance(1)
        assert run.acked == [0]


def test_what_execute_emits_is_anchored_to_all_tuples_of_the_window():
    assert feed_two(two(lambda bolt, window: bolt.collector.emit([1]))) == ([], [0, 1], [])


def test_java_s_forms_without_an_anchor_are_anchored_too():
    assert feed_two(two(lambda bolt, window: bolt.collector.emit("default", [1])))[1] == [0, 1]


def test_other_anchors_replace_them():
    assert feed_two(two(lambda bolt, window: bolt.collector.emit([1], anchors=window.get()[0])))[:2] == ([1], [0])
    assert feed_two(two(lambda bolt, window: bolt.collector.emit(window.get()[0], [1])))[:2] == ([1], [0])


def test_empty_anchors_are_none():
    assert feed_two(two(lambda bolt, window: bolt.collector.emit([1], anchors=())))[:2] == ([0, 1], [])


class EmitsInPrepare(Noting):
    outputs = ("window",)

    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        collector.emit(["prepared"])


def test_what_prepare_emits_is_unanchored():
    with Run(EmitsInPrepare().with_window(Count(1))) as run:
        run.feed("a")
        assert run.seen[0] == "prepared"
        assert run.acked == [0]


def acks_the_first(bolt, window):
    bolt.collector.ack(window.get()[0])
    bolt.collector.emit([len(window)])


def test_a_bolt_may_ack_single_tuples_itself(caplog):
    assert feed_two(two(acks_the_first))[:2] == ([0], [1])
    assert "ignored" not in caplog.text


def fails_the_first(bolt, window):
    bolt.collector.fail(window.get()[0])


def test_a_tuple_that_the_bolt_has_failed_stays_in_its_windows(caplog):
    def action(bolt, window):
        bolt.collector.emit([[tup[0] for tup in window]], anchors=())
        if len(window) == 1:
            fails_the_first(bolt, window)

    with Run(Does(action).with_window(Count(2), Count(1))) as run:
        run.feed("a")
        run.feed("b")
        run.feed("c")
        assert run.seen == [["a"], ["a", "b"], ["b", "c"]]
        assert (run.acked, run.failed) == ([1], [0])
        assert "ignored" not in caplog.text


def raises(bolt, window):
    bolt.collector.emit([1], anchors=())
    raise ValueError("no good")


def test_an_exception_fails_all_tuples_of_the_window_and_is_reported_once_with_its_bounds():
    acked, failed, errors = feed_two(two(raises))
    assert (acked, failed) == ([], [0, 1])
    (error,) = errors
    assert "the window (…, 0] raised ValueError: no good" in error


def test_failed_exception_does_the_same_unreported():
    def fails(bolt, window):
        raise FailedException("quiet")

    assert feed_two(two(fails)) == ([], [0, 1], [])


def test_reported_failed_exception_is_reported():
    def fails(bolt, window):
        raise ReportedFailedException("loud")

    assert "ReportedFailedException: loud" in feed_two(two(fails))[2][0]


def test_what_has_failed_leaves_the_windows_and_the_task_goes_on():
    def action(bolt, window):
        values = [tup[0] for tup in window]
        bolt.collector.emit([values], anchors=())
        if values == ["a", "b"]:
            raise ValueError("no good")

    with Run(Does(action).with_window(Count(2), Count(1))) as run:
        for value in "abcd":
            run.feed(value)
        assert run.seen == [["a"], ["a", "b"], ["c"], ["c", "d"]]
        assert run.failed == [0, 1]


def acks_one_and_raises(bolt, window):
    first, second = window.get()
    bolt.collector.emit([1], anchors=second)
    bolt.collector.ack(first)
    raise ValueError("after an ack")


def test_explicit_anchors_own_acks_and_an_exception_inside_one_window(caplog):
    acked, failed, errors = feed_two(two(acks_one_and_raises))
    assert (acked, failed) == ([0], [1])
    assert len(errors) == 1
    assert "ignored" not in caplog.text


def test_restart_starts_the_slot_anew_also_where_the_clock_fires_the_window():
    def action(bolt, window):
        raise ValueError("no good")

    conf = {"topology.bolt.on.error": "restart", "topology.slot.max.restarts": 5}
    for bolt in (Does(action).with_tumbling_window(Count(1)), Does(action).with_tumbling_window(Duration(10))):
        with Run(bolt, conf) as run:
            run.feed("a")
            run.advance(10)
            (error,) = run.errors
            assert "raised ValueError: no good" in error
            run.feed("b")
            run.advance(10)
            assert len(run.errors) == 2


class TellsMetrics(Noting):
    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        self.context = context

    def execute(self, window):
        names = ("late-tuples", "watermark-ms", "held-tuples")
        found = {name: self.context.registered_metric(name).get_value_and_reset() for name in names}
        self.collector.emit([(window.timing, found)], anchors=())


def test_metrics_tell_of_late_and_held_tuples_and_of_the_watermark():
    bolt = TellsMetrics().with_tumbling_window(Duration(10)).with_trigger(EveryCount(2)).with_timestamp_field("at")
    with Run(bolt, fields=("value", "at")) as run:
        for at in (25, 27):
            run.feed("early", at)
        run.advance(1000)
        for at in (3, 4):
            run.feed("late", at)
        run.feed("last", 1000)
        run.advance(1000)
        assert run.seen[:2] == [
            ("early", {"late-tuples": 0, "watermark-ms": None, "held-tuples": 2}),
            ("on-time", {"late-tuples": 2, "watermark-ms": 1000, "held-tuples": 3}),
        ]
