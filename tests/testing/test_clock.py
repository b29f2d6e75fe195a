"""ManualClock stands still until it is told to advance."""

import pytest

from pystorm_spark import StormError
from pystorm_spark.testing import ManualClock


def test_a_clock_starts_at_zero_and_stands_still():
    clock = ManualClock()
    assert (clock.monotonic(), clock.monotonic(), clock.time()) == (0.0, 0.0, 0.0)


def test_a_clock_starts_at_a_given_time():
    assert ManualClock(start=1.5).time() == 1.5


def test_advancing_moves_wall_and_monotonic_time():
    clock = ManualClock(10)
    clock.advance(0.5)
    clock.advance(1)
    assert (clock.monotonic(), clock.time()) == (11.5, 11.5)


@pytest.mark.parametrize("secs", [-1, float("nan")])
def test_a_clock_does_not_go_back(secs):
    clock = ManualClock(10)
    with pytest.raises(StormError, match=rf"only moves forward, got advance\({secs}\)"):
        clock.advance(secs)
    assert clock.monotonic() == 10
