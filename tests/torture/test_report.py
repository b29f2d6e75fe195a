"""The figures at the end of a run: its findings, and whether it has passed."""

import json
from types import SimpleNamespace

import pytest

from tests.torture.checker import Findings
from tests.torture.progress import Recoveries
from tests.torture.report import Report

SOURCE = SimpleNamespace(rows=100, messages=50)


@pytest.fixture
def report(tmp_path):
    (tmp_path / "logs").mkdir()
    return Report(tmp_path, seed=7, secs=60.0)


def conclude(report, findings=None):
    return report.conclude(findings or Findings(), SOURCE, SimpleNamespace(failed=3), Recoveries([2.0, 4.0]))


def test_a_run_without_findings_has_passed(report):
    report.strike("kill_slot", "slot 1")
    assert conclude(report)
    assert report.figures["passed"]
    assert report.figures["faults"] == {"kill_slot": 1}
    assert report.figures["recoveries"] == {"count": 2, "median_secs": 3.0, "max_secs": 4.0}
    json.dumps(report.figures)


@pytest.mark.parametrize("promise", ["lost", "doubled", "counted_twice", "not_replayed"])
def test_a_run_with_a_finding_has_not_passed_and_names_it(report, tmp_path, capsys, promise):
    assert not conclude(report, Findings(**{promise: {"some things": [3, 4]}}))
    assert report.figures[promise] == 2
    assert f"{promise}: 2 some things: [3, 4]" in capsys.readouterr().out
    assert json.loads((tmp_path / "findings.json").read_text())["found"][promise] == {"some things": [3, 4]}


def test_a_run_that_leaves_something_or_stalls_has_not_passed(report):
    report.left = ["slot 17"]
    assert not conclude(report)
    report.left, report.stalls = [], ["driver 1"]
    assert not conclude(report)


def test_a_driver_that_ends_badly_at_the_end_is_a_leftover(report):
    report.driver_finished(1)
    assert not conclude(report)


def test_dead_letters_are_counted(report, tmp_path):
    folder = tmp_path / "disk" / "checkpoint" / "exact"
    (folder / "dead-letters" / "rows" / "batch=3").mkdir(parents=True)
    (folder / "dead-letters" / "rows" / "batch=3" / "part-0.json").write_text('{"number": 7}\n{"number": 8}\n')
    (folder / "dead-letters.jsonl").write_text('{"id": 1}\n')
    (folder / "sinks.json").write_text("{}")
    conclude(report)
    assert report.figures["dead_letters"] == 3


def test_a_topology_that_ended_is_reported_but_is_not_a_failure(report, tmp_path, capsys):
    (tmp_path / "ended").write_text(json.dumps({"what": "exact: StormError: no space"}) + "\n")
    assert conclude(report)
    assert report.figures["topologies_ended"] == 1
    assert "no space" in capsys.readouterr().out
