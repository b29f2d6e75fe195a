"""The model of many slots follows from what is put into it."""

import math

import pytest

from benchmarks import scale
from benchmarks.scale import Line, Model, latency


def model(**changed):
    parts = {
        "driver": Line(0.010, 0.001),
        "task": Line(0.010, 0.0),
        "wall": Line(0.005, 0.5),
        "tuple_secs": 2e-6,
        "frame_secs": 20e-6,
        "beat_secs": 0.0,
        "order_bytes": Line(1000, 40),
        "manifest_bytes": Line(100, 500),
    }
    return Model(**{**parts, **changed})


def test_a_line_goes_through_points_that_lie_on_one():
    line = Line.through({1: 12.0, 2: 14.0, 8: 26.0})
    assert (line.fixed, line.slope) == pytest.approx((10.0, 2.0))


def test_an_exchange_takes_the_drivers_time_for_each_slot_and_that_of_one_task():
    assert model().exchange(100) == pytest.approx(0.005 + 0.110 + 0.010)
    assert model().here(2) == pytest.approx(0.005 + 0.5 * (0.012 + 2 * 0.010))


def test_a_tuple_waits_for_an_exchange_and_takes_one_for_each_hop_and_one_home():
    quick = 0.001  # so that chains are long, and their ends matter little
    assert latency(quick, hops=1) == pytest.approx(2.5 * quick, rel=0.06)
    assert latency(quick, hops=4) == pytest.approx(5.5 * quick, rel=0.06)
    assert model().latency(100, hops=1) == latency(model().exchange(100), hops=1)


def test_slow_exchanges_come_in_short_chains_whose_ends_take_nothing():
    slow = 1.0  # two in a chain: those that miss the first come home in the next chain
    assert latency(slow, hops=1) == pytest.approx(5 / 6 + (2 * 2 + 1 * 3) / 3)


def test_frames_become_smaller_and_tuples_dearer_with_more_slots():
    few, many = (model().tuples_in_turn(slots) for slots in (2, 10_000))
    assert few == pytest.approx((0.005 - 2 * 20e-6) / 2e-6)
    assert many == pytest.approx(0.005 / 22e-6)
    assert model().rows_in_frame(10_000) == 1


def test_limits_are_named_in_the_order_in_which_they_come(monkeypatch):
    monkeypatch.setattr(scale, "HOLD_SECS", 0.25)
    found = model().breaking()
    assert list(found.values()) == sorted(found.values())
    assert found["the driver schedules for longer than the exchange interval"] == 241
    assert found["half of a slot's time goes into frames"] == 126
    assert found["half of a core goes into control connections"] == math.inf
