"""The cluster's clock, and timers of a task."""

import threading

import pytest

from pystorm_spark import Bolt, Spout, StormError
from tests.behaviour.engine import ONE_PROCESS, STANDING_TIME, advance, chain, component, run, run_until_idle
from tests.behaviour.probes import Does, note, noted, numbers, passes_on


def kill_it():
    the_cluster.pop().kill_topology("topology", 0)


the_cluster = []  # of this process


class Prepares(Bolt):
    """Calls `function(bolt)` in `prepare`; acks whatever comes."""

    outputs = ("value",)

    def __init__(self, function):
        self.function = function

    def prepare(self, conf, context, collector):
        self.context, self.collector = context, collector
        self.function(self)

    def execute(self, tup):
        note("executed", tup[0])
        self.collector.ack(tup)


class Opens(Spout):
    """Calls `function(spout)` in `open`."""

    outputs = ("value",)

    def __init__(self, function):
        self.function = function

    def open(self, conf, context, collector):
        self.context, self.collector = context, collector
        self.function(self)


def now(component):
    return round(component.context.monotonic(), 6)


def every_twentieth(bolt):
    bolt.context.call_every(0.05, lambda: note("fired", now(bolt)))


@pytest.mark.local_only(STANDING_TIME)
def test_a_timer_fires_at_each_period_exactly(cluster):
    run(cluster, chain(numbers(0), Prepares(every_twentieth)))

    advance(cluster, 1)

    assert noted("fired") == [round(0.05 * number, 6) for number in range(1, 21)]


@pytest.mark.local_only(STANDING_TIME)
def test_time_that_passes_in_small_steps_adds_up(cluster):
    run(cluster, chain(numbers(0), Prepares(every_twentieth)))

    for _ in range(10):
        advance(cluster, 0.1)

    assert len(noted("fired")) == 20


@pytest.mark.local_only(STANDING_TIME)
def test_ticks_come_at_each_period_exactly(cluster):
    counts = Does(lambda bolt, tup: note("ticks", tup[0]))
    run(cluster, chain(numbers(0), counts), {"topology.tick.tuple.freq.secs": 0.05})

    advance(cluster, 1)

    assert len(noted("ticks")) == 20


@pytest.mark.local_only(STANDING_TIME)
def test_timers_fire_in_the_order_in_which_they_are_due(cluster):
    def sets_three(bolt):
        bolt.context.call_later(0.2, lambda: note("fired", ("second", now(bolt))))
        bolt.context.call_at(bolt.context.monotonic() + 0.1, lambda: note("fired", ("first", now(bolt))))
        bolt.context.call_later(0.2, lambda: note("fired", ("third", now(bolt))))

    run(cluster, chain(numbers(0), Prepares(sets_three)))
    advance(cluster, 1)

    assert noted("fired") == [("first", 0.1), ("second", 0.2), ("third", 0.2)]


@pytest.mark.local_only(STANDING_TIME)
def test_the_clock_of_a_context_is_that_of_the_cluster(cluster):
    def tells_time(bolt, tup):
        note("times", (bolt.context.monotonic(), bolt.context.time()))

    run(cluster, chain(numbers(0), Does(tells_time)), {"topology.tick.tuple.freq.secs": 2})
    advance(cluster, 4)

    assert noted("times") == [(2, 2), (4, 4)]


def test_a_timer_of_a_bolt_and_one_of_a_spout_emit(cluster):
    def emits_later(component):
        component.context.call_later(0.2, lambda: component.collector.emit(["later"]))

    run(cluster, chain(Opens(emits_later), Prepares(emits_later), Prepares(lambda bolt: None)))
    advance(cluster, 1)

    assert noted("executed") == ["later", "later"]


def test_a_timer_is_set_by_execute_too(cluster):
    def waits(bolt, tup):
        bolt.context.call_later(0.1, lambda: (note("fired", tup[0]), passes_on(bolt, tup)))

    run(cluster, chain(numbers(2), Does(waits, ["value"]), Prepares(lambda bolt: None)))
    advance(cluster, 1)

    assert sorted(noted("fired")) == sorted(noted("executed")) == [0, 1]
    assert sorted(noted("acked")) == [0, 1]


def test_a_cancelled_timer_does_not_fire(cluster):
    def cancels(bolt):
        once, often = (
            call(0.1, lambda: note("fired", "late")) for call in (bolt.context.call_later, bolt.context.call_every)
        )
        bolt.context.call_later(0.05, lambda: (once.cancel(), often.cancel(), often.cancel(), note("cancelled", 1)))

    run(cluster, chain(numbers(0), Prepares(cancels)))
    advance(cluster, 1)

    assert (noted("cancelled"), noted("fired")) == ([1], [])


def test_a_timer_cancels_itself(cluster):
    def fires_twice(bolt):
        fired = []
        timer = bolt.context.call_every(
            0.1, lambda: (fired.append(1), note("fired", 1), len(fired) < 2 or timer.cancel())
        )

    run(cluster, chain(numbers(0), Prepares(fires_twice)))
    advance(cluster, 1)

    assert noted("fired") == [1, 1]


def test_an_exception_in_a_timer_is_reported_and_it_fires_again(cluster):
    def raises(bolt):
        bolt.context.call_every(0.2, lambda: note("fired", 1) or {}["missing"])

    run(cluster, chain(numbers(1), Prepares(raises)))
    advance(cluster, 1)

    errors = component(cluster, "a").errors
    assert len(noted("fired")) >= 2
    assert errors[0].exception == "KeyError: 'missing'"
    assert noted("acked") == [0]


def test_timers_of_bolts_go_on_while_deactivated_and_those_of_spouts_rest(cluster):
    def beats(component):
        component.context.call_every(0.1, lambda: note(component.context.this_component_id, now(component)))

    run(cluster, chain(Opens(beats), Prepares(beats)))
    cluster.deactivate("topology")
    run_until_idle(cluster)
    before = len(noted("spout")), len(noted("a"))
    advance(cluster, 1)
    resting = len(noted("spout")) - before[0], len(noted("a")) - before[1]
    cluster.activate("topology")
    advance(cluster, 1)

    assert resting[0] == 0
    assert resting[1] >= 5
    assert len(noted("spout")) > before[0]


@pytest.mark.local_only(STANDING_TIME)
def test_a_spouts_timer_that_was_due_while_deactivated_fires_once_at_the_activation(cluster):
    def beats(spout):
        spout.context.call_every(0.3, lambda: note("fired", now(spout)))
        spout.context.call_later(0.2, lambda: note("once", now(spout)))

    run(cluster, chain(Opens(beats), Prepares(lambda bolt: None)))
    cluster.deactivate("topology")
    advance(cluster, 1)
    cluster.activate("topology")
    advance(cluster, 0.5)

    assert noted("once") == [1.0]
    assert noted("fired") == [1.0, 1.2, 1.5]


def test_a_rebalance_ends_all_timers(cluster):
    def beats(bolt):
        instance = len(noted("prepared"))
        note("prepared", instance)
        bolt.context.call_every(0.1, lambda: note(f"fired by {instance}", 1))

    run(cluster, chain(numbers(0), Prepares(beats)))
    advance(cluster, 0.5)
    cluster.rebalance("topology")
    before = len(noted("fired by 0"))
    advance(cluster, 1)

    assert noted("prepared") == [0, 1]
    assert len(noted("fired by 0")) == before > 0
    assert noted("fired by 1")


def test_a_timer_that_another_thread_sets_fires_in_the_thread_of_the_task(cluster):
    def sets_aside(bolt):
        def sets():
            bolt.context.call_later(0.1, lambda: note("threads", threading.get_ident() == bolt.thread))

        bolt.context.call_later(0, lambda: setattr(bolt, "thread", threading.get_ident()))
        setter = threading.Thread(target=sets)
        setter.start()
        setter.join()

    run(cluster, chain(numbers(0), Prepares(sets_aside)))
    advance(cluster, 1)

    assert noted("threads") == [True]


@pytest.mark.local_only(ONE_PROCESS)
def test_no_timer_fires_behind_one_that_kills_the_topology(cluster):
    the_cluster.append(cluster)

    def kills(bolt):
        bolt.context.call_later(0.1, kill_it)
        bolt.context.call_later(0.1, lambda: note("fired", "at the same time"))
        bolt.context.call_later(0.2, lambda: note("fired", "later"))

    run(cluster, chain(numbers(0), Prepares(kills)))
    advance(cluster, 1)

    assert (noted("fired"), the_cluster) == ([], [])


@pytest.mark.local_only(STANDING_TIME)
@pytest.mark.parametrize(
    ("call", "secs", "told"),
    [
        ("call_later", None, "a finite number of seconds, got None"),
        ("call_later", float("inf"), "a finite number of seconds, got inf"),
        ("call_at", True, "a finite number of seconds, got True"),
        ("call_later", 10**400, "a finite number of seconds, got 1000"),
        ("call_every", 0, "1e-09 seconds or more, got 0"),
        ("call_every", 1e-320, "1e-09 seconds or more, got 1e-320"),
        ("call_every", "1", "1e-09 seconds or more, got '1'"),
    ],
)
def test_a_time_that_is_none_is_refused(cluster, call, secs, told):
    with pytest.raises(StormError, match=f"{call} takes {told}"):
        run(cluster, chain(numbers(0), Prepares(lambda bolt: getattr(bolt.context, call)(secs, print))))


@pytest.mark.local_only(STANDING_TIME)
def test_many_cancelled_timers_leave_nothing(cluster):
    def sets_many(bolt):
        for _ in range(1000):
            bolt.context.call_later(100, print).cancel()
        bolt.context.call_later(
            0.1, lambda: note("left", len(bolt.context._services.slot_context.timers.of_bolts._heap))
        )
        bolt.context.call_later(
            0.2, lambda: note("left", len(bolt.context._services.slot_context.timers.of_bolts._heap))
        )

    run(cluster, chain(numbers(0), Prepares(sets_many)))
    advance(cluster, 1)

    assert noted("left") == [1, 0]
