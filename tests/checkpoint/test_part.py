"""Parts: sections of bytes by task, whole or refused."""

import pytest

from pystorm_spark.checkpoint.files import PosixFiles
from pystorm_spark.checkpoint.part import Part, read_part, read_sections, write_part
from pystorm_spark.errors import CheckpointError
from pystorm_spark.topology.durable import TaskKey

A, B, C = TaskKey("a", 0), TaskKey("b", 1), TaskKey("ç", 2)


@pytest.fixture
def files(tmp_path):
    return PosixFiles(tmp_path)


def test_the_sections_that_were_written_are_read(files):
    part = write_part(files, "one", {A: b"aa", B: b"", C: b"c" * 1000}, is_full=False)
    assert read_part(files, part, {A, B, C}) == {A: b"aa", B: b"", C: b"c" * 1000}
    assert (part.tasks, part.is_full, part.size) == ((A, B, C), False, files.size(part.name))


def test_only_the_sections_of_the_tasks_that_are_asked_for_are_read(files):
    part = write_part(files, "one", {A: b"aa", C: b"c"}, is_full=True)
    assert read_part(files, part, {B, C}) == {C: b"c"}


def test_no_two_parts_have_the_same_name(files):
    assert (
        write_part(files, "one", {A: b""}, is_full=True).name != write_part(files, "one", {A: b""}, is_full=True).name
    )


def test_a_part_travels_as_plain_values(files):
    part = write_part(files, "one", {A: b"aa", C: b"c"}, is_full=True)
    assert Part.from_plain(part.to_plain()) == part


def test_sections_are_in_order_and_begin_with_the_last_full_one(files):
    parts = [
        write_part(files, "one", {A: b"a1", B: b"b1"}, is_full=False),
        write_part(files, "two", {B: b"b2"}, is_full=True),
        write_part(files, "three", {A: b"a3", B: b"b3", C: b"c3"}, is_full=False),
    ]
    assert read_sections(files, parts, {A, B}) == {A: [b"a1", b"a3"], B: [b"b2", b"b3"]}


def damage(file):
    """The file with each of its bytes changed, with each of its ends cut off, and grown."""
    for place in range(len(file)):
        yield file[:place] + bytes([file[place] ^ 1]) + file[place + 1 :]
        yield file[:place]
    yield file + b"\0"


def test_any_damage_to_a_part_is_found_and_its_path_told(files, tmp_path):
    part = write_part(files, "one", {A: b"aa", C: b"c"}, is_full=True)
    path = tmp_path / part.name
    for damaged in damage(path.read_bytes()):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="is damaged") as raised:
            read_part(files, part, {A})
        assert repr(str(path)) in str(raised.value)


def test_a_whole_part_in_the_place_of_another_is_refused(files, tmp_path):
    part = write_part(files, "one", {A: b"aa"}, is_full=True)
    other = write_part(files, "two", {A: b"bb"}, is_full=True)
    (tmp_path / other.name).rename(tmp_path / part.name)
    with pytest.raises(CheckpointError, match="is not the one that was committed"):
        read_part(files, part, {A})


def test_the_size_of_a_part_is_checked_before_it_is_read(files, tmp_path, monkeypatch):
    part = write_part(files, "one", {A: b"aa"}, is_full=True)
    with open(tmp_path / part.name, "r+b") as file:
        file.truncate(1 << 40)
    monkeypatch.setattr(files, "read", None)
    with pytest.raises(CheckpointError, match=f"it has {1 << 40} bytes instead of {part.size}"):
        read_part(files, part, {A})
