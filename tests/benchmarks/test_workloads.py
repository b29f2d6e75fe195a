"""The workloads of the benchmarks find what a plain count finds, and their checks notice when they do not."""

from dataclasses import replace
from importlib import import_module

import pytest

from benchmarks import top_k, workload

RATE, ROOTS = 40_000, 4_000

every_workload = pytest.mark.parametrize(
    "name",
    [
        "const_spout_only",
        "const_spout_null_bolt",
        "const_spout_id_bolt_null_bolt",
        "word_count",
        "yahoo",
        "top_k",
        "join",
    ],
)


@pytest.fixture(autouse=True)
def quick_ticks(monkeypatch):
    """So that the window slides many times in a short run."""
    monkeypatch.setattr(top_k, "TICK_SECS", 0.005)


@every_workload
def test_a_workload_finds_what_a_plain_count_finds(name):
    latencies = workload.paced(import_module(f"benchmarks.{name}").WORKLOAD, RATE, ROOTS)
    assert len(latencies) == ROOTS
    assert min(latencies) >= 0


@every_workload
def test_a_check_notices_what_is_lost(name):
    whole = import_module(f"benchmarks.{name}").WORKLOAD
    lossy = replace(whole, check=lambda emitted, folder: whole.check(emitted + 20, folder))
    with pytest.raises(RuntimeError, match="a plain count"):
        workload.paced(lossy, RATE, 400)
