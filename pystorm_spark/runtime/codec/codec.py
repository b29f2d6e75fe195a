"""Internal. Frames as bytes, and the detection of damaged ones.

A payload is one byte of format version, the crc32 of everything after it, one byte of kind, and the body. The body
starts with the target task and the sizes of its columns. Then come the columns, little-endian on every machine, and
then the rows. Nothing is unpacked and no pickle is loaded before the checksum and all sizes are verified.
"""

from __future__ import annotations

import operator
import struct
import sys
import zlib
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from msgpack import Packer, Unpacker

from pystorm_spark.errors import SerializationError, in_words
from pystorm_spark.runtime.codec.extension import type_name
from pystorm_spark.runtime.codec.pickling import CLASS_BY_VALUE, CloudPickling, NoPickling
from pystorm_spark.runtime.codec.values import Lowering, nested_unpack
from pystorm_spark.topology.durable import ATOMS

FRAME_FORMAT_VERSION = 1
COMPARED_BY_VALUE = (str, int, float, bytes, tuple)  # instances of subclasses, too
TUPLES, ACKS, RUNS = 1, 2, 3
PREFIX = struct.Struct("<BI")  # format version, crc32
FRAME_ADDRESS = struct.Struct("<Bq")  # kind, target task
TUPLES_HEAD = struct.Struct("<qIIQQ")  # source task, bytes of the stream's name, rows, bytes of counts, anchors
ACKS_HEAD = struct.Struct("<QQQQ")  # acked, failed and reset roots, bytes of why they failed

Buffer = bytes | bytearray | memoryview


class RefusedValueError(SerializationError):
    """One value of a row cannot be packed: the one at `index`, because of `why`."""

    index: int = 0
    why: str = ""


class ValueCodec:
    """Packs rows of values and unpacks them, each value with its exact type.

    Without `fall_back_on_pickle`, values without an extension type and values that arrive pickled are refused.
    """

    def __init__(self, fall_back_on_pickle: bool = True) -> None:
        pickling = CloudPickling() if fall_back_on_pickle else NoPickling()
        self._packer = Packer()
        self._pack_atoms: Callable[[object], bytes] = self._packer.pack
        self._lower = Lowering(ATOMS, pickling)
        self._lower_ints = Lowering(ATOMS - {int}, pickling)
        self._unpack = nested_unpack(pickling)

    def pack(self, values: Sequence[Any]) -> bytes:
        """Pack one row. It raises `RefusedValueError` if one of `values` cannot be packed."""
        try:
            # For rows of up to ten values a loop beats `ATOMS.issuperset(map(type, values))`.
            for value in values:
                if type(value) not in ATOMS:
                    return self._lower.pack(self._lower.each(values, 0))
            return self._pack_atoms(values)
        except Exception:
            # A huge int, a lone surrogate, deep nesting, or a value that cannot be packed: pack one by one.
            return self._pack_each(values)

    def pack_value(self, value: Any) -> bytes:
        """Pack a single value, as a row. Errors are a `SerializationError` and do not mention a row."""
        try:
            return self.pack([value])
        except RefusedValueError as error:
            raise SerializationError(error.why) from error.__cause__

    def defines_classes(self, packed: bytes) -> bool:
        """Whether a packed row contains class definitions, which make a different class in each process."""
        return CLASS_BY_VALUE in packed

    def knows_again(self, value: Any) -> bool:
        """Whether a copy from another process equals `value`, although its class may be another one.

        Named tuples and str or int enums compare by value, so they do.
        """
        kind: Any = type(value)
        base: Any = next((base for base in COMPARED_BY_VALUE if isinstance(value, base)), None)
        if base is not None and kind.__eq__ is base.__eq__ and kind.__hash__ is base.__hash__:
            return base is not tuple or all(map(self.knows_again, value))
        return not self.defines_classes(self.pack_value(value))

    def pack_rows(self, rows: Sequence[list[Any] | bytes]) -> bytes:
        """Concatenate rows, packing those that are not packed yet; all at once if none is."""
        if bytes not in map(type, rows):
            with suppress(Exception):  # a huge int or a lone surrogate: pack row by row instead
                return self._pack_atoms(rows)[_array_header_size(len(rows)) :]
        return b"".join([row if type(row) is bytes else self.pack(row) for row in rows])

    def unpack_rows(self, data: Buffer, count: int) -> list[list[Any]]:
        """Unpack the `count` rows in `data`, which must contain nothing else."""
        try:
            rows: list[list[Any]] = self._unpack(b"".join((b"\xdd", count.to_bytes(4, "big"), data)))
        except Exception as error:
            raise SerializationError(f"{count} rows cannot be unpacked: {_reason(error)}") from error
        if operator.countOf(map(type, rows), list) != count:
            raise SerializationError(f"{count} rows cannot be unpacked: not each of them is a list of values")
        return rows

    def unpack_each(self, data: memoryview, count: int) -> tuple[list[list[Any]], dict[int, SerializationError]]:
        """Unpack rows one by one. Return them, with [] for each that fails, and {row number from 0: error}.

        A value's own class may refuse it, or its module may be missing here. That does not affect the other rows.
        """
        unpacker = Unpacker(max_buffer_size=0)
        unpacker.feed(data)
        rows: list[list[Any]] = []
        refused: dict[int, SerializationError] = {}
        at = 0
        for number in range(count):
            unpacker.skip()
            row, at = data[at : unpacker.tell()], unpacker.tell()
            try:
                rows += self.unpack_rows(row, 1)
            except SerializationError as error:
                rows.append([])
                refused[number] = error
        if at != len(data):
            raise SerializationError(f"{count} rows are followed by {len(data) - at} bytes that do not belong to them")
        return rows, refused

    def _pack_each(self, values: Sequence[Any]) -> bytes:
        parts: list[bytes] = [self._packer.pack_array_header(len(values))]
        for index, value in enumerate(values):
            try:
                parts.append(self._packed(value))
            except Exception as error:
                raise _refusal(index, value, error) from error
        return b"".join(parts)

    def _packed(self, value: object) -> bytes:
        try:
            return self._lower.packed(value)
        except OverflowError:
            return self._lower_ints.packed(value)


@dataclass(frozen=True, slots=True)
class TupleFrame:
    """Tuples for one target task from one source task and stream.

    `roots`, `homes` and `edges` have one entry for each anchor: the root's id, the spout task that waits for it, the
    edge's id. They belong to the rows in order: with `in_runs` anchor i to the next `counts[i]` rows, which came along
    one edge together; else the next `counts[i]` anchors to row i.
    `refused` says why rows could not be unpacked, by their number.
    """

    target: int
    source: int
    stream: str
    rows: list[list[Any]]
    in_runs: bool
    counts: Sequence[int]
    roots: array[int]
    homes: array[int]
    edges: array[int]
    refused: Mapping[int, SerializationError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AckFrame:
    """What became of the roots of one spout task: `acked_edges[i]` is to be xored into `acked_roots[i]`.

    `whys` has one text for each failed root, or none at all.
    """

    target: int
    acked_roots: array[int]
    acked_edges: array[int]
    failed_roots: array[int]
    reset_roots: array[int]
    whys: Sequence[str] = ()


def encode_tuples(
    target: int,
    source: int,
    stream: str,
    row_count: int,
    rows: bytes,
    in_runs: bool,
    counts: Sequence[int],
    roots: array[int],
    homes: array[int],
    edges: array[int],
) -> bytes:
    """A `TupleFrame` as bytes. `rows` are packed."""
    assert (roots.typecode, homes.typecode, edges.typecode) == ("Q", "I", "Q")
    assert len(roots) == len(homes) == len(edges)
    name = stream.encode("utf-8", "surrogatepass")
    packed_counts = _packed_counts(counts)
    head = TUPLES_HEAD.pack(source, len(name), row_count, len(packed_counts), len(roots))
    parts = (head, name, packed_counts, _wire(roots), _wire(homes), _wire(edges), rows)
    return _sealed(RUNS if in_runs else TUPLES, target, parts)


def encode_acks(
    target: int,
    acked_roots: array[int],
    acked_edges: array[int],
    failed_roots: array[int],
    reset_roots: array[int],
    whys: Sequence[str] = (),
) -> bytes:
    """An `AckFrame` as bytes."""
    columns = (acked_roots, acked_edges, failed_roots, reset_roots)
    assert all(column.typecode == "Q" for column in columns)
    assert len(acked_roots) == len(acked_edges)
    told = "\0".join(why.replace("\0", " ") for why in whys).encode("utf-8", "surrogatepass") if any(whys) else b""
    head = ACKS_HEAD.pack(len(acked_roots), len(failed_roots), len(reset_roots), len(told))
    return _sealed(ACKS, target, (head, *map(_wire, columns), told))


def decode(payload: Buffer, values: ValueCodec) -> TupleFrame | AckFrame:
    """The frame in `payload`. It raises `SerializationError` if that is damaged or of another format version."""
    body = _Body(_opened(payload))
    kind, target = body.fields(FRAME_ADDRESS)
    if kind in (TUPLES, RUNS):
        return _tuple_frame(target, body, values, in_runs=kind == RUNS)
    if kind == ACKS:
        return _ack_frame(target, body)
    raise SerializationError(f"a frame is of kind {kind}; there are {TUPLES} and {RUNS} (tuples) and {ACKS} (acks)")


def is_acks(payload: Buffer) -> bool:
    """Whether a frame has acks, as far as one can see before its checksum was checked."""
    return memoryview(payload).nbytes > PREFIX.size and memoryview(payload)[PREFIX.size] == ACKS


def _sealed(kind: int, target: int, parts: Iterable[Buffer | array[int]]) -> bytes:
    body = b"".join((FRAME_ADDRESS.pack(kind, target), *parts))
    return PREFIX.pack(FRAME_FORMAT_VERSION, zlib.crc32(body)) + body


def _opened(payload: Buffer) -> memoryview:
    _check_version(payload)
    checksum = PREFIX.unpack_from(payload)[1]
    body = memoryview(payload)[PREFIX.size :]
    if zlib.crc32(body) != checksum:
        raise SerializationError(f"a frame of {len(payload)} bytes is damaged: its checksum does not hold")
    return body


def _check_version(payload: Buffer) -> None:
    if len(payload) < PREFIX.size:
        raise SerializationError(f"a frame of {len(payload)} bytes is too short to be one")
    if payload[0] != FRAME_FORMAT_VERSION:
        raise SerializationError(f"a frame has format version {payload[0]}; this is version {FRAME_FORMAT_VERSION}")


class _Body:
    """Reads the parts of a frame in order, and never past its end."""

    def __init__(self, view: memoryview) -> None:
        self._rest = view

    def take(self, size: int) -> memoryview:
        if size > len(self._rest):
            raise SerializationError(f"a frame is cut short: {size} bytes expected, {len(self._rest)} left")
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def rest(self) -> memoryview:
        return self.take(len(self._rest))

    def fields(self, layout: struct.Struct) -> tuple[Any, ...]:
        return layout.unpack(self.take(layout.size))

    def column(self, typecode: str, length: int) -> array[int]:
        column = array(typecode)
        column.frombytes(self.take(length * column.itemsize))
        return _little_endian(column)

    def end(self) -> None:
        if self._rest:
            raise SerializationError(f"a frame is followed by {len(self._rest)} bytes that do not belong to it")


def _tuple_frame(target: int, body: _Body, values: ValueCodec, in_runs: bool) -> TupleFrame:
    source, name_size, row_count, counts_size, anchors = body.fields(TUPLES_HEAD)
    stream = _stream_name(body.take(name_size))
    counts = _counts(bytes(body.take(counts_size)))
    _check_counts(counts, *((anchors, row_count) if in_runs else (row_count, anchors)))
    roots, homes, edges = (body.column(typecode, anchors) for typecode in "QIQ")
    packed = body.rest()
    refused: dict[int, SerializationError] = {}
    try:
        rows = values.unpack_rows(packed, row_count)
    except SerializationError as error:
        where = f"stream {stream!r} from task {source} to task {target}"
        try:
            rows, refused = values.unpack_each(packed, row_count)
        except Exception:  # the rows cannot be separated
            raise SerializationError(f"{where}: {error}") from error
        refused = {number: SerializationError(f"{where}: {why}") for number, why in refused.items()}
    return TupleFrame(target, source, stream, rows, in_runs, counts, roots, homes, edges, refused)


def _ack_frame(target: int, body: _Body) -> AckFrame:
    acked, failed, reset, told = body.fields(ACKS_HEAD)
    columns = [body.column("Q", length) for length in (acked, acked, failed, reset)]
    whys = tuple(str(body.take(told), "utf-8", "surrogatepass").split("\0")) if told else ()
    body.end()
    return AckFrame(target, columns[0], columns[1], columns[2], columns[3], whys)


def _stream_name(data: memoryview) -> str:
    try:
        return str(data, "utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise SerializationError(f"a frame has a stream without a readable name: {error}") from error


def _packed_counts(counts: Sequence[int]) -> bytes:
    """Seven bits of a count to a byte, the lowest first; all but the last byte of a count have the eighth bit set."""
    if max(counts, default=0) < 0x80:
        return bytes(counts)
    packed = bytearray()
    for count in counts:
        while count > 0x7F:
            packed.append(count & 0x7F | 0x80)
            count >>= 7
        packed.append(count)
    return bytes(packed)


def _counts(data: bytes) -> Sequence[int]:
    if data.isascii():  # all counts are below 128: each byte is a count
        return data
    counts, number, shift = [], 0, 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            counts.append(number)
            number = shift = 0
    return counts


def _check_counts(counts: Sequence[int], number: int, total: int) -> None:
    if (len(counts), sum(counts)) != (number, total):
        raise SerializationError(
            f"a frame has {len(counts)} counts that add up to {sum(counts)}, it should have {number} for {total}"
        )


def _wire(column: array[int]) -> array[int]:
    return column if sys.byteorder == "little" else _little_endian(column[:])


def _little_endian(column: array[int]) -> array[int]:
    if sys.byteorder == "big":
        column.byteswap()
    return column


def _array_header_size(length: int) -> int:
    """The size of msgpack's header of an array."""
    return 1 if length < 16 else 3 if length < 1 << 16 else 5


def _refusal(index: int, value: object, error: Exception) -> RefusedValueError:
    kind = type_name(type(value))
    refusal = RefusedValueError(f"value {index} of the row, a {kind}, cannot be packed: {_reason(error)}")
    refusal.index = index
    # What a codec refuses itself is named in its own words, with the type of the part that is meant.
    refusal.why = (
        str(error) if isinstance(error, SerializationError) else f"a {kind} cannot be packed: {_reason(error)}"
    )
    return refusal


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, SerializationError) else in_words(error)
