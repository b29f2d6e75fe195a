"""KeyValueState: what one task of a stateful bolt remembers. Used like a dict, committed like a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from msgpack import ExtType, Packer, unpackb

from pystorm_spark.core import compiled, laid_out
from pystorm_spark.errors import SerializationError
from pystorm_spark.naming import java_names
from pystorm_spark.topology.durable import DELETED, PACKED, StateCodec

K = TypeVar("K")
V = TypeVar("V")

ATOMS = frozenset({type(None), bool, int, float, str, bytes})  # nobody can change them
EQUAL_ATOMS = ATOMS - {float}  # equal to their copies, all of them
KEPT = "keep data (numbers, text, dates, lists, dicts, dataclasses, …), and make what is no data in prepare"
_DELETED = ExtType(DELETED, b"")
_MISSING: Any = object()


class Packed(bytes):
    """A value that is no atom, as bytes: a user who changes what `get` gave does not change the state."""


@java_names(iterator="items")
@laid_out
class KeyValueState(Generic[K, V]):
    """The state of one task: any values that can travel, by any such keys that can be hashed.

    `get` gives a value of its own to whoever asks: changing a list that came out of the state changes nothing until it
    is `put` again. Iterating gives pairs.

    A section is one msgpack array of keys and values in turn. Atoms are as they are, others `PACKED`.
    """

    __slots__ = ("_changed", "_codec", "_prepared", "_values")

    def __init__(self, codec: StateCodec) -> None:
        self._codec = codec
        self._values: dict[Any, Any] = {}
        # {key: what was there before}: before the first change since the last prepare, and before that since the last
        # commit. What is prepared belongs to a commit that is not yet known to have succeeded.
        self._changed: dict[Any, Any] = {}
        self._prepared: dict[Any, Any] = {}

    # What users call.

    @compiled
    def get(self, key: K, default: Any = None) -> Any:
        """The value of `key`, or `default`."""
        value = self._values.get(key, default)
        return value if type(value) is not Packed else self._unpacked(value)

    @compiled
    def put(self, key: K, value: V) -> None:
        """Keep `value` for `key`; a value that cannot be kept is an error, and the state is as it was."""
        kept: Any = value
        if type(value) not in ATOMS:
            kept = self._packed(value, "the value for key", key)
        try:
            is_new = key not in self._changed
        except TypeError as exc:
            raise SerializationError(f"{key!r} cannot be a key of the state: {exc}") from exc
        if is_new:
            if type(key) is not str:
                self._check_key(key)
            self._changed[key] = self._values.get(key, _MISSING)
        self._values[key] = kept

    def delete(self, key: K) -> None:
        """Forget `key`, if it is there."""
        if key in self._values:
            old = self._values.pop(key)
            self._changed.setdefault(key, old)

    def pop(self, key: K, default: Any = _MISSING) -> Any:
        """Forget `key`; the value that it had, or `default` if there was none and one is given."""
        if default is not _MISSING and key not in self._values:
            return default
        value = self[key]
        self.delete(key)
        return value

    def setdefault(self, key: K, default: Any = None) -> Any:
        """The value of `key`, which is `default` from now on if there was none; a list that comes out is a copy."""
        if key not in self._values:
            self.put(key, default)
        return self[key]

    def update(self, *pairs: Any, **named: Any) -> None:
        """Put whatever `dict` would make of the arguments."""
        for key, value in dict(*pairs, **named).items():
            self.put(key, value)

    def clear(self) -> None:
        """Forget all keys."""
        for key in list(self._values):
            self.delete(key)

    def keys(self) -> Iterator[K]:
        return iter(list(self._values))

    def items(self) -> Iterator[tuple[K, V]]:
        return self._pairs(list(self._values.items()))

    def values(self) -> Iterator[V]:
        return (value for _, value in self.items())

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return self.items()

    def __getitem__(self, key: K) -> Any:
        value = self._values[key]
        return self._unpacked(value) if type(value) is Packed else value

    __setitem__ = put

    def __delitem__(self, key: K) -> None:
        if key not in self._values:
            raise KeyError(key)
        self.delete(key)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)

    def __bool__(self) -> bool:
        return bool(self._values)

    def __repr__(self) -> str:
        return f"<KeyValueState of {len(self._values)} keys>"

    # What the engine calls.

    def restore(self, sections: Iterable[bytes]) -> None:
        """Begin with what `sections` hold, oldest first."""
        for section in sections:
            flat = unpackb(section, ext_hook=_extension, strict_map_key=False, unicode_errors="surrogatepass")
            keys, values = flat[::2], flat[1::2]
            if Packed in set(map(type, keys)):
                keys = [self._unpacked(key) if type(key) is Packed else key for key in keys]
            if _MISSING not in values:
                self._values.update(zip(keys, values, strict=True))
                continue
            for key, value in zip(keys, values, strict=True):  # one by one: a key may be deleted and then put again
                if value is _MISSING:
                    self._values.pop(key, None)
                else:
                    self._values[key] = value

    def has_changed(self) -> bool:
        return bool(self._changed or self._prepared)

    def prepare_commit(self) -> bytes | None:
        """The changes since the last commit, those included that were prepared before and never committed."""
        for key, old in self._changed.items():
            self._prepared.setdefault(key, old)
        self._changed = {}
        if not self._prepared:
            return None
        values = self._values
        return self._section([part for key in self._prepared for part in (key, values.get(key, _DELETED))])

    def prepare_all(self) -> bytes | None:
        """The same, for a commit that holds all there is."""
        self.prepare_commit()
        if not self._values and not self._prepared:
            return None
        return self._section([part for pair in self._values.items() for part in pair])

    def commit(self) -> None:
        """What was prepared is committed."""
        self._prepared = {}

    def rollback(self) -> None:
        """Go back to the last commit."""
        for layer in (self._changed, self._prepared):
            for key, old in layer.items():
                if old is _MISSING:
                    self._values.pop(key, None)
                else:
                    self._values[key] = old
            layer.clear()

    def committed(self) -> dict[Any, Any]:
        """What the last commit holds."""
        kept = {**self._values, **self._changed, **self._prepared}
        return dict(self._pairs((key, value) for key, value in kept.items() if value is not _MISSING))

    def committed_value(self, key: Any) -> Any:
        """What the last commit holds for `key`; None if it holds nothing."""
        for layer in (self._prepared, self._changed, self._values):
            if key in layer:
                value = layer[key]
                return self._unpacked(value) if type(value) is Packed else None if value is _MISSING else value
        return None

    # Packing.

    def _section(self, flat: list[Any]) -> bytes:
        try:
            return _pack(flat, self._lowered)
        except (OverflowError, ValueError):  # a huge int, or a lone surrogate: as values they can travel
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
        if self._codec.defines_classes(packed):
            raise SerializationError(
                f"{key!r} cannot be a key of the state: its class is defined in the main program or in a function, and "
                "would be another one after a restart; define it in a module, or take a tuple instead"
            )

    def _packed(self, part: Any, what: str, key: Any) -> Packed:
        try:
            return Packed(self._codec.pack_value(part))
        except SerializationError as exc:
            raise SerializationError(f"{what} {key!r} cannot be kept in the state: {exc}; {KEPT}") from exc

    def _unpacked(self, packed: bytes) -> Any:
        return self._codec.unpack_rows(bytes(packed), 1)[0][0]

    def _pairs(self, kept: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        for key, value in kept:
            yield key, self._unpacked(value) if type(value) is Packed else value


State = KeyValueState  # Storm's name for any kind of state


def pairs_of(sections: Iterable[bytes], codec: StateCodec) -> dict[Any, Any]:
    """What the sections of one task say, oldest first, for whoever reads a checkpoint."""
    state: KeyValueState[Any, Any] = KeyValueState(codec)
    state.restore(sections)
    return state.committed()


def _pack(flat: Sequence[Any], default: Any) -> bytes:
    packed: bytes = Packer(strict_types=True, default=default).pack(flat)
    return packed


def _extension(code: int, data: bytes) -> Any:
    if code == DELETED:
        return _MISSING
    if code == PACKED:
        return Packed(data)
    raise SerializationError(f"a section of the state holds an extension type {code}, which is not known")
