"""Lines on their way to a place that may not take them."""

import threading

import pytest

from pystorm_spark.spark.protocol import writer
from pystorm_spark.spark.protocol.writer import Writer
from tests.spark.components import wait_until


class Place:
    """Takes lines while it is open; whoever writes to it when it is not waits."""

    def __init__(self):
        self.open = threading.Event()
        self.open.set()
        self.lines = []

    def write(self, level, text):
        self.open.wait()
        self.lines.append(text)


@pytest.fixture
def place():
    made = Place()
    yield made
    made.open.set()


def is_writing():
    return any(thread.name == "writing" for thread in threading.enumerate())


def test_lines_are_written_in_their_order_before_the_end(place):
    writing = Writer("writing", place.write)
    for number in range(1000):
        writing.put(20, str(number))

    assert writing.close(60) == 0
    assert place.lines == [str(number) for number in range(1000)]
    wait_until(lambda: not is_writing())


def test_nothing_is_started_for_slots_that_say_nothing(place):
    writing = Writer("writing", place.write)

    assert not is_writing()
    assert writing.close(60) == 0


def test_who_has_a_line_does_not_wait_and_what_is_dropped_is_told_in_its_place(place, monkeypatch):
    monkeypatch.setattr(writer, "MOST_UNWRITTEN_BYTES", 10 * (writer.LINE_OVERHEAD_BYTES + 1))
    writing = Writer("writing", place.write)
    place.open.clear()
    for number in range(10_017):
        writing.put(20, str(number % 10))

    place.open.set()
    wait_until(lambda: len(place.lines) == 11)
    writing.put(20, "after")
    writing.close(60)

    told = "pystorm-spark: 10,007 lines were dropped here, because those before them were not read"
    assert place.lines == [*map(str, range(10)), told, "after"]


def test_a_line_that_is_larger_than_the_limit_is_written(place, monkeypatch):
    monkeypatch.setattr(writer, "MOST_UNWRITTEN_BYTES", 100)
    writing = Writer("writing", place.write)

    writing.put(20, "x" * 1000)

    assert writing.close(60) == 0
    assert place.lines == ["x" * 1000]


def test_the_end_waits_for_a_blocked_place_for_some_time_only_and_counts_what_is_lost(place):
    writing = Writer("writing", place.write)
    place.open.clear()
    for number in range(5):
        writing.put(20, str(number))

    assert writing.close(0.1) == 5

    place.open.set()
    wait_until(lambda: not is_writing())
    assert place.lines[0] == "0"
    assert "4 lines were dropped" in place.lines[1]


def test_a_place_that_raises_ends_nothing(place):
    def write(level, text):
        if text == "bad":
            raise SystemExit
        place.write(level, text)

    writing = Writer("writing", write)
    for text in ("one", "bad", "two"):
        writing.put(20, text)

    assert writing.close(60) == 0
    assert place.lines == ["one", "two"]
