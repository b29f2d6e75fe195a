"""Internal. A section: the state of one task inside a part, as one msgpack array of keys and values in turn.

A value that is the extension type `DELETED` says that its key is gone. To load a state is to replay sections, oldest
first, into a dict; to merge sections is to make one that gives the same dict, on top of whatever is older.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from msgpack import ExtType, Packer, Unpacker, packb

from pystorm_spark.topology.durable import DELETED, PACKED, StateCodec

DELETION = ExtType(DELETED, b"")
PACKED_DELETION: bytes = packb(DELETION)

KeyHook = Callable[[int, bytes], Hashable]


def same_bytes(code: int, data: bytes) -> Hashable:
    """Keys of extension types that are equal if their bytes are."""
    return ExtType, code, data


def keys_of(codec: StateCodec) -> KeyHook:
    """Keys of extension types that are equal if they are so in Python."""

    def key_of(code: int, data: bytes) -> Hashable:
        key: Hashable = codec.unpack_rows(data, 1)[0][0] if code == PACKED else same_bytes(code, data)
        return key

    return key_of


def merge_sections(sections: Sequence[bytes], is_full: bool, key_of: KeyHook = same_bytes) -> bytes:
    """One section in place of several, oldest first; with `is_full` nothing is older, and deletions are left out.

    Keys are told apart as a dict does it, and `key_of` makes them of extension types: 1 and 1.0 are one key, which
    stays as it was first put. Keys and values keep their bytes, and iteration keeps its order.
    """
    live: dict[Hashable, bytes] = {}  # entries
    gone: dict[Hashable, bytes] = {}  # deletions
    for section in sections:
        _replay(section, key_of, live, gone)
    # A key that was deleted and put again comes last when it is iterated: so deletions are replayed before all else.
    return section_of([*live.values()] if is_full else [*gone.values(), *live.values()])


def live_entries(sections: Iterable[bytes], key_of: KeyHook) -> dict[Hashable, bytes]:
    """{key: its entry, as bytes} of the state that `sections` make up, oldest first."""
    live: dict[Hashable, bytes] = {}
    for section in sections:
        _replay(section, key_of, live, {})
    return live


def section_of(entries: Sequence[bytes]) -> bytes:
    """The section that has these entries."""
    return b"".join([Packer().pack_array_header(2 * len(entries)), *entries])


def _replay(section: bytes, key_of: KeyHook, live: dict[Hashable, bytes], gone: dict[Hashable, bytes]) -> None:
    unpacker = _unpacker(section, key_of)
    unpack, skip, tell = unpacker.unpack, unpacker.skip, unpacker.tell
    entries = unpacker.read_array_header() // 2
    start = tell()
    for _ in range(entries):
        key = unpack()
        value = tell()
        skip()
        end = tell()
        if section[value:end] == PACKED_DELETION:
            live.pop(key, None)
            gone.setdefault(key, section[start:end])
        elif key not in live or live[key].startswith(section[start:value]):
            live[key] = section[start:end]
        else:
            live[key] = _packed_key(live[key]) + section[value:end]
        start = end


def _packed_key(entry: bytes) -> bytes:
    unpacker = _unpacker(entry, same_bytes)
    unpacker.skip()
    return entry[: unpacker.tell()]


def _unpacker(data: bytes, key_of: KeyHook) -> Unpacker:
    unpacker = Unpacker(
        max_buffer_size=len(data),
        use_list=False,
        strict_map_key=False,
        unicode_errors="surrogatepass",
        ext_hook=key_of,
    )
    unpacker.feed(data)
    return unpacker
