"""Rows and frames as bytes: they round-trip, and damaged bytes are refused."""

from __future__ import annotations

import pickle
import re
import struct
import sys
import zlib
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystorm_spark.errors import SerializationError
from pystorm_spark.runtime.codec import codec
from pystorm_spark.runtime.codec.codec import (
    AckFrame,
    TupleFrame,
    ValueCodec,
    decode,
    encode_acks,
    encode_tuples,
)

VALUES = ValueCodec()
ROWS = [["word", 1], ["other", (2,)], [None, b"x"]]


def longs(*numbers):
    return array("Q", numbers)


def tasks(*numbers):
    return array("I", numbers)


def tuples_payload(rows=ROWS, counts=(1, 1, 1), anchors=None, stream="default", target=6, in_runs=True):
    roots, homes, edges = anchors or (longs(1, 2, 3), tasks(4, 4, 5), longs(7, 8, 9))
    packed = b"".join(VALUES.pack(row) for row in rows)
    return encode_tuples(target, 2, stream, len(rows), packed, in_runs, counts, roots, homes, edges)


def anchors_of(total):
    return longs(*range(total)), tasks(*[9] * total), longs(*range(total))


def acks_payload():
    return encode_acks(3, longs(1, 2), longs(0, (1 << 64) - 1), longs(5), longs(6, 7, 8))


PAYLOADS = [
    tuples_payload(),
    tuples_payload(counts=(1, 0, 2), in_runs=False),
    acks_payload(),
    tuples_payload([], (), anchors_of(0)),
]


def resealed(body):
    """Build a payload of any `body` with a valid checksum."""
    return struct.pack("<BI", codec.FRAME_FORMAT_VERSION, zlib.crc32(body)) + body


def tuples_body(source=2, name=b"s", rows=0, counts=b"", anchors=0, rest=b"", counts_size=None, name_size=None, kind=1):
    name_size = len(name) if name_size is None else name_size
    counts_size = len(counts) if counts_size is None else counts_size
    return struct.pack("<BqqIIQQ", kind, 6, source, name_size, rows, counts_size, anchors) + name + counts + rest


class Bomb:
    armed = False

    def __reduce__(self):
        return Bomb.explode, ()

    @staticmethod
    def explode():
        Bomb.armed = True


def test_rows_come_back_as_lists_in_order():
    data = b"".join(map(VALUES.pack, ROWS))
    assert VALUES.unpack_rows(data, 3) == ROWS
    assert VALUES.unpack_rows(memoryview(data), 3) == ROWS
    assert VALUES.unpack_rows(b"", 0) == []


def test_a_row_may_be_a_tuple_or_a_list_of_the_users_own_type():
    class Values(list):
        pass

    for row in ((1, "a"), Values([1, "a"]), Values([1, {2}])):
        assert VALUES.unpack_rows(VALUES.pack(row), 1) == [list(row)]


@pytest.mark.parametrize("count", [-1, 0, 2, 4, 1 << 31, (1 << 32) - 1, 1 << 32])
def test_a_wrong_count_of_rows_is_refused(count):
    with pytest.raises(SerializationError, match=f"{count} rows cannot be unpacked"):
        VALUES.unpack_rows(b"".join(map(VALUES.pack, ROWS)), count)


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"\x01", 1),
        (b"\x80", 1),
        (b"\xc1", 1),
        (b"\x91", 1),
        (b"\x91\x01\x00", 1),
        (b"\x91\xdd\xff\xff\xff\xff", 1),
        (b"\x91\xdb\xff\xff\xff\xffa", 1),
        (b"\x91\xa1\xff", 1),
        (b"\x91\xd4\x7f\x00", 1),
        (b"\x91\xd4\x02\xc0", 1),
        (b"\x91\xd4\x06\x90", 1),
        (b"\x91\xc7\x02\x02\x90\x00", 1),
        (b"\x91\x81\x90\x01", 1),
        (b"\x91\xc7\x00\x13", 1),
        (b"\x91" * 2000 + b"\x01", 1),
    ],
    ids=lambda part: str(part)[:24],
)
def test_rows_of_garbage_are_refused(data, count):
    with pytest.raises(SerializationError, match="cannot be unpacked"):
        VALUES.unpack_rows(data, count)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=40), st.integers(0, 4))
def test_random_bytes_are_rows_or_are_refused(data, count):
    strict = ValueCodec(fall_back_on_pickle=False)
    try:
        rows = strict.unpack_rows(data, count)
    except SerializationError:
        return
    assert [type(row) for row in rows] == [list] * count


def test_forged_nesting_of_extension_types_is_refused():
    data = b"\x90"
    for _ in range(1000):
        data = b"\xc9" + len(data).to_bytes(4, "big") + b"\x02" + data
    with pytest.raises(SerializationError, match="nested deeper"):
        VALUES.unpack_rows(b"\x91" + data, 1)


@pytest.mark.parametrize("reference", ["os:system", "no.such.module:X", "decimal:Decimal", "no colon"])
def test_a_forged_class_name_is_refused(reference):
    for body in (VALUES.pack([reference, "x"]), VALUES.pack([reference, {}, {}])):
        for code in (b"\x0e", b"\x0f"):
            with pytest.raises(SerializationError, match="cannot be unpacked"):
                VALUES.unpack_rows(b"\x91\xc7" + bytes([len(body)]) + code + body, 1)


def test_a_forged_array_is_refused():
    body = VALUES.pack(["<i8", [1 << 40], "C", b"12345678"])
    short = VALUES.pack(["<i8", [1], "C", b"1234567812345678"])
    for forged in (body, short):
        with pytest.raises(SerializationError, match="cannot be unpacked"):
            VALUES.unpack_rows(b"\x91\xc7" + bytes([len(forged)]) + b"\x10" + forged, 1)


def test_a_tuple_frame_comes_back_with_its_columns():
    frame = decode(tuples_payload(), VALUES)
    columns = longs(1, 2, 3), tasks(4, 4, 5), longs(7, 8, 9)
    assert frame == TupleFrame(6, 2, "default", ROWS, True, b"\1\1\1", *columns)


@pytest.mark.parametrize("numbers", [(1, 0, 2), (0, 0, 0), (127, 128, 300), (1 << 14, 0, 1), (0, 70_000, 255)])
def test_a_tuple_may_have_any_number_of_anchors(numbers):
    total = sum(numbers)
    frame = decode(tuples_payload(ROWS, numbers, anchors_of(total), in_runs=False), VALUES)
    assert list(frame.counts) == list(numbers)
    assert frame.roots == longs(*range(total))


@pytest.mark.parametrize("numbers", [(3, 0, 0), (2, 1), (200, 1), (1, 20_000)])
def test_a_run_may_have_any_length(numbers):
    rows = [[number] for number in range(sum(numbers))]
    frame = decode(tuples_payload(rows, numbers, anchors_of(len(numbers))), VALUES)
    assert (frame.in_runs, list(frame.counts), frame.rows) == (True, list(numbers), rows)


@pytest.mark.parametrize("stream", ["", "errors", "größe-\U0001f600", "\ud800", "x" * 70_000])
def test_a_stream_may_have_any_name(stream):
    assert decode(tuples_payload(stream=stream), VALUES).stream == stream


@pytest.mark.parametrize("target", [0, -1, 1, (1 << 63) - 1, -(1 << 63)])
def test_a_target_may_be_any_64_bit_integer(target):
    assert decode(tuples_payload(target=target), VALUES).target == target


def test_an_ack_frame_comes_back_with_its_columns():
    frame = decode(acks_payload(), VALUES)
    assert frame == AckFrame(3, longs(1, 2), longs(0, (1 << 64) - 1), longs(5), longs(6, 7, 8))


def test_an_ack_frame_has_the_reasons_of_failures():
    whys = ("count:3 ValueError: größe\ud800", "", "split:4 failed it")
    payload = encode_acks(3, longs(), longs(), longs(5, 6, 7), longs(), whys)
    assert decode(payload, VALUES).whys == whys


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_frame_is_decoded_from_any_buffer(kind):
    assert decode(kind(tuples_payload()), VALUES).rows == ROWS


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.lists(st.integers() | st.text(max_size=5), max_size=3), st.integers(0, 300)), max_size=8))
def test_any_frame_round_trips(tuples):
    rows, numbers = [row for row, _ in tuples], [number for _, number in tuples]
    total = sum(numbers)
    frame = decode(tuples_payload(rows, numbers, anchors_of(total), in_runs=False), VALUES)
    assert frame.rows == rows
    assert list(frame.counts) == numbers


def test_the_bytes_of_a_frame_are_those_of_format_version_1():
    payload = encode_tuples(6, 2, "s", 1, b"\x91\x01", True, [1], longs(1), tasks(2), longs(3))
    body = struct.pack("<BqqIIQQ", 3, 6, 2, 1, 1, 1, 1) + b"s\x01" + struct.pack("<QIQ", 1, 2, 3) + b"\x91\x01"
    assert payload == struct.pack("<BI", 1, zlib.crc32(body)) + body


def test_columns_are_little_endian_on_a_big_endian_machine(monkeypatch):
    monkeypatch.setattr(sys, "byteorder", "big")
    roots = longs(1, 2, 3)
    payload = encode_tuples(6, 2, "s", 0, b"", True, (), roots, tasks(4, 5, 6), longs(7, 8, 9))
    assert struct.pack(">QQQIII", 1, 2, 3, 4, 5, 6) in payload
    assert roots == longs(1, 2, 3)
    acks = acks_payload()
    assert decode(acks, VALUES).reset_roots == longs(6, 7, 8)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_frame_with_any_byte_changed_is_refused(payload):
    for position in range(len(payload)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(payload)
            damaged[position] ^= flip
            with pytest.raises(SerializationError):
                decode(damaged, VALUES)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(PAYLOADS), st.data())
def test_a_frame_with_bytes_changed_lost_or_added_is_refused(payload, data):
    start = data.draw(st.integers(0, len(payload)))
    end = data.draw(st.integers(start, len(payload)))
    damaged = payload[:start] + data.draw(st.binary(max_size=8)) + payload[end:]
    if damaged == payload:
        return
    with pytest.raises(SerializationError):
        decode(damaged, VALUES)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_codec_refuses_a_truncated_frame(payload):
    for size in range(len(payload)):
        with pytest.raises(SerializationError):
            decode(payload[:size], VALUES)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_codec_refuses_an_extended_frame(payload):
    for extra in (b"\0", b"\xff" * 9, payload):
        with pytest.raises(SerializationError, match="damaged"):
            decode(payload + extra, VALUES)


def test_codec_refuses_an_empty_frame():
    with pytest.raises(SerializationError, match="0 bytes is too short"):
        decode(b"", VALUES)


@pytest.mark.parametrize("version", [0, 2, 0x80, 0xFF])
def test_codec_refuses_a_frame_of_a_foreign_version(version):
    payload = bytes([version]) + tuples_payload()[1:]
    with pytest.raises(SerializationError, match=f"version {version}; this is version 1"):
        decode(payload, VALUES)


@pytest.mark.parametrize("length", range(0, 48, 3))
def test_codec_refuses_a_short_body_with_a_valid_checksum(length):
    for payload in PAYLOADS[:3]:
        with pytest.raises(SerializationError):
            decode(resealed(payload[5 : 5 + length]), VALUES)


HUGE = (1 << 32) - 1
FORGED = {
    "kind": struct.pack("<Bq", 7, 6),
    "rows": tuples_body(rows=HUGE, anchors=HUGE),
    "anchors": tuples_body(anchors=1 << 63),
    "counts": tuples_body(counts_size=1 << 63),
    "counted anchors": tuples_body(rows=1, counts=b"\xff\xff\xff\x7f", anchors=1 << 28, rest=b"\x90"),
    "counted rows": tuples_body(rows=1, counts=b"\0\0", rest=b"\x90"),
    "counted runs": tuples_body(rows=1, counts=b"\2", anchors=1, rest=bytes(20) + b"\x90", kind=3),
    "runs of no anchor": tuples_body(rows=1, counts=b"\1", rest=b"\x90", kind=3),
    "unfinished count": tuples_body(rows=1, counts=b"\x80", rest=b"\x90"),
    "anchors without rows": tuples_body(rows=0, anchors=1, rest=bytes(20)),
    "name size": tuples_body(name_size=HUGE),
    "name": tuples_body(name=b"\xff\xfe"),
    "rows without bytes": tuples_body(rows=2, counts=b"\0\0", rest=b"\x90"),
    "bytes without rows": tuples_body(rest=b"\x90"),
    "acks": struct.pack("<BqQQQ", 2, 6, 1 << 61, 0, 0),
    "acks and more": struct.pack("<BqQQQ", 2, 6, 0, 0, 0) + b"x",
    "resets": struct.pack("<BqQQQ", 2, 6, 0, 0, 2) + bytes(8),
}


@pytest.mark.parametrize("name", FORGED)
def test_codec_refuses_a_forged_frame_with_a_valid_checksum(name):
    with pytest.raises(SerializationError):
        decode(resealed(FORGED[name]), VALUES)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=80))
def test_random_bytes_with_a_valid_checksum_are_a_frame_or_are_refused(body):
    try:
        frame = decode(resealed(body), ValueCodec(fall_back_on_pickle=False))
    except SerializationError:
        return
    assert isinstance(frame, (TupleFrame, AckFrame))


def test_pickles_are_opened_only_after_the_checksum():
    payload = bytearray(tuples_payload([[Bomb()]], (1,), anchors_of(1)))
    payload[-1] ^= 1
    with pytest.raises(SerializationError, match="checksum"):
        decode(payload, VALUES)
    assert not Bomb.armed


class Vanished:
    def __reduce__(self):
        return pickle.loads, (b"cno\nX\n.",)


def test_an_unreadable_value_names_stream_and_tasks_and_leaves_other_rows_alone():
    payload = tuples_payload([["before"], [Vanished()], ["behind"]], (1, 1, 1), anchors_of(3), stream="errors")
    frame = decode(payload, VALUES)
    assert frame.rows == [["before"], [], ["behind"]]
    assert list(frame.refused) == [1]
    assert re.match(r"stream 'errors' from task 2 to task 6: .*No module named 'no'", str(frame.refused[1]))


def test_a_refused_value_is_named_by_index_type_and_reason():
    with pytest.raises(SerializationError, match=r"value 2 of the row, a generator, .*pickle") as caught:
        VALUES.pack(["a", 1, (n for n in "ab")])
    assert caught.value.index == 2


def test_a_codec_goes_on_after_a_refusal():
    with pytest.raises(SerializationError):
        VALUES.pack([[1, {2: (n for n in "ab")}]])
    assert VALUES.unpack_rows(VALUES.pack(["word"]), 1) == [["word"]]
