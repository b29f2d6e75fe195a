"""Internal. The extension types on the wire, by number."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Protocol

from msgpack import ExtType

Unpack = Callable[[bytes], Any]
Restorer = Callable[[Unpack, bytes], object]


class Ext(IntEnum):
    """The extension types on the wire: never change or reuse a number without raising `codec.FRAME_FORMAT_VERSION`."""

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
    """`ExtType(code, data)` in half the time, without its argument checks."""
    return tuple.__new__(ExtType, (code, data))


class Pickling(Protocol):
    """Handles values that have no extension type."""

    def dump(self, value: object) -> ExtType: ...

    def load(self, unpack: Unpack, data: bytes) -> object: ...


def type_name(kind: type) -> str:
    """The name of `kind` as an error message shows it."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
