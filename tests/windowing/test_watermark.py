"""Watermarks against a model that reads the whole history each time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pystorm_spark.windowing.watermark import Watermarks


@settings(max_examples=300)
@given(
    streams=st.integers(1, 3),
    lag=st.integers(0, 5),
    idle_after=st.none() | st.integers(1, 10),
    steps=st.lists(
        st.tuples(st.integers(0, 4), st.none() | st.tuples(st.integers(0, 2), st.integers(-20, 50))), max_size=30
    ),
    last_end=st.none() | st.integers(0, 60),
)
def test_a_watermark_is_the_least_of_the_highest(streams, lag, idle_after, steps, last_end):
    watermarks, now, history, expected = Watermarks(range(streams), lag, idle_after, 0), 0, [], None
    for passed, came in steps:
        now += passed
        if came is not None:
            stream, at = came[0] % streams, came[1]
            watermarks.note(stream, at, now)
            history.append((stream, at, now))
            continue
        highest = []
        for stream in range(streams):
            of_it = [(at, when) for its, at, when in history if its == stream]
            heard = max((when for _, when in of_it), default=0)
            if idle_after is None or now - heard < idle_after:
                highest.append(max((at for at, _ in of_it), default=None))
        waits = None in highest
        found = None if waits else min(highest) - lag if highest else last_end
        expected = max((each for each in (expected, found) if each is not None), default=None)
        assert watermarks.computed(now, lambda: last_end) == expected


def no_end():
    return None


def test_a_stream_that_was_never_heard_holds_the_watermark():
    watermarks = Watermarks(["a", "b"], 0, None, 0)
    watermarks.note("a", 100, 1)
    assert watermarks.computed(1000, no_end) is None


def test_an_idle_stream_that_comes_back_with_an_old_tuple_does_not_move_the_watermark_back():
    watermarks = Watermarks(["a", "b"], 0, 10, 0)
    watermarks.note("a", 100, 1)
    watermarks.note("b", 50, 1)
    watermarks.note("a", 200, 20)
    assert watermarks.computed(20, no_end) == 200
    watermarks.note("b", 60, 21)
    assert watermarks.computed(22, no_end) == 200
    watermarks.note("a", 300, 23)
    assert watermarks.computed(23, no_end) == 200  # b counts again
