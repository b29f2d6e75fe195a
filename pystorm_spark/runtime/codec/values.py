"""Internal. Values that msgpack does not know: packed as extension types, or else by cloudpickle.

A value that is no atom is first *lowered* to what msgpack packs without loss: atoms, lists, dicts with atoms as keys,
and extension types whose bodies are msgpack again. Lowering decides by exact type, so that a subclass is never sent as
its base; what it does not know is pickled. `nested_unpack` is the way back.
"""

from __future__ import annotations

import copyreg
import dataclasses
import importlib
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from functools import lru_cache, partial
from types import MemberDescriptorType
from typing import Any
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo

import cloudpickle
from msgpack import ExtType, Packer, Unpacker, unpackb

from pystorm_spark.errors import SerializationError
from pystorm_spark.runtime.codec.arrays import lower_numpy, restore_array, restore_numpy_text
from pystorm_spark.runtime.codec.extension import Ext, Pickling, Restorer, Unpack, extension

MAX_DEPTH = 100  # levels of nesting; a deeper or recursive value is pickled as a whole
# One `unpackb` keeps 40 KB on the C stack: nested a hundred times it would overflow the stack of a thread.
STACK_LEVELS = 4
MAIN_MODULES = frozenset({"__main__", "__mp_main__"})

Lowerer = Callable[["Lowering", Any, int], object]


class TooDeepError(Exception):
    """A value is nested deeper than `MAX_DEPTH`, or contains itself."""


class Lowering:
    """Converts a value so that msgpack packs it without loss. Types in `atoms` stay unchanged."""

    def __init__(self, atoms: frozenset[type], pickling: Pickling) -> None:
        self._atoms = atoms
        self.pickled = pickling.dump
        # Without a `default` hook no Python code runs while it packs: threads may share it.
        self.pack: Callable[[object], bytes] = Packer(unicode_errors="surrogatepass").pack

    def __call__(self, value: object, depth: int = 0) -> object:
        kind = type(value)
        if kind in self._atoms:
            return value
        if depth >= MAX_DEPTH:
            raise TooDeepError
        return (LOWERERS.get(kind) or _lowerer(kind))(self, value, depth + 1)

    def packed(self, value: object) -> bytes:
        """`value` as msgpack. It raises `OverflowError` if an int in it is too large to be an atom."""
        try:
            return self.pack(self(value))
        except (TooDeepError, RecursionError):
            return self.pack(self._pickled_whole(value))

    def are_atoms(self, values: Iterable[object]) -> bool:
        return self._atoms.issuperset(map(type, values))

    def each(self, values: Iterable[object], depth: int) -> list[object]:
        items = [*values]
        return items if self.are_atoms(items) else [self(item, depth) for item in items]

    def extension(self, code: Ext, body: object) -> ExtType:
        return extension(code, self.pack(body))

    def _pickled_whole(self, value: object) -> ExtType:
        try:
            return self.pickled(value)
        except SerializationError as error:
            problem = f"it is nested deeper than {MAX_DEPTH} levels or holds itself, and {error}"
            raise SerializationError(problem) from error


def nested_unpack(pickling: Pickling) -> Unpack:
    """A function from msgpack to a value: each level of extension types is restored by the next level's function."""
    restorers = {**RESTORERS, Ext.PICKLE: pickling.load}
    unpack: Unpack = _refuse_depth
    for depth in reversed(range(MAX_DEPTH + 1)):
        read = unpackb if depth < STACK_LEVELS else _unpack_on_heap
        hook = partial(_restore, restorers, unpack)
        unpack = partial(read, ext_hook=hook, strict_map_key=False, unicode_errors="surrogatepass")
    return unpack


def _unpack_on_heap(data: bytes, **options: Any) -> Any:
    unpacker = Unpacker(read_size=len(data), max_buffer_size=len(data), **options)
    unpacker.feed(data)
    value = unpacker.unpack()
    if unpacker.tell() != len(data):
        raise SerializationError("an extension type is followed by bytes that do not belong to it")
    return value


def _refuse_depth(data: bytes) -> Any:
    raise SerializationError(f"extension types are nested deeper than {MAX_DEPTH} levels")


def _restore(restorers: dict[int, Restorer], unpack: Unpack, code: int, data: bytes) -> object:
    restore = restorers.get(code)
    if restore is None:
        raise SerializationError(f"there is no extension type {code}")
    return restore(unpack, data)


def _lowerer(kind: type) -> Lowerer:
    if issubclass(kind, Enum):
        return _lower_enum
    if dataclasses.is_dataclass(kind):
        return _lower_dataclass
    return lower_numpy if kind.__module__ == "numpy" else _lower_other


def _lower_other(lower: Lowering, value: object, depth: int) -> object:
    return lower.pickled(value)


def _lower_int(lower: Lowering, value: int, depth: int) -> object:
    if -(1 << 63) <= value < 1 << 64:
        return value
    return extension(Ext.INT, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))


def _lower_list(lower: Lowering, value: list[object], depth: int) -> object:
    return value if lower.are_atoms(value) else lower.each(value, depth)


def _lower_dict(lower: Lowering, value: dict[object, object], depth: int) -> object:
    if not lower.are_atoms(value):
        # Not a dict of lowered keys: two keys that differ only by identity would be lowered to one.
        return lower.extension(Ext.DICT, [lower.each(item, depth) for item in value.items()])
    if lower.are_atoms(value.values()):
        return value
    return {key: lower(item, depth) for key, item in value.items()}


def _lower_collection(code: Ext) -> Lowerer:
    return lambda lower, value, depth: lower.extension(code, lower.each(value, depth))


def _lower_datetime(lower: Lowering, value: datetime, depth: int) -> object:
    day = [value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond]
    return lower.extension(Ext.DATETIME, [*day, lower(value.tzinfo, depth), value.fold])


def _restore_datetime(unpack: Unpack, data: bytes) -> datetime:
    *parts, fold = unpack(data)
    return datetime(*parts, fold=fold)


def _lower_time(lower: Lowering, value: time, depth: int) -> object:
    clock = [value.hour, value.minute, value.second, value.microsecond]
    return lower.extension(Ext.TIME, [*clock, lower(value.tzinfo, depth), value.fold])


def _restore_time(unpack: Unpack, data: bytes) -> time:
    *parts, fold = unpack(data)
    return time(*parts, fold=fold)


def _lower_timezone(lower: Lowering, value: Any, depth: int) -> object:
    # The only way to distinguish a given name from one that `tzname` derives.
    return lower.extension(Ext.TIMEZONE, lower.each(value.__getinitargs__(), depth))


def _lower_zone_info(lower: Lowering, value: ZoneInfo, depth: int) -> object:
    if value.key is None or ZoneInfo(value.key) is not value:
        return lower.pickled(value)
    return lower.extension(Ext.ZONE_INFO, value.key)


def _restore_uuid(unpack: Unpack, data: bytes) -> UUID:
    raw, safety = unpack(data)
    return UUID(bytes=raw, is_safe=SafeUUID(safety))


def _lower_enum(lower: Lowering, value: Enum, depth: int) -> object:
    kind = type(value)
    reference = _reference(kind)
    if reference is None:
        return lower.pickled(value)
    if kind.__members__.get(value._name_) is value:
        return lower.extension(Ext.ENUM, [reference, value._name_])
    if kind(value._value_) is not value:
        return lower.pickled(value)
    return lower.extension(Ext.ENUM, [reference, None, lower(value._value_, depth)])  # a combination of flags


def _restore_enum(unpack: Unpack, data: bytes) -> object:
    reference, name, *value = unpack(data)
    kind = _resolve(reference)
    if not (isinstance(kind, type) and issubclass(kind, Enum)):
        raise SerializationError(f"{reference} is not an enum here")
    return kind(*value) if name is None else kind[name]


def _lower_dataclass(lower: Lowering, value: object, depth: int) -> object:
    kind: type = type(value)
    reference = _reference(kind) if _is_plain_dataclass(kind) else None
    if reference is None:
        return lower.pickled(value)
    attributes = lower(getattr(value, "__dict__", {}), depth)
    slots = {name: lower(item, depth) for name, item in _filled_slots(kind, value)}
    return lower.extension(Ext.DATACLASS, [reference, attributes, slots])


def _restore_dataclass(unpack: Unpack, data: bytes) -> object:
    reference, attributes, slots = unpack(data)
    kind = _resolve(reference)
    if not (isinstance(kind, type) and _is_plain_dataclass(kind)):
        raise SerializationError(f"{reference} is not a dataclass here, or makes its own copies")
    value: Any = object.__new__(kind)
    if attributes:
        value.__dict__.update(attributes)
    for name, item in slots.items():
        _slots(kind)[name].__set__(value, item)
    return value


@lru_cache(maxsize=512)
def _is_plain_dataclass(kind: type) -> bool:
    """Whether attributes are the whole state of an instance: no base class in C, no own pickling methods."""
    hooks = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
    return (
        dataclasses.is_dataclass(kind)
        and kind.__new__ is object.__new__
        and kind not in copyreg.dispatch_table
        and all(_is_default(kind, hook) for hook in hooks)
    )


def _is_default(kind: type, hook: str) -> bool:
    method = getattr(kind, hook, None)
    # `dataclass(frozen=True, slots=True)` brings its own `__getstate__`, which adds nothing to the attributes.
    return method is getattr(object, hook, None) or getattr(method, "__module__", None) == "dataclasses"


@lru_cache(maxsize=512)
def _slots(kind: type) -> dict[str, MemberDescriptorType]:
    members = (item for owner in reversed(kind.__mro__) for item in vars(owner).items())
    return {name: member for name, member in members if isinstance(member, MemberDescriptorType)}


def _filled_slots(kind: type, value: object) -> Iterator[tuple[str, object]]:
    for name, slot in _slots(kind).items():
        with suppress(AttributeError):
            yield name, slot.__get__(value)


def _reference(kind: type) -> str | None:
    """`module:qualname` of a class, if every process can import it; otherwise None."""
    reference = f"{kind.__module__}:{kind.__qualname__}"
    by_value = cloudpickle.list_registry_pickle_by_value()
    if kind.__module__ in MAIN_MODULES or any(f"{kind.__module__}.".startswith(f"{name}.") for name in by_value):
        return None
    with suppress(AttributeError, KeyError):
        return reference if operator.attrgetter(kind.__qualname__)(sys.modules[kind.__module__]) is kind else None
    return None


def _resolve(reference: str) -> object:
    module, qualname = reference.split(":")
    return operator.attrgetter(qualname)(sys.modules.get(module) or importlib.import_module(module))


LOWERERS: dict[type, Lowerer] = {
    int: _lower_int,
    list: _lower_list,
    dict: _lower_dict,
    tuple: _lower_collection(Ext.TUPLE),
    set: _lower_collection(Ext.SET),
    frozenset: _lower_collection(Ext.FROZENSET),
    datetime: _lower_datetime,
    date: lambda lower, value, depth: lower.extension(Ext.DATE, [value.year, value.month, value.day]),
    time: _lower_time,
    timedelta: lambda lower, value, depth: lower.extension(
        Ext.TIMEDELTA, [value.days, value.seconds, value.microseconds]
    ),
    timezone: _lower_timezone,
    ZoneInfo: _lower_zone_info,
    Decimal: lambda lower, value, depth: extension(Ext.DECIMAL, str(value).encode()),
    UUID: lambda lower, value, depth: lower.extension(Ext.UUID, [value.bytes, value.is_safe.value]),
}

RESTORERS: dict[int, Restorer] = {
    Ext.INT: lambda unpack, data: int.from_bytes(data, "little", signed=True),
    Ext.TUPLE: lambda unpack, data: tuple(unpack(data)),
    Ext.SET: lambda unpack, data: set(unpack(data)),
    Ext.FROZENSET: lambda unpack, data: frozenset(unpack(data)),
    Ext.DICT: lambda unpack, data: dict(unpack(data)),
    Ext.DATETIME: _restore_datetime,
    Ext.DATE: lambda unpack, data: date(*unpack(data)),
    Ext.TIME: _restore_time,
    Ext.TIMEDELTA: lambda unpack, data: timedelta(*unpack(data)),
    Ext.TIMEZONE: lambda unpack, data: timezone(*unpack(data)),
    Ext.ZONE_INFO: lambda unpack, data: ZoneInfo(unpack(data)),
    Ext.DECIMAL: lambda unpack, data: Decimal(data.decode()),
    Ext.UUID: _restore_uuid,
    Ext.ENUM: _restore_enum,
    Ext.DATACLASS: _restore_dataclass,
    Ext.NUMPY_ARRAY: restore_array,
    Ext.NUMPY_SCALAR: lambda unpack, data: restore_array(unpack, data)[()],
    Ext.NUMPY_TEXT: restore_numpy_text,
}
