"""Internal. What msgpack cannot carry by itself: extension types for values, and cloudpickle for the rest.

A value that is no atom is first *lowered* to what msgpack packs without loss: atoms, lists, dicts with atoms as keys,
and extension types whose bodies are msgpack again. Lowering decides by exact type, so that a subclass is never sent as
its base; what it does not know is pickled. `nested_unpack` is the way back.
"""

from __future__ import annotations

import copyreg
import dataclasses
import importlib
import io
import operator
import pickle
import sys
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from functools import lru_cache, partial
from types import MemberDescriptorType, NoneType
from typing import Any, ClassVar, Protocol
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo

import cloudpickle
from msgpack import ExtType, Packer, Unpacker, unpackb

from pystorm_spark.errors import SerializationError

ATOMS: frozenset[type] = frozenset({NoneType, bool, int, float, str, bytes})
MAX_DEPTH = 100  # levels of nesting; what is deeper, or holds itself, is pickled whole
# One `unpackb` keeps 40 KB on the C stack: nested a hundred times it would overflow the stack of a thread.
STACK_LEVELS = 4
FORBIDDEN = "`topology.fall.back.on.pickle: false` forbids"
MAIN_MODULES = frozenset({"__main__", "__mp_main__"})

Unpack = Callable[[bytes], Any]
Lowerer = Callable[["Lowering", Any, int], object]
Restorer = Callable[[Unpack, bytes], object]


class Ext(IntEnum):
    """The extension types on the wire: never change or reuse a number without raising `codec.FORMAT_VERSION`."""

    INT = 1
    TUPLE = 2
    SET = 3
    FROZENSET = 4
    DICT = 5
    DATETIME = 6
    DATE = 7
    TIME = 8
    TIMEDELTA = 9
    TIMEZONE = 10
    ZONE_INFO = 11
    DECIMAL = 12
    UUID = 13
    ENUM = 14
    DATACLASS = 15
    NUMPY_ARRAY = 16
    NUMPY_SCALAR = 17
    NUMPY_TEXT = 18
    PICKLE = 19


def extension(code: Ext, data: bytes) -> ExtType:
    """`ExtType(code, data)` in half the time: its checks of both arguments are left out."""
    return tuple.__new__(ExtType, (code, data))


class Pickling(Protocol):
    """What becomes of a value that has no extension type."""

    def dump(self, value: object) -> ExtType: ...

    def load(self, unpack: Unpack, data: bytes) -> object: ...


class TooDeepError(Exception):
    """A value is nested deeper than `MAX_DEPTH`, or holds itself."""


class Lowering:
    """Turns a value into what msgpack packs without loss; types in `atoms` pass as they are."""

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
        """`value` as msgpack; an `OverflowError` says that an int in it passed as an atom and is none."""
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


def type_name(kind: type) -> str:
    """The name of `kind` as an error message shows it."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _lowerer(kind: type) -> Lowerer:
    if issubclass(kind, Enum):
        return _lower_enum
    if dataclasses.is_dataclass(kind):
        return _lower_dataclass
    return _lower_numpy if kind.__module__ == "numpy" else _lower_other


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
    # The only way to tell a given name from one that `tzname` makes up.
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
    """Whether the attributes of an instance are all there is to it: no base in C, no pickling of its own."""
    hooks = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
    return (
        dataclasses.is_dataclass(kind)
        and kind.__new__ is object.__new__
        and kind not in copyreg.dispatch_table
        and all(_is_default(kind, hook) for hook in hooks)
    )


def _is_default(kind: type, hook: str) -> bool:
    method = getattr(kind, hook, None)
    # `dataclass(frozen=True, slots=True)` brings its own `__getstate__`, which keeps nothing that we do not.
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
    """`module:qualname` of a class that every process can import under that name, else None."""
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


def _numpy() -> Any:
    """NumPy, imported only once a value needs it; untyped, as its stubs are for newer Pythons than ours."""
    return importlib.import_module("numpy")


def _lower_numpy(lower: Lowering, value: Any, depth: int) -> object:
    np = _numpy()
    kind = type(value)
    if kind in (np.str_, np.bytes_):  # an array, or NumPy's own `str()`, would drop the NULs at their ends
        return lower.extension(Ext.NUMPY_TEXT, str.__str__(value) if kind is np.str_ else bytes(value))
    array = np.asarray(value)
    description = _described(array.dtype)
    if description is None or kind not in (np.ndarray, array.dtype.type):
        return lower.pickled(value)
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    code = Ext.NUMPY_ARRAY if kind is np.ndarray else Ext.NUMPY_SCALAR
    return lower.extension(code, [description, list(array.shape), order, array.tobytes(order)])


def _restore_array(unpack: Unpack, data: bytes) -> Any:
    np = _numpy()
    description, shape, order, raw = unpack(data)
    array = np.ndarray(shape, _dtype(description), bytearray(raw), order=order)
    if array.nbytes != len(raw):
        raise SerializationError(f"an array of {array.nbytes} bytes came with {len(raw)}")
    return array


def _restore_numpy_text(unpack: Unpack, data: bytes) -> object:
    np = _numpy()
    text = unpack(data)
    return np.str_(text) if isinstance(text, str) else np.bytes_(text)


def _described(dtype: Any) -> object:
    """What `_dtype` makes `dtype` of again: its name, `[base, shape]` or its fields; None if it cannot be told."""
    if dtype.hasobject or dtype.metadata:
        return None
    candidates = [dtype.str, dtype.str[0] + dtype.char]  # the second for the twins of one size: long and long long
    if dtype.subdtype is not None:
        candidates = [[_described(dtype.subdtype[0]), list(dtype.subdtype[1])]]
    elif dtype.names is not None:
        candidates = [_described_fields(dtype)]
    for candidate in candidates:
        with suppress(TypeError, ValueError):
            if _is_same_dtype(_dtype(candidate), dtype):
                return candidate
    return None


def _described_fields(dtype: Any) -> dict[str, object]:
    fields = [dtype.fields[name] for name in dtype.names]
    return {
        "names": list(dtype.names),
        "formats": [_described(field[0]) for field in fields],
        "offsets": [field[1] for field in fields],
        "itemsize": dtype.itemsize,
        "aligned": dtype.isalignedstruct,
    }


def _dtype(description: Any) -> Any:
    np = _numpy()
    if isinstance(description, str):
        return np.dtype(description)
    if isinstance(description, list):
        base, shape = description
        return np.dtype((_dtype(base), tuple(shape)))
    return np.dtype({**description, "formats": [_dtype(item) for item in description["formats"]]})


def _is_same_dtype(one: Any, other: Any) -> bool:
    return (
        one == other
        and one.type is other.type
        and one.char == other.char
        and one.isalignedstruct == other.isalignedstruct
    )


class CloudPickling:
    """Pickles what has no extension type, classes of `__main__` and local ones by value."""

    def dump(self, value: object) -> ExtType:
        buffer = io.BytesIO()
        try:
            _ValuePickler(buffer).dump(value)
        except Exception as error:
            raise SerializationError(f"a {type_name(type(value))} cannot be pickled: {error}") from error
        return extension(Ext.PICKLE, buffer.getvalue())

    def load(self, unpack: Unpack, data: bytes) -> object:
        return pickle.loads(data)


class NoPickling:
    """Refuses what has no extension type."""

    def dump(self, value: object) -> ExtType:
        raise SerializationError(f"a {type_name(type(value))} travels only by pickle, which {FORBIDDEN}")

    def load(self, unpack: Unpack, data: bytes) -> object:
        raise SerializationError(f"a value arrived by pickle, which {FORBIDDEN}")


def _refuse_file(file: io.TextIOWrapper) -> object:
    raise pickle.PicklingError("an open file belongs to its process")


def _reduce_memoryview(view: memoryview) -> tuple[Callable[..., memoryview], tuple[object, ...]]:
    data = view.tobytes() if view.readonly else bytearray(view.tobytes())
    state = (data, view.format, view.shape)
    _restore_memoryview(*state)  # a format that cannot be restored is refused here, not at the receiver
    return _restore_memoryview, state


def _restore_memoryview(data: bytes | bytearray, form: Any, shape: Any) -> memoryview:
    flat = memoryview(data)
    return flat.cast(form) if len(shape) == 1 else flat.cast(form, shape)


class _ValuePickler(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle, but it does not send an open file as its text nor a memoryview as bytes."""

    dispatch_table: ClassVar[ChainMap[type, Any]] = ChainMap(
        {io.TextIOWrapper: _refuse_file, memoryview: _reduce_memoryview}, cloudpickle.Pickler.dispatch_table
    )


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
    Ext.NUMPY_ARRAY: _restore_array,
    Ext.NUMPY_SCALAR: lambda unpack, data: _restore_array(unpack, data)[()],
    Ext.NUMPY_TEXT: _restore_numpy_text,
}
