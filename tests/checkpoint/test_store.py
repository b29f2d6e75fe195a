"""The commits of a topology: the last one is restored or refused, and unneeded files are removed."""

import errno
import logging
import os
import re
import shutil
from dataclasses import replace

import pytest

from pystorm_spark.checkpoint.commit_log import CARRIED_PARTS, CommitLog
from pystorm_spark.checkpoint.envelope import FORMAT_VERSION, sealed
from pystorm_spark.checkpoint.files import PosixFiles
from pystorm_spark.checkpoint.manifest import MANIFEST_MAGIC, Manifest
from pystorm_spark.checkpoint.memory import MemoryFiles
from pystorm_spark.checkpoint.part import Part, read_sections, write_part
from pystorm_spark.checkpoint.slot_side import Assignment, SlotCheckpoint
from pystorm_spark.checkpoint.store import CheckpointStore
from pystorm_spark.errors import CheckpointError, StormError
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.topology.durable import TaskKey

A, B = TaskKey("a", 0), TaskKey("b", 1)


def part(name, *tasks, is_full=False):
    return Part(name, 1, b"", tasks, is_full)


@pytest.fixture
def files(tmp_path):
    return PosixFiles(tmp_path)


def opened(files, **options):
    return CheckpointStore(files, "words", **options)


def started(files):
    store = opened(files)
    store.clean()
    return store


def commit(files, store, txid, **changes):
    """A commit that adds a part with `txid` as its section."""
    new = write_part(files, f"p{txid}", {A: b"%d" % txid}, is_full=changes.pop("is_full", False))
    manifest = replace(store.last, txid=txid, parts=(*store.last.parts, new), **changes)
    store.publish(replace(manifest, parts=manifest.needed({A})))


def manifest_path(tmp_path, txid):
    return tmp_path / f"manifest-{txid:020d}"


def state(files, store):
    return read_sections(files, store.last.parts, {A}).get(A, [])


class TestManifest:
    def test_all_that_a_manifest_holds_is_read_again(self):
        manifest = Manifest(
            topology="wörds",
            txid=7,
            parts=(part("x.part", A), part("y.part", A, B, is_full=True)),
            tasks={"a": 3},
            schemas={"a": 2},
            acked=(part("z.part", A),),
            extra={"batch": 12, "position": [1, b"x", None, 0.5]},
        )
        assert Manifest.from_bytes(manifest.to_bytes(), "path") == manifest

    def test_tasks_need_the_parts_that_hold_them(self):
        x, y, z = part("x", A), part("y", B), part("z", A, B)
        manifest = Manifest("words", 1, (x, y, z))
        assert manifest.needed({A}) == (x, z)
        assert manifest.needed({A, B}) == (x, y, z)
        assert manifest.needed({TaskKey("other", 0)}) == ()

    def test_a_full_part_supersedes_what_is_older_for_its_tasks(self):
        x, y, z = part("x", A, B), part("y", A, is_full=True), part("z", A)
        manifest = Manifest("words", 1, (x, y, z))
        assert manifest.needed({A}) == (y, z)
        assert manifest.needed({A, B}) == (x, y, z)

    def test_a_part_whose_tasks_all_have_newer_full_parts_is_not_needed(self):
        w, x, y, z = part("w", A), part("x", A, B), part("y", A, is_full=True), part("z", B, is_full=True)
        assert Manifest("words", 1, (w, x, y)).needed({A, B}) == (x, y)
        assert Manifest("words", 1, (w, x, y, z)).needed({A, B}) == (y, z)


def test_a_new_checkpoint_has_no_commit_and_opening_writes_nothing(files):
    assert opened(files).last is None
    assert files.names() == []


def test_a_checkpoint_that_was_cleaned_has_an_empty_first_commit(files):
    started(files)
    assert opened(files).last == Manifest("words", 0)


def test_the_last_commit_is_found_again(files):
    store = started(files)
    for txid in range(1, 6):
        commit(files, store, txid, extra={"batch": txid})
        assert opened(files).last == store.last
        assert state(files, opened(files)) == [b"%d" % done for done in range(1, txid + 1)]


def test_commits_go_forward(files):
    store = started(files)
    commit(files, store, 3)
    for txid in [2, 3]:
        with pytest.raises(ValueError, match="cannot follow"):
            store.publish(Manifest("words", txid))
    with pytest.raises(ValueError, match="cannot follow"):
        store.publish(Manifest("others", 4))


def test_files_that_only_old_commits_needed_are_removed(files):
    store = started(files)
    for txid in range(1, 20):
        commit(files, store, txid, is_full=True)
        assert len(files.names()) <= 4
    assert state(files, opened(files)) == [b"19"]


def test_acked_ids_go_with_their_commit(files):
    store = started(files)
    for txid in range(1, 6):
        acked = write_part(files, f"acked{txid}", {A: b"ids"}, is_full=True)
        store.publish(Manifest("words", txid, acked=(acked,)))
    assert len(files.names()) == 4
    assert opened(files).last.acked == (acked,)


def test_parts_of_the_next_commit_survive_this_one(files):
    store = started(files)
    early = write_part(files, "early", {A: b"1"}, is_full=False)
    for txid in range(1, 5):
        commit(files, store, txid)
    assert early.name in files.names()


def test_cleaning_removes_unneeded_files_but_no_foreign_ones(files, tmp_path):
    store = started(files)
    commit(files, store, 1)
    commit(files, store, 2)
    before = {*files.names(), "driver.lock"}
    (tmp_path / "driver.lock").write_text("")
    write_part(files, "orphan", {A: b"1"}, is_full=False)
    (tmp_path / "x.part.0123abcd.tmp").write_text("")
    (tmp_path / f"manifest-{3:020d}.0123abcd.tmp").write_text("")
    opened(files).clean()
    assert set(os.listdir(tmp_path)) == before


@pytest.fixture
def three(files):
    store = started(files)
    for txid in [1, 2, 3]:
        commit(files, store, txid)
    return store


def test_any_damage_to_the_last_manifest_is_refused_and_its_path_told(files, three, tmp_path):
    path = manifest_path(tmp_path, 3)
    good = path.read_bytes()
    changed = (good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :] for place in range(len(good)))
    for damaged in [*changed, *(good[:size] for size in range(len(good))), good + b"\0"]:
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="is damaged") as raised:
            opened(files)
        assert repr(str(path)) in str(raised.value)


def test_a_damaged_manifest_is_passed_over_only_if_that_is_allowed(files, three, tmp_path, caplog):
    manifest_path(tmp_path, 3).write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        store = opened(files, allow_older=True)
    assert str(manifest_path(tmp_path, 3)) in caplog.text
    assert state(files, store) == [b"1", b"2"]
    store.clean()
    commit(files, store, 3)
    assert state(files, opened(files)) == [b"1", b"2", b"3"]


def test_a_commit_with_a_damaged_part_is_passed_over_if_that_is_allowed(files, three, tmp_path):
    (tmp_path / three.last.parts[-1].name).write_bytes(b"")
    assert state(files, opened(files, allow_older=True)) == [b"1", b"2"]


def replaced(three):
    """Replace the last commit by itself, as a repartition does; returns its name."""
    three.replace_last(three.last)
    return f"manifest-{3:020d}-000001"


def test_a_damaged_replaced_commit_does_not_hide_the_next_commit(files, three, tmp_path):
    (tmp_path / replaced(three)).write_bytes(b"")
    store = opened(files, allow_older=True)
    assert store.last.txid == 2
    store.clean()
    commit(files, store, 3)
    assert opened(files).last == store.last


def test_a_damaged_replacement_falls_back_to_the_commit_it_replaces(files, three, tmp_path):
    before, old = manifest_path(tmp_path, 3).read_bytes(), three.last
    (tmp_path / replaced(three)).write_bytes(b"")
    manifest_path(tmp_path, 3).write_bytes(before)  # as if it had not been removed yet
    assert opened(files, allow_older=True).last == old


def test_a_store_with_only_damaged_commits_is_refused(files, three, tmp_path):
    for txid in [2, 3]:
        manifest_path(tmp_path, txid).write_bytes(b"")
    with pytest.raises(CheckpointError, match="no readable manifest"):
        opened(files, allow_older=True)


def test_parts_without_a_manifest_are_refused_as_a_loss(files, three, tmp_path):
    for txid in [2, 3]:
        manifest_path(tmp_path, txid).unlink()
    with pytest.raises(CheckpointError, match="holds state, but no readable manifest") as raised:
        opened(files)
    assert str(tmp_path) in str(raised.value)


def test_a_lost_manifest_of_the_first_commit_is_refused(files, tmp_path):
    commit(files, started(files), 1)
    manifest_path(tmp_path, 1).unlink()
    with pytest.raises(CheckpointError, match=r"has lost a manifest, .* only manifest-0+; .* is empty$"):
        opened(files)


def test_parts_beside_only_one_empty_manifest_are_refused(files, tmp_path):
    started(files)
    write_part(files, "p1", {A: b"1"}, is_full=False)
    manifest_path(tmp_path, 0).unlink()
    with pytest.raises(CheckpointError, match="has lost a manifest"):
        opened(files)


def test_an_interrupted_start_is_completed_by_the_next(files, tmp_path):
    started(files)
    manifest_path(tmp_path, 0).unlink()
    assert started(files).last.txid == 0
    assert len(files.names()) == 2


def test_a_whole_manifest_in_the_place_of_another_is_refused(files, three, tmp_path):
    path = manifest_path(tmp_path, 3)
    path.write_bytes(manifest_path(tmp_path, 2).read_bytes())
    with pytest.raises(CheckpointError, match="holds the commit 2") as raised:
        opened(files)
    assert repr(str(path)) in str(raised.value)


def test_a_missing_part_is_refused_and_its_path_told(files, three, tmp_path):
    path = tmp_path / three.last.parts[0].name
    path.unlink()
    with pytest.raises(CheckpointError, match="is missing") as raised:
        opened(files)
    assert repr(str(path)) in str(raised.value)


@pytest.mark.parametrize("allow_older", [False, True])
def test_the_checkpoint_of_another_topology_is_refused(files, three, allow_older):
    with pytest.raises(CheckpointError, match="to the topology 'words', not to 'others'"):
        CheckpointStore(files, "others", allow_older=allow_older)


@pytest.mark.parametrize("allow_older", [False, True])
def test_a_checkpoint_of_a_newer_version_is_refused(files, three, tmp_path, monkeypatch, allow_older):
    with monkeypatch.context() as future:
        future.setattr("pystorm_spark.checkpoint.envelope.FORMAT_VERSION", FORMAT_VERSION + 1)
        newer = sealed(MANIFEST_MAGIC, [b"who knows"])
    manifest_path(tmp_path, 3).write_bytes(newer)
    told = f"format version {FORMAT_VERSION + 1}; .* reads version {FORMAT_VERSION}: use the newer one"
    with pytest.raises(CheckpointError, match=told):
        opened(files, allow_older=allow_older)


def test_a_manifest_too_large_to_be_one_is_not_read(files, three, tmp_path, monkeypatch):
    with open(manifest_path(tmp_path, 3), "r+b") as file:
        file.truncate(1 << 40)
    monkeypatch.setattr(files, "read", None)
    with pytest.raises(CheckpointError, match=f"it has {1 << 40} bytes"):
        opened(files)


def test_a_commit_that_fails_leaves_the_one_before_and_the_next_one_works(files, three, monkeypatch):
    def fail(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    # Once before the manifest is renamed, once after it: then nobody can tell whether the commit is durable.
    for broken in ["os.fsync", "pystorm_spark.checkpoint.files.sync_folder"]:
        before = three.last
        with monkeypatch.context() as disk:
            disk.setattr(broken, fail)
            with pytest.raises(CheckpointError, match="cannot be written: Read-only"):
                three.publish(replace(before, txid=before.txid + 1))
        assert three.last == before
        commit(files, three, before.txid + 2)
        assert opened(files).last == three.last
        assert len([name for name in files.names() if name.startswith("manifest-")]) == 2


def test_a_manifest_that_could_not_be_synced_is_gone_before_its_parts_are(files, three, monkeypatch):
    store = opened(files)

    def fail(_):
        raise OSError(errno.EIO, "no answer")

    with monkeypatch.context() as disk:
        disk.setattr("pystorm_spark.checkpoint.files.sync_folder", fail)
        with pytest.raises(CheckpointError, match="no answer"):
            store.publish(Manifest("words", 4))
    assert opened(files).last.txid == 3


def refuses_to_go_on(files, store, missing):
    with pytest.raises(StormError, match=f"removed or replaced while it was in use: {missing}") as raised:
        store.publish(replace(store.last, txid=store.last.txid + 1))
    assert not isinstance(raised.value, CheckpointError)  # it would be tried again
    assert f"manifest-{4:020d}" not in files.names()


def test_a_commit_after_one_whose_manifest_is_gone_ends_with_the_reason(files, three, tmp_path):
    manifest_path(tmp_path, 3).unlink()
    refuses_to_go_on(files, three, f"manifest-{3:020d} is missing")


def test_a_commit_that_needs_a_part_which_is_gone_ends_with_the_reason(files, three, tmp_path):
    lost = three.last.parts[0].name
    (tmp_path / lost).unlink()
    refuses_to_go_on(files, three, lost)


def test_a_commit_into_a_folder_that_is_gone_ends_with_the_reason(tmp_path):
    files = PosixFiles(tmp_path / "state")
    store = started(files)
    shutil.rmtree(tmp_path / "state")
    refuses_to_go_on(files, store, f"manifest-{0:020d} is missing")


def test_a_part_that_is_not_yet_listed_does_not_count_as_lost(files, three, monkeypatch):
    listed = files.names()
    monkeypatch.setattr(files, "names", lambda: listed)
    commit(files, three, 4)
    assert three.last.txid == 4


def test_a_commit_whose_old_files_cannot_be_removed_stands_and_they_go_later(files, three, monkeypatch, caplog):
    def fail(*_, **__):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as disk:
        disk.setattr("pathlib.Path.unlink", fail)
        commit(files, three, 4, is_full=True)
        commit(files, three, 5, is_full=True)
    assert "cannot be removed" in caplog.text
    assert opened(files).last == three.last
    commit(files, three, 6, is_full=True)
    assert len(files.names()) == 4


def test_forget_removes_only_uncommitted_files_of_the_dead_slot(files):
    log = CommitLog(CheckpointStore(files, "words"), "words", [[A], [B]])
    sides = [SlotCheckpoint(files, slot, log.assignment(slot), ValueCodec()) for slot in (0, 1)]
    written = [side.write(1, {task: b"\x90"}, {}, is_full=False) for side, task in zip(sides, (A, B), strict=True)]
    log.append(1, written, {})
    for side, task in zip(sides, (A, B), strict=True):
        side.settle()
        side.write(2, {task: b"\x90"}, {}, is_full=False)
    log.forget(1)
    kept = sorted(re.sub("-[0-9a-f]{8}.part", "", name) for name in files.names() if name.endswith(".part"))
    assert kept == ["state-1-0", "state-1-1", "state-2-0"]


def run_once(files, spouts, txids):
    """One run of a topology with these spouts; {spout: what it begins with}."""
    log = CommitLog(CheckpointStore(files, "words"), "words", [[A]], spouts=spouts)
    side = SlotCheckpoint(files, 0, log.assignment(0), ValueCodec())
    begun = side.acked(spouts)
    for txid in txids:
        acked = {TaskKey(spout, 0): f"{spout} {txid}".encode() for spout in spouts}
        log.append(txid, [side.write(txid, {A: b"\x90"}, acked, is_full=True)], {})
        side.settle()
    return begun


def test_ids_of_a_removed_spout_are_known_when_it_returns():
    files = MemoryFiles()
    run_once(files, ["rows", "others"], [1, 2])
    for txid in range(3, 3 + 2 * CARRIED_PARTS):
        run_once(files, ["others"], [txid])
    found = run_once(files, ["rows", "others"], [])
    assert found["rows"] == [b"rows 2"]
    assert len(found["others"]) == CARRIED_PARTS + 2  # with those that are in one part with the others
    for txid in range(3 + 2 * CARRIED_PARTS, 3 + 4 * CARRIED_PARTS):
        begun = run_once(files, ["rows", "others"], [txid])
    assert len(begun["rows"]) == CARRIED_PARTS + 1


def test_a_retry_removes_the_part_that_a_failed_write_left(files, monkeypatch):
    side = SlotCheckpoint(files, 0, Assignment(), ValueCodec())
    write = PosixFiles.write

    def write_states_only(self, name, data):
        if name.startswith("acked"):
            raise CheckpointError("there is no room")
        write(self, name, data)

    monkeypatch.setattr(PosixFiles, "write", write_states_only)
    for _ in range(3):
        with pytest.raises(CheckpointError):
            side.write(1, {A: b"\x90"}, {B: b"ids"}, is_full=False)
    assert len(files.names()) == 1
