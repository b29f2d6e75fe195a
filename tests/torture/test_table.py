"""The figures of a run in the documentation."""

from tests.torture.table import BEGIN, END, PAGE, PROMISES, filled

FIGURES = {
    "seed": 7,
    "secs": 3600.0,
    "took_secs": 3700,
    "faults": {"kill_slot": 80, "stop_slot": 20},
    "rows": 123456,
    "messages": 60000,
    "replayed": 900,
    "recoveries": {"count": 99, "median_secs": 2.5, "max_secs": 40.0},
    "topologies_ended": 3,
    "drivers_ended": 1,
    **dict.fromkeys(PROMISES, 0),
}


def test_the_page_has_a_place_for_the_figures_and_they_replace_what_was_there():
    page = PAGE.read_text()
    assert page.count(BEGIN) == page.count(END) == 1

    once = filled(page, FIGURES)

    assert "100: kill_slot 80, stop_slot 20" in once
    assert "| recoveries | 99, median 2.5 s, at most 40 s |" in once
    assert filled(once, FIGURES) == once
    assert once.partition(END)[2] == page.partition(END)[2]


def test_a_run_without_a_recovery_has_a_table_too():
    assert "| recoveries | 0 |" in filled(PAGE.read_text(), {**FIGURES, "recoveries": {"count": 0}})
