"""Tumbling windows with triggers, and the one without an end, against a model of lists."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pystorm_spark.windowing.entry import Entry
from pystorm_spark.windowing.kinds.endless import Endless
from pystorm_spark.windowing.kinds.sessions import Sessions
from pystorm_spark.windowing.kinds.tumbling import Tumbling
from pystorm_spark.windowing.trigger import CONTINUE, FIRE, FIRE_AND_PURGE
from tests.windowing.kinds.driving import ADDING, Answers, Drive


class Model:
    """{end: numbers}; it asks the same answers in the same order."""

    def __init__(self, length, lateness, answers):
        self.length, self.lateness, self.answers = length, lateness, iter(answers)
        self.watermark, self.windows, self.fired = None, {}, []

    def add(self, number, at):
        end = -(-at // self.length) * self.length
        if self.watermark is not None and (
            at < self.watermark - (self.lateness or 0) or (self.lateness is None and end <= self.watermark)
        ):
            return False
        self.windows.setdefault(end, []).append(number)
        if self.watermark is not None and end <= self.watermark:
            self.fire(end, "late")
        else:
            self.ask(end)
        return True

    def ask(self, end):
        answer = next(self.answers, CONTINUE)
        if answer != CONTINUE:
            self.fire(end, "early")
        if answer == FIRE_AND_PURGE:
            self.windows[end] = []

    def fire(self, end, timing):
        self.fired.append((end - self.length, end, timing, list(self.windows[end])))

    def advance(self, watermark):
        before, self.watermark = self.watermark, watermark
        for end in sorted(self.windows):
            if end <= watermark and (before is None or end > before) and self.windows[end]:
                self.fire(end, "on-time")
            if end <= watermark and (self.lateness is None or end < watermark - self.lateness):
                del self.windows[end]

    def on_time(self):
        for end in sorted(self.windows):
            if (self.watermark is None or end > self.watermark) and self.windows[end]:
                self.ask(end)

    def held(self):
        return {number for numbers in self.windows.values() for number in numbers}


ANSWERS = st.lists(st.sampled_from([CONTINUE, FIRE, FIRE_AND_PURGE]), max_size=40)


@settings(max_examples=300)
@given(
    length=st.integers(1, 20),
    lateness=st.none() | st.integers(0, 15),
    answers=ANSWERS,
    steps=st.lists(
        st.tuples(st.sampled_from(["add", "add", "add", "advance", "time"]), st.integers(-20, 50)), max_size=40
    ),
    is_aggregated=st.booleans(),
)
def test_tumbling_windows_are_those_of_the_model(length, lateness, answers, steps, is_aggregated):
    aggregator = ADDING if is_aggregated else None
    drive = Drive(Tumbling(length, Answers(answers), lateness=lateness, aggregator=aggregator))
    model = Model(length, lateness, answers)
    for step, at in steps:
        if step == "add":
            assert drive.add(at, group=at % 2) == model.add(len(drive.entries) - 1, at)
        elif step == "time":
            drive.on_time()
            model.on_time()
        elif model.watermark is None or at > model.watermark:
            drive.advance(at)
            model.advance(at)
        assert drive.fired == model.fired
        assert drive.held == model.held()


@settings(max_examples=100)
@given(answers=ANSWERS, steps=st.lists(st.booleans(), max_size=40), fails=st.sets(st.integers(1, 10)))
def test_the_window_without_an_end_fires_by_its_trigger_alone(answers, steps, fails):
    drive = Drive(Endless(Answers(answers), aggregator=ADDING), fails=fails)
    given_answers, held, expected = iter(answers), [], []
    for now, is_entry in enumerate(steps):
        if is_entry:
            held.append(len(drive.entries))
            drive.add(now)
        else:
            drive.on_time(now)
        answer = next(given_answers, CONTINUE) if held else CONTINUE
        if answer != CONTINUE:
            expected.append((None, now, "early", list(held)))
        if answer == FIRE_AND_PURGE or (answer == FIRE and len(expected) in fails):
            held = []
        assert drive.fired == expected
        assert drive.held == set(held)


class Measuring(Answers):
    """Triggers that ask for the number of tuples, each time that a tuple has entered."""

    def on_tuple(self, trigger, entry, window):
        assert window.size > 0
        self.window = window
        return CONTINUE


@pytest.mark.parametrize("new", [lambda triggers: Tumbling(10, triggers), Endless, lambda t: Sessions(10, triggers=t)])
def test_a_trigger_may_ask_for_the_size_of_a_window_at_a_constant_cost(new):
    triggers = Measuring()
    kind = new(triggers)
    for number in range(3):
        for _ in kind.add(Entry(None, 5, number)):
            pass
    assert triggers.window.size == 3
    assert triggers.window._entries is None  # the tuples have not been copied


def test_the_window_without_an_end_ends_at_the_highest_timestamp():
    drive = Drive(Endless(Answers([CONTINUE, FIRE, FIRE]), in_event_time=True))
    drive.add(70)
    drive.add(50)
    drive.on_time(1000)
    assert [end for _, end, _, _ in drive.fired] == [70, 70]
