"""Peers are asked in turn with the engine, and one that cannot be had is named as missing."""

import sys
from contextlib import ExitStack

import pytest

from benchmarks import peers, spark_peers
from benchmarks.spark_word_count import ENGINE, compared


class Here:
    """What runs with the Python of the tests."""

    python = sys.executable

    def versions(self):
        return {"it": "1.0"}


@pytest.fixture
def programs(monkeypatch):
    """{peer: its program}, which replace all others."""
    chosen = {}
    monkeypatch.setattr(spark_peers, "PROGRAMS", chosen)
    return chosen


def test_a_peer_that_is_not_installed_is_named_as_missing(programs, tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "ROOT", tmp_path)
    monkeypatch.setattr(peers, "STORM", tmp_path / ".bench-storm")
    programs |= {"python": (peers.Venv(".venv-it", ("it",)), "it"), "java": (peers.Jars(), "it")}
    with ExitStack() as stack:
        found, missing = spark_peers.started(stack, 1.0)
    assert found == {}
    assert list(missing) == ["python", "java"]
    assert ".venv-it" in missing["python"]
    assert ".bench-storm" in missing["java"]


def test_a_peer_that_ends_without_an_answer_is_named_as_missing(programs, capfd):
    programs["it"] = (Here(), "no_such_program")
    with ExitStack() as stack:
        found, missing = spark_peers.started(stack, 1.0)
    assert found == {}
    assert missing == {"it": "it has ended with code 1"}
    assert "no_such_program" in capfd.readouterr().err


def test_a_peer_is_judged_by_the_ratio_of_each_round():
    rounds = [{ENGINE: answer(10_000), "it": answer(5_000)}, {ENGINE: answer(30_000), "it": answer(10_000)}]
    table, figures = compared(rounds, {"it": 3, "missing": 2})
    assert [row[0] for row in table.rows] == [ENGINE, "it"]
    assert table.rows[1][-1] == "≥ 3: MISSED"
    assert figures["ratio"]["it"]["median"] == 2.5


def test_latencies_are_shown_of_those_that_track_what_they_emit():
    tracked = {**answer(1), "mean_ms": 2.0, "p50_ms": 1.5, "p99_ms": 9.0}
    rounds = [{ENGINE: {**answer(1), "mean_ms": 300.0}, "storm": tracked, "rdd": answer(1)}] * 2
    table, figures = spark_peers.complete_latencies(rounds)
    assert [row[0] for row in table.rows] == [ENGINE, "storm"]
    assert table.rows[0][2:] == ["", ""]
    assert figures["storm"]["p99_ms"]["median"] == 9.0


def answer(words):
    return {"words": words, "secs": 1.0}
