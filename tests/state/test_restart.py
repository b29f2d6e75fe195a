"""Restarts: a topology continues from the last commit of its folder, or says why it cannot."""

import os
import re
import shutil
import threading

import pytest

from pystorm_spark import Bolt, CheckpointError, LocalCluster, NotAliveError, StormError, TopologyBuilder, is_tick
from pystorm_spark.checkpoint import merging
from pystorm_spark.checkpoint.envelope import CHECKSUM_BYTES
from pystorm_spark.checkpoint.files import PosixFiles
from pystorm_spark.local import commits as local_commits
from pystorm_spark.testing import CaptureBolt, FeederSpout
from tests.state.components import EXACTLY_ONCE, Count, Replaying, Source, counting
from tests.state.crash_sweep import AtOnce

GUARANTEES = pytest.mark.parametrize("conf", [{}, EXACTLY_ONCE], ids=["at-least-once", "exactly-once"])


def run(cluster, source, conf=None, **made):
    """Count the words of `source` until they are committed."""
    cluster.submit_topology("words", conf, counting(source, **made))
    cluster.advance_time(1)


def count(cluster):
    return cluster.read_state("words", "count")


def restored(source):
    """Return the state that the bolts got at their start."""
    found = {}
    for state in [call[1] for call in source.calls if call[0] == "init_state"]:
        found.update(state)
    return found


@GUARANTEES
def test_a_topology_continues_from_the_last_commit(start, conf):
    source = Source("a", "b")
    run(start(), source, conf)
    source.add("a")
    source.take_calls()
    cluster = start()
    run(cluster, source, conf)
    assert restored(source) == {"a": 1, "b": 1}
    assert count(cluster) == {"a": 2, "b": 1}


@GUARANTEES
def test_uncommitted_messages_are_replayed_after_a_crash(start, conf):
    source = Source("a")
    cluster = start()
    run(cluster, source, conf)
    source.add("a", "b")
    cluster.wait_until_idle()
    cluster = start(crash=True)
    run(cluster, source, conf)
    assert count(cluster) == {"a": 2, "b": 1}


@GUARANTEES
def test_killing_a_topology_commits(start, conf):
    source = Source("a", "b")
    cluster = start()
    cluster.submit_topology("words", conf, counting(source))
    cluster.wait_until_idle()
    cluster.kill_topology("words")
    assert source.acked == [0, 1]
    assert source.calls[-3:] == [("pre_prepare", 1), ("pre_commit", 1), ("cleanup",)]
    run(cluster, source, conf)
    assert count(cluster) == {"a": 1, "b": 1}


def test_the_last_commit_of_an_exactly_once_topology_waits_for_tuples_in_flight(start):
    source = Source("a", "lost")
    cluster = start()
    cluster.submit_topology("words", EXACTLY_ONCE, counting(source))
    cluster.wait_until_idle()
    cluster.kill_topology("words")
    assert source.acked == []
    assert source.calls[-1] == ("cleanup",)
    source.take_calls()
    cluster.submit_topology("words", EXACTLY_ONCE, counting(source))
    assert restored(source) == {}


class TellsWhenDeactivated(Replaying):
    def deactivate(self):
        self.source.is_deactivated.set()


class AcksInAThread(Count):
    """Acks in a thread of its own, after the spout was deactivated."""

    def execute(self, tup):
        def ack():
            self.source.is_deactivated.wait()
            self.collector.ack(tup)

        self.state.put(tup["word"], 1)
        threading.Thread(target=ack).start()
        self.source.executed.set()


class AcksAtATick(Count):
    """Acks what it holds at the next tick after the spout was deactivated."""

    held = None

    def component_configuration(self):
        return {"topology.tick.tuple.freq.secs": 0.05}

    def execute(self, tup):
        if not is_tick(tup):
            self.held = tup
            self.state.put(tup["word"], 1)
            self.source.executed.set()
        elif self.held is not None and self.source.is_deactivated.is_set():
            self.collector.ack(self.held)
            self.held = None


@pytest.mark.parametrize("bolt", [AcksInAThread, AcksAtATick])
def test_the_last_commit_waits_for_bolts_that_ack_later(folder, bolt):
    source = Source("a")
    source.executed, source.is_deactivated = threading.Event(), threading.Event()
    conf = {**EXACTLY_ONCE, "topology.state.checkpoint.interval.ms": 60_000}
    with LocalCluster(checkpoint=folder) as cluster:
        cluster.submit_topology("words", conf, counting(source, bolt(source), spout=TellsWhenDeactivated(source)))
        assert source.executed.wait(60)
        cluster.kill_topology("words")
        assert source.acked == [0]
        source.take_calls()
        cluster.submit_topology("words", conf, counting(source))
    assert restored(source) == {"a": 1}


class NeverAcks(Count):
    def execute(self, tup):
        self.source.executed.set()


def test_a_missing_last_commit_is_logged(folder, monkeypatch, caplog):
    monkeypatch.setattr("pystorm_spark.local.commits.LAST_COMMIT_TIMEOUT_SECS", 0.01)
    source = Source("lost")
    source.executed = threading.Event()
    with LocalCluster(checkpoint=folder) as cluster:
        cluster.submit_topology("words", EXACTLY_ONCE, counting(source, NeverAcks(source)))
        assert source.executed.wait(60)
        cluster.kill_topology("words")
    assert "topology words ends without its last commit" in caplog.text


class FailingDisk:
    """Refuses some writes of manifests once it is `full`."""

    def __init__(self, monkeypatch, tries):
        self.tries, self.full, self.failed = tries, threading.Event(), 0
        self._write = PosixFiles.write
        monkeypatch.setattr(PosixFiles, "write", lambda *args: self.write(*args))

    def write(self, files, name, data):
        if self.full.is_set() and name.startswith("manifest") and self.failed < self.tries:
            self.failed += 1
            raise CheckpointError("the disk is full")
        self._write(files, name, data)


class Tells(Count):
    def execute(self, tup):
        super().execute(tup)
        self.source.executed.set()


@GUARANTEES
@pytest.mark.parametrize("tries", [1, 1000], ids=["for-a-moment", "for-good"])
def test_a_last_commit_that_cannot_be_written_is_retried(folder, monkeypatch, caplog, conf, tries):
    monkeypatch.setattr("pystorm_spark.local.commits.LAST_COMMIT_RETRY_SECS", 0.05)
    monkeypatch.setattr("pystorm_spark.local.commits.LAST_COMMIT_TIMEOUT_SECS", 60 if tries == 1 else 0.5)
    disk, source = FailingDisk(monkeypatch, tries), Source("a")
    source.executed = threading.Event()
    conf = {**conf, "topology.state.checkpoint.interval.ms": 60_000}
    with LocalCluster(checkpoint=folder) as cluster:
        cluster.submit_topology("words", conf, counting(source, Tells(source)))
        assert source.executed.wait(60)
        disk.full.set()
        cluster.kill_topology("words")
    assert disk.failed > 1 or tries == 1
    assert source.acked == ([0] if tries == 1 else [])
    assert ("topology words ends without its last commit: it could not be written" in caplog.text) == (tries > 1)


@GUARANTEES
def test_a_manifest_in_doubt_that_cannot_be_removed_does_not_prevent_a_start(start, monkeypatch, conf):
    source, is_broken = Source("a"), threading.Event()
    write, remove = PosixFiles.write, PosixFiles.remove

    def doubtful_write(files, name, data):
        if is_broken.is_set() and any(name.startswith("manifest-") and name[-1] == "2" for name in files.names()):
            raise CheckpointError("no more room")
        write(files, name, data)
        if is_broken.is_set() and name.startswith("manifest"):
            raise CheckpointError("it may be there, or not")

    def failing_remove(files, name):
        if is_broken.is_set() and name.startswith("manifest"):
            raise CheckpointError("it cannot be removed")
        remove(files, name)

    monkeypatch.setattr(PosixFiles, "write", doubtful_write)
    monkeypatch.setattr(PosixFiles, "remove", failing_remove)
    cluster = start()
    run(cluster, source, conf)
    is_broken.set()
    source.add("b")
    cluster.advance_time(5)
    assert source.acked == [0]
    is_broken.clear()
    monkeypatch.setattr(PosixFiles, "write", write)
    cluster = start(crash=True)
    run(cluster, source, conf)
    assert count(cluster) in ({"a": 1, "b": 1}, {"a": 1, "b": 2})


def test_a_commit_is_made_once_a_manifest_in_doubt_can_be_removed(start, monkeypatch):
    source, disk = Source("a"), iter([True, True, True])
    remove = PosixFiles.remove

    def failing_remove(files, name):
        if name.startswith("manifest") and next(disk, False):
            raise CheckpointError("it cannot be removed")
        remove(files, name)

    cluster = start()
    run(cluster, source)
    full = FailingDisk(monkeypatch, 1)
    full.full.set()
    monkeypatch.setattr(PosixFiles, "remove", failing_remove)
    source.add("b")
    cluster.advance_time(5)
    assert (source.acked, count(cluster)) == ([0, 1], {"a": 1, "b": 1})
    assert next(disk, None) is None


def test_a_rebalance_without_a_last_commit_is_logged(start, monkeypatch, caplog):
    disk, source = FailingDisk(monkeypatch, 1), Source("a")
    cluster = start()
    cluster.submit_topology("words", None, counting(source))
    cluster.wait_until_idle()
    disk.full.set()
    cluster.rebalance("words")
    assert "topology words restarts without its last commit" in caplog.text


def test_an_exception_of_a_bolt_in_the_last_commit_is_logged(start, caplog):
    source = Source("a")
    cluster = start()
    cluster.submit_topology("words", None, counting(source, Count(source, {"pre_prepare"})))
    cluster.wait_until_idle()
    cluster.kill_topology("words")
    assert "ends without its last commit: all uncommitted changes were rolled back" in caplog.text


def test_a_topology_whose_last_commit_raises_is_still_killed(start):
    source = Source("a")
    cluster = start()
    cluster.submit_topology("words", None, counting(source, Count(source, {"pre_prepare"})))
    cluster.wait_until_idle()
    cluster.kill_topology("words")
    assert source.calls[-1] == ("cleanup",)


def test_an_internal_error_in_the_last_commit_does_not_prevent_the_kill(start, monkeypatch):
    source = Source("a")
    cluster = start()
    cluster.submit_topology("words", None, counting(source))
    cluster.wait_until_idle()
    monkeypatch.setattr("pystorm_spark.checkpoint.manifest.Manifest.to_bytes", None)
    cluster.kill_topology("words")
    assert source.calls[-1] == ("cleanup",)


class Holds(Count):
    """Hands its collector and its held tuple to the test."""

    def execute(self, tup):
        self.source.held = self.collector, tup


class Raises(Bolt):
    def execute(self, tup):
        raise ValueError("while it drains")


def test_a_topology_that_crashes_while_it_drains_is_still_killed(start):
    source, cluster = Source("a"), start()
    builder = TopologyBuilder()
    builder.set_spout("words", Replaying(source))
    builder.set_bolt("count", Holds(source)).shuffle_grouping("words")
    builder.set_bolt("next", Raises()).shuffle_grouping("count")
    conf = {**EXACTLY_ONCE, "topology.bolt.on.error": "restart"}
    cluster.submit_topology("words", conf, builder.create_topology())
    cluster.wait_until_idle()
    collector, tup = source.held
    collector.emit(["a", 1], anchors=tup)
    cluster.kill_topology("words")
    assert source.calls[-1] == ("cleanup",)


def test_a_rebalance_keeps_the_state(start):
    source = Source("a", "b")
    cluster = start()
    cluster.submit_topology("words", None, counting(source, tasks=2))
    cluster.wait_until_idle()
    source.take_calls()
    cluster.rebalance("words")
    source.add("a")
    cluster.advance_time(1)
    assert restored(source) == {"a": 1, "b": 1}
    assert count(cluster) == {"a": 2, "b": 1}


@pytest.fixture
def merged_at_once(monkeypatch):
    """Merge parts at once, where a thread would be asked to."""
    monkeypatch.setattr(local_commits, "ThreadPoolExecutor", AtOnce)


def test_runs_of_one_commit_each_do_not_pile_up_files(start, folder, merged_at_once):
    source = Source()
    for _ in range(40):
        source.add("a")
        run(start(), source)
    assert restored(source) == {"a": 39}
    assert len(os.listdir(folder / "words" / "state")) < 20


class RaisesAtEachNewCrash(Count):
    def execute(self, tup):
        crash = "crashed", tup["word"]
        if tup["word"].startswith("crash") and crash not in self.source.calls:
            self.source.calls.append(crash)
            raise ValueError("once for each")
        super().execute(tup)


def test_unused_merged_files_are_removed(start, folder, merged_at_once, monkeypatch):
    monkeypatch.setattr(merging, "FEWEST", 2)
    source, cluster = Source("a"), start()
    run(cluster, source, {"topology.bolt.on.error": "restart"}, bolt=RaisesAtEachNewCrash(source))
    for number in range(10):
        source.add("a")
        cluster.advance_time(2)
        source.add(f"crash {number}")
        cluster.advance_time(2)
    merged = list((folder / "words" / "state").glob("merged-*"))
    assert len(merged) <= 3  # files of the last two commits, and for the next one
    assert count(cluster)["a"] == 11


def test_a_restarted_slot_continues_from_the_last_commit(cluster):
    source = Source("a")
    run(cluster, source, {"topology.bolt.on.error": "restart"}, bolt=RaisesOnce(source))
    source.add("b", "crash")
    source.take_calls()
    cluster.advance_time(2)
    assert restored(source) == {"a": 1}
    assert count(cluster) == {"a": 1, "b": 1, "crash": 1}


class RaisesOnce(Count):
    def execute(self, tup):
        if tup["word"] == "crash" and len([call for call in self.source.calls if call == ("execute", "b")]) == 1:
            raise ValueError("once")
        super().execute(tup)


def test_without_a_folder_each_submit_starts_with_an_empty_state(cluster):
    source = Source("a")
    run(cluster, source)
    cluster.kill_topology("words")
    source.take_calls()
    run(cluster, source)
    assert restored(source) == {}


def test_topologies_of_one_folder_have_separate_states(start):
    first, second, cluster = Source("a"), Source("b"), start()
    cluster.submit_topology("first", None, counting(first))
    cluster.submit_topology("second", None, counting(second))
    cluster.advance_time(1)
    assert (cluster.read_state("first", "count"), cluster.read_state("second", "count")) == ({"a": 1}, {"b": 1})


def test_a_folder_in_use_is_refused(start, folder):
    start()
    with pytest.raises(CheckpointError, match=rf"{folder}.* is in use by pid {os.getpid()}"):
        LocalCluster(checkpoint=folder)


# Reading.


def test_read_state_gives_committed_values_only(cluster):
    source = Source("a", "b")
    run(cluster, source)
    source.add("a", "c")
    cluster.wait_until_idle()
    assert (count(cluster), cluster.read_state("words", "count", "a")) == ({"a": 1, "b": 1}, 1)
    assert cluster.read_state("words", "count", "c") is None


def test_read_state_gives_nothing_before_the_first_start(cluster):
    cluster.submit_topology("words", None, counting(Source("a")), active=False)
    assert count(cluster) == {}


def test_a_state_that_is_not_yet_open_is_not_read_as_empty(start):
    source = Source("a")
    run(start(), source)
    cluster = start()
    cluster.submit_topology("words", None, counting(source), active=False)
    with pytest.raises(StormError, match="the state of 'count' cannot be read before the topology is activated"):
        count(cluster)
    cluster.activate("words")
    assert count(cluster) == {"a": 1}


def test_read_state_reads_keys_of_all_tasks(cluster):
    source = Source(*"abcdefgh")
    run(cluster, source, tasks=4)
    assert count(cluster) == dict.fromkeys("abcdefgh", 1)
    assert [cluster.read_state("words", "count", word) for word in "abcdefgh"] == [1] * 8


def test_an_invalid_read_is_refused(cluster):
    run(cluster, Source("a"))
    with pytest.raises(NotAliveError, match="did you mean 'words'"):
        cluster.read_state("word", "count")
    with pytest.raises(StormError, match="the topology has no stateful bolt 'counts'; did you mean 'count'"):
        cluster.read_state("words", "counts")
    with pytest.raises(StormError, match="the topology has no stateful bolt 'words'"):
        cluster.read_state("words", "words")
    with pytest.raises(TypeError, match="unhashable"):
        cluster.read_state("words", "count", ["a"])
    assert count(cluster) == {"a": 1}


# Changed topologies.


def test_another_number_of_tasks_is_refused(start):
    run(start(), Source("a"), tasks=2)
    with pytest.raises(
        CheckpointError, match=r"the state of 2 tasks of 'count', but the topology has 3, .*num_tasks\(2"
    ):
        start().submit_topology("words", None, counting(Source(), tasks=3))


def test_a_stateful_bolt_that_is_gone_is_refused(start):
    run(start(), Source("a"))
    builder = TopologyBuilder()
    builder.set_spout("words", Replaying(Source()))
    builder.set_bolt("counts", Count(Source())).shuffle_grouping("words")
    with pytest.raises(CheckpointError, match=r"holds state of 'count', which the .* did you mean 'counts'"):
        start().submit_topology("words", None, builder.create_topology())


def test_the_only_stateful_bolt_that_is_gone_is_refused(start):
    run(start(), Source("a"))
    builder = TopologyBuilder()
    builder.set_spout("words", Replaying(Source()))
    builder.set_bolt("count", print).shuffle_grouping("words")
    with pytest.raises(CheckpointError, match=r"holds state of 'count', which the .* there is none; name another"):
        start().submit_topology("words", None, builder.create_topology())


def test_another_stateful_bolt_may_be_added(start):
    source = Source("a")
    run(start(), source)
    cluster = start()
    builder = TopologyBuilder()
    builder.set_spout("words", Replaying(source))
    builder.set_bolt("count", Count(source)).shuffle_grouping("words")
    builder.set_bolt("more", Count(source)).shuffle_grouping("words")
    source.add("b")
    cluster.submit_topology("words", None, builder.create_topology())
    cluster.advance_time(1)
    assert count(cluster) == {"a": 1, "b": 1}
    assert cluster.read_state("words", "more") == {"b": 1}


class Version2(Count):
    """Stores [count] instead of a count."""

    state_version = 2

    def migrate_state(self, state, version):
        self.note("migrate_state", version)
        for word, number in state:
            state.put(word, [number])

    def execute(self, tup):
        self.state.put(tup["word"], [self.state.get(tup["word"], [0])[0] + 1])
        if tup["word"] == "bad":
            raise ValueError("a bad word")
        self.collector.ack(tup)


def test_a_state_of_an_older_version_is_migrated_once(start):
    source = Source("a")
    run(start(), source)
    for _ in range(2):
        source.add("a")
        run(start(), source, bolt=Version2(source))
    assert restored(source) == {"a": [2]}
    assert source.calls.count(("migrate_state", 1)) == 1


def test_a_rollback_before_the_first_commit_keeps_the_migration(start):
    source = Source("a")
    run(start(), source)
    source.add("bad", "a")
    cluster = start()
    run(cluster, source, {**EXACTLY_ONCE, "topology.max.replays": 0}, bolt=Version2(source))
    assert count(cluster) == {"a": [2]}
    source.add("bad", "a")
    cluster.advance_time(1)
    assert count(cluster) == {"a": [3]}
    assert source.calls.count(("migrate_state", 1)) == 1


def test_the_submit_raises_an_exception_of_migrate_state_with_its_name(start):
    source = Source("a")
    run(start(), source)
    with pytest.raises(StormError, match=r"^migrate_state of 'count' \(task 2\) raised RuntimeError: migrate_state of"):
        run(start(), source, bolt=Version2(source, {"migrate_state"}))


def test_a_new_state_is_not_migrated(start):
    source = Source("a")
    run(start(), source, bolt=Version2(source))
    assert ("migrate_state", 1) not in source.calls


def test_a_state_of_another_version_is_refused_without_migrate_state(start):
    source = Source("a")
    run(start(), source, bolt=Version2(source))
    with pytest.raises(
        StormError, match=r"holds version 2 of the state of Count, but its state_version is 1; define migr"
    ):
        run(start(), source)


# Damaged, missing and foreign checkpoints.


@pytest.fixture
def kept(start, folder):
    """Return the folder of a state with two commits."""
    source, cluster = Source("a"), start()
    run(cluster, source)
    source.add("b")
    cluster.advance_time(1)
    cluster.shutdown()
    return folder / "words" / "state"


def refused(start, told):
    source = Source()
    with pytest.raises(CheckpointError, match=told):
        start().submit_topology("words", None, counting(source))
    assert ("init_state", {}) not in source.calls


def test_a_damaged_newest_manifest_is_refused(start, kept):
    newest = max(kept.glob("manifest-*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    refused(start, f"{re.escape(str(newest))}' is damaged")


def test_a_missing_newest_manifest_is_refused_unless_an_older_commit_is_allowed(start, kept):
    max(kept.glob("manifest-*")).unlink()
    refused(
        start, f"'{re.escape(str(kept))}/?' has lost a manifest, .* only manifest-0+1; set topology.state.allow.older"
    )
    source = Source()
    run(start(), source, {"topology.state.allow.older.commit": True})
    assert restored(source) == {"a": 1}


def test_a_damaged_older_manifest_is_not_taken_for_a_missing_one(start, kept):
    min(kept.glob("manifest-*")).write_bytes(b"")
    for _ in range(3):
        source = Source()
        start().submit_topology("words", None, counting(source))
        assert restored(source) == {"a": 1, "b": 1}


def test_a_damaged_part_is_refused(start, kept):
    for part in kept.glob("*.part"):
        part.write_bytes(bytes([*part.read_bytes()[:-CHECKSUM_BYTES], *bytes(CHECKSUM_BYTES)]))
    told = (
        rf"{re.escape(str(kept))}/state-1-0-\w+.part' is damaged, .* topology.state.allow.older.commit: true to begin"
    )
    with pytest.raises(CheckpointError, match=told):
        start().submit_topology("words", None, counting(Source()))


def test_a_missing_part_is_refused(start, kept):
    lost = next(kept.glob("*.part"))
    lost.unlink()
    refused(start, rf"the file '{re.escape(str(lost))}', which .* needs, is missing")


def test_parts_without_a_manifest_are_refused(start, kept):
    for manifest in kept.glob("manifest-*"):
        manifest.unlink()
    refused(start, f"'{re.escape(str(kept))}/?' holds state, but no readable manifest")


def test_the_checkpoint_of_another_topology_is_refused(start, kept, folder):
    (folder / "other").mkdir(mode=0o700)
    kept.rename(folder / "other" / "state")
    with pytest.raises(
        CheckpointError, match=rf"{folder}/other/state/manifest-.* belongs to the topology 'words', not to 'ot"
    ):
        start().submit_topology("other", None, counting(Source()))


def test_a_checkpoint_of_another_version_is_refused(start, kept, monkeypatch):
    monkeypatch.setattr("pystorm_spark.checkpoint.envelope.FORMAT_VERSION", 1)
    refused(start, "has format version 2; this pystorm-spark reads version 1: use the newer one that wrote it")
    monkeypatch.setattr("pystorm_spark.checkpoint.envelope.FORMAT_VERSION", 3)
    refused(start, "has format version 2; this pystorm-spark reads version 3: use the older one that wrote it")


@pytest.mark.parametrize("mode", [0o770, 0o702], ids=oct)
def test_a_checkpoint_that_others_can_write_is_refused(start, kept, mode):
    kept.chmod(mode)
    refused(start, f"'{re.escape(str(kept))}' can be written by others")


@pytest.mark.parametrize("levels", [1, 2])
def test_a_checkpoint_below_a_folder_that_others_can_write_is_refused(start, kept, levels):
    above = kept.parents[levels - 1]
    above.chmod(0o770)
    refused(start, f"'{re.escape(str(above))}' can be written by others")


def test_a_checkpoint_may_be_in_a_folder_with_the_sticky_bit(start, kept):
    kept.parents[1].chmod(0o1777)
    start().submit_topology("words", None, counting(Source()))


def test_a_checkpoint_of_another_user_is_refused(start, kept, monkeypatch):
    owner = os.geteuid()
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    refused(start, f"'{re.escape(str(kept))}' belongs to the user {owner}, not to {owner + 1}")


def test_a_cluster_that_has_ended_refuses_a_topology_with_state(start):
    cluster = start()
    cluster.shutdown()
    with pytest.raises(StormError, match="the cluster has been shut down; make a new one"):
        cluster.submit_topology("words", None, counting(Source("a")))


def test_a_topology_whose_checkpoint_is_replaced_while_it_runs_ends_with_the_reason(start, folder, tmp_path):
    source, cluster = Source("a"), start()
    handle = cluster.submit_topology("words", None, counting(source))
    shutil.copytree(folder, tmp_path / "older")
    cluster.advance_time(1)
    shutil.rmtree(folder)
    (tmp_path / "older").rename(folder)
    source.add("a")
    cluster.advance_time(1)
    with pytest.raises(StormError, match=f"'{re.escape(str(folder))}' was removed or replaced while it was in use"):
        handle.await_termination(timeout=0)
    assert source.acked == [0]


@pytest.fixture
def running(start):
    """Run a topology until it has committed."""
    source, cluster = Source("a"), start()
    handle = cluster.submit_topology("words", None, counting(source))
    cluster.advance_time(1)
    return source, cluster, handle


@pytest.mark.parametrize("removed", ["words", "words/state", "words/state/manifest-*", "words/state/state-1-*"])
def test_a_topology_whose_files_are_removed_while_it_runs_ends_with_the_reason(running, folder, removed):
    source, cluster, handle = running
    for path in list(folder.glob(removed)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    source.add("a")
    cluster.advance_time(1)
    with pytest.raises(
        StormError, match=r"words/state' was removed or replaced while it was in use: \S+-\S+ is missing"
    ):
        handle.await_termination(timeout=0)
    assert source.acked == [0]


def test_a_topology_whose_folder_is_an_older_copy_of_it_ends_with_the_reason(running, folder, tmp_path):
    source, cluster, handle = running
    shutil.copytree(folder / "words", tmp_path / "older")
    for _ in range(2):
        source.add("a")
        cluster.advance_time(1)
    shutil.rmtree(folder / "words")
    (tmp_path / "older").rename(folder / "words")
    source.add("a")
    cluster.advance_time(1)
    with pytest.raises(StormError, match=r"was removed or replaced while it was in use: manifest-0+3 is missing"):
        handle.await_termination(timeout=0)
    assert source.acked == [0, 1, 2]


def test_a_rebalance_after_the_state_was_removed_does_not_start_empty(running, folder):
    _, cluster, _ = running
    for path in (folder / "words" / "state").iterdir():
        path.unlink()
    with pytest.raises(StormError, match="was removed or replaced while it was in use"):
        cluster.rebalance("words")


# Disks that fail.


@pytest.mark.parametrize("problem", ["No space left on device", "Read-only file system"])
@GUARANTEES
def test_a_commit_that_cannot_be_written_is_retried(start, monkeypatch, caplog, problem, conf):
    source, cluster = Source("a"), start()
    run(cluster, source, conf)

    def write(files, name, data):
        raise CheckpointError(f"the checkpoint {files.path(name)!r} cannot be written: {problem}")

    with monkeypatch.context() as patch:
        patch.setattr(PosixFiles, "write", write)
        source.add("a")
        cluster.advance_time(3)
        source.add("b")
        cluster.advance_time(3)
        assert (("execute", "b") in source.calls) is (conf != EXACTLY_ONCE)  # which pauses all spouts meanwhile
        assert (source.acked, count(cluster)) == ([0], {"a": 1})
    assert re.search(rf"commit 2 failed and will be retried: .*state-2-0\S+ cannot .*{problem}", caplog.text)
    cluster.advance_time(3)
    assert (sorted(source.acked), source.failed, count(cluster)) == ([0, 1, 2], [], {"a": 2, "b": 1})


def no_room(files, name, data):
    raise CheckpointError("there is no room")


def test_a_spout_that_reaches_no_state_goes_on_while_the_disk_is_full(start, monkeypatch):
    source, other, cluster = Source("a"), FeederSpout(["word"]), start()
    builder = TopologyBuilder()
    builder.set_spout("words", Replaying(source))
    builder.set_spout("other", other)
    builder.set_bolt("count", Count(source)).shuffle_grouping("words")
    builder.set_bolt("captured", CaptureBolt()).shuffle_grouping("other")
    cluster.submit_topology("words", None, builder.create_topology())
    monkeypatch.setattr(PosixFiles, "write", no_room)
    cluster.advance_time(3)
    other.feed(["b"], message_id=1)
    cluster.advance_time(1)
    assert (source.acked, other.tracker.acked) == ([], [1])


def test_a_spout_at_its_pending_limit_waits_for_a_full_disk_and_commits_are_retried_at_intervals(
    start, monkeypatch, caplog
):
    source, cluster = Source(*"abcdef"), start()
    cluster.submit_topology("words", {"topology.max.spout.pending": 4}, counting(source))
    monkeypatch.setattr(PosixFiles, "write", no_room)
    cluster.advance_time(5)
    assert [call for call in source.calls if call[0] == "execute"] == [("execute", word) for word in "abcd"]
    # The first try is immediate, because the pending limit is reached.
    assert caplog.text.count("failed and will be retried") == 6


def test_dead_letters_that_cannot_be_written_delay_the_commit(start, folder):
    source, cluster = Source("a", "bad"), start()
    blocker = folder / "words" / "dead-letters.jsonl"
    blocker.mkdir(parents=True)
    run(cluster, source, {**EXACTLY_ONCE, "topology.max.replays": 0})
    cluster.advance_time(3)
    assert source.acked == []
    blocker.rmdir()
    cluster.advance_time(3)
    assert sorted(source.acked) == [0, 1]
    assert len(blocker.read_text().splitlines()) == 1


def test_dead_letters_are_written_once_even_if_the_disk_keeps_failing(start, folder, monkeypatch):
    source, cluster = Source("a", "bad"), start()
    cluster.submit_topology("words", {**EXACTLY_ONCE, "topology.max.replays": 0}, counting(source))
    with monkeypatch.context() as patch:
        patch.setattr(PosixFiles, "write", no_room)
        cluster.advance_time(5)
    cluster.advance_time(2)
    assert sorted(source.acked) == [0, 1]
    assert len((folder / "words" / "dead-letters.jsonl").read_text().splitlines()) == 1


def test_dead_letters_are_written_once_even_if_the_manifest_cannot_be(start, folder, monkeypatch):
    source, cluster, write = Source("a", "bad"), start(), PosixFiles.write
    cluster.submit_topology("words", {**EXACTLY_ONCE, "topology.max.replays": 0}, counting(source))

    def write_parts_only(files, name, data):
        if name.startswith("manifest-"):
            raise CheckpointError("there is no room")
        write(files, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(PosixFiles, "write", write_parts_only)
        cluster.advance_time(5)
    cluster.advance_time(2)
    assert sorted(source.acked) == [0, 1]
    assert len((folder / "words" / "dead-letters.jsonl").read_text().splitlines()) == 1


def test_the_folder_does_not_grow_with_the_number_of_commits(start, folder):
    source, cluster = Source(), start()
    sizes = []
    cluster.submit_topology("words", None, counting(source))
    for _ in range(100):
        source.add("a", "b")
        cluster.advance_time(1)
        sizes.append(len(os.listdir(folder / "words" / "state")))
    cluster.kill_topology("words")
    assert max(sizes[50:]) <= 40
