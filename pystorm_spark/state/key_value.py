"""KeyValueState: the state of one task of a stateful bolt. It is used like a dict, and committed like a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgpack import ExtType, Packer, unpackb

from pystorm_spark.core import compiled, laid_out
from pystorm_spark.errors import SerializationError
from pystorm_spark.naming import java_names
from pystorm_spark.topology.durable import ATOMS, DELETED, PACKED, StateCodec

K = TypeVar("K")
V = TypeVar("V")

EQUAL_ATOMS = ATOMS - {float}  # every value equals its copy; a float may be NaN
KEPT = "keep data (numbers, text, dates, lists, dicts, dataclasses, …), and make other objects in prepare"
_DELETION = ExtType(DELETED, b"")
_MISSING: Any = object()  # the value of a key that was deleted, or never existed
_UNKNOWN: Any = object()  # the result for a key that a layer does not hold


class Packed(bytes):
    """A mutable value, kept as bytes: changing an object that `get` returned does not change the state."""


@java_names(iterator="items")
@laid_out
class KeyValueState(Generic[K, V]):
    """The state of one task: values that can be serialized, by keys that can be serialized and hashed.

    `get` returns a copy: changing a list from the state has no effect until it is `put` again. Iteration gives pairs.

    A section is one msgpack array of alternating keys and values. Atoms are stored as they are, others as `PACKED`.
    """

    __slots__ = ("_changed", "_codec", "_committed", "_prepared", "_size", "_touched")

    def __init__(self, codec: StateCodec) -> None:
        self._codec = codec
        # Three layers, newest first: changes since the last prepare; changes prepared for a commit that may fail; the
        # last commit. The newest layer that holds a key decides its value, which is `_MISSING` if it was deleted.
        self._changed: dict[Any, Any] = {}
        self._prepared: dict[Any, Any] = {}
        self._committed: dict[Any, Any] = {}
        self._size = 0
        self._touched: set[str] = set()  # "since" the last prepare, and "before" it, where that is not committed

    # Public methods.

    @compiled
    def get(self, key: K, default: Any = None) -> Any:
        """The value of `key`, or `default`."""
        value = self._find(key)
        return default if value is _MISSING else self._given(key, value)

    @compiled
    def put(self, key: K, value: V) -> None:
        """Set the value of `key`. Raises a `SerializationError` if it cannot be kept, and changes nothing."""
        kept: Any = value
        if type(value) not in ATOMS:
            kept = self._packed(value, "the value for key", key)
        try:
            is_missing = self._find(key) is _MISSING
        except TypeError as exc:
            raise SerializationError(f"{key!r} cannot be a key of the state: {exc}") from exc
        if type(key) is not str and key not in self._changed:
            self._check_key(key)
        self._size += is_missing
        self._changed[key] = kept

    def delete(self, key: K) -> None:
        """Remove `key` if the state has it."""
        if key in self:
            self._changed[key] = _MISSING
            self._size -= 1

    def pop(self, key: K, default: Any = _MISSING) -> Any:
        """Remove `key` and return its value. If it is missing, return `default`, or raise `KeyError` without one."""
        if default is not _MISSING and key not in self:
            return default
        value = self[key]
        self.delete(key)
        return value

    def setdefault(self, key: K, default: Any = None) -> Any:
        """The value of `key`, as a copy; puts `default` first if `key` is missing."""
        if key not in self:
            self.put(key, default)
        return self[key]

    def update(self, *pairs: Any, **named: Any) -> None:
        """Put each pair of `dict(*pairs, **named)`."""
        for key, value in dict(*pairs, **named).items():
            self.put(key, value)

    def clear(self) -> None:
        """Remove all keys."""
        for key in self._merged():
            self.delete(key)

    def touch(self) -> None:
        """Have a commit come though no key has changed: what this task remembers of time is part of it."""
        self._touched.add("since")

    def keys(self) -> Iterator[K]:
        return iter(self._merged())

    def items(self) -> Iterator[tuple[K, V]]:
        return self._pairs(self._merged())

    def values(self) -> Iterator[V]:
        return (value for _, value in self.items())

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return self.items()

    def __getitem__(self, key: K) -> Any:
        value = self._find(key)
        if value is _MISSING:
            raise KeyError(key)
        return self._given(key, value)

    __setitem__ = put

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self.delete(key)

    def __contains__(self, key: object) -> bool:
        return self._find(key) is not _MISSING

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"<KeyValueState of {self._size} keys>"

    # Methods that only the engine calls.

    def restore(self, sections: Iterable[bytes]) -> None:
        """Load the state from `sections`, oldest first."""
        for section in sections:
            flat = unpackb(section, ext_hook=_extension, strict_map_key=False, unicode_errors="surrogatepass")
            keys, values = flat[::2], flat[1::2]
            if Packed in set(map(type, keys)):
                keys = [self._unpacked(key) if type(key) is Packed else key for key in keys]
            if _MISSING not in values:
                self._committed.update(zip(keys, values, strict=True))
                continue
            for key, value in zip(keys, values, strict=True):  # in order: a key may be deleted and then put again
                _set(self._committed, key, value)
        self._size = len(self._committed)

    def has_changed(self) -> bool:
        return bool(self._changed or self._prepared or self._touched)

    def prepare_commit(self) -> bytes | None:
        """A section with all changes since the last commit, including those of a failed commit; None without any."""
        self._prepare()
        return self._section(self._prepared) if self._prepared else None

    def prepare_all(self) -> bytes | None:
        """A section with the whole state; None if it is empty."""
        self._prepare()
        return self._section(self._merged()) if self._prepared or self._committed else None

    def accept_prepared(self) -> None:
        """Move the prepared changes into the last commit."""
        if _MISSING not in self._prepared.values():
            self._committed.update(self._prepared)
        else:
            for key, value in self._prepared.items():
                _set(self._committed, key, value)
        self._prepared = {}
        self._touched.discard("before")

    def rollback(self) -> None:
        """Discard all changes since the last commit."""
        self._changed, self._prepared = {}, {}
        self._touched.clear()
        self._size = len(self._committed)

    def changes(self) -> dict[Any, Any]:
        """The changes since the last prepare, for `redo`."""
        return dict(self._changed)

    def redo(self, changes: Mapping[Any, Any]) -> None:
        """Apply the result of an earlier `changes()` again."""
        for key, kept in changes.items():
            self._size += (self._find(key) is _MISSING) - (kept is _MISSING)
            self._changed[key] = kept

    def committed(self) -> dict[Any, Any]:
        """A dict of the last commit."""
        return dict(self._pairs(self._committed))

    def committed_value(self, key: Any) -> Any:
        """The value of `key` in the last commit; None if it has none."""
        return self._given(key, self._committed.get(key))

    # Layers.

    def _prepare(self) -> None:
        if self._prepared:
            self._prepared.update(self._changed)
        else:
            self._prepared = self._changed
        self._changed = {}
        self._touched = {"before"} if self._touched else set()

    def _find(self, key: Any) -> Any:
        value = self._changed.get(key, _UNKNOWN)
        if value is _UNKNOWN and self._prepared:
            value = self._prepared.get(key, _UNKNOWN)
        return value if value is not _UNKNOWN else self._committed.get(key, _MISSING)

    def _merged(self) -> dict[Any, Any]:
        """{key: value as it is kept} of the current state."""
        merged = {**self._committed, **self._prepared, **self._changed}
        if len(merged) == self._size:
            return merged
        return {key: value for key, value in merged.items() if value is not _MISSING}

    # Packing.

    def _section(self, layer: dict[Any, Any]) -> bytes:
        flat = [_DELETION if part is _MISSING else part for pair in layer.items() for part in pair]
        try:
            return _pack(flat, self._lowered)
        except (OverflowError, ValueError):  # msgpack packs no huge int and no lone surrogate; the codec does
            return _pack([self._lowered(part) if type(part) in (int, str) else part for part in flat], self._lowered)

    def _lowered(self, part: Any) -> ExtType:
        return ExtType(PACKED, part if type(part) is Packed else self._codec.pack([part]))

    def _check_key(self, key: Any) -> None:
        if key != key:
            raise SerializationError(f"{key!r} cannot be a key of the state: it is not equal to itself")
        if type(key) in ATOMS or (type(key) is tuple and EQUAL_ATOMS.issuperset(map(type, key))):
            return
        packed = self._packed(key, "the key", key)
        if self._unpacked(packed) != key:
            raise SerializationError(f"{key!r} cannot be a key of the state: it is not equal to a copy of itself")
        if self._codec.defines_classes(packed) and not self._codec.knows_again(key):
            raise SerializationError(
                f"{key!r} cannot be a key of the state: its class is defined in the main program or in a function, and "
                "would be a different class after a restart; define it in a module, or use a tuple instead"
            )

    def _packed(self, part: Any, what: str, key: Any) -> Packed:
        try:
            return Packed(self._codec.pack_value(part))
        except SerializationError as exc:
            raise SerializationError(f"{what} {key!r} cannot be kept in the state: {exc}; {KEPT}") from exc

    def _given(self, key: Any, kept: Any) -> Any:
        if type(kept) is not Packed:
            return kept
        try:
            return self._unpacked(kept)
        except SerializationError as exc:
            raise SerializationError(f"the value for key {key!r} of the state cannot be read: {exc}") from exc

    def _unpacked(self, packed: bytes) -> Any:
        return self._codec.unpack_rows(bytes(packed), 1)[0][0]

    def _pairs(self, kept: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
        for key, value in kept.items():
            yield key, self._given(key, value)


State = KeyValueState  # Storm's name for any kind of state


def pairs_of(sections: Iterable[bytes], codec: StateCodec) -> dict[Any, Any]:
    """{key: value} of the sections of one task, oldest first, for readers of a checkpoint."""
    state: KeyValueState[Any, Any] = KeyValueState(codec)
    state.restore(sections)
    return state.committed()


def _set(layer: dict[Any, Any], key: Any, value: Any) -> None:
    if value is _MISSING:
        layer.pop(key, None)
    else:
        layer[key] = value


def _pack(flat: Sequence[Any], default: Any) -> bytes:
    packed: bytes = Packer(strict_types=True, default=default).pack(flat)
    return packed


def _extension(code: int, data: bytes) -> Any:
    if code == DELETED:
        return _MISSING
    if code == PACKED:
        return Packed(data)
    raise SerializationError(f"a section of the state holds the unknown extension type {code}")
