"""Charts have axes that can be read."""

import re

import pytest

from benchmarks import charts
from benchmarks.charts import Scale


def spread(median, low=None, high=None):
    return {"median": median, "low": low or median, "high": high or median, "samples": 3}


def widths(svg):
    return [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"', svg)]


@pytest.mark.parametrize(
    ("largest", "ticks"),
    [(1, [0, 0.2, 0.4, 0.6, 0.8, 1]), (10.4, [0, 5, 10]), (640, [0, 200, 400, 600]), (9, [0, 2, 4, 6, 8])],
)
def test_an_axis_from_zero_has_some_round_ticks(largest, ticks):
    assert Scale.of([largest / 2, largest], 100).ticks() == pytest.approx(ticks)


def test_values_of_different_magnitudes_have_a_logarithmic_axis():
    scale = Scale.of([15.0, 10_000.0], 300)
    assert scale.log
    assert scale.ticks() == [10, 100, 1000, 10_000]
    assert [scale.at(value) for value in scale.ticks()] == pytest.approx([0, 100, 200, 300])


def test_values_that_may_be_zero_have_a_linear_axis():
    scale = Scale.of([0.0, 1000.0], 100)
    assert not scale.log
    assert scale.at(500) == 50


def test_bars_are_as_long_as_their_figures_are_large():
    assert widths(charts.bars({"a": spread(10.0), "b": spread(5.0)}, "ms")) == [400, 200]


def test_a_mark_stands_where_its_figure_would_be():
    svg = charts.bars({"ours": spread(10.0), "other": spread(4.0)}, "ms", "ours", {"other": 8.0})
    assert f'class="mark" d="M{charts.LABELS + 320.0}' in svg
    assert f'class="ours-line" d="M{charts.LABELS + 400.0}' in svg


def test_a_span_goes_from_one_figure_to_the_other():
    svg = charts.spans({"a": (5.0, 10.0)}, "ms")
    assert f'd="M{charts.LABELS + 200.0} 13H{charts.LABELS + 400.0}"' in svg
    assert "5 – 10" in svg


def test_the_axes_of_a_line_are_named_and_say_when_they_are_logarithmic():
    svg = charts.line("words/s, by slots", ["1", "2"], [1.0, 100.0])
    assert ">words/s (logarithmic)<" in svg
    assert ">slots<" in svg


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.516, "0.516"), (347.5, "348"), (2000, "2 k"), (1234, "1,234"), (1_250_000, "1,250 k"), (1_000_000, "1 M")],
)
def test_figures_have_as_many_digits_as_a_reader_needs(number, text):
    assert charts.short(number) == text
