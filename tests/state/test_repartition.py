"""Moving the state of a bolt to another number of tasks."""

import os
import shlex
import shutil
import sys

import pytest

from pystorm_spark import CheckpointError, Fields, InvalidTopologyError, TopologyBuilder
from pystorm_spark.checkpoint.files import PosixFiles
from pystorm_spark.checkpoint.store import CheckpointStore
from pystorm_spark.repartition import main, repartition_state
from tests.checkpoint.raised_crashes import crashed_at
from tests.state.components import EXACTLY_ONCE, Count, Replaying, Source, counting

WORDS = [f"word-{number}" for number in range(40)]
ONCE = dict.fromkeys(WORDS, 1)
JAVA = {"topology.fields.grouping.hash": "java"}


def run(cluster, source, tasks, conf=None, topology=None):
    """Count the words of `source` until they are committed; return the committed counts."""
    cluster.submit_topology("words", conf, topology or counting(source, tasks=tasks))
    cluster.advance_time(1)
    return cluster.read_state("words", "count")


def states(source):
    """Return the state that each task got at its start."""
    return [call[1] for call in source.take_calls() if call[0] == "init_state"]


@pytest.mark.parametrize("conf", [{}, EXACTLY_ONCE, JAVA], ids=["at-least-once", "exactly-once", "java"])
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (4, 3), (2, 5)])
def test_every_key_is_found_by_another_number_of_tasks(start, folder, conf, before, after):
    source = Source(*WORDS)
    cluster = start()
    run(cluster, source, before, conf)
    cluster.shutdown()
    counts = repartition_state(folder, "words", "count", after)
    source.add(*WORDS)
    source.take_calls()
    assert run(start(), source, after, conf) == dict.fromkeys(WORDS, 2)
    assert [len(state) for state in states(source)] == counts
    assert sum(counts) == len(WORDS)


def test_the_command_in_the_error_of_a_restart_with_other_tasks_moves_the_keys(start, folder, capsys):
    source, cluster = Source(*WORDS), start()
    run(cluster, source, 2)
    with pytest.raises(CheckpointError, match=r"set_num_tasks\(2\), or move the keys: python -m \S+") as refused:
        start().submit_topology("words", None, counting(source, tasks=3))
    start().shutdown()
    command = str(refused.value).partition("move the keys: ")[2]
    module, *args = shlex.split(command)[2:]
    assert module == sys.modules[main.__module__].__name__
    main(args)
    assert capsys.readouterr().out.startswith("40 keys of 'count' are in 3 tasks now: ")
    assert run(start(), source, 3) == ONCE


def test_keys_can_be_moved_there_and_back_without_a_run_in_between(start, folder):
    source, cluster = Source(*WORDS), start()
    run(cluster, source, 4)
    cluster.shutdown()
    for tasks in (2, 5, 4):
        repartition_state(folder, "words", "count", tasks)
    assert run(start(), source, 4) == ONCE


def test_equal_keys_of_several_tasks_are_refused(start, folder):
    cluster = start()
    run(cluster, Source(1, 1.0), 4, JAVA)
    cluster.shutdown()
    with pytest.raises(
        CheckpointError,
        match=r"the key 1(\.0)? of 'count' is in several tasks, as topology.fields.grouping.hash: java allows",
    ):
        repartition_state(folder, "words", "count", 1)


def test_a_key_that_was_deleted_after_the_move_does_not_come_back(start, folder):
    source, cluster = Source("a", "b"), start()
    run(cluster, source, 4)
    cluster.shutdown()
    repartition_state(folder, "words", "count", 2)
    source.add("a")
    cluster = start()
    run(cluster, source, 2, topology=counting(source, Deletes(source), tasks=2))
    cluster.shutdown()
    repartition_state(folder, "words", "count", 4)
    assert run(start(), source, 4) == {"b": 1}


class Deletes(Count):
    def execute(self, tup):
        self.state.delete(tup["word"])
        self.collector.ack(tup)


def with_another(source, tasks):
    """A topology of two stateful bolts, whose states are in the same files."""
    builder = TopologyBuilder()
    builder.set_spout("words", Replaying(source))
    builder.set_bolt("count", Count(source), tasks).fields_grouping("words", Fields("word"))
    builder.set_bolt("other", Count(Source()), 2).shuffle_grouping("words")
    return builder.create_topology()


def test_the_states_of_other_bolts_are_unchanged(start, folder):
    source, cluster = Source(*WORDS), start()
    run(cluster, source, 2, topology=with_another(source, 2))
    cluster.shutdown()
    repartition_state(folder, "words", "count", 3)
    cluster = start()
    assert run(cluster, source, 3, topology=with_another(source, 3)) == ONCE
    assert cluster.read_state("words", "other") == ONCE


def test_a_moved_key_leaves_its_old_task(start, folder):
    source, cluster = Source("b"), start()  # the second of two tasks has it, and the first of three
    run(cluster, source, 2, topology=with_another(source, 2))
    cluster.shutdown()
    assert repartition_state(folder, "words", "count", 3) == [1, 0, 0]
    source.take_calls()
    run(start(), source, 3, topology=with_another(source, 3))
    assert states(source) == [{"b": 1}, {}, {}]


def test_the_commit_keeps_its_number_and_leaves_no_file_behind(start, folder):
    cluster = start()
    run(cluster, Source(*WORDS), 2)
    cluster.shutdown()
    files = PosixFiles(folder / "words" / "state")
    before = CheckpointStore(files, "words").last
    repartition_state(folder, "words", "count", 3)
    after = CheckpointStore(files, "words").last
    assert (after.txid, after.schemas, after.acked) == (before.txid, before.schemas, before.acked)
    assert after.file_names() == {name for name in files.names() if name.endswith(".part")}


def pairs(source):
    """Build a topology that is grouped on two fields, with a state whose keys have both."""
    builder = TopologyBuilder()
    builder.set_spout("words", Pairs(source))
    builder.set_bolt("count", CountsPairs(source), 2).fields_grouping("words", Fields("word", "number"))
    return builder.create_topology()


class Pairs(Replaying):
    outputs = ("word", "number")

    def emit(self, number):
        self.collector.emit([*self.source.rows[number], number], message_id=number)


class CountsPairs(Count):
    def execute(self, tup):
        self.state.put((tup["word"], tup["number"]), 1)
        self.collector.ack(tup)


def test_the_key_of_several_fields_is_the_tuple_of_their_values(start, folder):
    cluster = start()
    run(cluster, Source(*WORDS), 2, topology=pairs(Source(*WORDS)))
    cluster.shutdown()
    assert sum(repartition_state(folder, "words", "count", 3)) == len(WORDS)


class Prefixed(Count):
    def execute(self, tup):
        self.state.put(f"seen {tup['word']}", True)
        self.collector.ack(tup)


def prefixed(source):
    return counting(source, Prefixed(source), tasks=2)


def test_keys_other_than_the_grouping_fields_are_refused_without_a_function(start, folder):
    source, cluster = Source(*WORDS), start()
    run(cluster, source, 2, topology=prefixed(source))
    cluster.shutdown()
    with pytest.raises(CheckpointError, match=r"the key 'seen word-\d+' of 'count' is in task \d, but tuples with \["):
        repartition_state(folder, "words", "count", 3)
    counts = repartition_state(folder, "words", "count", 3, key=lambda key: [key.removeprefix("seen ")])
    assert run(start(), source, 3, topology=counting(source, Prefixed(source), tasks=3)).keys() == {
        f"seen {word}" for word in WORDS
    }
    assert [len(state) for state in states(source)[-3:]] == counts


def test_a_key_that_does_not_give_a_value_for_each_field_is_refused(start, folder):
    source, cluster = Source("a"), start()
    run(cluster, source, 2)
    cluster.shutdown()
    with pytest.raises(CheckpointError, match=r"grouped on 1 fields, but the key 'a' of its state gives \[\] for them"):
        repartition_state(folder, "words", "count", 3, key=lambda key: [])


def test_a_bolt_whose_input_is_not_grouped_on_fields_is_refused(start, folder):
    source, cluster = Source(*WORDS), start()
    builder = TopologyBuilder()
    builder.set_spout("words", Replaying(source))
    builder.set_bolt("count", Count(source), 2).shuffle_grouping("words")
    run(cluster, source, 2, topology=builder.create_topology())
    with pytest.raises(CheckpointError, match=r"set_num_tasks\(2\), or name another checkpoint"):
        start().submit_topology("words", None, counting(source, tasks=3))
    start().shutdown()
    with pytest.raises(CheckpointError, match="the input of 'count' is not all grouped on the same"):
        repartition_state(folder, "words", "count", 3)


def test_nothing_is_changed_while_a_driver_has_the_checkpoint(start, folder):
    run(start(), Source("a"), 2)
    with pytest.raises(SystemExit, match=f"is in use by pid {os.getpid()}"):
        main([str(folder), "words", "count", "3"])


@pytest.mark.parametrize(
    ("args", "error", "told"),
    [
        (("word", "count", 3), CheckpointError, "holds no state of a topology 'word'; did you mean 'words'"),
        (("words", "counts", 3), CheckpointError, "holds no state of 'counts'; did you mean 'count'"),
        (("words", "count", 0), InvalidTopologyError, "the number of tasks must be from 1 to 10000, got 0"),
        (("words", "count", 10**6), InvalidTopologyError, "the number of tasks must be from 1 to 10000, got 1000000"),
    ],
)
def test_unknown_topologies_and_bolts_are_refused(start, folder, args, error, told):
    cluster = start()
    run(cluster, Source("a"), 2)
    cluster.shutdown()
    with pytest.raises(error, match=told):
        repartition_state(folder, *args)


def test_a_move_that_cannot_be_written_leaves_the_commit_as_it_was(start, folder, monkeypatch):
    source, cluster = Source(*WORDS), start()
    run(cluster, source, 2)
    cluster.shutdown()

    def full(self):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(CheckpointError, match="No space left"):
        patched.setattr("pystorm_spark.checkpoint.files.sync_folder", full)
        repartition_state(folder, "words", "count", 3)
    assert run(start(), source, 2) == ONCE


def test_a_move_that_crashes_at_any_step_is_complete_or_absent_and_leaves_nothing(start, folder, tmp_path, monkeypatch):
    source, cluster = Source(*WORDS), start()
    run(cluster, source, 2)
    cluster.shutdown()
    before = CheckpointStore(PosixFiles(folder / "words" / "state"), "words").last
    removed = PosixFiles.remove

    def move(point=""):
        """Move the keys in a copy of the checkpoint; return its tasks, and the crash points that were reached."""
        copied = shutil.copytree(folder, tmp_path / f"crashed {point}")
        with crashed_at(point) as crashes:
            monkeypatch.setattr(PosixFiles, "remove", crashes.refused_when_over(removed))
            repartition_state(copied, "words", "count", 3)
        monkeypatch.undo()
        files = PosixFiles(copied / "words" / "state")
        found = CheckpointStore(files, "words")
        assert found.last.txid == before.txid
        tasks = found.last.tasks["count"]
        assert (found.last == before) == (tasks == 2)
        found.clean()
        assert found.last.file_names() == {name for name in files.names() if name.endswith(".part")}
        assert len([name for name in files.names() if name.startswith("manifest-")]) == 2
        assert sum(repartition_state(copied, "words", "count", 4)) == len(WORDS)
        return tasks, crashes.points()

    tasks, points = move()
    assert tasks == 3
    assert len(points) >= 10
    made = {point: move(point)[0] for point in points}
    assert list(made.values()) == sorted(made.values())
    assert made["manifest-written:1"] == 2
    assert made["manifest-renamed:1"] == 3


def test_another_hash_is_refused_if_keys_would_belong_to_other_tasks(start):
    run(start(), Source("a"), 2)
    with pytest.raises(
        CheckpointError, match=r"with topology.fields.grouping.hash: stable, but the topology has java, "
    ):
        start().submit_topology("words", JAVA, counting(Source(), tasks=2))
