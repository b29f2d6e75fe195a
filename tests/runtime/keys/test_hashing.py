import math
import os
import subprocess
import sys
from collections import Counter, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystorm_spark.runtime.keys.hashing import partial_key_candidates, stable_hash

ROOT = Path(__file__).parents[3]


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Word(str, Enum):
    STORM = "storm"

    def __hash__(self) -> int:
        return hash(self.name)


class Colour(Enum):
    RED = 1
    BLUE = 2


class Access(Flag):
    READ = 1
    WRITE = 2


class Bits(IntFlag):
    ONE = 1
    TWO = 2


@dataclass(frozen=True)
class Place:
    country: str
    number: float
    note: str = field(default="", compare=False)


@dataclass
class Other:
    country: str
    number: float


@dataclass(eq=False)
class Box:
    number: int


Point = namedtuple("Point", "x y")


class SummerTime(tzinfo):
    """Clocks go back one hour: `fold` marks the second pass."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(hours=1 if moment is not None and moment.fold else 2)

    def tzname(self, moment: datetime | None) -> str:
        return "summer"

    def dst(self, moment: datetime | None) -> timedelta:
        return timedelta(0)


def one(value: object) -> int:
    return stable_hash([value])


def east(hours: float) -> timezone:
    return timezone(timedelta(hours=hours))


EQUAL = {
    "one": [1, 1.0, True, 1 + 0j, Decimal(1), Decimal("1.00"), Fraction(1), Level.LOW, Bits.ONE],
    "one in numpy": [1, np.True_, np.int64(1), np.uint8(1), np.float16(1), np.longdouble(1), np.complex64(1)],
    "zero": [0, 0.0, -0.0, False, Decimal("-0"), Fraction(0), complex(-0.0, -0.0), np.float32(-0.0)],
    "half": [0.5, Decimal("0.5"), Fraction(1, 2), np.float32(0.5), np.complex128(0.5)],
    "a number beyond 64 bits": [2**70, 2.0**70, Decimal(2**70), Fraction(2**70)],
    "infinity": [math.inf, Decimal("Infinity"), np.float32("inf"), complex(math.inf, 0)],
    "text": ["storm", Word.STORM, np.str_("storm")],
    "binary": [b"storm", bytearray(b"storm"), np.bytes_(b"storm")],
    "sequence": [[1, 2], (1, 2), (1.0, Fraction(2)), Point(1, 2), np.array([1, 2]), np.array([1, 2], dtype="f4")],
    "table": [[[1, 2], [3, 4]], ((1, 2), (3, 4)), np.array([[1, 2], [3, 4]])],
    "dict": [{"a": 1, "b": 2}, {"b": 2.0, "a": True}],
    "set": [{1, 2, "x"}, {"x", 2.0, True}, frozenset(["x", 1, 2])],
    "dataclass": [Place("de", 1), Place("de", 1.0), Place("de", 1, note="not compared")],
    "instant": [
        datetime(2024, 1, 1, 12, tzinfo=timezone.utc),
        datetime(2024, 1, 1, 14, tzinfo=east(2)),
        datetime(2023, 12, 31, 23, 30, tzinfo=east(-12.5)),
    ],
    "repeated hour": [datetime(2024, 10, 27, 2, tzinfo=SummerTime(), fold=fold) for fold in (0, 1)],
    "time of day": [time(12, tzinfo=timezone.utc), time(14, tzinfo=east(2)), time(10, 30, tzinfo=east(-1.5))],
    "time of day, folded": [time(12), time(12, fold=1)],
    "numpy moment": [np.datetime64("2024-01-01"), np.datetime64("2024-01-01T00:00:00", "ns"), datetime(2024, 1, 1)],
    "numpy day": [np.datetime64("2024-01-01"), np.datetime64("2024-01", "M"), date(2024, 1, 1)],
    "numpy duration": [np.timedelta64(90, "s"), np.timedelta64(90_000, "ms"), timedelta(minutes=1.5)],
}


@pytest.mark.parametrize("values", EQUAL.values(), ids=EQUAL.keys())
def test_equal_values_of_different_types_hash_alike(values: list[object]) -> None:
    assert len({one(value) for value in values}) == 1


def test_all_nans_are_one_key() -> None:
    nans = [math.nan, -math.nan, Decimal("NaN"), Decimal("sNaN"), np.float32("nan"), complex(1, math.nan)]

    assert len({one(value) for value in nans}) == 1


@given(st.integers() | st.integers(-1000, 1000), st.integers(1, 50))
def test_equal_numbers_hash_alike(number: int, divisor: int) -> None:
    whole = [number, Decimal(number), Fraction(number), Fraction(number * divisor, divisor)]
    inexact = [float(number), complex(number), np.float64(number)] if float(number) == number else []

    assert len({one(value) for value in whole + inexact}) == 1


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_hashes_like_its_exact_fraction_and_decimal(number: float) -> None:
    assert one(number) == one(Fraction(number)) == one(Decimal(number)) == one(complex(number))


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=3)
    | st.binary(max_size=3)
    | st.datetimes()
    | st.dates()
    | st.timedeltas()
    | st.uuids()
)
KEYS = st.recursive(SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=8)
VALUES = st.recursive(KEYS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))


def respelt(value: Any, draw: Callable[[Any], Any]) -> Any:
    """The same value written differently: other number types, other containers, another order."""
    if isinstance(value, (list, tuple)):
        return draw(st.sampled_from([list, tuple]))(respelt(item, draw) for item in value)
    if isinstance(value, frozenset):
        return set(draw(st.permutations(list(value))))
    if isinstance(value, dict):
        return {key: respelt(value[key], draw) for key in draw(st.permutations(list(value)))}
    if isinstance(value, int):
        return draw(st.sampled_from([int, Fraction, Decimal]))(value)
    return bytearray(value) if isinstance(value, bytes) else value


@given(st.lists(VALUES, max_size=3), st.data())
def test_equal_nested_keys_hash_alike(key: list[object], data: st.DataObject) -> None:
    assert stable_hash(key) == stable_hash(respelt(key, data.draw))


@given(SCALARS, SCALARS)
def test_equal_values_hash_alike(left: object, right: object) -> None:
    assert left != right or one(left) == one(right)


@given(st.datetimes(timezones=st.integers(-23, 23).map(east)), st.integers(-23, 23))
def test_an_instant_hashes_alike_in_every_time_zone(moment: datetime, hours: int) -> None:
    try:
        elsewhere = moment.astimezone(east(hours))
    except OverflowError:
        return
    assert one(moment) == one(elsewhere)


DIFFERENT: list[tuple[object, ...]] = [
    (None, 0, 1, 2**64, 1j, math.nan, math.inf),
    ("", "1", b"1", "a", b"a", "\ud83c", "\ud83c\udf3f"),
    ([], {}, set(), ["a"], {"a"}, {"a": "b"}, {"b": "a"}),
    (("ab", "c"), ("a", "bc"), ("a", "b", "c"), ("c", "b", "a"), ("a", ("b", "c")), (("a", "b"), "c")),
    (Colour.RED, Colour.BLUE, Access.READ, Access.READ | Access.WRITE, UUID(int=1)),
    (Place("a", 1), Place("b", 1), Other("a", 1), ("a", 1)),
    (date(2024, 1, 1), datetime(2024, 1, 1, 1), time(1), timedelta(hours=1)),
]


def test_different_values_hash_differently() -> None:
    values = [value for row in DIFFERENT for value in row]

    assert len({one(value) for value in values}) == len(values)


FAMILIES: dict[str, list[list[object]]] = {
    "words": [[f"w{i}"] for i in range(5000)],
    "integers": [[i] for i in range(1000)],
    "multiples of 8": [[8 * i] for i in range(1000)],
    "multiples of 4096": [[4096 * i] for i in range(1000)],
    "tenths": [[i / 10] for i in range(1000)],
    "tuples": [[(i, j)] for i in range(32) for j in range(32)],
    "pairs of fields": [[f"user-{i}", j] for i in range(32) for j in range(32)],
    "twins": [[i, i] for i in range(1000)],
}


@pytest.mark.parametrize("keys", FAMILIES.values(), ids=FAMILIES.keys())
def test_regular_keys_spread_evenly_over_any_number_of_tasks(keys: list[list[object]]) -> None:
    hashes = [stable_hash(key) for key in keys]

    for count in range(2, 65):
        mean = len(hashes) / count
        loads = Counter(value % count for value in hashes)
        # Chance alone keeps chi-squared within six deviations of its mean, and leaves no task without keys.
        excess = sum((loads[task] - mean) ** 2 / mean for task in range(count)) - (count - 1)
        assert excess < 6 * math.sqrt(2 * (count - 1))
        assert len(loads) == count


GOLDEN = {
    "no fields": ([], 1615569257),
    "None": ([None], 3474657353),
    "int": ([42], 1486604912),
    "negative int": ([-7], 201904648),
    "large int": ([10**30], 297258258),
    "float": ([2.5], 2956126387),
    "nan": ([math.nan], 2945002294),
    "complex": ([1 + 2j], 184026844),
    "str": (["word"], 3861505408),
    "lone surrogate": (["\ud800"], 3212819224),
    "bytes": ([b"word"], 2894490257),
    "two fields": (["word", 1], 3319925316),
    "nested": ([("a", [1, None], {"k": {1, 2}})], 3758773165),
    "datetime": ([datetime(2024, 2, 29, 1, 2, 3, 4)], 703892748),
    "aware": ([datetime(2024, 2, 29, tzinfo=timezone.utc)], 3318056737),
    "date": ([date(2024, 2, 29)], 3318056737),
    "time": ([time(1, 2, 3, 4)], 3226684140),
    "timedelta": ([timedelta.max], 4057609925),
    "decimal": ([Decimal("1.1")], 3412853410),
    "fraction": ([Fraction(1, 3)], 1026101422),
    "uuid": ([UUID(int=7)], 1138266878),
    "enum": ([Colour.RED], 812066678),
    "flag": ([Access.READ | Access.WRITE], 230274379),
    "dataclass": ([Place("de", 1)], 952212909),
}


@pytest.mark.parametrize(("key", "expected"), GOLDEN.values(), ids=GOLDEN.keys())
def test_hashes_are_those_of_earlier_versions(key: list[object], expected: int) -> None:
    assert stable_hash(key) == expected


IN_ANOTHER_PROCESS = """
import sys
from datetime import date, datetime
from pystorm_spark.runtime.keys.hashing import stable_hash
keys = [["word"], [b"word", 1.5], [("a", {"b", "c", 1}, {"d": None, "e": 2})], [date(2024, 1, 1), datetime(2024, 1, 1)]]
print(*map(stable_hash, keys), "numpy" in sys.modules)
"""


def test_hash_is_the_same_in_every_process_with_any_salt_and_without_numpy() -> None:
    outputs = set()
    for salt in ("0", "1", "random"):
        environment = {**os.environ, "PYTHONHASHSEED": salt}
        command = [sys.executable, "-c", IN_ANOTHER_PROCESS]
        outputs.add(subprocess.check_output(command, cwd=ROOT, env=environment, text=True))

    assert len(outputs) == 1
    assert outputs.pop().endswith(" False\n")


@pytest.mark.parametrize("thing", [object(), len, (i for i in [1]), Box(1), Colour, range(3)])
def test_an_object_that_cannot_be_a_key_is_refused_by_name(thing: object) -> None:
    message = rf"cannot group by a {type(thing).__qualname__}: .*a key must be made of values: .*; emit an id instead"

    with pytest.raises(TypeError, match=message):
        stable_hash(["word", [thing]])


@given(st.lists(st.text(max_size=4) | st.integers(), min_size=1, max_size=2), st.integers(2, 100))
def test_partial_key_has_two_different_candidates(key: list[object], count: int) -> None:
    first, second = partial_key_candidates(key, count)

    assert first != second
    assert {first, second} <= set(range(count))


def test_both_partial_key_candidates_are_the_only_task() -> None:
    assert partial_key_candidates(["word"], 1) == (0, 0)


def test_partial_key_candidates_are_spread_over_all_pairs() -> None:
    pairs = Counter(partial_key_candidates([f"w{i}"], 5) for i in range(5000))

    assert len(pairs) == 20
    assert max(pairs.values()) < 1.3 * 5000 / 20
