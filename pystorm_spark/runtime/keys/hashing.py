"""Internal. The hash of a grouping key: equal keys give equal hashes, in every process, on every host, at every start.

Python's own `hash` is salted per process for text, bytes and dates, so a key is first spelt out as bytes in such a way
that equal values are spelt alike: `1`, `1.0`, `True` and `Decimal(1)` are one key. The spelling is then digested.
A change to either moves keys to other tasks, away from the state an older release saved for them: the golden values in
the tests hold both fast.
"""

from __future__ import annotations

import cmath
import dataclasses
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from fractions import Fraction
from typing import Any, TypeVar
from uuid import UUID

T = TypeVar("T")

_BITS_64 = 0xFFFFFFFFFFFFFFFF
# 2**64 divided by the golden ratio.
_GOLDEN = 0x9E3779B97F4A7C15
_NOT_A_NUMBER = b"nan"
_MICROSECOND = timedelta(microseconds=1)

# numpy kind -> the dtype whose items become Python's own values whatever the width or the unit was.
_PLAIN_DTYPES = {"f": "f8", "c": "c16", "M": "M8[us]", "m": "m8[us]"}


class ByType(dict[type, Callable[[Any], T]]):
    """A table of functions by argument type. An unlisted type has the entry of its nearest base class.

    The entry of `object` is the default.
    """

    def __missing__(self, kind: type) -> Callable[[Any], T]:
        return next(self[base] for base in kind.__mro__ if base in self)


def stable_hash(values: Sequence[object]) -> int:
    """The hash of a grouping key, from 0 to 2**32 - 1.

    Equal keys give equal hashes; a list and a tuple of equal items do too. All NaNs are one key.

    Raises:
        TypeError: The key holds something that is not a value: a function, or an object that is equal to itself only.
    """
    spelling = _spelling(values[0]) if len(values) == 1 else _sequence(values)
    return _mixed(zlib.crc32(spelling))


def partial_key_candidates(values: Sequence[object], count: int) -> tuple[int, int]:
    """The indexes of the two tasks, of `count`, that share a key; different ones if there is more than one task."""
    if count == 1:
        return 0, 0
    rest, first = divmod(stable_hash(values), count)
    return first, (first + 1 + rest % (count - 1)) % count


def unwrapped(value: object) -> object:
    """Numpy's scalars and arrays as Python's own values and lists; anything else as it is."""
    # If there is a NumPy value, NumPy is already imported; other processes should not import it.
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, (numpy.generic, numpy.ndarray)):
        return value
    plain: object = value.astype(_PLAIN_DTYPES.get(value.dtype.kind, value.dtype)).tolist()
    return plain


def _mixed(crc: int) -> int:
    # A crc is linear: regular keys have regular crcs. After two rounds, statistical tests find no pattern.
    once = crc * _GOLDEN & _BITS_64
    return ((once ^ once >> 32) * _GOLDEN & _BITS_64) >> 32


def _spelling(value: object) -> bytes:
    return _SPELLINGS[type(value)](value)


def _framed(spellings: Iterable[bytes]) -> bytes:
    # The lengths keep ["ab", "c"] and ["a", "bc"] apart.
    return b"".join([b"%d:%b" % (len(spelling), spelling) for spelling in spellings])


def _none(value: None) -> bytes:
    return b"0"


# Python hashes equal numbers alike, whatever their types, and without salt. This uses the hash of the plain type,
# because a subclass such as an enum may define a salted one.
def _integer(value: int) -> bytes:
    return b"n%d" % int.__hash__(value)


def _inexact(value: complex) -> bytes:
    return _NOT_A_NUMBER if cmath.isnan(value) else b"n%d" % hash(complex(value))


def _decimal(value: Decimal) -> bytes:
    return _NOT_A_NUMBER if value.is_nan() else b"n%d" % Decimal.__hash__(value)


def _fraction(value: Fraction) -> bytes:
    return b"n%d" % Fraction.__hash__(value)


def _text(value: str) -> bytes:
    return b"s" + value.encode("utf-8", "surrogatepass")


def _binary(value: bytes | bytearray) -> bytes:
    return b"b" + value


def _uuid(value: UUID) -> bytes:
    return b"u" + value.bytes


def _sequence(value: Sequence[object]) -> bytes:
    return b"l" + _framed(map(_spelling, value))


def _set(value: AbstractSet[object]) -> bytes:
    return b"S" + _framed(sorted(map(_spelling, value)))


def _mapping(value: Mapping[object, object]) -> bytes:
    return b"m" + _framed(sorted(_framed(map(_spelling, item)) for item in value.items()))


def _date(value: date) -> bytes:
    # As midnight, because numpy's dates equal both.
    return b"d%d" % (value.toordinal() * 86_400_000_000)


def _datetime(value: datetime) -> bytes:
    offset = _offset(value) // _MICROSECOND
    return b"d%d" % (value.toordinal() * 86_400_000_000 + _micros_of_day(value) - offset)


def _time(value: time) -> bytes:
    # Times of day are compared by the whole seconds of their offsets only.
    offset = _offset(value) // timedelta(seconds=1) * 1_000_000
    return b"T%d" % (_micros_of_day(value) - offset)


def _timedelta(value: timedelta) -> bytes:
    return b"t%d" % (value // _MICROSECOND)


def _micros_of_day(value: datetime | time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _offset(value: datetime | time) -> timedelta:
    # Within one time zone, times that differ in `fold` only are equal.
    return value.replace(fold=0).utcoffset() or timedelta(0)


# Classes are identified by qualified name, without the module: a script is `__main__` in one process only.
def _enum(value: Enum) -> bytes:
    return b"e" + _sequence((type(value).__qualname__, value.name))


def _flag(value: Flag) -> bytes:
    # By value, since the name of a combination depends on the version of Python.
    return b"e" + _sequence((type(value).__qualname__, value.value))


def _rest(value: object) -> bytes:
    plain = unwrapped(value)
    if plain is not value:
        return _spelling(plain)
    kind = type(value)
    if dataclasses.is_dataclass(kind) and kind.__eq__ is not object.__eq__:
        fields = [field.name for field in dataclasses.fields(kind) if field.compare and field.hash is not False]
        return b"c" + _sequence((kind.__qualname__, *(getattr(value, name) for name in fields)))
    raise TypeError(
        f"cannot group by a {kind.__qualname__}: {value!r:.100}; a key must be made of values: None, numbers, str, "
        "bytes, dates and times, UUIDs, enums, dataclasses with eq, and lists, tuples, dicts and sets of these; "
        "emit an id instead"
    )


_SPELLINGS: ByType[bytes] = ByType(
    {
        type(None): _none,
        bool: _integer,
        int: _integer,
        float: _inexact,
        complex: _inexact,
        Decimal: _decimal,
        Fraction: _fraction,
        str: _text,
        bytes: _binary,
        bytearray: _binary,
        UUID: _uuid,
        list: _sequence,
        tuple: _sequence,
        dict: _mapping,
        set: _set,
        frozenset: _set,
        datetime: _datetime,
        date: _date,
        time: _time,
        timedelta: _timedelta,
        Flag: _flag,
        Enum: _enum,
        object: _rest,
    }
)
