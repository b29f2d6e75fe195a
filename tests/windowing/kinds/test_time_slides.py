"""Windows of a time against a model that looks at every end."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pystorm_spark.windowing.kinds.time_slides import TimeSlides
from tests.windowing.kinds.driving import ADDING, Drive


class Model:
    """Which windows fire with what, by looking at all ends near all entries."""

    def __init__(self, length, slide, offset, lateness):
        self.length, self.slide, self.offset, self.lateness = length, slide, offset, lateness
        self.watermark, self.accepted, self.fired = None, {}, []

    def ends(self, at):
        """All ends of windows that hold a time."""
        first = -((self.offset - at) // self.slide) * self.slide + self.offset
        return range(first, at + self.length, self.slide)

    def content(self, end):
        return [number for number, at in self.accepted.items() if end - self.length < at <= end]

    def add(self, number, at):
        ends = self.ends(at)
        if self.watermark is not None:
            bound = self.watermark - (self.lateness or 0)
            has_fired = bool(ends) and self.lateness is None and at == self.watermark and ends[-1] <= self.watermark
            if at < bound or has_fired:
                return False
        self.accepted[number] = at
        if self.lateness is not None and self.watermark is not None:
            self.fire([end for end in ends if end <= self.watermark], "late")
        return True

    def advance(self, watermark):
        before, self.watermark = self.watermark, watermark
        ends = {end for at in self.accepted.values() for end in self.ends(at)}
        self.fire(sorted(end for end in ends if end <= watermark and (before is None or end > before)), "on-time")

    def fire(self, ends, timing):
        self.fired += [(end - self.length, end, timing, self.content(end)) for end in ends if self.content(end)]

    def held(self):
        def needed(end):
            if self.watermark is None or end > self.watermark:
                return True
            return self.lateness is not None and end >= self.watermark - self.lateness

        return {number for number, at in self.accepted.items() if any(map(needed, self.ends(at)))}


STEPS = st.lists(st.tuples(st.sampled_from(["add", "add", "add", "advance"]), st.integers(-25, 60)), max_size=40)


@settings(max_examples=300)
@given(
    length=st.integers(1, 30),
    slide=st.integers(1, 30),
    offset=st.integers(0, 12),
    lateness=st.none() | st.integers(0, 20),
    steps=STEPS,
    is_aggregated=st.booleans(),
)
def test_windows_of_event_time_are_those_of_the_model(length, slide, offset, lateness, steps, is_aggregated):
    drive = Drive(TimeSlides(length, slide, offset, lateness, ADDING if is_aggregated else None))
    model = Model(length, slide, offset, lateness)
    for number, (step, at) in enumerate(steps):
        if step == "add":
            assert drive.add(at, group=number % 3) == model.add(len(drive.entries) - 1, at)
        elif model.watermark is None or at > model.watermark:
            drive.advance(at)
            model.advance(at)
        assert drive.fired == model.fired
        assert drive.held == model.held()


@settings(max_examples=200)
@given(
    length=st.integers(1, 30),
    slide=st.integers(1, 30),
    lateness=st.none() | st.integers(0, 20),
    steps=STEPS,
    fails=st.sets(st.integers(1, 20)),
)
def test_what_fails_leaves_all_windows(length, slide, lateness, steps, fails):
    drive = Drive(TimeSlides(length, slide, 0, lateness, ADDING), fails=fails)
    for number, (step, at) in enumerate(steps):
        if step == "add":
            drive.add(at, group=number % 2)
        else:
            drive.advance(at)
    drive.advance(10_000)
    assert not drive.held


def test_a_late_tuple_that_has_failed_fires_no_window_that_does_not_hold_it():
    drive = Drive(TimeSlides(10, 5, 0, 20), fails={4})
    drive.add(8)
    drive.add(13)
    drive.advance(20)
    drive.add(7)
    assert drive.fired == [
        (0, 10, "on-time", [0]),
        (5, 15, "on-time", [0, 1]),
        (10, 20, "on-time", [1]),
        (0, 10, "late", [0, 2]),  # fails
    ]


def test_the_worked_example_of_storms_documentation():
    drive = Drive(TimeSlides(20, 10))
    day, hour = 0, 2 * 3600
    for at in (3, 5, 7, 18, 26, 36):
        drive.add(day + at)
    drive.advance(31)
    assert [(end, numbers) for _, end, _, numbers in drive.fired] == [
        (10, [0, 1, 2]),
        (20, [0, 1, 2, 3]),
        (30, [3, 4]),
    ]
    for at in (25, 26, 27, 39):
        drive.add(hour + at)
    drive.advance(hour + 34)
    assert [(end, numbers) for _, end, _, numbers in drive.fired[3:]] == [
        (40, [4, 5]),
        (50, [5]),
        (hour + 30, [6, 7, 8]),
    ]


def test_a_gap_of_years_is_jumped_over():
    drive = Drive(TimeSlides(10, 1))
    drive.add(0)
    drive.add(10**12)
    drive.advance(10**13)
    assert len(drive.fired) == 20


def test_aggregates_cost_the_same_whatever_the_length():
    class Counted(type(ADDING)):
        calls = 0

        def apply(self, acc, value):
            Counted.calls += 1
            return super().apply(acc, value)

        def merge(self, acc, other):
            Counted.calls += 1
            return super().merge(acc, other)

    for length in (10, 100, 1000):
        Counted.calls = 0
        kind = TimeSlides(length, 1, 0, None, Counted(0, lambda a, v: a + v, lambda a, b: a + b, None))
        firings = 0
        drive_entries = Drive(kind)
        for at in range(3 * length):
            drive_entries.entries.clear()
            from pystorm_spark.windowing.entry import Entry

            for _ in kind.add(Entry(None, at, at, None, None, 1)):
                firings += 1
            for firing in kind.advance(at):
                assert firing.totals == {None: min(at + 1, length)}
                firings += 1
            kind.released.clear()
        assert Counted.calls <= 3 * 3 * length + 2 * firings
