"""The last ones at each end, against a model that looks at every end."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pystorm_spark.windowing.kinds.last_ones import LastOnes
from tests.windowing.kinds.driving import ADDING, Drive


class Model:
    """Which of all entries are the last ones at each end."""

    def __init__(self, length, slide, offset):
        self.length, self.slide, self.offset = length, slide, offset
        self.watermark, self.accepted, self.fired = None, {}, []
        self.gone = set()

    def add(self, number, at):
        if self.watermark is not None and at < self.watermark:
            return False
        self.accepted[number] = at
        return True

    def advance(self, watermark):
        before, self.watermark = self.watermark, watermark
        for end in range(-400, watermark + 1):
            if (end - self.offset) % self.slide == 0 and (before is None or end > before):
                reached = sorted(number for number, at in self.accepted.items() if at <= end)
                if reached:
                    self.fired.append((None, end, "on-time", reached[-self.length :]))
                    self.gone |= set(reached[: -self.length])

    def held(self):
        return self.accepted.keys() - self.gone


@settings(max_examples=200)
@given(
    length=st.integers(1, 6),
    slide=st.integers(1, 12),
    offset=st.integers(0, 5),
    steps=st.lists(st.tuples(st.booleans(), st.integers(-20, 40)), max_size=40),
    is_aggregated=st.booleans(),
)
def test_windows_are_those_of_the_model(length, slide, offset, steps, is_aggregated):
    drive = Drive(LastOnes(length, slide, offset, aggregator=ADDING if is_aggregated else None))
    model = Model(length, slide, offset)
    for number, (is_entry, at) in enumerate(steps):
        if is_entry:
            assert drive.add(at, group=number % 2) == model.add(len(drive.entries) - 1, at)
        elif model.watermark is None or at > model.watermark:
            drive.advance(at)
            model.advance(at)
        assert drive.fired == model.fired
        assert drive.held == model.held()


def test_each_end_fires_whether_or_not_a_tuple_is_new():
    drive = Drive(LastOnes(2, 10))
    drive.add(5)
    drive.advance(35)
    assert [(end, numbers) for _, end, _, numbers in drive.fired] == [(10, [0]), (20, [0]), (30, [0])]


def test_what_fails_leaves_and_what_waits_stays():
    drive = Drive(LastOnes(2, 10, aggregator=ADDING), fails=[1])
    drive.add(25)
    drive.add(5)
    drive.add(6)
    drive.advance(30)
    assert [(end, numbers) for _, end, _, numbers in drive.fired] == [(10, [1, 2]), (30, [0])]
