"""What a cluster tells of a topology, as it is printed."""

from unicodedata import combining, east_asian_width

import pytest

from pystorm_spark import LocalCluster, TopologyBuilder
from pystorm_spark.cluster.info import ComponentInfo, TopologyInfo
from pystorm_spark.cluster.table import millis, span
from pystorm_spark.metrics.stats import ERRORS_KEPT, ErrorInfo

ERROR = ErrorInfo(0.0, 3, "ValueError: no", "Traceback …", "(1)")
SPOUT = ComponentInfo("spout", 1, 1_234_567, 1_234_567, 0, 1_234_000, 3, 12.34, 0.0, 0.0, [])
BOLT = ComponentInfo("bolt", 12, 20, 20, 1_234_564, 1_234_560, 0, 0.0, 0.0041, 7.0, [ERROR])
IDLE = ComponentInfo("bolt", 1, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, [])
CONF = {"topology.message.timeout.secs": 30}


def info(**components):
    return TopologyInfo("word-count", "word-count-1-7", "ACTIVE", 7500.9, 2, CONF, 567, components)


def test_a_topology_prints_as_a_table():
    assert str(info(sentences=SPOUT, count=BOLT, audit=IDLE)) == (
        "word-count: ACTIVE, up 2 h 5 min, 2 workers, 567 pending\n"
        "component  kind   tasks    emitted   executed      acked  failed  latency ms  errors\n"
        "sentences  spout      1  1,234,567             1,234,000       3        12.3       0\n"
        "count      bolt      12         20  1,234,564  1,234,560       0       0.004       1\n"
        "audit      bolt       1          0          0          0       0                   0"
    )


def test_a_component_prints_as_one_row():
    assert str(BOLT) == (
        "kind  tasks  emitted   executed      acked  failed  latency ms  errors\n"
        "bolt     12       20  1,234,564  1,234,560       0       0.004       1"
    )


def test_a_long_name_is_shortened_and_the_columns_stay_in_line():
    name = "a" * 100

    _, header, row = str(info(**{name: SPOUT})).splitlines()

    assert row.startswith("a" * 31 + "…  spout")
    assert len(row) == len(header)


def columns(line):
    """How many columns of a terminal a line takes, as terminals count them."""
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in line)


@pytest.mark.parametrize("name", ["数える", "수" * 40, "😀" * 16, "e\u0301te\u0301", "счётчик"])
def test_columns_stay_in_line_whatever_script_a_name_is_in(name):
    _, header, *rows = str(info(**{name: SPOUT, "count": BOLT})).splitlines()

    assert {columns(row) for row in rows} == {columns(header)}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("a\nb", r"a\nb"),
        ("a\tb", r"a\tb"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("lone \ud800", r"lone \ud800"),
        ("\u202ereversed", r"\u202ereversed"),
    ],
)
def test_a_character_that_would_break_a_line_or_the_terminal_is_escaped(name, told):
    shown = str(TopologyInfo(name, "id", "ACTIVE", 0.0, 1, CONF, 0, {name: SPOUT}))

    title, _, row = shown.encode().decode().split("\n")
    assert title.startswith(f"{told}: ACTIVE")
    assert row.startswith(f"{told} ")


def test_a_full_list_of_errors_is_shown_with_a_plus():
    full = ComponentInfo("bolt", 1, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, [ERROR] * ERRORS_KEPT)

    assert str(full).endswith(" 50+")


def test_the_repr_has_neither_configuration_nor_components():
    assert repr(info(count=BOLT)) == (
        "TopologyInfo(name='word-count', id='word-count-1-7', status='ACTIVE', uptime_secs=7500.9, workers=2, "
        "pending=567)"
    )
    assert "Traceback" not in repr(BOLT)
    assert info(count=BOLT).conf == CONF


@pytest.mark.parametrize(
    ("secs", "told"),
    [
        (0.4, "0 s"),
        (59.9, "59 s"),
        (60, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h 0 min"),
        (90_000, "1 d 1 h"),
        (86_400 * 400, "400 d 0 h"),
    ],
)
def test_a_duration_has_two_units(secs, told):
    assert span(secs) == told


@pytest.mark.parametrize(
    ("ms", "told"), [(0.0004, "0.000"), (0.5, "0.500"), (1.0, "1.0"), (999.94, "999.9"), (12_345.6, "12,346")]
)
def test_milliseconds_have_about_three_digits(ms, told):
    assert millis(ms) == told


def test_a_topology_that_has_ended_still_prints_its_table():
    builder = TopologyBuilder()
    builder.set_spout("numbers", lambda: None)
    with LocalCluster() as cluster:
        handle = cluster.submit_topology("short", None, builder.create_topology())

    assert str(handle).startswith("short: KILLED, up ")
    assert repr(handle) == f"<Runner {handle.id!r}: KILLED>"
