"""Internal. The hashes of Java, so that a topology moved from Storm may keep the task of every key.

| Python | hashed as Java's |
|---|---|
| `None`, `bool`, `str`, `float` | `null`, `Boolean`, `String` (UTF-16), `Double` |
| `int` | `Integer` if it fits in 32 bits, else `Long` if in 64, else `BigInteger` |
| `Decimal`, `UUID` | `BigDecimal`, `java.util.UUID` |
| `bytes`, `bytearray` | `byte[]`, by content |
| `list`, `tuple` | `List`, `Object[]`; one formula for both |
| `dict`, `set`, `frozenset` | `Map`, `Set` |

Two choices were made. Where Java programs emit `Integer`, multilang ones emit `Long`: the two hash alike from 0 to
2**31 - 1 but not below 0, where `Integer` is taken. And an array inside a `List`, `Map` or `Set` is hashed by identity
in Java, so Storm has no fixed task for such a key: here it is hashed by content.

An enum with a mixed-in type is hashed as its value, numpy's values as their Python counterparts. As in Java, and unlike
in Python, `1`, `1.0` and `True` are different keys.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from uuid import UUID

from pystorm_spark.runtime.keys.hashing import ByType, unwrapped

_NAN_BITS = 0x7FF8000000000000


def java_hash(value: object) -> int:
    """The `hashCode` of the Java counterpart of `value`, a signed 32-bit integer.

    Raises:
        TypeError: `value` has no counterpart, or one that Java hashes by identity.
    """
    return _signed(_HASHES[type(value)](value))


def java_fields_index(values: Sequence[object], count: int) -> int:
    """The index, of `count` tasks in ascending order, that Storm's fields grouping chooses."""
    return java_hash(tuple(values)) % count


def java_partial_key_candidates(values: Sequence[object], count: int) -> tuple[int, int]:
    """The indexes, of `count` tasks in ascending order, between which Storm's partial key grouping chooses."""
    key = struct.pack(f">{len(values)}i", *map(java_hash, values))
    random = JavaRandom(java_hash(key))
    first, second = random.next_int(count), random.next_int(count)
    return first, (second + 1) % count if first == second else second


class JavaRandom:
    """The generator of `java.util.Random`: the same numbers from the same seed."""

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ 0x5DEECE66D) & 0xFFFFFFFFFFFF

    def next_int(self, bound: int) -> int:
        """A number from 0 to `bound` - 1."""
        if bound & (bound - 1) == 0:
            return (bound * self._next_31_bits()) >> 31
        # Reject numbers of the last, incomplete run, so that all remainders are equally likely.
        usable = (1 << 31) - (1 << 31) % bound
        while (bits := self._next_31_bits()) >= usable:
            pass
        return bits % bound

    def _next_31_bits(self) -> int:
        self._state = (self._state * 0x5DEECE66D + 0xB) & 0xFFFFFFFFFFFF
        return self._state >> 17


def _signed(number: int) -> int:
    return (number & 0xFFFFFFFF) - ((number & 0x80000000) << 1)


def _folded(hashes: Iterable[int], start: int) -> int:
    total = start
    for item in hashes:
        total = (31 * total + item) & 0xFFFFFFFF
    return total


def _halves(bits: int) -> int:
    return bits ^ (bits >> 32)


def _null(value: None) -> int:
    return 0


def _boolean(value: bool) -> int:
    return 1231 if value else 1237


def _integer(value: int) -> int:
    if -(1 << 31) <= value < 1 << 31:
        return value
    if -(1 << 63) <= value < 1 << 63:
        return _halves(value)
    return _big_integer(value)


def _big_integer(value: int) -> int:
    size = (value.bit_length() + 31) // 32
    words = struct.unpack(f">{size}I", abs(value).to_bytes(size * 4, "big"))
    magnitude = _folded(words, start=0)
    return -magnitude if value < 0 else magnitude


def _double(value: float) -> int:
    bits: int = struct.unpack(">q", struct.pack(">d", value))[0]
    return _halves(bits if value == value else _NAN_BITS)


def _big_decimal(value: Decimal) -> int:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return _rest(value)
    unscaled = int(Decimal((sign, digits, 0)))
    return 31 * _big_integer(unscaled) - exponent


def _string(value: str) -> int:
    encoded = value.encode("utf-16-be", "surrogatepass")
    return _folded(struct.unpack(f">{len(encoded) // 2}H", encoded), start=0)


def _bytes(value: bytes | bytearray) -> int:
    return _folded(struct.unpack(f"{len(value)}b", value), start=1)


def _uuid(value: UUID) -> int:
    return _halves((value.int >> 64) ^ value.int)


def _sequence(value: Sequence[object]) -> int:
    return _folded(map(java_hash, value), start=1)


def _set(value: AbstractSet[object]) -> int:
    return sum(map(java_hash, value))


def _map(value: Mapping[object, object]) -> int:
    return sum(java_hash(key) ^ java_hash(item) for key, item in value.items())


def _rest(value: object) -> int:
    plain = unwrapped(value)
    if plain is not value:
        return java_hash(plain)
    raise TypeError(
        f"cannot hash a {type(value).__qualname__} as Java does: {value!r:.100}; Java has no counterpart for it or "
        "hashes it by identity; emit an id, its name or its text instead, or group by the default hash"
    )


_HASHES: ByType[int] = ByType(
    {
        type(None): _null,
        bool: _boolean,
        int: _integer,
        float: _double,
        Decimal: _big_decimal,
        str: _string,
        bytes: _bytes,
        bytearray: _bytes,
        UUID: _uuid,
        list: _sequence,
        tuple: _sequence,
        dict: _map,
        set: _set,
        frozenset: _set,
        object: _rest,
    }
)
