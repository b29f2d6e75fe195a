import json
from collections import namedtuple
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from pystorm_spark.runtime.keys.java_hash import JavaRandom, java_fields_index, java_hash, java_partial_key_candidates

# Printed by a program on OpenJDK 17: {"hashes": [[value, hash]], "randoms": [[seed, bound, numbers]],
# "keys": [[values, count, index of fields grouping, first and second candidate of partial key grouping]]}
VECTORS = json.loads(Path(__file__).with_name("java_vectors.json").read_text())


class Level(IntEnum):
    HIGH = 2


class Word(str, Enum):
    STORM = "storm"


class Colour(Enum):
    RED = 1


class Access(Flag):
    READ = 1


Point = namedtuple("Point", "x y")


DECODERS: dict[str, Callable[[Any], object]] = {
    "f": float.fromhex,
    "D": Decimal,
    "u": UUID,
    "b": bytes.fromhex,
    "t": lambda items: tuple(map(from_vector, items)),
    "m": lambda items: {key: from_vector(item) for key, item in items},
    "S": set,
}


def from_vector(spelling: Any) -> Any:
    """Decode a value of the vectors; one that JSON lacks is an object of one entry, {type: spelling}."""
    if isinstance(spelling, list):
        return [from_vector(item) for item in spelling]
    if isinstance(spelling, dict):
        ((kind, text),) = spelling.items()
        return DECODERS[kind](text)
    return spelling


@pytest.mark.parametrize(("spelling", "expected"), VECTORS["hashes"])
def test_java_hash_equals_that_of_the_java_virtual_machine(spelling: object, expected: int) -> None:
    assert java_hash(from_vector(spelling)) == expected


@pytest.mark.parametrize(("seed", "bound", "expected"), VECTORS["randoms"])
def test_java_random_equals_that_of_the_java_virtual_machine(seed: int, bound: int, expected: list[int]) -> None:
    random = JavaRandom(seed)

    assert [random.next_int(bound) for _ in expected] == expected


def test_java_fields_index_is_the_one_storm_chooses() -> None:
    for spelling, count, index, _, _ in VECTORS["keys"]:
        assert java_fields_index(from_vector(spelling), count) == index, spelling


def test_java_partial_key_candidates_are_those_storm_chooses() -> None:
    for spelling, count, _, first, second in VECTORS["keys"]:
        assert java_partial_key_candidates(from_vector(spelling), count) == (first, second), spelling


def test_java_hash_differs_for_numbers_of_different_types() -> None:
    assert len({java_hash(1), java_hash(1.0), java_hash(True), java_hash(Decimal(1)), java_hash(Decimal("1.0"))}) == 5


def test_java_hash_of_an_array_inside_a_list_depends_on_its_content() -> None:
    assert java_hash([b"a", (1, 2)]) == java_hash((bytearray(b"a"), [1, 2]))


COUNTERPARTS = {
    "int enum": (Level.HIGH, 2),
    "str enum": (Word.STORM, "storm"),
    "named tuple": (Point(1, 2), (1, 2)),
    "numpy integer": (np.int64(-1), -1),
    "numpy float": (np.float32(0.5), 0.5),
    "numpy bool": (np.True_, True),
    "numpy array": (np.array([1, 2]), [1, 2]),
}


@pytest.mark.parametrize(("value", "same"), COUNTERPARTS.values(), ids=COUNTERPARTS.keys())
def test_java_hash_of_a_value_equals_that_of_its_plain_counterpart(value: object, same: object) -> None:
    assert java_hash(value) == java_hash(same)


MOMENTS = [datetime(2024, 1, 1), date(2024, 1, 1), time(1), timedelta(1), np.datetime64("2024-01-01")]
NUMBERS = [1j, Fraction(1, 2), Decimal("NaN"), Decimal("Infinity")]


@pytest.mark.parametrize("thing", [*MOMENTS, *NUMBERS, Colour.RED, Access.READ, object(), len])
def test_java_hash_refuses_values_without_a_stable_hash_in_java(thing: object) -> None:
    with pytest.raises(TypeError, match=r"as Java does: .*emit an id, its name or its text"):
        java_hash([thing])
