"""What timers and ticks of a bolt with state emit: in one commit with what the bolt has changed, or in none."""

import pytest

from pystorm_spark import TickAwareBolt, TopologyBuilder
from pystorm_spark.state import StatefulBolt
from tests.behaviour.engine import STANDING_TIME, advance, run
from tests.behaviour.probes import Replaying, note, noted, numbers

SOON = {"topology.state.checkpoint.interval.ms": 100, "topology.message.timeout.secs": 5}
EXACTLY_ONCE = {**SOON, "topology.state.guarantee": "exactly-once"}
COUNT = 30


class Counts(StatefulBolt):
    """Emits the numbers up to `COUNT`, one at a time, and remembers how many it has emitted."""

    outputs = ("number",)

    def prepare(self, conf, context, collector):
        self.context, self.collector = context, collector

    def init_state(self, state):
        self.state = state

    def emit_next(self, **anchored):
        number = self.state.get("emitted", 0)
        if number < COUNT:
            self.state.put("emitted", number + 1)
            self.collector.emit([number], **anchored)

    def execute(self, tup):
        self.collector.ack(tup)


class ByTimer(Counts):
    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        context.call_every(0.05, self.emit_next)


class ByTick(Counts, TickAwareBolt):
    def component_configuration(self):
        return {"topology.tick.tuple.freq.secs": 0.05}

    def on_tick(self, tup):
        self.emit_next()
        self.collector.ack(tup)

    execute = TickAwareBolt.execute


class AnchoredToTick(ByTick):
    def on_tick(self, tup):
        self.emit_next(anchors=tup)
        self.collector.ack(tup)


class Remembers(StatefulBolt):
    """Keeps how often each number came; does `deed(bolt, tup)` when 7 comes first, acks the rest."""

    def __init__(self, deed=None):
        self.deed = deed

    def prepare(self, conf, context, collector):
        self.context, self.collector = context, collector

    def init_state(self, state):
        self.state = state

    def execute(self, tup):
        self.state.put(tup[0], self.state.get(tup[0], 0) + 1)
        if tup[0] == 7 and self.deed is not None and not noted("deeds"):
            note("deeds", 1)
            self.deed(self, tup)
        else:
            self.collector.ack(tup)


class AcksByTick(Remembers):
    """Holds tuples until a tick comes, then does with them what the other one does at once."""

    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        self.waiting = []

    def component_configuration(self):
        return {"topology.tick.tuple.freq.secs": 0.3}

    def execute(self, tup):
        if tup.source_component != "__system":
            self.waiting.append(tup)
            return
        waiting, self.waiting = self.waiting, []
        for held in waiting:
            super().execute(held)
        self.collector.ack(tup)


def crashes(bolt, tup):
    raise ValueError("the slot shall die")


def fails(bolt, tup):
    bolt.collector.fail(tup)


def topology(emitting, remembering, tasks=2):
    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(1))
    builder.set_bolt("counts", emitting).shuffle_grouping("spout")
    builder.set_bolt("remembers", remembering, tasks).fields_grouping("counts", "number")
    return builder.create_topology()


def run_to_the_end(cluster, built, conf):
    run(cluster, built, conf)
    for _ in range(12):
        advance(cluster, 1)
        if len(cluster.read_state("topology", "remembers")) == COUNT:
            break
    advance(cluster, 1)
    assert cluster.read_state("topology", "counts") == {"emitted": COUNT}
    return cluster.read_state("topology", "remembers")


ONCE_EACH = dict.fromkeys(range(COUNT), 1)
both_guarantees = pytest.mark.parametrize("conf", [SOON, EXACTLY_ONCE], ids=["at-least-once", "exactly-once"])


@pytest.mark.parametrize("emitting", [ByTimer, ByTick, AnchoredToTick])
@both_guarantees
def test_after_a_crash_nothing_is_lost_and_nothing_counts_twice(cluster, conf, emitting):
    conf = {**conf, "topology.bolt.on.error": "restart"}

    assert run_to_the_end(cluster, topology(emitting(), Remembers(crashes)), conf) == ONCE_EACH
    assert noted("deeds") == [1]


@both_guarantees
def test_a_commit_waits_for_what_a_timer_has_caused(cluster, conf):
    conf = {**conf, "topology.bolt.on.error": "restart"}

    assert run_to_the_end(cluster, topology(ByTimer(), AcksByTick(crashes)), conf) == ONCE_EACH
    assert noted("deeds") == [1]


def test_a_tuple_that_fails_takes_all_back_with_exactly_once(cluster):
    assert run_to_the_end(cluster, topology(ByTimer(), Remembers(fails)), EXACTLY_ONCE) == ONCE_EACH
    assert noted("deeds") == [1]


def test_a_tuple_that_fails_is_in_the_commit_at_least_once(cluster):
    assert run_to_the_end(cluster, topology(ByTimer(), Remembers(fails)), SOON) == ONCE_EACH
    assert noted("deeds") == [1]


class AllAtOnce(Counts):
    """Emits all numbers in one call of a timer, 7 first."""

    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        context.call_every(0.05, self.emit_all)

    def emit_all(self):
        if not self.state.get("emitted"):
            self.state.put("emitted", COUNT)
            for number in sorted(range(COUNT), key=lambda number: number != 7):
                self.collector.emit([number])


class FailsOneAtOnce(AcksByTick):
    """Fails 7 when it comes, and crashes at the first tick that finds it with the others."""

    def execute(self, tup):
        if tup.source_component == "__system" and self.waiting and not noted("deeds"):
            note("deeds", 1)
            raise ValueError("the slot shall die")
        if tup.source_component != "__system" and tup[0] == 7:
            self.state.put(7, self.state.get(7, 0) + 1)
            self.collector.fail(tup)
        else:
            super().execute(tup)


def test_a_commit_waits_for_the_others_of_a_call_one_of_whose_tuples_failed_at_least_once(cluster):
    conf = {**SOON, "topology.bolt.on.error": "restart"}

    assert run_to_the_end(cluster, topology(AllAtOnce(), FailsOneAtOnce(), 1), conf) == ONCE_EACH
    assert noted("deeds") == [1]


class HoldsInputs(ByTimer):
    """Emits by a timer, and acks its inputs by another one."""

    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        self.waiting = []
        context.call_every(1, self.let_go)

    def let_go(self):
        while self.waiting:
            self.collector.ack(self.waiting.pop())

    def execute(self, tup):
        self.waiting.append(tup)


def test_what_a_timer_does_while_its_bolt_holds_rolled_back_tuples_leaves_nothing_behind(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", Replaying([[1]]))
    builder.set_bolt("counts", HoldsInputs()).shuffle_grouping("spout")
    builder.set_bolt("remembers", Remembers(fails)).global_grouping("counts")

    assert run_to_the_end(cluster, builder.create_topology(), EXACTLY_ONCE) == ONCE_EACH
    assert noted("deeds") == [1]


class HandsOver(ByTimer):
    """Hands calls over by a timer, which may have to wait for a commit, and while a commit is prepared."""

    def hand_over(self):
        number = self.handed_over = getattr(self, "handed_over", 0) + 1
        self.collector.run(lambda _: note("ran", number))

    def emit_next(self):
        super().emit_next()
        self.hand_over()

    def pre_prepare(self, txid):
        self.hand_over()


@both_guarantees
def test_calls_that_wait_for_a_commit_are_made_in_the_order_in_which_they_were_handed_over(cluster, conf):
    run(cluster, topology(HandsOver(), AcksByTick(), 1), conf)
    advance(cluster, 3)
    cluster.kill_topology("topology", 0)

    assert len(noted("ran")) > COUNT
    assert noted("ran") == list(range(1, len(noted("ran")) + 1))


@pytest.mark.local_only(STANDING_TIME)
def test_a_timer_that_waits_for_a_commit_is_called_once_for_all_the_times_it_missed(cluster):
    class Beats(AllAtOnce):
        def prepare(self, conf, context, collector):
            super().prepare(conf, context, collector)
            context.call_every(0.01, lambda: note("beats", round(context.monotonic(), 6)))

    run(cluster, topology(Beats(), AcksByTick(), 1), SOON)
    advance(cluster, 1)

    assert 0.3 in noted("beats")
    assert len(noted("beats")) == len(set(noted("beats"))) < 100
