"""The life of a topology: submit, activate, deactivate, rebalance, kill; and what a cluster reports about it."""

import logging
import math
import re
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pystorm_spark import (
    AlreadyAliveError,
    BasicBolt,
    Bolt,
    FailedException,
    InvalidConfigError,
    InvalidTopologyError,
    LocalCluster,
    NotAliveError,
    SlotLostError,
    Spout,
    StormError,
    TopologyBuilder,
    is_tick,
)
from tests.behaviour.engine import (
    ENGINES,
    NEVER_IDLE,
    OTHER_NAMES,
    OTHER_ORDERS,
    STANDING_TIME,
    advance,
    chain,
    component,
    run,
    run_until_idle,
)
from tests.behaviour.probes import Does, Fed, Rows, Sink, feed, holds, note, noted, numbers, passes_on
from tests.ids import shown
from tests.spark.components import wait_until


class Living(Rows):
    """A spout that notes when it is opened and closed."""

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        note("calls", "open")

    def activate(self):
        note("calls", "activate")

    def deactivate(self):
        note("calls", "deactivate")

    def close(self):
        note("calls", "close")


class LivingBolt(Sink):
    """A bolt that notes when it is prepared and cleaned up."""

    def prepare(self, conf, context):
        super().prepare(conf, context)
        note("calls", "prepare")

    def cleanup(self):
        note("calls", "cleanup")


# Names.


def test_a_topology_can_be_submitted_killed_and_submitted_again_many_times(cluster):
    for count in range(1, 5):
        run(cluster, chain(numbers(2), Sink()))
        assert len(noted("acked")) == 2 * count
        cluster.kill_topology("topology")

    assert cluster.list_topologies() == []


def test_a_second_topology_of_the_same_name_is_refused(cluster):
    run(cluster, chain(Living([]), LivingBolt()))

    with pytest.raises(AlreadyAliveError, match="'topology'"):
        cluster.submit_topology("topology", None, chain(numbers(1)))
    assert sorted(noted("calls")) == ["activate", "open", "prepare"]


@pytest.mark.parametrize(
    "name", ["", "a/b", "a.b", "a:b", "a\\b", "a\0b", "\ud800", None, 5, b"name", ["name"]], ids=shown
)
def test_an_invalid_name_is_refused(cluster, name):
    with pytest.raises(InvalidTopologyError, match="name"):
        cluster.submit_topology(name, None, chain(numbers(1)))


@pytest.mark.every_case(OTHER_NAMES)
@pytest.mark.parametrize("name", ["word-count", "word count", "Wörter", "日本", "a" * 200, "-", "_x", "__x", "\n"])
def test_any_other_name_is_accepted(cluster, name):
    run(cluster, chain(numbers(1)), name=name)

    assert [info.name for info in cluster.list_topologies()] == [name]


@pytest.mark.parametrize("call", ["activate", "deactivate", "rebalance", "kill_topology", "topology_info"])
@pytest.mark.parametrize("name", ["nobody", "", None, 5], ids=shown)
def test_an_unknown_name_is_not_alive(cluster, call, name):
    with pytest.raises(NotAliveError):
        getattr(cluster, call)(name)


def test_a_misspelt_name_is_an_error_with_a_suggestion(cluster):
    run(cluster, chain(numbers(1)), name="word-count")

    with pytest.raises(NotAliveError, match="did you mean 'word-count'"):
        cluster.kill_topology("wordcount")


def test_a_killed_topology_is_not_alive(cluster):
    run(cluster, chain(numbers(1)))
    cluster.kill_topology("topology")

    with pytest.raises(NotAliveError):
        cluster.topology_info("topology")


@pytest.mark.parametrize("wrong", [None, "topology", TopologyBuilder(), object()], ids=lambda w: type(w).__name__)
def test_an_object_that_is_not_a_topology_is_refused(cluster, wrong):
    with pytest.raises(InvalidTopologyError, match="create_topology"):
        cluster.submit_topology("topology", None, wrong)


@pytest.mark.parametrize("conf", ["text", 5, ["topology.debug"], [("topology.debug", True)]], ids=shown)
def test_an_object_that_is_not_a_configuration_is_refused(cluster, conf):
    with pytest.raises(InvalidConfigError, match="conf"):
        cluster.submit_topology("topology", conf, chain(numbers(1)))


# Kill.


def test_killing_closes_spouts_and_cleans_up_bolts_once(cluster):
    run(cluster, chain(Living([]), LivingBolt()))
    cluster.kill_topology("topology")

    assert sorted(noted("calls")) == ["activate", "cleanup", "close", "deactivate", "open", "prepare"]


def test_leaving_the_cluster_kills_running_topologies(cluster):
    run(cluster, chain(Living([]), LivingBolt()), name="one")
    run(cluster, chain(Living([]), LivingBolt()), name="two")
    cluster.shutdown()

    assert noted("calls").count("close") == noted("calls").count("cleanup") == 2
    assert cluster.list_topologies() == []


def test_leaving_the_cluster_after_a_kill_closes_each_component_once(cluster):
    run(cluster, chain(Living([]), LivingBolt()))
    cluster.kill_topology("topology")
    cluster.shutdown()
    cluster.shutdown()

    assert noted("calls").count("close") == noted("calls").count("cleanup") == 1


def test_every_task_is_closed(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", Living([]), 2)
    builder.set_bolt("a", LivingBolt(), 3).shuffle_grouping("spout")
    run(cluster, builder.create_topology())
    cluster.kill_topology("topology")

    assert (noted("calls").count("close"), noted("calls").count("cleanup")) == (2, 3)


def test_a_kill_that_waits_lets_tuples_in_flight_finish(cluster):
    def acks_on_tick(bolt, tup):
        if is_tick(tup):
            for held in bolt.held:
                bolt.collector.ack(held)
            bolt.held.clear()
        else:
            bolt.held.append(tup)

    run(cluster, chain(Living([["a"]]), Does(acks_on_tick)), {"topology.tick.tuple.freq.secs": 1})
    cluster.kill_topology("topology", wait_secs=2)

    assert noted("acked") == [0]
    assert noted("calls") == ["open", "activate", "deactivate", "close"]


def test_a_kill_that_waits_calls_no_next_tuple_meanwhile(cluster):
    class Counts(Spout):
        outputs = ("value",)

        def next_tuple(self):
            note("calls", "next_tuple")

        def deactivate(self):
            note("calls", "deactivate")

    run(cluster, chain(Counts()))
    cluster.kill_topology("topology", wait_secs=1)

    assert noted("calls").index("deactivate") == len(noted("calls")) - 1


def test_a_kill_does_not_wait_for_tuples_unless_told(cluster):
    run(cluster, chain(numbers(1), Does(holds)))
    cluster.kill_topology("topology")

    assert noted("acked") == noted("failed") == []


# Several at once.


def test_topologies_do_not_affect_each_other(cluster):
    cluster.submit_topology("one", None, chain(Rows([["1"]]), Sink()))
    cluster.submit_topology("two", None, chain(Rows([["2"]]), Does(holds)))
    run_until_idle(cluster)
    cluster.kill_topology("one")

    assert noted("a") == [["1"]]
    assert cluster.topology_info("two").pending == 1
    assert [info.name for info in cluster.list_topologies()] == ["two"]


def test_one_topology_object_may_run_under_two_names(cluster):
    topology = chain(numbers(1), Sink())
    cluster.submit_topology("one", None, topology)
    cluster.submit_topology("two", None, topology)
    run_until_idle(cluster)

    assert noted("acked") == [0, 0]
    assert len({info.id for info in cluster.list_topologies()}) == 2


def test_deactivating_one_topology_leaves_the_others_active(cluster):
    for name in ("one", "two"):
        cluster.submit_topology(name, None, chain(Fed(), Sink()))
    cluster.deactivate("one")
    feed("spout", ["x"], 1)
    run_until_idle(cluster)

    assert component(cluster, "spout", "two").emitted == 1
    assert (cluster.topology_info("one").status, cluster.topology_info("two").status) == ("INACTIVE", "ACTIVE")


# What a cluster reports.


class Splits(BasicBolt):
    """Emits two words for each sentence; a sentence "bad" fails."""

    outputs = ("word",)

    def execute(self, tup, collector):
        if tup[0] == "bad":
            raise FailedException
        for word in tup[0].split():
            collector.emit([word])


def test_the_counts_of_a_known_topology_are_exact(cluster):
    builder = TopologyBuilder()
    builder.set_spout("sentences", Rows([["a b"]] * 9 + [["bad"]]))
    builder.set_bolt("split", Splits(), 2).shuffle_grouping("sentences")
    builder.set_bolt("count", Sink(), 3).all_grouping("split")
    builder.set_bolt("audit", Does(holds)).shuffle_grouping("sentences")
    run(cluster, builder.create_topology())

    def counts(id_):
        info = component(cluster, id_)
        return (info.kind, info.tasks, info.emitted, info.transferred, info.executed, info.acked, info.failed)

    assert counts("sentences") == ("spout", 1, 10, 20, 0, 0, 1)
    assert counts("split") == ("bolt", 2, 18, 54, 10, 9, 1)
    assert counts("count") == ("bolt", 3, 0, 0, 54, 54, 0)
    assert counts("audit") == ("bolt", 1, 0, 0, 10, 0, 0)
    # "audit" holds the nine that did not fail.
    assert cluster.topology_info("topology").pending == 9


TABLE = r"""topology: ACTIVE, up \d+ s, \d workers?, 0 pending
component  kind   tasks  emitted  executed  acked  failed  latency ms  errors
spout      spout      1        3                3       0 +[\d.,]+       0
a          bolt       1        0         3      3       0 +[\d.,]+       0"""


def test_a_topology_and_its_handle_print_as_the_same_table(cluster):
    handle = run(cluster, chain(numbers(3), Sink()))

    assert re.fullmatch(TABLE, str(cluster.topology_info("topology")))
    assert re.fullmatch(TABLE, str(handle))


@pytest.mark.local_only(STANDING_TIME)
def test_counts_are_of_user_streams_only(cluster):
    conf = {"topology.tick.tuple.freq.secs": 1, "topology.message.timeout.secs": 20}
    run(cluster, chain(numbers(3), Does(passes_on, ["value"]), Sink()), conf)
    cluster.deactivate("topology")
    advance(cluster, 0.5)

    assert [component(cluster, id_).emitted for id_ in ("spout", "a", "b")] == [3, 3, 0]
    assert set(cluster.topology_info("topology").components) == {"spout", "a", "b"}


def test_a_topology_info_describes_the_topology(cluster):
    conf = {"topology.message.timeout.secs": 7, "my.own": [1, {"x": None}]}
    handle = run(cluster, chain(numbers(1), Does(holds)), conf)
    advance(cluster, 1)

    info = cluster.topology_info("topology")
    assert (info.name, info.id, info.status, info.pending) == ("topology", handle.id, "ACTIVE", 1)
    assert info.uptime_secs >= 1
    assert info.workers >= 1
    assert info.conf["topology.message.timeout.secs"] == 7
    assert info.conf["my.own"] == [1, {"x": None}]
    assert info.conf["topology.name"] == "topology"


def test_later_changes_of_the_configuration_do_not_affect_the_topology(cluster):
    conf = {"my.own": [1]}
    run(cluster, chain(numbers(1)), conf)
    conf["my.own"].append(2)

    assert cluster.topology_info("topology").conf["my.own"] == [1]


def test_the_status_follows_the_topology(cluster):
    cluster.submit_topology("topology", None, chain(numbers(1)), active=False)
    assert cluster.topology_info("topology").status == "INACTIVE"
    cluster.activate("topology")
    assert cluster.topology_info("topology").status == "ACTIVE"
    cluster.deactivate("topology")
    assert cluster.topology_info("topology").status == "INACTIVE"


def test_a_status_once_taken_does_not_change(cluster):
    run(cluster, chain(Fed(), Sink()))
    before = cluster.topology_info("topology")
    feed("spout", ["x"], 1)
    run_until_idle(cluster)

    assert before.components["a"].executed == 0
    assert cluster.topology_info("topology").components["a"].executed == 1


def test_the_id_begins_with_the_name_and_equals_that_of_the_context(cluster):
    class Asks(Sink):
        def prepare(self, conf, context):
            note("id", context.storm_id)

    handle = run(cluster, chain(numbers(0), Asks()))

    assert noted("id") == [handle.id]
    assert handle.id.startswith("topology-")
    assert handle.name == "topology"


def test_await_termination_returns_whether_the_topology_has_ended(cluster):
    handle = run(cluster, chain(numbers(1)))
    assert handle.await_termination(timeout=0) is False
    cluster.kill_topology("topology")

    assert handle.await_termination(timeout=0) is True
    assert handle.await_termination() is True


# Rebalance.


def test_a_rebalance_starts_new_instances_of_all_tasks(cluster):
    run(cluster, chain(Living([["a"]]), LivingBolt()))
    cluster.rebalance("topology", num_workers=2)
    run_until_idle(cluster)

    calls = noted("calls")
    assert calls.count("open") == calls.count("prepare") == 2
    assert calls.count("close") == calls.count("cleanup") == 1
    assert calls.index("close") < len(calls) - 1 - calls[::-1].index("open")
    # A fresh instance: it emits its row again.
    assert noted("a") == [["a"], ["a"]]


def test_a_rebalance_keeps_the_counts(cluster):
    run(cluster, chain(numbers(3), Sink()))
    cluster.rebalance("topology")
    run_until_idle(cluster)

    assert component(cluster, "spout").emitted == 6
    assert component(cluster, "a").executed == component(cluster, "a").acked == 6


def test_a_rebalance_keeps_errors_and_id_and_conf(cluster):
    def execute(bolt, tup):
        raise ValueError("before")

    handle = run(cluster, chain(Living([["a"]]), Does(execute)), {"my.own": 1})
    cluster.rebalance("topology", num_workers=3)

    info = cluster.topology_info("topology")
    assert (info.id, info.conf["my.own"], info.conf["topology.workers"]) == (handle.id, 1, 3)
    assert info.components["a"].errors[0].exception == "ValueError: before"


@pytest.mark.local_only(STANDING_TIME)
def test_a_rebalance_loses_pending_tuples_without_ack_or_fail(cluster):
    run(cluster, chain(numbers(2), Does(holds)))
    cluster.rebalance("topology")

    assert cluster.topology_info("topology").pending == 0
    assert noted("acked") == noted("failed") == []


def test_a_rebalance_that_waits_lets_tuples_in_flight_finish(cluster):
    def acks_on_tick(bolt, tup):
        if is_tick(tup):
            for held in bolt.held:
                bolt.collector.ack(held)
            bolt.held.clear()
        else:
            bolt.held.append(tup)

    run(cluster, chain(numbers(1), Does(acks_on_tick)), {"topology.tick.tuple.freq.secs": 1})
    cluster.rebalance("topology", wait_secs=2)

    assert noted("acked")[0] == 0


@pytest.mark.every_case(OTHER_ORDERS)
@pytest.mark.parametrize("active", [True, False])
def test_a_rebalance_keeps_the_status(cluster, active):
    run(cluster, chain(numbers(1), Sink()))
    if not active:
        cluster.deactivate("topology")
    cluster.rebalance("topology")
    run_until_idle(cluster)

    assert cluster.topology_info("topology").status == ("ACTIVE" if active else "INACTIVE")
    assert len(noted("acked")) == (2 if active else 1)


def test_a_rebalance_of_a_topology_that_was_never_active_opens_nothing(cluster):
    cluster.submit_topology("topology", None, chain(Living([]), LivingBolt()), active=False)
    cluster.rebalance("topology")
    assert noted("calls") == []
    cluster.activate("topology")
    run_until_idle(cluster)

    assert sorted(noted("calls")) == ["activate", "open", "prepare"]


@pytest.mark.parametrize("workers", [0, -1, 1.5, "2", True], ids=shown)
def test_a_rebalance_to_an_impossible_number_of_workers_is_refused(cluster, workers):
    run(cluster, chain(Living([]), Sink()))

    with pytest.raises(InvalidConfigError, match=r"topology\.workers"):
        cluster.rebalance("topology", num_workers=workers)
    assert noted("calls") == ["open", "activate"]
    assert cluster.topology_info("topology").status == "ACTIVE"


def test_a_rebalance_after_which_a_task_cannot_open_ends_the_topology(cluster):
    class OpensOnce(Rows):
        def open(self, conf, context, collector):
            super().open(conf, context, collector)
            note("calls", "open")
            if len(noted("calls")) > 1:
                raise ValueError("once is enough")

    handle = run(cluster, chain(OpensOnce([["a"]]), Sink()))
    with pytest.raises(StormError, match="open of 'spout'"):
        cluster.rebalance("topology")

    with pytest.raises(StormError, match="open of 'spout'"):
        handle.await_termination(timeout=0)
    assert cluster.list_topologies() == []


@pytest.mark.parametrize("call", ["rebalance", "kill_topology"])
@pytest.mark.parametrize("wait_secs", ["1", None, -1, True, math.nan, math.inf, 1e12], ids=shown)
def test_an_invalid_time_to_wait_is_refused_and_changes_nothing(cluster, call, wait_secs):
    run(cluster, chain(Living([]), Sink()))

    with pytest.raises(InvalidConfigError, match="wait_secs must be a number of seconds, 0 or more, got"):
        getattr(cluster, call)("topology", wait_secs=wait_secs)
    assert noted("calls") == ["open", "activate"]
    assert cluster.topology_info("topology").status == "ACTIVE"


# Calls that overlap.


@pytest.fixture
def live(engine, request):
    """A cluster in real time, in which one call can come while another one waits."""
    with LocalCluster() if engine == "local" else ENGINES[engine](request) as made:
        yield made


@pytest.fixture
def beside():
    """Makes a call in another thread; returns a future of its result or exception."""
    with ThreadPoolExecutor() as pool:
        yield pool.submit


def await_status(cluster, status):
    wait_until(lambda: cluster.topology_info("topology").status == status)


def works(cluster):
    """Whether a row that is fed now arrives."""
    feed("spout", ["row"], 1)
    wait_until(lambda: noted("a") == [["row"]])
    return True


@pytest.mark.parametrize("call", ["rebalance", "activate", "deactivate"])
def test_a_topology_that_is_being_rebalanced_can_only_be_killed(live, beside, call):
    handle = live.submit_topology("topology", None, chain(Living([]), Sink()))
    rebalance = beside(live.rebalance, "topology", wait_secs=60)
    await_status(live, "REBALANCING")

    with pytest.raises(
        StormError, match="'topology' is being rebalanced; until the rebalance ends it can only be killed"
    ):
        getattr(live, call)("topology")
    live.kill_topology("topology")

    with pytest.raises(NotAliveError, match="'topology' has ended"):
        rebalance.result()
    assert handle.await_termination(timeout=0) is True
    assert noted("calls") == ["open", "activate", "deactivate", "close"]


@pytest.mark.parametrize("call", ["rebalance", "activate", "deactivate"])
def test_a_topology_that_is_being_killed_can_only_be_killed_again(live, beside, call):
    live.submit_topology("topology", None, chain(Living([]), Sink()))
    kill = beside(live.kill_topology, "topology", wait_secs=60)
    await_status(live, "KILLED")

    with pytest.raises(NotAliveError, match="'topology' is being killed"):
        getattr(live, call)("topology")
    assert live.topology_info("topology").status == "KILLED"
    live.kill_topology("topology")

    assert kill.result() is None
    assert noted("calls") == ["open", "activate", "deactivate", "close"]


@pytest.fixture
def interrupt_at(beside):
    """Presses Ctrl-C when a topology has a status."""

    def interrupt(cluster, status):
        await_status(cluster, status)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    return lambda cluster, status: beside(interrupt, cluster, status)


def test_a_rebalance_that_is_interrupted_while_it_waits_leaves_the_topology_as_it_was(live, interrupt_at):
    live.submit_topology("topology", None, chain(Fed(), Sink()))
    interrupt_at(live, "REBALANCING")

    with pytest.raises(KeyboardInterrupt):
        live.rebalance("topology", wait_secs=60)

    assert live.topology_info("topology").status == "ACTIVE"
    assert works(live)


def test_a_kill_that_is_interrupted_while_it_waits_ends_the_topology_at_once(live, interrupt_at):
    handle = live.submit_topology("topology", None, chain(Living([]), Sink()))
    interrupt_at(live, "KILLED")

    with pytest.raises(KeyboardInterrupt):
        live.kill_topology("topology", wait_secs=60)

    assert handle.await_termination(timeout=0) is True
    assert noted("calls") == ["open", "activate", "deactivate", "close"]


class OpensSlowly(Living):
    """Waits in `open` until the test notes something under "gate"."""

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        wait_until(lambda: noted("gate"))


def test_a_shutdown_waits_for_a_submit_in_progress_and_kills_its_topology(live, beside):
    submit = beside(live.submit_topology, "topology", None, chain(OpensSlowly([]), Sink()))
    wait_until(lambda: noted("calls"))
    shutdown = beside(live.shutdown)
    wait_until(lambda: is_shut(live))
    assert not shutdown.done()

    note("gate", "open")
    shutdown.result()

    with pytest.raises(StormError, match="the cluster was shut down while topology 'topology' was submitted"):
        submit.result()
    assert noted("calls")[-1] == "close"


def is_shut(cluster):
    """Whether the cluster refuses a topology because of a shutdown, not because the name is taken."""
    with pytest.raises(StormError) as raised:
        cluster.submit_topology("topology", None, chain(numbers(0)))
    return not isinstance(raised.value, AlreadyAliveError)


def test_nothing_can_be_submitted_after_the_shutdown(cluster):
    cluster.shutdown()

    with pytest.raises(StormError, match="the cluster has been shut down; make a new one"):
        cluster.submit_topology("topology", None, chain(Living([])))
    assert noted("calls") == []


# Simulated time.


def test_nothing_happens_between_calls_in_simulated_time():
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit_topology("topology", None, chain(numbers(1), Sink()))

        assert component(cluster, "spout").emitted == 0
        cluster.wait_until_idle()
        assert component(cluster, "spout").emitted == 1


@pytest.mark.parametrize("call", [lambda cluster: cluster.advance_time(1), lambda cluster: cluster.wait_until_idle()])
def test_real_time_cannot_be_advanced(call):
    with LocalCluster() as cluster, pytest.raises(StormError, match="simulated_time=True"):
        call(cluster)


@pytest.mark.parametrize("secs", [-3, float("nan"), float("inf")])
def test_time_moves_forward_only_and_by_a_number_of_seconds(secs):
    told = f"advance_time takes a number of seconds, 0 or more, got {secs}"
    with LocalCluster(simulated_time=True) as cluster, pytest.raises(StormError, match=told):
        cluster.advance_time(secs)


@pytest.mark.local_only(NEVER_IDLE)
def test_time_goes_on_in_a_topology_whose_tuples_circulate_forever(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(1))
    builder.set_bolt("there", Does(goes_round, ["value"])).shuffle_grouping("spout").shuffle_grouping("back")
    builder.set_bolt("back", Does(goes_round, ["value"])).shuffle_grouping("there")
    cluster.submit_topology("topology", {"topology.message.timeout.secs": 1}, builder.create_topology())

    advance(cluster, 2)

    assert noted("failed") == [0]


def goes_round(bolt, tup):
    bolt.collector.emit(tup.values, anchors=tup)
    bolt.collector.ack(tup)


# Real time.

_signals = {}


@pytest.fixture
def all_seen():
    """Set by `Signals` when it has seen its last tuple."""
    _signals["all seen"] = threading.Event()
    yield _signals["all seen"]
    _signals.clear()


class Signals(Bolt):
    """Acks, and sets the event at the tuple whose value is "last"."""

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.collector.ack(tup)
        if tup[0] == "last":
            _signals["all seen"].set()


class HearsOfAll(Rows):
    """Sets the event when its last row is acked."""

    def ack(self, message_id):
        super().ack(message_id)
        if message_id == len(self.rows) - 1:
            _signals["all seen"].set()


class AlwaysRaises(Bolt):
    def execute(self, tup):
        raise ValueError("poison")


def test_a_topology_runs_by_itself_in_real_time(all_seen):
    with LocalCluster() as cluster:
        handle = cluster.submit_topology("topology", None, chain(HearsOfAll([["x"], ["y"]]), Sink()))
        assert all_seen.wait(10)
        assert handle.await_termination(timeout=0) is False
    assert handle.await_termination(timeout=0) is True
    assert noted("acked") == [0, 1]


def test_leaving_the_cluster_leaves_no_thread_behind(all_seen):
    before = set(threading.enumerate())
    with LocalCluster() as cluster:
        cluster.submit_topology("one", None, chain(Rows([["last"]]), Signals()))
        cluster.submit_topology("two", None, chain(Living([]), LivingBolt()))
        assert all_seen.wait(10)

    assert set(threading.enumerate()) == before
    assert noted("calls").count("close") == noted("calls").count("cleanup") == 1


def test_an_exception_inside_the_with_block_kills_the_topology():
    before = set(threading.enumerate())
    with pytest.raises(RuntimeError), LocalCluster() as cluster:
        cluster.submit_topology("topology", None, chain(Living([]), LivingBolt()))
        raise RuntimeError("in the block")

    assert set(threading.enumerate()) == before
    assert noted("calls").count("close") == noted("calls").count("cleanup") == 1


def test_a_submit_that_fails_leaves_no_thread_behind():
    class Broken(Rows):
        def open(self, conf, context, collector):
            raise ValueError("no")

    before = set(threading.enumerate())
    with LocalCluster() as cluster:
        with pytest.raises(StormError, match="open of 'spout'"):
            cluster.submit_topology("topology", None, chain(Broken([])))

        assert set(threading.enumerate()) == before
        assert cluster.list_topologies() == []


def test_submitting_and_killing_many_times_in_real_time(all_seen):
    before = set(threading.enumerate())
    with LocalCluster() as cluster:
        for _ in range(20):
            cluster.submit_topology("topology", None, chain(Rows([["last"]]), Signals()))
            assert all_seen.wait(10)
            cluster.kill_topology("topology")
            all_seen.clear()

        assert set(threading.enumerate()) == before


def test_killing_from_another_thread_ends_the_wait():
    with LocalCluster() as cluster:
        handle = cluster.submit_topology("topology", None, chain(numbers(0)))
        killer = threading.Thread(target=cluster.kill_topology, args=("topology",))
        killer.start()
        assert handle.await_termination(timeout=10) is True
        killer.join()


def test_await_termination_raises_the_error_that_ended_the_topology():
    conf = {"topology.bolt.on.error": "restart", "topology.slot.max.restarts": 1}
    with LocalCluster() as cluster:
        handle = cluster.submit_topology("topology", conf, chain(Rows([["apple"]]), AlwaysRaises()))
        with pytest.raises(SlotLostError, match="'apple'"):
            handle.await_termination(timeout=10)
        with pytest.raises(NotAliveError):
            cluster.kill_topology("topology")


def test_a_deactivated_topology_is_idle_in_real_time(all_seen):
    with LocalCluster() as cluster:
        cluster.submit_topology("topology", None, chain(Fed(), Signals()), active=False)
        feed("spout", ["last"], 1)
        assert not all_seen.is_set()
        cluster.activate("topology")
        assert all_seen.wait(10)


def test_the_status_can_be_read_while_the_topology_works(all_seen):
    """From many threads at once, while the topology's own thread changes the counts."""
    problems = []

    def ask(cluster):
        try:
            while not all_seen.is_set():
                cluster.topology_info("topology")
                cluster.list_topologies()
        except BaseException as exc:  # the assertion below reports it
            problems.append(exc)

    with LocalCluster() as cluster:
        cluster.submit_topology("topology", None, chain(Rows([["x"]] * 3000 + [["last"]]), Signals()))
        askers = [threading.Thread(target=ask, args=(cluster,)) for _ in range(4)]
        for asker in askers:
            asker.start()
        finished = all_seen.wait(10)
        for asker in askers:
            asker.join()

    assert finished
    assert problems == []


def test_two_clusters_in_one_process_do_not_affect_each_other(all_seen):
    with LocalCluster() as one, LocalCluster(simulated_time=True) as two:
        one.submit_topology("topology", None, chain(Rows([["last"]]), Signals()))
        two.submit_topology("topology", None, chain(Rows([["x"]]), Sink()))
        two.wait_until_idle()
        assert all_seen.wait(10)
        one.kill_topology("topology")

        assert one.list_topologies() == []
        assert [info.name for info in two.list_topologies()] == ["topology"]


class SignalsTick(Bolt):
    def execute(self, tup):
        if is_tick(tup):
            _signals["all seen"].set()


class SignalsFail(Rows):
    def fail(self, message_id):
        _signals["all seen"].set()


class RaisesFirst(HearsOfAll):
    def next_tuple(self):
        note("calls", "next_tuple")
        if len(noted("calls")) == 1:
            raise ConnectionError("not yet")
        super().next_tuple()


@pytest.mark.parametrize(
    "topology",
    [
        lambda: chain(numbers(0), SignalsTick()),
        lambda: chain(SignalsFail([["x"]]), Does(holds)),
        lambda: chain(RaisesFirst([["x"]]), Sink()),
    ],
    ids=["ticks", "timeouts", "pauses"],
)
def test_time_passes_in_real_time(all_seen, topology):
    conf = {"topology.tick.tuple.freq.secs": 0.01, "topology.message.timeout.secs": 0.05}
    with LocalCluster() as cluster:
        cluster.submit_topology("topology", conf, topology())

        assert all_seen.wait(10)


class UsesThePool(Bolt):
    def prepare(self, conf, context, collector):
        context.shared_executor.submit(_signals["all seen"].set)


def test_the_pool_that_tasks_share_ends_with_the_topology(all_seen):
    before = set(threading.enumerate())
    with LocalCluster() as cluster:
        cluster.submit_topology("topology", None, chain(numbers(0), UsesThePool()))
        assert all_seen.wait(10)

    assert set(threading.enumerate()) == before


def test_debugging_logs_every_emit(cluster, caplog):
    with caplog.at_level(logging.INFO):
        run(cluster, chain(Rows([["apple"]]), Sink()), {"topology.debug": True})

    assert any("spout" in line and "apple" in line and "default" in line for line in caplog.text.splitlines())


def test_a_rebalance_in_real_time(all_seen):
    with LocalCluster() as cluster:
        cluster.submit_topology("topology", None, chain(Rows([["last"]]), Signals()))
        assert all_seen.wait(10)
        all_seen.clear()
        cluster.rebalance("topology")
        assert all_seen.wait(10)
