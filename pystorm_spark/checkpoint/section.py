"""Internal. A section: the state of one task inside a part, as one msgpack array of alternating keys and values.

A value of the extension type `DELETED` deletes its key. A restart replays sections, oldest first, into a dict. A merge
makes one section that has the same effect as several, whatever older sections hold.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from msgpack import ExtType, Packer, Unpacker, packb

from pystorm_spark.topology.durable import DELETED, PACKED, StateCodec

DELETION = ExtType(DELETED, b"")
PACKED_DELETION: bytes = packb(DELETION)

KeyHook = Callable[[int, bytes], Hashable]


def same_bytes(code: int, data: bytes) -> Hashable:
    """Compare keys of extension types by their bytes."""
    return ExtType, code, data


def keys_of(codec: StateCodec) -> KeyHook:
    """Compare keys of extension types as Python does."""

    def key_of(code: int, data: bytes) -> Hashable:
        key: Hashable = codec.unpack_rows(data, 1)[0][0] if code == PACKED else same_bytes(code, data)
        return key

    return key_of


def merge_sections(sections: Sequence[bytes], is_full: bool, key_of: KeyHook = same_bytes) -> bytes:
    """One section with the effect of `sections` (oldest first). With `is_full` nothing is older: it has no deletions.

    Keys are equal as in a dict, where 1 and 1.0 are one key, and the first form of a key stays. `key_of` compares keys
    of extension types. Keys and values keep their bytes; iteration keeps its order.
    """
    live: dict[Hashable, bytes] = {}  # entries
    gone: dict[Hashable, bytes] = {}  # deletions
    for section in sections:
        _replay(section, key_of, live, gone)
    # Deletions go first: a key that was deleted and put again must come last in iteration.
    return section_of([*live.values()] if is_full else [*gone.values(), *live.values()])


def live_entries(sections: Iterable[bytes], key_of: KeyHook) -> dict[Hashable, bytes]:
    """{key: its entry, as bytes} of the state that `sections` (oldest first) make up."""
    live: dict[Hashable, bytes] = {}
    for section in sections:
        _replay(section, key_of, live, {})
    return live


def section_of(entries: Sequence[bytes]) -> bytes:
    """A section of these entries."""
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
