"""What the probes have written down becomes the stages of a tuple's life."""

import json
import math

import pytest

from benchmarks.charts import stacked
from benchmarks.stage_probe import STAGES, Notes


@pytest.fixture
def folder(tmp_path):
    """A tuple that is due at 1.0 in slot 0 crosses in the first exchange of job 7; its ack comes with the second."""
    slots = {
        100: {"slot": 0, "sealed": [1.2, 2.5], "brought": [[7, 0, 1.25], [7, 1, 1.8], [7, 2, 2.6]], "taken": []},
        200: {"slot": 1, "sealed": [1.9], "brought": [[7, 0, 1.25], [7, 1, 1.7]], "taken": []},
    }
    slots[100]["taken"] = [[7, 0, 1.3], [7, 1, 1.85]]
    slots[200]["taken"] = [[7, 0, 1.3], [7, 1, 2.0]]
    for pid, notes in slots.items():
        (tmp_path / f"slot-{pid}").write_text(json.dumps(notes))
    visits = [[7, number, slot, 1.2 + 0.4 * number, 1.35 + 0.4 * number] for number in range(3) for slot in range(2)]
    (tmp_path / "visits-300").write_text("".join(f"{json.dumps(visit)}\n" for visit in visits))
    (tmp_path / "lives-100").write_text(json.dumps([[1.0, 1.1, 2.7], [1.0, 1.1, 1.15], [5.0, 5.1, math.inf]]))
    return tmp_path


def test_a_latency_is_split_at_the_moments_of_its_frames(folder):
    (life,) = Notes(folder).lives(0.0, 9.0, completed=[1.5, 1.9, 2.3])
    assert len(life) == len(STAGES)
    assert life == pytest.approx([0.1, 0.1, 0.1, 0.2, 0.1, 0.1, 0.2, 0.1, 0.0, 0.0, 0.6, 0.1])


def test_only_tuples_that_were_due_in_the_window_count(folder):
    assert Notes(folder).lives(1.5, 9.0, completed=[1.5, 1.9, 2.3]) == []


def test_parts_of_a_bar_are_as_wide_as_they_are_large():
    picture = stacked({"before": {"a": 30.0, "b": 10.0}, "now": {"a": 20.0, "b": 0.0}}, "ms")
    assert [f'width="{width}"' in picture for width in ("555.0", "185.0", "370.0", "0.0")] == [True] * 4
    assert "before: 40 ms" in picture
