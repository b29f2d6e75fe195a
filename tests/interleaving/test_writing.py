"""What slots print: lines keep their order, and each is written, or counted where they were dropped."""

import logging
import re
from itertools import count
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystorm_spark.spark.protocol import writer as writer_module
from pystorm_spark.spark.protocol.messages import Log
from pystorm_spark.spark.protocol.writer import LINE_OVERHEAD_BYTES, Writer
from pystorm_spark.spark.slot import output as output_module
from pystorm_spark.spark.slot.output import PrintsToDriver, Words
from tests.interleaving.scheduler import HandOver, Scheduler, Threading
from tests.interleaving.wire import connected

hand_overs = st.lists(st.builds(HandOver, st.integers(1, 250), st.integers(0, 4)), max_size=6)
LINES = [f"{thread}{number}" for thread in "ab" for number in range(4)]
DROPPED = re.compile(r"pystorm-spark: (\d+) lines were dropped here")


class Writing:
    """Two threads that have lines written, and the end of it all, at a place that takes so many lines, then no more."""

    def __init__(self, schedule, room, takes):
        self.scheduler = Scheduler(schedule, [writer_module], time_passes=takes < len(LINES))
        self.room, self.takes = room, takes
        self.written = []
        self.refused = 0

    def write(self, level, text):
        if len(self.written) >= self.takes:
            self.scheduler.wait_for(lambda: self.is_over, "write")
        self.written.append(text)

    def play(self, monkeypatch):
        self.is_over = False
        with monkeypatch.context() as patch:
            patch.setattr(writer_module, "threading", Threading(self.scheduler))
            patch.setattr(writer_module, "atexit", SimpleNamespace(register=lambda call: None))
            patch.setattr(writer_module, "MOST_UNWRITTEN_BYTES", self.room * (LINE_OVERHEAD_BYTES + 2))
            self.writer = Writer("writing", self.write)
            self.scheduler.run(a=lambda: self.put("a"), b=lambda: self.put("b"), closing=self.close)
        self.check()
        return self

    def put(self, thread):
        for number in range(4):
            self.writer.put(logging.INFO, f"{thread}{number}")
        self.refused += 1

    def close(self):
        self.scheduler.wait_for(lambda: self.refused == 2)
        self.dropped_at_end = self.writer.close(5.0)
        self.seen = list(self.written)
        self.is_over = True

    def check(self):
        lines = [line for line in self.seen if line in LINES]
        for thread in "ab":
            of_one = [line for line in lines if line[0] == thread]
            assert of_one == sorted(set(of_one))
        told = sum(int(found[1]) for line in self.seen if (found := DROPPED.match(line)))
        counted, missing = told + self.dropped_at_end, len(LINES) - len(lines)
        assert counted >= missing, self.scheduler.handed_over
        assert counted == missing or self.dropped_at_end  # which counts the line that is being written
        assert self.takes < len(LINES) or not self.dropped_at_end


PLACES = {"quick and narrow": (1, 100), "quick": (3, 100), "wide": (100, 100), "blocked": (100, 3)}
places = pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())


@pytest.mark.slow
@places
def test_each_single_hand_over_leaves_lines_written_or_counted(monkeypatch, place):
    for thread in range(4):
        for point in count(1):
            if point > Writing([HandOver(point, thread)], *place).play(monkeypatch).scheduler.points:
                break


@places
def test_any_hand_overs_leave_lines_written_or_counted(place):
    monkeypatch = pytest.MonkeyPatch()

    @settings(max_examples=60, deadline=None)
    @given(hand_overs)
    def play(schedule):
        Writing(schedule, *place).play(monkeypatch)

    play()


class Speaking:
    """Three threads of a slot that tell the driver something, or print it; what one sends has it print, once."""

    def __init__(self, schedule):
        self.scheduler = Scheduler(schedule, [output_module])
        self.ours, self.theirs = connected(self.scheduler)
        self.heard = []
        self.finalizers = 1
        self.sent = []
        self.is_amid = False

    # As the connection.

    def send(self, message):
        assert not self.is_amid
        self.is_amid = True
        if message.get("level") == 1 and self.finalizers:
            self.finalizers -= 1
            print("__del__ 1\n__del__ 2", file=self.out)  # the garbage collector runs amid a message
        self.ours.send(message)
        self.sent.append((message.get("text"), message.get("level")))
        self.is_amid = False

    # As the process.

    def where(self):
        return "bolt:1"

    def tell(self, message):
        self.words.send(message)

    def play(self, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(output_module, "RLock", self.scheduler.rlock)
            self.words, self.out = Words(self), PrintsToDriver(self, logging.INFO)
            self.scheduler.run(
                a=lambda: self.speak("a"),
                b=lambda: self.speak("b"),
                c=lambda: self.print("c"),
                hearing=self.hear,
            )
        self.check()
        return self

    def speak(self, thread):
        for number in range(3):
            self.tell(Log(number, thread))
            assert (thread, number) in self.sent  # the process may end by itself now

    def print(self, thread):
        for number in range(3):
            print(thread, number, sep="", file=self.out)

    def hear(self):
        while len(self.heard) < 11:
            self.heard.append(self.theirs.receive())

    def check(self):
        for thread in "ab":
            assert [said["level"] for said in self.heard if said["kind"] == "log" and said["text"] == thread] == [
                0,
                1,
                2,
            ]
        printed = [said["text"] for said in self.heard if said["kind"] == "print"]
        assert [text for text in printed if text[0] == "c"] == ["c0", "c1", "c2"]
        assert [text for text in printed if text[0] != "c"] == ["__del__ 1", "__del__ 2"]
        assert not self.words._unsent


@pytest.mark.slow
def test_after_each_single_hand_over_all_that_was_said_is_heard_in_its_order(monkeypatch):
    for thread in range(4):
        for point in count(1):
            if point > Speaking([HandOver(point, thread)]).play(monkeypatch).scheduler.points:
                break


def test_after_any_hand_overs_all_that_was_said_is_heard_in_its_order():
    monkeypatch = pytest.MonkeyPatch()

    @settings(max_examples=60, deadline=None)
    @given(hand_overs)
    def play(schedule):
        Speaking(schedule).play(monkeypatch)

    play()
