"""The files of a checkpoint through Hadoop's FileSystem; `file:` stands for all file systems."""

import os
from dataclasses import replace

import pytest

from pystorm_spark.checkpoint.part import read_sections, write_part
from pystorm_spark.checkpoint.store import CheckpointStore
from pystorm_spark.errors import CheckpointError
from pystorm_spark.spark.storage.hadoop_files import HadoopFiles
from pystorm_spark.spark.storage.hadoop_folder import ONLY_NEW, HadoopFolder
from pystorm_spark.topology.durable import TaskKey

pytestmark = pytest.mark.spark

TASK = TaskKey("count", 0)


@pytest.fixture
def files(spark, tmp_path):
    return HadoopFiles(HadoopFolder(spark, f"file://{tmp_path}/state"))


class ObjectStore:
    """Hadoop's local file system with the behaviour of an object store.

    A file appears when its stream is closed. It replaces an existing one, unless an option of S3 forbids that. Renaming
    to a name that is taken raises an error; HDFS would return false.
    """

    def __init__(self, system, meanwhile=lambda: None):
        self._system = system
        self._meanwhile = meanwhile  # called while a stream is open
        self._options = {}

    def __getattr__(self, name):
        return getattr(self._system, name)

    def hasPathCapability(self, path, name):
        return name == ONLY_NEW or self._system.hasPathCapability(path, name)

    def create(self, path, overwrite):
        if not overwrite:
            self._refuse(path)
        return self._opened(path, True)

    def createFile(self, path):
        self._path = path
        return self

    def overwrite(self, allowed):
        if not allowed:
            self._refuse(self._path)
        return self

    def recursive(self):
        return self

    def opt(self, key, value):
        self._options[key] = value
        return self

    def build(self):
        return self._opened(self._path, not self._options.get(ONLY_NEW))

    def rename(self, old, new):
        self._refuse(new)
        return self._system.rename(old, new)

    def _refuse(self, path):
        if self._system.exists(path):
            self._system.create(path, False)

    def _opened(self, path, overwrite):
        self._meanwhile()
        return Upload(lambda: self._system.create(path, overwrite))


class Upload:
    """A stream whose file appears when it is closed."""

    def __init__(self, create):
        self._create = create
        self._data = b""

    def write(self, data):
        self._data += data

    def close(self):
        stream = self._create()
        stream.write(self._data)
        stream.close()


def left(tmp_path):
    """List the files in the folder, without the checksum files that Hadoop writes for local files."""
    return [name for name in os.listdir(tmp_path / "state") if not name.endswith(".crc")]


@pytest.mark.parametrize("data", [b"", b"one", os.urandom(3_000_000)], ids=["empty", "small", "large"])
def test_written_bytes_are_read_back(files, tmp_path, data):
    files.write("a.part", b"something before")
    files.write("a.part", data)
    assert files.read("a.part") == data
    assert files.size("a.part") == len(data)
    assert files.names() == left(tmp_path) == ["a.part"]


def test_a_file_is_replaced_where_renaming_replaces_none(spark, tmp_path):
    folder = HadoopFolder(spark, f"file:{tmp_path}/state")
    folder._system = ObjectStore(folder._system)
    files = HadoopFiles(folder)
    files.write("a.part", b"one")
    files.write("a.part", b"two")
    assert files.read("a.part") == b"two"
    assert left(tmp_path) == ["a.part"]


@pytest.mark.parametrize(("there", "is_made"), [(b"another", False), (b"mine", True)], ids=["lost", "unheard"])
def test_of_two_creators_of_a_new_file_one_succeeds(spark, tmp_path, there, is_made):
    folder = HadoopFolder(spark, f"file:{tmp_path}/state")
    folder._system = ObjectStore(folder._system, lambda: (tmp_path / "state" / "lock").write_bytes(there))
    folder.make()
    assert folder.create("lock", b"mine", replace=False) == is_made
    assert folder.read("lock") == there


def test_a_file_that_is_removed_is_gone_and_may_be_removed_again(files, tmp_path):
    files.write("a.part", b"one")
    files.remove("a.part")
    files.remove("a.part")
    assert files.names() == left(tmp_path) == []


def test_commits_are_found_again_and_unneeded_files_are_removed(files, tmp_path):
    store = CheckpointStore(files, "words")
    store.clean()
    for txid in [1, 2, 3]:
        part = write_part(files, f"p{txid}", {TASK: b"%d" % txid}, is_full=txid == 2)
        manifest = replace(store.last, txid=txid, parts=(*store.last.parts, part))
        store.publish(replace(manifest, parts=manifest.needed({TASK})))
    write_part(files, "orphan", {TASK: b""}, is_full=True)
    (tmp_path / "state" / "x.part.0123abcd.tmp").write_text("")

    found = CheckpointStore(files, "words")
    found.clean()
    assert read_sections(files, found.last.parts, {TASK}) == {TASK: [b"2", b"3"]}
    assert len(left(tmp_path)) == 4


def test_a_damaged_part_is_refused_by_its_path_and_an_older_commit_is_taken_where_that_is_allowed(files, tmp_path):
    store = CheckpointStore(files, "words")
    store.clean()
    for txid in [1, 2]:
        part = write_part(files, f"p{txid}", {TASK: b"%d" % txid}, is_full=True)
        store.publish(replace(store.last, txid=txid, parts=(part,)))
    damaged = tmp_path / "state" / part.name
    damaged.write_bytes(b"?" + damaged.read_bytes()[1:])

    with pytest.raises(CheckpointError, match=rf"{part.name}' is damaged: its checksum is wrong"):
        read_sections(files, CheckpointStore(files, "words").last.parts, {TASK})
    assert CheckpointStore(files, "words", allow_older=True).last.txid == 1


def test_errors_of_missing_files_and_invalid_names_name_them(files):
    with pytest.raises(CheckpointError, match=r"a\.part' cannot be read: .*FileNotFoundException"):
        files.read("a.part")
    with pytest.raises(CheckpointError, match=r"'\.\./a\.part' is not the name"):
        files.read("../a.part")


def test_a_folder_is_made_for_its_owner_only_and_refused_if_others_can_write_it(spark, files, tmp_path):
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    (tmp_path / "state").chmod(0o770)
    with pytest.raises(CheckpointError, match=r"state' can be written by others \(its mode is 0770\)"):
        HadoopFiles(HadoopFolder(spark, f"file://{tmp_path}/state"))


def test_a_file_that_others_can_write_is_not_read(files, tmp_path):
    files.write("a.part", b"one")
    assert (tmp_path / "state" / "a.part").stat().st_mode & 0o777 == 0o600
    (tmp_path / "state" / "a.part").chmod(0o620)
    with pytest.raises(CheckpointError, match=r"a\.part' can be written by others \(its mode is 0620\)"):
        files.read("a.part")


def test_a_write_does_not_recreate_a_removed_folder(files, tmp_path):
    (tmp_path / "state").rmdir()
    with pytest.raises(CheckpointError, match=r"a\.part' cannot be written: its folder is missing"):
        files.write("a.part", b"one")
    assert not (tmp_path / "state").exists()


def test_an_unknown_file_system_is_an_error(spark):
    with pytest.raises(CheckpointError, match=r"'nowhere://host/state' cannot be used: .*No FileSystem for"):
        HadoopFiles(HadoopFolder(spark, "nowhere://host/state"))


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(files, tmp_path, monkeypatch):
    files.write("a.part", b"one")
    with monkeypatch.context() as broken:
        broken.setattr(files, "_is_renamed", lambda *_: False)
        with pytest.raises(CheckpointError, match=r"a\.part' cannot be written"):
            files.write("a.part", b"another")
    assert left(tmp_path) == ["a.part"]
    assert files.read("a.part") == b"one"
