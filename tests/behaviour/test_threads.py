"""Bolts with threads of their own that emit, ack and fail."""

import queue
import sys
import threading
import time

import pytest

from pystorm_spark import Bolt, EmitError, LocalCluster, SerializationError, TaskHook, TopologyBuilder
from tests.behaviour.engine import ENGINES, chain, component
from tests.behaviour.probes import Does, Rows, Sink, acks, attempt, holds, note, noted

WAIT_SECS = 60


@pytest.fixture
def cluster(engine, request):
    """A cluster in real time on every engine, because threads need it. No thread in this process outlives a test."""
    before = set(threading.enumerate())
    with LocalCluster() if engine == "local" else ENGINES[engine](request) as made:
        yield made
    assert engine != "local" or set(threading.enumerate()) <= before  # a thread of another test may have ended


class Listens(Rows):
    """Notes ("acked" or "failed", message id) under "settled"."""

    def ack(self, message_id):
        note("settled", ("acked", message_id))

    def fail(self, message_id):
        note("settled", ("failed", message_id))


class Threaded(Bolt):
    """Hands every tuple to `count` threads of its own, which call `work(bolt, tup)`."""

    outputs = ("value",)

    def __init__(self, work, count=1):
        self.work = work
        self.count = count

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.context = context
        self.queue = queue.Queue()
        self.threads = [threading.Thread(target=self.run) for _ in range(self.count)]
        for thread in self.threads:
            thread.start()

    def run(self):
        while (tup := self.queue.get()) is not None:
            self.work(self, tup)

    def execute(self, tup):
        self.queue.put(tup)

    def cleanup(self):
        for _ in self.threads:
            self.queue.put(None)
        for thread in self.threads:
            thread.join()


def numbers(count):
    return Listens([[number] for number in range(count)])


def take(count):
    """Wait until `count` tuples are settled, and return them."""
    deadline = time.monotonic() + WAIT_SECS
    while len(noted("settled")) < count:
        assert time.monotonic() < deadline, f"only {noted('settled')} were settled"
        time.sleep(0.005)
    return sorted(noted("settled"))


def emit_and_ack(bolt, tup):
    note("tasks", bolt.collector.emit(tup.values, anchors=tup))
    bolt.collector.ack(tup)


def emit_and_fail(bolt, tup):
    bolt.collector.emit(tup.values, anchors=tup)
    bolt.collector.fail(tup)


def test_a_thread_may_emit_and_ack(cluster):
    cluster.submit_topology("topology", None, chain(numbers(3), Threaded(emit_and_ack), Sink()))

    assert take(3) == [("acked", 0), ("acked", 1), ("acked", 2)]
    assert noted("b") == [[0], [1], [2]]
    # "__acker" 1, "a" 2, "b" 3.
    assert noted("tasks") == [[3], [3], [3]]


def test_a_thread_may_fail(cluster):
    cluster.submit_topology("topology", None, chain(numbers(2), Threaded(emit_and_fail), Sink()))

    assert take(2) == [("failed", 0), ("failed", 1)]


def test_many_threads_of_many_tasks_may_work_at_once(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(500))
    builder.set_bolt("a", Threaded(emit_and_ack, count=4), 2).shuffle_grouping("spout")
    builder.set_bolt("b", Does(acks), 2).fields_grouping("a", "value")
    cluster.submit_topology("topology", None, builder.create_topology())

    assert take(500) == [("acked", number) for number in range(500)]
    info = cluster.topology_info("topology")
    assert info.components["a"].emitted == info.components["a"].acked == info.components["b"].acked == 500
    assert info.pending == 0


def test_frequent_thread_switches_neither_lose_nor_duplicate_tuples(cluster):
    """Threads split trees while the slot's own thread acks: every count is exact."""
    count, parts = 2_000, 5

    def split(bolt, tup):
        for _ in range(parts):
            bolt.collector.emit(tup.values, anchors=tup)
        bolt.collector.ack(tup)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        builder = TopologyBuilder()
        builder.set_spout("spout", numbers(count))
        builder.set_bolt("a", Threaded(split, count=3)).shuffle_grouping("spout")
        builder.set_bolt("b", Does(acks), 2).fields_grouping("a", "value")
        cluster.submit_topology("topology", None, builder.create_topology())

        assert take(count) == [("acked", number) for number in range(count)]
        info = cluster.topology_info("topology")
    finally:
        sys.setswitchinterval(before)
    assert info.components["a"].emitted == info.components["b"].executed == info.components["b"].acked == count * parts
    assert info.components["a"].acked == info.components["spout"].acked == count
    assert info.pending == 0
    assert len(noted("settled")) == count


def test_a_tuple_that_a_thread_emits_keeps_the_tree_pending_after_its_ack(cluster):
    """The second row does not wait for the thread. Once it is acked, a wrong ack of the first would have come, too."""

    def work(bolt, tup):
        if tup[0] == 0:
            bolt.collector.emit(tup.values, anchors=tup)
        bolt.collector.ack(tup)

    cluster.submit_topology("topology", None, chain(numbers(2), Threaded(work), Does(holds)))

    assert take(1) == [("acked", 1)]
    assert cluster.topology_info("topology").pending == 1


def test_an_ack_in_execute_after_a_threads_emit_does_not_complete_the_tree_early(cluster):
    """The thread emits, then `execute` acks: as in one thread, the tree waits for the emitted tuple."""
    cluster.submit_topology("topology", None, chain(numbers(20), EmitsInAThread(), Does(fails_all)))

    assert take(20) == [("failed", number) for number in range(20)]


class EmitsInAThread(Bolt):
    outputs = ("value",)

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        thread = threading.Thread(target=self.collector.emit, args=(tup, tup.values))
        thread.start()
        thread.join()
        self.collector.ack(tup)


def fails_all(bolt, tup):
    bolt.collector.fail(tup)


@pytest.mark.parametrize("second", ["ack", "fail"])
def test_a_second_ack_or_fail_from_a_thread_is_ignored(cluster, caplog, second):
    def work(bolt, tup):
        bolt.collector.ack(tup)
        getattr(bolt.collector, second)(tup)

    cluster.submit_topology("topology", None, chain(numbers(1), Threaded(work)))
    assert take(1) == [("acked", 0)]
    cluster.kill_topology("topology")

    assert "already acked or failed" in caplog.text


def test_two_threads_that_ack_one_tuple_complete_it_once(cluster):
    def work(bolt, tup):
        barrier = threading.Barrier(2)

        def ack():
            barrier.wait(WAIT_SECS)
            bolt.collector.ack(tup)

        threads = [threading.Thread(target=ack) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    cluster.submit_topology("topology", None, chain(numbers(50), Threaded(work)))

    assert take(50) == [("acked", number) for number in range(50)]
    assert component(cluster, "a").acked == 50


def test_a_wrong_emit_in_a_thread_raises_in_that_thread(cluster):
    def work(bolt, tup):
        attempt("errors", lambda: bolt.collector.emit(["too", "many"], anchors=tup))
        attempt("errors", lambda: bolt.collector.emit(["x"], stream="nowhere"))
        attempt("errors", lambda: bolt.collector.emit(["x"], anchors="no tuple"))
        attempt("errors", lambda: bolt.collector.emit_direct(3, ["x"]))
        attempt("errors", lambda: bolt.collector.ack("no tuple"))
        attempt("errors", lambda: bolt.collector.reset_timeout("no tuple"))
        bolt.collector.ack(tup)
        attempt("errors", lambda: bolt.collector.emit(["x"], anchors=tup))

    cluster.submit_topology("topology", None, chain(numbers(1), Threaded(work), Sink()))

    assert take(1) == [("acked", 0)]
    cluster.kill_topology("topology")
    assert [type(error) for error in noted("errors")] == [EmitError] * 4 + [TypeError] * 2 + [EmitError]
    assert noted("b") == []


def test_a_value_that_cannot_be_packed_raises_in_the_thread_that_emits_it(cluster):
    def work(bolt, tup):
        attempt("errors", lambda: bolt.collector.emit([threading.Lock()], anchors=tup))
        bolt.collector.emit(["fine"], anchors=tup)
        bolt.collector.ack(tup)

    conf = {"topology.testing.always.try.serialize": True}
    cluster.submit_topology("topology", conf, chain(numbers(2), Threaded(work), Sink()))

    assert take(2) == [("acked", 0), ("acked", 1)]
    assert [type(error) for error in noted("errors")] == [SerializationError] * 2
    assert noted("b") == [["fine"], ["fine"]]


def test_a_thread_may_report_errors_and_reset_timeouts(cluster):
    def work(bolt, tup):
        bolt.collector.report_error(ValueError("from a thread"))
        bolt.collector.reset_timeout(tup)
        bolt.collector.ack(tup)

    cluster.submit_topology("topology", None, chain(numbers(1), Threaded(work)))

    assert take(1) == [("acked", 0)]
    assert [error.exception for error in component(cluster, "a").errors] == ["ValueError: from a thread"]


class NotesThreads(TaskHook):
    def emit(self, info):
        note("hook", ("emit", threading.current_thread().name))

    def bolt_ack(self, info):
        note("hook", ("ack", threading.current_thread().name))


def test_hooks_for_emits_and_acks_of_a_thread_run_in_the_tasks_own_thread(cluster):
    class Hooked(Threaded):
        def prepare(self, conf, context, collector):
            context.add_task_hook(NotesThreads())
            note("own thread", threading.current_thread().name)
            super().prepare(conf, context, collector)

    cluster.submit_topology("topology", None, chain(numbers(1), Hooked(emit_and_ack), Sink()))
    assert take(1) == [("acked", 0)]

    (own_thread,) = noted("own thread")
    assert noted("hook") == [("emit", own_thread), ("ack", own_thread)]


def test_tuples_that_one_thread_emits_keep_their_order(cluster):
    def work(bolt, tup):
        for number in range(100):
            bolt.collector.emit([number], anchors=tup)
        bolt.collector.ack(tup)

    cluster.submit_topology("topology", None, chain(numbers(1), Threaded(work), Sink()))

    assert take(1) == [("acked", 0)]
    assert noted("b") == [[number] for number in range(100)]


def test_a_thread_may_emit_while_the_topology_is_idle(cluster):
    """An emit of the bolt's own thread wakes a topology that is idle."""

    class Pushes(Threaded):
        def prepare(self, conf, context, collector):
            super().prepare(conf, context, collector)
            self.queue.put("push")

    def work(bolt, tup):
        bolt.collector.emit(["pushed"])

    cluster.submit_topology("topology", None, chain(numbers(0), Pushes(work), Tells()))

    assert take(1) == [("pushed", None)]


class Tells(Bolt):
    def execute(self, tup):
        note("settled", (tup[0], None))


def test_a_spouts_thread_may_emit(cluster):
    cluster.submit_topology("topology", None, chain(EmitsFromAThread([]), Does(acks)))

    assert take(3) == [("acked", 0), ("acked", 1), ("acked", 2)]


class EmitsFromAThread(Listens):
    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        self.thread = threading.Thread(target=self.push)
        self.thread.start()

    def push(self):
        for number in range(3):
            self.collector.emit([number], message_id=number)

    def close(self):
        self.thread.join()


def test_threads_may_go_on_emitting_while_the_topology_ends(cluster):
    """Late emits are lost, and raise nothing."""

    class Stubborn(Threaded):
        def cleanup(self):
            attempt("late emit", lambda: self.run_late())
            super().cleanup()

        def run_late(self):
            thread = threading.Thread(target=lambda: attempt("late", lambda: self.collector.emit(["late"])))
            thread.start()
            thread.join()

    cluster.submit_topology("topology", None, chain(numbers(1), Stubborn(emit_and_ack), Sink()))
    assert take(1) == [("acked", 0)]
    cluster.kill_topology("topology")

    assert noted("late emit") == [None]
    assert ["late"] not in noted("b")
