"""Every kind of value between slots: it arrives with the same type and value."""

from __future__ import annotations

import collections
import dataclasses
import decimal
import enum
import functools
import io
import math
import pathlib
import struct
import subprocess
import sys
import threading
import typing
import uuid
import zoneinfo
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from zoneinfo import ZoneInfo

import cloudpickle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystorm_spark.errors import SerializationError
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.runtime.codec.values import MAX_DEPTH
from tests.ids import shown

ROOT = pathlib.Path(__file__).parents[3]
CODEC = ValueCodec()
STRICT = ValueCodec(fall_back_on_pickle=False)
CEST = timezone(timedelta(hours=2), "CEST")
BERLIN = ZoneInfo("Europe/Berlin")


class Color(enum.Enum):
    RED = "red"
    CRIMSON = "red"  # noqa: PIE796
    LAMBDA = staticmethod(len)
    LIST = [1, 2]


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 1 << 70


class Word(str, enum.Enum):
    HELLO = "hello"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Bits(enum.IntFlag):
    A = 1
    B = 8


class Outer:
    class Inner(enum.Enum):
        X = 1


@dataclasses.dataclass
class Point:
    x: int
    y: object = None
    tags: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.length = 5


@dataclasses.dataclass
class Point3(Point):
    z: float = -0.0


@dataclasses.dataclass(frozen=True)
class Frozen:
    key: tuple


@dataclasses.dataclass(slots=True)
class Slotted:
    a: int
    b: object = None


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlotted:
    a: int
    b: object = None


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlottedChild(FrozenSlotted):
    c: str = "c"


class UndecoratedChild(FrozenSlotted):
    pass


@dataclasses.dataclass
class NeverInitialised:
    a: int

    def __init__(self, *, only_by_name):
        self.a = only_by_name


T = typing.TypeVar("T")


@dataclasses.dataclass
class Box(typing.Generic[T]):
    item: T


@dataclasses.dataclass
class Reduced:
    a: int

    def __reduce__(self):
        return Reduced, (self.a + 1,)


@dataclasses.dataclass
class Stateful:
    a: int

    def __getstate__(self):
        return {"a": self.a + 1}


@dataclasses.dataclass
class IntBased(int):
    note: str = ""


@dataclasses.dataclass
class FailedOrderError(Exception):
    number: int


class Plain:
    def __init__(self, a):
        self.a = a

    def __eq__(self, other):
        return vars(self) == vars(other)

    __hash__ = None


class Stamp(collections.namedtuple("Stamp", "at by")):
    pass


class OwnDict(dict):
    pass


class OwnInt(int):
    pass


class OwnZone(tzinfo):
    def utcoffset(self, when):
        return timedelta(hours=1)

    def __eq__(self, other):
        return type(other) is OwnZone

    __hash__ = None


def travelled(value, codec=CODEC):
    (row,) = codec.unpack_rows(codec.pack([value]), 1)
    (arrived,) = row
    return arrived


def same(one, other):
    """Compare type and value at every depth: order of dicts, sign of zero, NaN, time zone and fold included."""
    if type(one) is not type(other):
        return False
    return SAME.get(type(one), same_object)(one, other)


def same_float(one, other):
    return struct.pack("<d", one) == struct.pack("<d", other)


def same_items(one, other):
    return len(one) == len(other) and all(map(same, one, other))


def same_dict(one, other):
    return same_items(list(one), list(other)) and same_items(list(one.values()), list(other.values()))


def same_set(one, other):
    rest = list(other)
    for item in one:
        match = next((i for i, candidate in enumerate(rest) if same(item, candidate)), None)
        if match is None:
            return False
        del rest[match]
    return not rest


def same_clock(one, other):
    zones = one.tzinfo is other.tzinfo or same(one.tzinfo, other.tzinfo)
    return zones and one.replace(tzinfo=None) == other.replace(tzinfo=None) and one.fold == other.fold


def same_repr(one, other):
    return repr(one) == repr(other)


def same_uuid(one, other):
    return one == other and one.is_safe is other.is_safe


def same_array(one, other):
    return (
        one.dtype == other.dtype
        and one.dtype.char == other.dtype.char
        and one.dtype.isalignedstruct == other.dtype.isalignedstruct
        and one.shape == other.shape
        and one.flags.f_contiguous == other.flags.f_contiguous
        and one.flags.c_contiguous == other.flags.c_contiguous
        and one.tobytes() == other.tobytes()
    )


def same_object(one, other):
    if isinstance(one, np.generic):
        # The padding of a long double is arbitrary.
        padded = one.dtype.char in "gG"
        return one.dtype == other.dtype and (repr(one) == repr(other) if padded else one.tobytes() == other.tobytes())
    if isinstance(one, (enum.Enum, tzinfo)):
        return one is other or (not isinstance(one, enum.Enum) and one == other)
    if dataclasses.is_dataclass(one) and not isinstance(one, type):
        names = [field.name for field in dataclasses.fields(one)]
        fields = same_items([getattr(one, name) for name in names], [getattr(other, name) for name in names])
        return fields and same_dict(getattr(one, "__dict__", {}), getattr(other, "__dict__", {}))
    return one == other


SAME = {
    float: same_float,
    list: same_items,
    tuple: same_items,
    dict: same_dict,
    set: same_set,
    frozenset: same_set,
    datetime: same_clock,
    time: same_clock,
    timezone: same_repr,
    Decimal: same_repr,
    uuid.UUID: same_uuid,
    np.ndarray: same_array,
}


def zones():
    offsets = st.timedeltas(timedelta(hours=-23), timedelta(hours=23))
    named = st.builds(timezone, offsets, st.text(max_size=5))
    return st.sampled_from([None, timezone.utc, BERLIN, CEST]) | st.builds(timezone, offsets) | named


def any_text():
    return st.text(st.characters(codec=None, exclude_categories=()), max_size=20)


def hashable_atoms():
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(min_value=1 << 62, max_value=1 << 66),
        st.floats(),
        any_text(),
        st.binary(max_size=20),
        st.datetimes(timezones=zones(), allow_imaginary=True).map(lambda at: at.replace(fold=at.microsecond % 2)),
        st.dates(),
        st.times(timezones=zones()),
        st.timedeltas(),
        st.decimals().filter(lambda number: not number.is_snan()),
        st.uuids(),
        st.sampled_from([*Color, *Level, *Word, Access.READ | Access.WRITE, Access(0), Bits.A | Bits.B, Outer.Inner.X]),
        st.builds(np.float32, st.floats(width=32)),
        st.builds(np.int16, st.integers(-100, 100)),
    )


def hashables():
    return st.recursive(
        hashable_atoms(),
        lambda inner: (
            st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3) | st.builds(Frozen, inner)
        ),
        max_leaves=5,
    )


def values():
    return st.recursive(
        hashables() | st.builds(lambda number: np.arange(number, dtype="f4"), st.integers(0, 5)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.lists(inner, max_size=4).map(tuple),
            st.dictionaries(hashables(), inner, max_size=4),
            st.sets(hashables(), max_size=4),
            st.builds(Point, inner, inner),
            st.builds(Slotted, inner, inner),
        ),
        max_leaves=12,
    )


@settings(max_examples=120, deadline=None)
@given(st.lists(values(), max_size=4))
def test_any_row_of_known_values_arrives_exactly_without_pickle(row):
    assert same_items(STRICT.unpack_rows(STRICT.pack(row), 1)[0], row)


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        (1 << 63) - 1,
        1 << 63,
        (1 << 64) - 1,
        1 << 64,
        -(1 << 63),
        -(1 << 63) - 1,
        1 << 5000,
        [1 << 64],
        {"a": {1 << 64: -(1 << 90)}},
        -0.0,
        math.inf,
        struct.unpack("<d", b"\x01\0\0\0\0\0\xf8\xff")[0],
        "",
        "\ud800",
        "\ud800\udc00",
        "\U00010000",
        {"\udfff": ["\ud800"]},
        b"\xff",
        (),
        ((), [()], ({},)),
        {1: "a", "1": "b", 1.5: "c", None: "d", b"1": "e", (1,): "f", frozenset([2]): "g"},
        {True: 1, 2: {3: [4]}},
        {"z": 1, "a": 2},
        {3, "a", None, (1, 2)},
        frozenset([frozenset([1]), frozenset()]),
        [[], [[]], [{}]],
    ],
    ids=lambda value: shown(value)[:30],
)
def test_plain_values_arrive_exactly(value):
    assert same(travelled(value, STRICT), value)


@pytest.mark.parametrize(
    "value",
    [
        datetime(2024, 2, 29, 23, 59, 59, 999999),
        datetime.min,
        datetime.max,
        datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=BERLIN),
        datetime(2024, 10, 27, 2, 30, fold=0, tzinfo=BERLIN),
        datetime(2024, 1, 1, tzinfo=timezone.utc),
        datetime(2024, 1, 1, tzinfo=timezone(timedelta(0), "UTC")),
        datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=-3, seconds=1, microseconds=2))),
        datetime(2024, 1, 1, tzinfo=CEST),
        date.min,
        date.max,
        time(1, 2, 3, 4, fold=1),
        time(1, tzinfo=timezone.utc),
        timedelta.min,
        timedelta.max,
        timedelta(microseconds=-1),
        timezone.utc,
        BERLIN,
    ],
    ids=shown,
)
def test_dates_and_times_arrive_exactly(value):
    assert same(travelled(value, STRICT), value)
    assert same(travelled({(value,): [value]}, STRICT), {(value,): [value]})


def test_the_utc_singleton_and_cached_zones_arrive_as_the_same_objects():
    assert travelled(datetime(2024, 1, 1, tzinfo=timezone.utc), STRICT).tzinfo is timezone.utc
    assert travelled(datetime(2024, 1, 1, tzinfo=BERLIN), STRICT).tzinfo is BERLIN


def test_uncached_and_user_defined_zones_are_pickled():
    loose = travelled(ZoneInfo.no_cache("Europe/Berlin"))
    own = travelled(datetime(2024, 1, 1, tzinfo=OwnZone()))
    assert (type(loose), loose.key) == (ZoneInfo, "Europe/Berlin")
    assert own == datetime(2024, 1, 1, tzinfo=OwnZone())


def test_a_zone_without_a_key_is_refused():
    files = [path for root in zoneinfo.TZPATH if (path := pathlib.Path(root, "Europe/Berlin")).exists()]
    if not files:
        pytest.skip("no time zone files on this machine")
    with files[0].open("rb") as file, pytest.raises(SerializationError, match="ZoneInfo"):
        CODEC.pack([ZoneInfo.from_file(file)])


@pytest.mark.parametrize(
    "text", ["0", "-0", "1.10", "1E+5", "-1E-999999", "NaN", "-NaN123", "sNaN7", "Infinity", "-Infinity", "9" * 5000]
)
def test_decimals_arrive_exactly_whatever_the_context(text):
    value = Decimal(text)
    with decimal.localcontext() as context:
        context.prec, context.capitals = 3, 0
        arrived = travelled(value, STRICT)
    assert same(arrived, value)


@pytest.mark.parametrize("safety", list(uuid.SafeUUID))
def test_uuids_arrive_with_their_safety(safety):
    value = uuid.UUID(int=1 << 100, is_safe=safety)
    assert same(travelled(value, STRICT), value)


@pytest.mark.parametrize(
    "member",
    [
        *Color,
        Color.CRIMSON,
        *Level,
        *Word,
        *Access,
        Access.READ | Access.WRITE,
        Access(0),
        ~Access.READ,
        Bits.A | Bits.B,
        Bits(0),
        Outer.Inner.X,
    ],
    ids=shown,
)
def test_enum_members_arrive_as_the_same_objects(member):
    assert travelled(member, STRICT) is member
    assert travelled({member: (member,)} if member.__hash__ else [member], STRICT)


def test_enums_of_a_function_are_pickled_by_value():
    class Local(enum.Enum):
        A = 1

    assert travelled(Local.A) is Local.A
    with pytest.raises(SerializationError, match="Local"):
        STRICT.pack([Local.A])


@pytest.mark.parametrize(
    "value",
    [
        Point(1, Point(2, (3,)), ["a"]),
        Point3(1, z=-0.0),
        Frozen((1, (2,))),
        Slotted(1, Slotted(2)),
        FrozenSlotted(1, {"a": FrozenSlotted(2)}),
        FrozenSlottedChild(1, c="d"),
        UndecoratedChild(1, 2),
        NeverInitialised(only_by_name=4),
        Box((1,)),
    ],
    ids=shown,
)
def test_dataclasses_arrive_exactly(value):
    assert same(travelled(value, STRICT), value)


def test_a_dataclass_is_restored_without_its_init():
    value = Point(1)
    value.length, value.extra = 7, (8,)
    arrived = travelled(value, STRICT)
    assert (arrived.length, arrived.extra) == (7, (8,))


def test_a_dataclass_keeps_attributes_that_were_deleted_or_never_set():
    point, slotted = Point(1), Slotted(1)
    del point.y, slotted.b
    assert "y" not in vars(travelled(point, STRICT))
    assert not hasattr(travelled(slotted, STRICT), "b")


def test_a_dataclass_keeps_its_attributes_beside_inherited_slots():
    value = UndecoratedChild(1, 2)
    object.__setattr__(value, "extra", {3})
    arrived = travelled(value, STRICT)
    assert (arrived, arrived.extra) == (value, {3})


def test_a_dataclass_that_pickles_itself_is_pickled_its_own_way():
    assert travelled(Reduced(1)) == Reduced(2)
    assert travelled(Stateful(1)) == Stateful(2)


@pytest.mark.parametrize("value", [Reduced(1), Stateful(1), IntBased(), FailedOrderError(3)], ids=shown)
def test_a_dataclass_that_pickles_itself_or_has_a_builtin_base_needs_pickle(value):
    with pytest.raises(SerializationError, match=type(value).__name__):
        STRICT.pack([value])


def test_a_dataclass_with_a_builtin_base_keeps_it():
    value = IntBased()
    value.note = "n"
    arrived = travelled(value)
    assert (type(arrived), int(arrived), arrived.note) == (IntBased, 0, "n")


def test_a_local_dataclass_and_a_generic_alias_are_pickled():
    @dataclasses.dataclass
    class Local:
        a: int

    assert travelled(Local(1)) == Local(1)
    assert travelled(Box[int](1)).__orig_class__ == Box[int]


def test_classes_of_a_main_script_arrive_in_another_process():
    program = (
        "import dataclasses, enum, sys; from pystorm_spark.runtime.codec.codec import ValueCodec\n"
        "class Size(enum.Enum): BIG = 9\n"
        "@dataclasses.dataclass\nclass Shirt: size: Size\n"
        "sys.stdout.buffer.write(ValueCodec().pack([Shirt(Size.BIG)]))"
    )
    packed = subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, capture_output=True).stdout
    ((shirt,),) = CODEC.unpack_rows(packed, 1)
    assert (type(shirt).__name__, shirt.size.value) == ("Shirt", 9)


def test_a_class_that_its_name_does_not_lead_to_is_sent_by_value(monkeypatch):
    value = Point(1)
    monkeypatch.setitem(globals(), "Point", None)
    assert type(travelled(value)) is type(value)


def test_classes_of_modules_registered_by_value_are_not_sent_by_name():
    module = sys.modules[Point.__module__]
    cloudpickle.register_pickle_by_value(module)
    try:
        assert same(travelled(Point(1)), Point(1))
        with pytest.raises(SerializationError, match="Point"):
            STRICT.pack([Point(1)])
    finally:
        cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.parametrize(
    "code", [*"bhilqBHILQ?efdgFDG", "S3", "U4", "V5", "M8[ns]", "M8[25s]", "m8[D]", ">i4", ">q", ">U2"]
)
def test_numpy_arrays_arrive_exactly(code):
    grid = np.zeros((2, 3), dtype=code)
    for array in (grid, np.asfortranarray(grid), grid[0, 0:0], np.zeros((), code), np.zeros((0, 2), code)):
        assert same(travelled(array, STRICT), array)


def test_a_strided_view_arrives_as_an_array_of_its_own():
    grid = np.arange(6).reshape(2, 3)
    assert same(travelled(grid[:, ::2], STRICT), grid[:, ::2].copy())


@pytest.mark.parametrize(
    "value",
    [
        *(np.dtype(code).type(1) for code in "bhilqBHILQ?efdgFDG"),
        np.float64("nan"),
        np.float64(-0.0),
        np.str_("a\0"),
        np.str_("\ud800"),
        np.bytes_(b"a\0"),
        np.datetime64("2024-01-01T00:00:00.123", "ms"),
        np.datetime64("NaT", "s"),
        np.timedelta64(3, "W"),
        np.void(b"abc"),
        np.zeros(1, [("a", "i1"), ("b", "2f8"), ("c", [("d", "U2")])])[0],
        np.zeros(1, np.dtype([("a", "i1"), ("b", "i8")], align=True))[0],
    ],
    ids=lambda value: f"{type(value).__name__}-{value!s:.10}",
)
def test_numpy_scalars_arrive_exactly(value):
    assert same(travelled(value, STRICT), value)
    assert same(travelled((value,), STRICT), (value,))


@pytest.mark.parametrize(
    "dtype",
    [
        np.dtype([("a", "i1"), ("b", ">f8", (2, 2))]),
        np.dtype([("a", "i1"), ("b", "i8")], align=True),
        np.dtype({"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 2], "itemsize": 9}),
        np.dtype([]),
    ],
    ids=shown,
)
def test_numpy_structures_arrive_exactly(dtype):
    assert same(travelled(np.zeros(3, dtype), STRICT), np.zeros(3, dtype))


def test_numpy_arrays_arrive_writable():
    array = travelled(np.arange(3), STRICT)
    array[0] = 7
    assert array.tolist() == [7, 1, 2]


@pytest.mark.parametrize(
    "value",
    [
        np.array([1, "a", None], dtype=object),
        np.zeros(2, [("a", "O")]),
        np.zeros(2, [(("title", "a"), "i4")]),
        np.zeros(2, np.dtype("i4", metadata={"unit": "m"})),
        np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])[0],
        np.ma.array([1, 2], mask=[True, False]),
        np.array(["a", "b"], dtype=np.dtypes.StringDType()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_numpy_values_are_pickled(value):
    arrived = travelled(value)
    assert type(arrived) is type(value)
    assert arrived.dtype == value.dtype
    assert arrived.tolist() == value.tolist()
    with pytest.raises(SerializationError, match="travels only by pickle"):
        STRICT.pack([value])


def test_numpy_is_not_imported_for_values_without_it():
    program = (
        "import sys; from pystorm_spark.runtime.codec.codec import ValueCodec; codec = ValueCodec();"
        "codec.unpack_rows(codec.pack([{1, (2,)}, 3j]), 1); sys.exit('numpy' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


@pytest.mark.parametrize(
    "value",
    [
        bytearray(b"ab"),
        3j,
        Stamp(1, "me"),
        collections.OrderedDict(a=1),
        collections.Counter("aab"),
        collections.defaultdict(list, a=[1]),
        collections.deque([1, 2], maxlen=3),
        OwnDict(a=1),
        OwnInt(3),
        range(3),
        Plain([1]),
        slice(1, 2),
        functools.partial(int, base=2)("10"),
        ValueError("x").args,
        Point,
    ],
    ids=shown,
)
def test_values_of_all_other_types_are_pickled(value):
    for wrapped in (value, [value], {"a": [value]}, (value,)):
        assert same(travelled(wrapped), wrapped)


@pytest.mark.parametrize("value", [bytearray(b"ab"), 3j, Stamp(1, 2), OwnInt(3), Plain(1), range(3), memoryview(b"ab")])
def test_without_pickle_an_unknown_type_is_refused_at_any_depth(value):
    for wrapped in (value, [value], {"a": [value]}, (value,), Point(value)):
        with pytest.raises(SerializationError, match=type(value).__name__) as caught:
            STRICT.pack([0, wrapped])
        assert caught.value.index == 1


def test_without_pickle_a_pickled_value_is_not_opened():
    with pytest.raises(SerializationError, match="by pickle"):
        STRICT.unpack_rows(CODEC.pack([3j]), 1)


@pytest.mark.parametrize("data", [b"abcd", bytearray(b"abcd")], ids=["readonly", "writable"])
def test_a_memoryview_does_not_become_bytes(data):
    view = memoryview(data).cast("H", (2, 1))
    arrived = travelled([view])[0]
    assert type(arrived) is memoryview
    assert (arrived.format, arrived.shape, arrived.readonly) == ("H", (2, 1), view.readonly)
    assert arrived == view


@pytest.mark.parametrize(
    "view", [memoryview(b""), memoryview(b"abc")[::2], memoryview(np.array(7, "i4"))], ids=["empty", "strided", "0-d"]
)
def test_a_memoryview_may_be_empty_strided_or_without_dimensions(view):
    arrived = travelled(view)
    assert (type(arrived), arrived.tolist(), arrived.shape) == (memoryview, view.tolist(), view.shape)


def test_a_memoryview_of_a_foreign_format_is_refused():
    with pytest.raises(SerializationError, match="memoryview"):
        CODEC.pack([memoryview(np.zeros(2, ">i4"))])


def test_a_list_that_holds_itself_is_pickled():
    loop = [1]
    loop.append(loop)
    arrived = travelled(loop)
    assert arrived[1] is arrived


def test_dataclasses_that_hold_each_other_are_pickled():
    parent = Point(1)
    parent.tags = [Point(2, parent), Point(3, parent)]
    arrived = travelled(parent)
    assert all(child.y is arrived for child in arrived.tags)


def test_without_pickle_a_value_that_holds_itself_is_refused():
    loop = {}
    loop["self"] = (loop,)
    with pytest.raises(SerializationError, match="holds itself"):
        STRICT.pack([loop])


def nested(wrap, depth):
    return functools.reduce(lambda inner, _: wrap(inner), range(depth), 1)


@pytest.mark.parametrize(
    "wrap", [lambda inner: [inner], lambda inner: (inner,), lambda inner: {"a": inner}, Point, Frozen], ids=shown
)
def test_a_nested_value_arrives_up_to_the_limit_and_beyond_it_by_pickle(wrap):
    levels = MAX_DEPTH // 2 - 1 if isinstance(wrap, type) else MAX_DEPTH
    assert travelled(nested(wrap, levels), STRICT) == nested(wrap, levels)
    assert travelled(nested(wrap, 150)) == nested(wrap, 150)
    with pytest.raises(SerializationError, match="nested deeper"):
        STRICT.pack([nested(wrap, 150)])


def test_an_endlessly_nested_value_is_refused():
    with pytest.raises(SerializationError, match="deep"):
        CODEC.pack([nested(lambda inner: [inner], 100_000)])


def test_the_deepest_value_fits_the_stack_of_a_small_thread():
    packed, arrived = CODEC.pack([nested(lambda inner: (inner,), MAX_DEPTH)]), []
    before = threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(target=lambda: arrived.extend(CODEC.unpack_rows(packed, 1)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert arrived == [[nested(lambda inner: (inner,), MAX_DEPTH)]]


def test_a_value_packed_near_the_recursion_limit_is_refused_or_travels():
    def deep(left):
        return deep(left - 1) if left else CODEC.pack([nested(lambda inner: (inner,), 90)])

    for left in range(0, sys.getrecursionlimit(), 40):
        try:
            assert CODEC.unpack_rows(deep(left), 1)
        except (SerializationError, RecursionError):
            continue


@pytest.mark.parametrize(
    "make",
    [
        lambda: (number for number in range(3)),
        threading.Lock,
        lambda: open(__file__),  # noqa: SIM115
        lambda: open(__file__, "rb"),  # noqa: SIM115
        lambda: io.TextIOWrapper(io.BytesIO()),
        lambda: sys.stdout,
        lambda: sys._getframe(),
    ],
    ids=["generator", "lock", "text file", "binary file", "text wrapper", "stdout", "frame"],
)
@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: {"a": [value]}, Plain, Point], ids=shown)
def test_values_bound_to_their_process_are_refused(make, wrap):
    value = make()
    with pytest.raises(SerializationError) as caught:
        CODEC.pack(["word", wrap(value)])
    if isinstance(value, io.IOBase):
        value.close() if value is not sys.stdout else None
    assert caught.value.index == 1


class Unhashable(type):
    __hash__ = None

    def __eq__(cls, other):
        return cls is other


def test_a_class_that_cannot_be_hashed_is_refused_by_index():
    with pytest.raises(SerializationError, match="Odd") as caught:
        CODEC.pack([1, 2, Unhashable("Odd", (), {})()])
    assert caught.value.index == 2


class Raising:
    def __reduce__(self):
        raise OSError("no more")


def test_an_exception_in_the_users_pickling_is_the_reason():
    with pytest.raises(SerializationError, match=r"value 1 of the row, a .*Raising, .*no more") as caught:
        CODEC.pack([0, Raising()])
    assert isinstance(caught.value.__cause__, SerializationError)


@pytest.mark.parametrize("value", ["x" * (65 << 20), b"x" * (65 << 20)], ids=["str", "bytes"])
def test_values_beyond_64_megabytes_travel(value):
    assert travelled(value) == value


def test_arrays_and_pickles_beyond_64_megabytes_travel():
    array = np.zeros(65 << 20, np.int8)
    assert travelled((array,), STRICT)[0].nbytes == array.nbytes
    assert len(travelled(bytearray(65 << 20))) == 65 << 20
