"""Merging: what several parts say is what the merged one says, and it costs a logarithm."""

import math
from decimal import Decimal
from random import Random

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgpack import ExtType

from pystorm_spark.checkpoint.files import PosixFiles
from pystorm_spark.checkpoint.merging import FEWEST, merge_parts, to_merge
from pystorm_spark.checkpoint.part import Part, read_part, read_sections, write_part
from pystorm_spark.checkpoint.section import DELETION, merge_sections, same_bytes
from pystorm_spark.checkpoint.slot_side import Assignment, SlotCheckpoint
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.topology.durable import TaskKey

A, B, C = TaskKey("a", 0), TaskKey("b", 0), TaskKey("c", 0)
NUMBER = 12  # an extension type of these tests: a Decimal as text


def pack(value):
    return msgpack.packb(value, unicode_errors="surrogatepass")


def section(*entries):
    return pack([item for entry in entries for item in entry])


def number(text):
    return ExtType(NUMBER, text.encode())


def number_of(code, data):
    return Decimal(data.decode()) if code == NUMBER else same_bytes(code, data)


def replay(sections, key_of=same_bytes, base=()):
    """[(packed key, packed value)] of a plain dict that the sections are replayed into."""
    state = dict(base)
    for packed in sections:
        items = iter(msgpack.unpackb(packed, strict_map_key=False, unicode_errors="surrogatepass"))
        for key, value in zip(items, items, strict=True):
            hashed = key_of(*key) if isinstance(key, ExtType) else key
            if value == DELETION:
                state.pop(hashed, None)
            else:
                state[hashed] = (state[hashed][0] if hashed in state else pack(key), pack(value))
    return state


# Few keys, of which many are equal though their bytes are not.
KEYS = [None, 0, 1, 0.0, -0.0, 1.0, True, False, "", "1", "\ud800", b"", b"1", 1 << 40]
EXTENSIONS = [number("1"), number("1.0"), number("2"), ExtType(1, b""), ExtType(2, b"")]
# What might be taken for something else: a deletion inside of a value, its code, its bytes; what repacking might alter.
VALUES = [DELETION] * 10 + [
    *(None, True, 2**64 - 1, -(2**63), 0.5, float("nan"), "\ud800", b"\xc7\x00d", ExtType(100, b"x"), ExtType(99, b"")),
    *([], [DELETION], {}, {"k": DELETION, 1: [[]], None: {}}, ExtType(127, bytes(300)), "x" * 300),
]
SECTIONS = st.lists(
    st.lists(st.tuples(st.sampled_from(KEYS + EXTENSIONS), st.sampled_from(VALUES)), max_size=6),
    max_size=4,
).map(lambda listed: [section(*entries) for entries in listed])
KEY_HOOKS = st.sampled_from([same_bytes, number_of])


class TestSections:
    @given(SECTIONS, KEY_HOOKS)
    def test_all_sections_merged_are_replayed_to_the_same_dict(self, sections, key_of):
        merged = merge_sections(sections, is_full=True, key_of=key_of)
        assert [*replay([merged], key_of).items()] == [*replay(sections, key_of).items()]
        assert DELETION not in msgpack.unpackb(merged, strict_map_key=False, unicode_errors="surrogatepass")[1::2]

    @given(SECTIONS, SECTIONS, KEY_HOOKS)
    def test_merged_newer_sections_have_the_same_effect_on_older_ones(self, older, newer, key_of):
        merged = merge_sections(newer, is_full=False, key_of=key_of)
        expected = replay([*older, *newer], key_of)
        assert [*replay([*older, merged], key_of).items()] == [*expected.items()]

    def test_a_merged_section_is_not_larger_than_its_sections(self):
        changes = [section(("k", number)) for number in range(100)]
        assert merge_sections(changes, is_full=True) == changes[-1]
        assert merge_sections(changes, is_full=False) == changes[-1]

    def test_keys_that_are_equal_are_one_key_which_stays_as_it_was_first_put(self):
        assert merge_sections([section((1, "a")), section((1.0, "b")), section((True, "c"))], True) == section((1, "c"))

    def test_a_key_that_was_deleted_under_an_equal_name_is_gone(self):
        put = section((number("1"), "a"), ("k", "b"))
        deleted = section((number("1.0"), DELETION))
        assert merge_sections([put, deleted], True, number_of) == section(("k", "b"))
        assert merge_sections([put, deleted], True, same_bytes) == put


@pytest.fixture
def files(tmp_path):
    return PosixFiles(tmp_path)


class TestParts:
    def test_parts_are_merged_task_by_task(self, files):
        parts = [
            write_part(files, "one", {A: section(("x", 1)), B: section(("x", 2), ("y", 3))}, is_full=False),
            write_part(files, "two", {B: section(("x", DELETION)), C: section(("z", 4))}, is_full=False),
        ]
        part = merge_parts(files, "m", parts, is_full=False)
        expected = {A: section(("x", 1)), B: section(("x", DELETION), ("y", 3)), C: section(("z", 4))}
        assert read_part(files, part, {A, B, C}) == expected
        assert not part.is_full

    def test_deletions_are_left_out_where_nothing_is_older(self, files):
        parts = [
            write_part(files, "one", {A: section(("x", 1)), B: section(("y", 2))}, is_full=True),
            write_part(files, "two", {A: section(("x", DELETION))}, is_full=False),
        ]
        part = merge_parts(files, "m", parts, is_full=True)
        assert read_part(files, part, {A, B}) == {A: section(), B: section(("y", 2))}
        assert part.is_full

    def test_what_a_full_part_supersedes_is_left_out(self, files):
        parts = [
            write_part(files, "one", {A: section(("x", 1)), B: section(("x", 2))}, is_full=False),
            write_part(files, "two", {A: section(("y", 3))}, is_full=True),
        ]
        part = merge_parts(files, "m", parts, is_full=True)
        assert read_part(files, part, {A, B}) == {A: section(("y", 3)), B: section(("x", 2))}

    def test_a_merge_that_includes_a_full_part_must_be_full(self, files):
        with pytest.raises(ValueError, match="must be full"):
            merge_parts(files, "m", [write_part(files, "one", {A: section()}, is_full=True)], is_full=False)


def sized(*sizes):
    return [Part("", size, b"", (), False) for size in sizes]


class TestToMerge:
    @pytest.mark.parametrize(
        ("sizes", "start"),
        [
            ([], None),
            ([1] * (FEWEST - 1), None),
            ([1] * FEWEST, 0),
            ([2 * FEWEST] + [1] * FEWEST, 0),
            ([2 * FEWEST + 1] + [1] * FEWEST, 1),
            ([2 * FEWEST + 1] + [1] * (FEWEST - 1), None),
            ([1] * (FEWEST - 1) + [100], 0),
            ([0] * FEWEST, 0),
        ],
    )
    def test_parts_wait_until_what_is_newer_is_half_as_large(self, sizes, start):
        assert to_merge(sized(*sizes)) == (None if start is None else slice(start, len(sizes)))

    @pytest.mark.parametrize("seed", range(10))
    def test_parts_stay_few_and_a_change_is_rewritten_a_logarithmic_number_of_times(self, seed):
        random = Random(seed)
        sizes = [random.randint(1, random.choice([1, 10, 1000])) for _ in range(1000)]
        parts, written = [], 0
        for size in sizes:
            parts += sized(size)
            if run := to_merge(parts):
                merged = sum(part.size for part in parts[run])
                written += merged
                parts[run] = sized(merged)
            assert len(parts) <= 32
        assert written <= sum(sizes) * math.log(sum(sizes), 1.5)

    def test_a_large_state_is_not_rewritten_for_small_changes(self):
        parts = sized(10**6)
        for _ in range(1000):
            parts += sized(100)
            if run := to_merge(parts):
                assert run.start > 0
                parts[run] = sized(sum(part.size for part in parts[run]))


def test_a_state_that_is_merged_as_it_goes_is_that_of_all_changes(files):
    parts, expected = [], {}
    for txid in range(60):
        changes = {(txid * step) % 23: txid for step in (1, 7)}
        gone = (txid * 5) % 23
        entries = [*changes.items(), (gone, DELETION)]
        expected.update(changes)
        expected.pop(gone, None)
        parts.append(write_part(files, f"p{txid}", {A: section(*entries)}, is_full=False))
        if run := to_merge(parts):
            parts[run] = [merge_parts(files, f"m{txid}", parts[run], is_full=run.start == 0)]
        state = replay(read_sections(files, parts, {A})[A])
        assert {key: msgpack.unpackb(value) for key, (_, value) in state.items()} == expected
    assert len(parts) < 16


class Interrupted(SlotCheckpoint):
    """A slot whose merging is interrupted by a commit where it asks whether there is a merged part already."""

    is_interrupted = False

    def commit(self, txid):
        self.write(txid, {A: section([txid, txid])}, {}, is_full=False)
        self.settle()

    @property
    def _merged(self):
        if self.is_interrupted:
            self.is_interrupted = False
            self.commit(FEWEST + 1)
        return self.kept

    @_merged.setter
    def _merged(self, merged):
        self.kept = merged


def test_a_commit_during_a_merge_leaves_no_replaced_part(files):
    side = Interrupted(files, 0, Assignment(), ValueCodec())
    for txid in range(1, FEWEST + 1):
        side.commit(txid)
    side.merge()
    side.is_interrupted = True
    side.merge()
    written = side.write(FEWEST + 2, {}, {}, is_full=False)
    assert [part.name.split("-")[0] for part in written.parts] == ["merged", "state"]
