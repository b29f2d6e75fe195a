"""Sessions against a model that joins all entries of a key that are near one another."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pystorm_spark.windowing.kinds.sessions import Sessions
from pystorm_spark.windowing.trigger import CONTINUE, FIRE, FIRE_AND_PURGE
from tests.windowing.kinds.driving import ADDING, Answers, Drive


class Model:
    """All entries; sessions are made anew each time."""

    def __init__(self, gap, lateness):
        self.gap, self.lateness = gap, lateness or 0
        self.watermark, self.accepted, self.fired = None, [], []

    def sessions(self):
        """[(end, number of first arrival, first time, numbers)]"""
        found = []
        for key in {key for *_, key in self.accepted}:
            current = []
            for at, number in sorted((at, number) for number, at, its in self.accepted if its == key):
                if current and at > current[-1][0] + self.gap:
                    found.append(current)
                    current = []
                current = [*current, (at, number)]
            found.append(current)
        shown = [
            (members[-1][0] + self.gap, min(number for _, number in members), members[0][0], members)
            for members in found
        ]
        return [(end, first, start, sorted(number for _, number in members)) for end, first, start, members in shown]

    def add(self, number, at, key):
        if self.watermark is not None and at < self.watermark - self.lateness:
            return False
        self.accepted.append((number, at, key))
        for end, _, start, numbers in self.sessions():
            if number in numbers and self.watermark is not None and end < self.watermark:
                self.fired.append((start, end, "late", numbers))
        return True

    def advance(self, watermark):
        before, self.watermark = self.watermark, watermark
        for end, _, start, numbers in sorted(self.sessions()):
            if end < watermark and (before is None or end >= before):
                self.fired.append((start, end, "on-time", numbers))

    def held(self):
        bound = None if self.watermark is None else self.watermark - self.lateness
        return {number for end, *_, numbers in self.sessions() if bound is None or end >= bound for number in numbers}


@settings(max_examples=300)
@given(
    gap=st.integers(1, 10),
    lateness=st.none() | st.integers(0, 15),
    steps=st.lists(
        st.tuples(st.sampled_from(["add", "add", "add", "advance"]), st.integers(-20, 40), st.integers(0, 1)),
        max_size=40,
    ),
    is_aggregated=st.booleans(),
)
def test_sessions_are_those_of_the_model(gap, lateness, steps, is_aggregated):
    drive = Drive(Sessions(gap, lateness, ADDING if is_aggregated else None))
    model = Model(gap, lateness)
    for step, at, key in steps:
        if step == "add":
            assert drive.add(at, key=key, group=at % 2) == model.add(len(drive.entries) - 1, at, key)
        elif model.watermark is None or at > model.watermark:
            drive.advance(at)
            model.advance(at)
        assert drive.fired == model.fired
        assert drive.held == model.held()


@settings(max_examples=200)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["add", "add", "advance", "time"]), st.integers(0, 40), st.integers(0, 1)),
        max_size=40,
    ),
    answers=st.lists(st.sampled_from([CONTINUE, FIRE, FIRE_AND_PURGE]), max_size=30),
    fails=st.sets(st.integers(1, 10)),
    lateness=st.none() | st.integers(0, 15),
)
def test_every_entry_leaves_in_the_end_whatever_triggers_and_failures_do(steps, answers, fails, lateness):
    drive = Drive(Sessions(5, lateness, ADDING, Answers(answers)), fails=fails)
    for step, at, key in steps:
        if step == "add":
            drive.add(at, key=key)
        elif step == "time":
            drive.on_time()
        else:
            drive.advance(at)
    drive.advance(1000)
    assert not drive.held
    assert not drive.kind._by_key


def test_a_tuple_between_two_sessions_merges_them():
    drive = Drive(Sessions(10))
    for at in (0, 18, 9):
        drive.add(at)
    drive.advance(29)
    assert drive.fired == [(0, 28, "on-time", [0, 1, 2])]


def test_the_previous_firing_of_a_merged_session_is_that_of_both():
    seen = []

    class Noting(Sessions):
        def _firing(self, session, timing):
            firing = super()._firing(session, timing)
            seen.append([entry.number for entry in firing.previous])
            return firing

    drive = Drive(Noting(10, lateness=100))
    drive.add(0, key="k")
    drive.add(18, key="k")
    drive.advance(50)
    drive.add(9, key="k")
    assert [numbers for *_, numbers in drive.fired] == [[0], [1], [0, 1, 2]]
    assert seen == [[], [], [0, 1]]


def test_a_session_that_fired_and_is_kept_fires_again_when_it_is_prolonged():
    drive = Drive(Sessions(10, lateness=100))
    drive.add(0, key="k")
    drive.advance(20)
    drive.add(10, key="k")
    drive.advance(21)
    assert drive.fired == [(0, 10, "on-time", [0]), (0, 20, "on-time", [0, 1])]
