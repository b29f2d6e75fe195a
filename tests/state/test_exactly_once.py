"""Exactly-once: the committed state is that of a run without failures."""

import json
import threading
import time
from collections import Counter, namedtuple
from dataclasses import make_dataclass

import pytest

from pystorm_spark import Bolt, LocalCluster, StormError, TopologyBuilder, is_tick
from tests.state.components import EXACTLY_ONCE, Count, Replaying, Source, counting


class FailsFirst(Count):
    """Fails each of `words` at its first arrival, after counting it."""

    def __init__(self, source, *words):
        super().__init__(source)
        self.words = words

    def execute(self, tup):
        word = tup["word"]
        is_first = ("execute", word) not in self.source.calls
        super().execute(tup) if word not in self.words or not is_first else self.count_and_fail(tup)

    def count_and_fail(self, tup):
        self.note("execute", tup["word"])
        self.state.put(tup["word"], 1000)
        self.collector.fail(tup)


def run(cluster, topology, **conf):
    cluster.submit_topology("words", {**EXACTLY_ONCE, **conf}, topology)
    cluster.wait_until_idle()


def wait_for_acks(source, number):
    deadline = time.monotonic() + 60
    while len(source.acked) < number:
        assert time.monotonic() < deadline, f"{len(source.acked)} are acked"
        time.sleep(0.01)


def count(cluster):
    return cluster.read_state("words", "count")


def test_a_failed_tree_rolls_back_to_the_last_commit(cluster):
    source = Source("a", "b")
    run(cluster, counting(source, FailsFirst(source, "c")))
    cluster.advance_time(1)
    source.add("a", "c", "b")
    cluster.advance_time(1)
    assert sorted(set(source.failed)) == [2, 3, 4]
    assert (sorted(source.acked), count(cluster)) == ([0, 1, 2, 3, 4], {"a": 2, "b": 2, "c": 1})
    assert source.calls.count(("pre_rollback",)) == 1


def test_the_state_object_holds_the_last_commit_when_work_goes_on_after_a_rollback(cluster):
    source = Source("a")
    run(cluster, counting(source, FailsFirst(source, "b")))
    cluster.advance_time(1)
    source.add("b")
    cluster.advance_time(1)
    assert [call[0] for call in source.calls].count("init_state") == 1
    assert count(cluster) == {"a": 1, "b": 1}


class BeginsWith(FailsFirst):
    """Puts values before the first commit, and deletes the key "gone"."""

    def init_state(self, state):
        super().init_state(state)
        state.setdefault("none", None)
        state.setdefault("total", 0)
        state.delete("gone")

    def execute(self, tup):
        self.state.put("total", self.state["total"] + 1)
        super().execute(tup)


def test_values_that_init_state_puts_survive_a_rollback_before_the_first_commit(cluster):
    source = Source("a", "b", "c")
    run(cluster, counting(source, BeginsWith(source, "b")))
    cluster.advance_time(2)
    assert count(cluster) == {"none": None, "total": 3, "a": 1, "b": 1, "c": 1}
    assert source.calls.count(("pre_rollback",)) == 1


def test_a_rollback_restores_committed_values_over_those_of_init_state(cluster):
    source = Source("a")
    run(cluster, counting(source, BeginsWith(source, "b")))
    cluster.advance_time(1)
    source.add("b", "c")
    cluster.advance_time(2)
    assert count(cluster) == {"none": None, "total": 3, "a": 1, "b": 1, "c": 1}


def test_keys_that_init_state_deletes_stay_deleted_after_a_rollback_before_the_first_commit(start):
    source = Source("gone", "a")
    run(start(), counting(source))
    source.add("b")
    cluster = start()
    run(cluster, counting(source, BeginsWith(source, "b")))
    cluster.advance_time(2)
    assert count(cluster) == {"none": None, "total": 1, "a": 1, "b": 1}


def test_at_least_once_counts_replayed_messages_again(cluster):
    source = Source("a", "b")
    topology = counting(source, FailsFirst(source, "b"))
    cluster.submit_topology("words", None, topology)
    cluster.advance_time(1)
    assert count(cluster) == {"a": 1, "b": 1001}


def test_a_message_that_fails_by_itself_too_often_is_given_up_and_the_rest_goes_on(cluster, caplog):
    source = Source("a", "bad", "b")
    run(cluster, counting(source), **{"topology.max.replays": 2})
    cluster.advance_time(2)
    assert source.calls.count(("execute", "bad")) == 3
    assert (sorted(source.acked), count(cluster)) == ([0, 1, 2], {"a": 1, "b": 1})
    assert "words: the message 1 has failed 3 times and is given up: ['bad']" in caplog.text


def test_a_rollback_because_of_another_tree_does_not_count_as_a_failure(cluster):
    source = Source("a", *["bad"] * 5)
    run(cluster, counting(source), **{"topology.max.replays": 1})
    cluster.advance_time(5)
    assert count(cluster) == {"a": 1}


def test_without_replays_a_message_is_given_up_when_it_has_failed_once(cluster):
    source = Source("bad", "a")
    run(cluster, counting(source), **{"topology.max.replays": 0})
    cluster.advance_time(2)
    assert source.calls.count(("execute", "bad")) == 1
    assert count(cluster) == {"a": 1}


def test_with_unlimited_replays_no_message_is_given_up(cluster):
    source = Source("a", "b")
    run(cluster, counting(source, FailsOften(source, times=20)), **{"topology.max.replays": None})
    cluster.advance_time(2)
    assert source.failed.count(1) == 20
    assert count(cluster) == {"a": 1, "b": 1}


class FailsOften(Count):
    def __init__(self, source, times):
        super().__init__(source)
        self.times = times

    def execute(self, tup):
        if tup["word"] == "b" and self.source.failed.count(1) < self.times:
            self.collector.fail(tup)
        else:
            super().execute(tup)


def test_a_message_that_is_given_up_is_kept_in_the_folder_with_its_values(start, folder):
    source = Source("a", "bad")
    cluster = start()
    run(cluster, counting(source), **{"topology.max.replays": 1})
    cluster.advance_time(3)
    (letter,) = map(json.loads, (folder / "words" / "dead-letters.jsonl").read_text().splitlines())
    del letter["time"]
    assert letter == {"component": "words", "message_id": "1", "values": "['bad']", "failures": 2}


def test_a_message_that_was_given_up_is_not_executed_after_a_restart(start, folder):
    source = Source("a", "bad")
    cluster = start()
    run(cluster, counting(source), **{"topology.max.replays": 0})
    cluster.advance_time(3)
    source.acked.clear()  # as if the crash came before the ack reached the source
    source.take_calls()
    cluster = start(crash=True)
    run(cluster, counting(source))
    cluster.advance_time(1)
    assert ("execute", "bad") not in source.calls
    assert sorted(source.acked) == [0, 1]
    assert len((folder / "words" / "dead-letters.jsonl").read_text().splitlines()) == 1


def test_a_tree_that_times_out_rolls_back_to_the_last_commit(cluster):
    source = Source("a", "lost")
    run(cluster, counting(source), **{"topology.message.timeout.secs": 5, "topology.max.replays": 1})
    cluster.advance_time(4)
    assert (source.acked, count(cluster)) == ([], {})
    cluster.advance_time(40)
    assert (sorted(source.acked), count(cluster)) == ([0, 1], {"a": 1})


# Committed ids.


def test_a_committed_message_that_is_emitted_again_is_acked_and_not_executed(start):
    source = Source("a", "b")
    cluster = start()
    run(cluster, counting(source))
    cluster.advance_time(1)
    source.acked.clear()
    source.take_calls()
    cluster = start(crash=True)
    source.add("a")
    run(cluster, counting(source))
    cluster.advance_time(1)
    assert [call for call in source.calls if call[0] == "execute"] == [("execute", "a")]
    assert (sorted(source.acked), count(cluster)) == ([0, 1, 2], {"a": 2, "b": 1})


class Given(Replaying):
    """Emits only the rows that the source assigns to its task."""

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        self.given = self.source.given.setdefault(context.this_task_index, [])

    def next_tuple(self):
        if self.given:
            self.emit(self.given.pop())


def test_a_committed_message_that_another_task_emits_again_is_acked_and_not_executed(cluster):
    source = Source("a", "b", "c")
    source.given = {0: [0, 1], 1: [2]}
    builder = TopologyBuilder()
    builder.set_spout("words", Given(source), 2)
    builder.set_bolt("count", Count(source)).fields_grouping("words", "word")
    run(cluster, builder.create_topology())
    cluster.advance_time(1)
    source.given[1].extend([0, 1])
    cluster.advance_time(1)
    assert (sorted(source.acked), count(cluster)) == ([0, 0, 1, 1, 2], {"a": 1, "b": 1, "c": 1})


class Patient(Replaying):
    """Delays the first row as long as the source says so."""

    def next_tuple(self):
        if not self.source.keeps_back:
            self.again.extend(self.kept)
            self.kept.clear()
        super().next_tuple()

    def emit(self, number):
        if number == 0 and self.source.keeps_back:
            self.kept.append(number)
        else:
            super().emit(number)

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        self.kept = []


def test_a_committed_message_may_be_emitted_again_many_commits_and_restarts_later(start):
    source = Source("a", "b")
    source.keeps_back = False
    cluster = start()
    run(cluster, counting(source, spout=Patient(source)))
    cluster.advance_time(1)
    source.acked.clear()
    source.keeps_back = True
    for restart in range(4):
        cluster = start(crash=True)
        cluster.submit_topology("words", EXACTLY_ONCE, counting(source, spout=Patient(source)))
        source.add("c")
        for _ in range(3):
            cluster.advance_time(1)
        assert count(cluster) == {"a": 1, "b": 1, "c": restart + 1}
    source.keeps_back = False
    cluster.advance_time(2)
    assert 0 in source.acked
    assert count(cluster) == {"a": 1, "b": 1, "c": 4}


@pytest.mark.parametrize(
    "made",
    [
        lambda n: ("part", n),
        lambda n: ["part", n],
        lambda n: {"part": n},
        lambda n: namedtuple("Offset", ["part", "at"])("part", n),
    ],
    ids=["tuples", "lists", "dicts", "named tuples"],
)
def test_a_message_id_may_be_any_value_that_can_be_stored(start, made):
    source = Source("a", "b")
    cluster = start()
    run(cluster, counting(source, spout=OtherIds(source, made)))
    cluster.advance_time(1)
    assert source.acked == [made(0), made(1)]
    source.acked.clear()
    cluster = start(crash=True)
    run(cluster, counting(source, spout=OtherIds(source, made)))
    cluster.advance_time(1)
    assert (source.acked, count(cluster)) == ([made(0), made(1)], {"a": 1, "b": 1})


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda _: threading.Lock(), r"<unlocked .*> cannot be stored, a _thread.lock cannot be pickled"),
        (make_dataclass("Offset", ["at"], frozen=True), "their class is defined in the main program or in a function"),
    ],
    ids=["no data", "local class"],
)
def test_a_message_id_that_cannot_be_recognized_ends_the_topology_with_the_name_of_the_spout(cluster, made, told):
    source = Source("a")
    handle = cluster.submit_topology("words", EXACTLY_ONCE, counting(source, spout=OtherIds(source, made)))
    cluster.advance_time(10)
    with pytest.raises(StormError, match=f"after a restart; those of 'words' do not: {told}"):
        handle.await_termination(timeout=0)


class OtherIds(Replaying):
    def __init__(self, source, made):
        super().__init__(source)
        self.made = made

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        self.acked = set()

    def emit(self, number):
        self.collector.emit(self.source.rows[number], message_id=self.made(number))

    def fail(self, message_id):
        self.again.append(0)


# Draining.


class Pairs(Bolt):
    """Passes words on in pairs, and the last one alone when a tick comes."""

    outputs = ("word",)
    most = 2

    def component_configuration(self):
        return {"topology.tick.tuple.freq.secs": 3}

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.held = []

    def execute(self, tup):
        if not is_tick(tup):
            self.held.append(tup)
        if self.held and (len(self.held) == self.most or is_tick(tup)):
            self.let_go()
            self.held = []

    def let_go(self):
        for held in self.held:
            self.collector.emit(held.values, anchors=held)
            self.collector.ack(held)


def test_a_commit_waits_for_bolts_that_hold_tuples_until_a_tick(cluster):
    source = Source("a", "b", "c")
    builder = TopologyBuilder()
    builder.set_spout("words", Replaying(source))
    builder.set_bolt("pairs", Pairs()).shuffle_grouping("words")
    builder.set_bolt("count", Count(source)).shuffle_grouping("pairs")
    run(cluster, builder.create_topology())
    cluster.advance_time(2)
    source.add("d")
    cluster.advance_time(0.5)
    assert (count(cluster), ("execute", "d") in source.calls) == ({}, False)
    cluster.advance_time(1)
    assert count(cluster) == {"a": 1, "b": 1, "c": 1}
    cluster.advance_time(5)
    assert (sorted(source.acked), source.failed) == ([0, 1, 2, 3], [])


def test_a_commit_contains_only_complete_trees(cluster):
    class Twice(Bolt):
        outputs = ("word",)

        def prepare(self, conf, context, collector):
            self.collector = collector

        def execute(self, tup):
            for _ in range(2):
                self.collector.emit(tup.values, anchors=tup)
            self.collector.ack(tup)

    source = Source("a")
    builder = TopologyBuilder()
    builder.set_spout("words", Replaying(source))
    builder.set_bolt("twice", Twice()).shuffle_grouping("words")
    builder.set_bolt("count", HoldsSecond(source)).shuffle_grouping("twice")
    run(cluster, builder.create_topology(), **{"topology.message.timeout.secs": 300})
    cluster.advance_time(10)
    assert ([call for call in source.calls if call[0] == "execute"], count(cluster)) == ([("execute", "a")] * 2, {})


class HoldsSecond(Count):
    def execute(self, tup):
        acked = ("execute", "a") in self.source.calls
        self.note("execute", tup["word"])
        self.state.put("a", self.state.get("a", 0) + 1)
        if not acked:
            self.collector.ack(tup)


# Tuples that bolts hold, and threads.


class Joins(Pairs):
    """Passes words on in threes, as one tuple anchored to all of them; a tick passes on the rest."""

    most = 3

    def let_go(self):
        self.collector.emit([" ".join(held["word"] for held in self.held)], anchors=self.held)
        for held in self.held:
            self.collector.ack(held)


class CountsEach(Count):
    """Counts the words of a text; the first text fails after it was counted."""

    def execute(self, tup):
        for word in tup["word"].split():
            self.state.put(word, self.state.get(word, 0) + 1)
        is_first = not any(call[0] == "execute" for call in self.source.calls)
        self.note("execute", tup["word"])
        self.collector.fail(tup) if is_first else self.collector.ack(tup)


@pytest.mark.parametrize("words", ["abcd", "abcde", "abc", "abcdefghijklmnop"])
@pytest.mark.parametrize("holds", [Pairs, Joins])
def test_tuples_held_across_a_rollback_are_not_counted(cluster, words, holds):
    source = Source(*words)
    builder = TopologyBuilder()
    builder.set_spout("words", Replaying(source))
    builder.set_bolt("holds", holds()).shuffle_grouping("words")
    builder.set_bolt("count", CountsEach(source)).shuffle_grouping("holds")
    run(cluster, builder.create_topology(), **{"topology.max.replays": 1})
    cluster.advance_time(30)
    assert count(cluster) == dict.fromkeys(words, 1)
    assert sorted(source.acked) == list(range(len(words)))
    assert cluster.topology_info("words").pending == 0


class Threaded(Replaying):
    """Emits new and failed rows in a thread of its own, without a pause."""

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        self.closing = threading.Event()
        self.thread = threading.Thread(target=self.emit_all)
        self.thread.start()

    def emit_all(self):
        while not self.closing.is_set():
            super().next_tuple()

    def next_tuple(self):
        pass

    def close(self):
        self.closing.set()
        self.thread.join()


def test_emits_of_a_spouts_own_thread_wait_for_the_commit():
    words = [f"word {number % 50}" for number in range(20_000)]
    source = Source(*words)
    topology = counting(source, FailsFirst(source, "word 7"), spout=Threaded(source))
    with LocalCluster() as cluster:
        conf = {**EXACTLY_ONCE, "topology.state.checkpoint.interval.ms": 20}
        cluster.submit_topology("words", conf, topology)
        wait_for_acks(source, len(words))
        assert (count(cluster), len(source.acked)) == (Counter(words), len(words))
    assert len([call for call in source.calls if call[0] == "pre_commit"]) > 1


# Time-outs.


class Slow(Count):
    def execute(self, tup):
        time.sleep(0.01)
        super().execute(tup)


def test_messages_in_a_queue_that_is_longer_than_the_timeout_are_counted_in_the_end(caplog):
    words = [f"word {number}" for number in range(200)]
    source = Source(*words)
    with LocalCluster() as cluster:
        conf = {**EXACTLY_ONCE, "topology.message.timeout.secs": 0.5, "topology.max.replays": 0}
        cluster.submit_topology("words", conf, counting(source, Slow(source)))
        wait_for_acks(source, len(words))
        assert count(cluster) == dict.fromkeys(words, 1)
    assert "some of 200 pending messages timed out after 0.5 s; limiting to 100" in caplog.text


class Batches(Count):
    """Counts words when it has three of them, or a tick comes, and fails the first "c" that it counts."""

    def __init__(self, source, clears=False):
        super().__init__(source)
        self.clears = clears

    def component_configuration(self):
        return {"topology.tick.tuple.freq.secs": 3}

    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        self.held = []

    def pre_rollback(self):
        super().pre_rollback()
        if self.clears:
            self.held = []

    def execute(self, tup):
        if not is_tick(tup):
            self.held.append(tup)
        if len(self.held) == 3 or is_tick(tup):
            for held in self.held:
                self.count(held)
            self.held = []

    def count(self, tup):
        word = tup["word"]
        self.state.put(word, self.state.get(word, 0) + 1)
        fails = word == "c" and ("execute", word) not in self.source.calls
        self.note("execute", word)
        self.collector.fail(tup) if fails else self.collector.ack(tup)


@pytest.mark.parametrize("clears", [False, True], ids=["acks at a tick", "drops all at the rollback"])
@pytest.mark.parametrize("words", ["abc", "abcd", "abcdefgh"])
def test_changes_for_rolled_back_tuples_do_not_count(cluster, words, clears):
    source = Source(*words)
    run(cluster, counting(source, Batches(source, clears)))
    cluster.advance_time(30)
    assert count(cluster) == dict.fromkeys(words, 1)
    assert sorted(source.acked) == list(range(len(words)))


def test_a_commit_does_not_wait_for_tuples_that_a_bolt_has_dropped(cluster):
    source = Source("a", "c", "d", "e")
    run(cluster, counting(source, Batches(source, clears=True)), **{"topology.message.timeout.secs": 100})
    cluster.advance_time(4.5)
    assert count(cluster) == dict.fromkeys("acde", 1)


class HoldsFirst(Bolt):
    """Holds its first tuple forever, and passes on all others."""

    outputs = ("word",)

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.first = None

    def execute(self, tup):
        if self.first is None:
            self.first = tup
            return
        self.collector.emit(tup.values, anchors=tup)
        self.collector.ack(tup)


def test_a_commit_waits_only_once_and_briefly_for_a_tuple_that_is_held_forever(cluster, caplog):
    source = Source("a", "b")
    builder = TopologyBuilder()
    builder.set_spout("words", Replaying(source))
    builder.set_bolt("holds", HoldsFirst()).shuffle_grouping("words")
    builder.set_bolt("count", FailsFirst(source, "c")).shuffle_grouping("holds")
    run(cluster, builder.create_topology(), **{"topology.message.timeout.secs": 5})
    cluster.advance_time(20)
    assert count(cluster) == {"a": 1, "b": 1}
    assert caplog.text.count("goes on although it still holds 1 rolled back tuples") == 1
    source.add("c", "d")
    cluster.advance_time(1.5)
    assert count(cluster) == dict.fromkeys("abcd", 1)


def test_unacked_tuples_without_a_tree_are_not_held(cluster):
    source, numbers = Source("a"), iter(range(200))
    builder = TopologyBuilder()
    builder.set_spout("words", Replaying(source))
    builder.set_bolt("count", Count(source)).shuffle_grouping("words")
    builder.set_spout("untracked", lambda: next(numbers, None))
    builder.set_bolt("forgets", Forgets()).shuffle_grouping("untracked")
    run(cluster, builder.create_topology())
    (forgets,) = (bolt for bolt in cluster._running["words"]._topology.slot.bolts if bolt.component_id == "forgets")
    assert forgets.stats.executed == 200
    assert not forgets.collector.held


class Forgets(Bolt):
    def prepare(self, conf, context, collector):
        pass

    def execute(self, tup):
        pass
