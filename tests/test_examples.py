"""Every example runs, as a script and as a module, and prints what it promises."""

import importlib
import logging
import os
import pty
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
# The examples are also run where the package is not installed.
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "COLUMNS": "100", "LINES": "30", "TERM": "xterm"}


def as_script(name):
    # Classes of `__main__` travel by value.
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")


def as_module(name):
    # Classes of an importable module travel by name.
    importlib.import_module(f"examples.{name.replace('/', '.')}").main()


@pytest.fixture(params=[as_script, as_module], ids=["script", "module"])
def run(request, capsys, monkeypatch):
    """Runs an example and gives the lines that it printed."""
    monkeypatch.syspath_prepend(str(ROOT))

    def run_and_read(name):
        request.param(name)
        return capsys.readouterr().out.splitlines()

    return run_and_read


def test_word_count_prints_the_top_words(run):
    assert run("word_count") == ["the 4", "and 2", "seven 2"]


def test_exclamation_prints_every_word_with_six_marks(run):
    words = ["bertels", "golda", "jackson", "mike", "nathan"]
    assert sorted(run("exclamation")) == [f"{word}!!!!!!" for word in words]


def test_sensor_chain_averages_each_sensor_in_order_without_the_broken_reading(run):
    lines = run("sensor_chain")
    assert [line for line in lines if "cellar" in line] == ["cellar 50.0 °F", "cellar 51.8 °F", "cellar 52.7 °F"]
    assert [line for line in lines if "attic" in line] == ["attic 68.0 °F", "attic 77.0 °F"]


def test_rolling_top_words_forgets_what_left_the_window(run):
    assert run("rolling_top_words") == [
        "rain 2, wind 1",
        "rain 2, wind 2",
        "sun 3, rain 2",
        "sun 4, wind 2",
        "sun 3, wind 1",
    ]


def test_sliding_word_count_counts_each_word_in_the_windows_that_hold_it(run):
    assert run("sliding_word_count") == [
        "5 s sliding: rain 2, sun 1",
        "10 s tumbling: rain 2, sun 2, wind 1",
        "10 s sliding: rain 2, sun 2, wind 1",
        "15 s sliding: rain 1, sun 1, wind 1",
        "20 s tumbling: rain 1",
        "20 s sliding: rain 1",
        "25 s sliding: sun 2, wind 1",
        "30 s tumbling: sun 2, wind 1",
        "30 s sliding: sun 2, wind 1",
        "acked: 9 of 9",
    ]


def test_late_data_fires_again_what_is_late_and_shows_what_is_too_late(run):
    assert run("late_data") == [
        "0 s to 10 s, on-time: 22.0 °C",
        "10 s to 20 s, on-time: 30.0 °C",
        "10 s to 20 s, late: 35.0 °C",
        "too late: attic 99.0 of 3 s",
    ]


def test_sessions_end_when_it_is_quiet_and_show_early_results(run):
    assert run("sessions") == [
        "ada, early: 3 pages in 20 s: home search book",
        "bob, on-time: 1 pages in 0 s: home",
        "ada, on-time: 4 pages in 40 s: home search book cart",
        "bob, on-time: 1 pages in 0 s: help",
        "acked: 6 of 6",
    ]


def test_join_joins_by_id_and_keeps_the_rest_in_a_full_join(run):
    lines = run("join")
    assert sorted(lines) == [
        "full 0 None male",
        "full 1 21 female",
        "full 2 22 male",
        "full 3 23 None",
        "inner 1 21 female",
        "inner 2 22 male",
    ]


def test_single_join_joins_by_id_and_fails_the_left_over(run):
    *joined, acked, failed = run("single_join")
    assert sorted(joined) == ["joined: 1 ada 36", "joined: 2 grace 85"]
    assert (acked, failed) == ("acked: 36 years 85 years ada grace", "failed: linus")


def test_lambda_topology_prints_the_squares(run):
    assert run("lambda_topology") == ["1² = 1", "2² = 4", "3² = 9", "4² = 16", "5² = 25"]


def test_direct_grouping_gives_each_job_to_the_idlest_worker(run):
    assert run("direct_grouping") == ["worker 0: render, ping", "worker 1: mail, thumbnail, backup"]


def test_custom_grouping_shelves_words_by_the_alphabet(run):
    assert run("custom_grouping") == ["shelf 0: acker bolt grouping", "shelf 1: spout stream tuple"]


def test_reliable_spout_emits_again_what_failed(run):
    *failed, pending, counts = run("reliable_spout")
    assert sorted(failed) == ["order 3 failed, emitted again", "order 6 failed, emitted again"]
    assert (pending, counts) == ("still pending: 0", "9 emitted, 7 acked, 2 failed")


def test_metrics_prints_each_metric_once_per_bucket(run):
    assert run("metrics") == [
        "10 s watch errors: 2",
        "10 s watch response: 5 timed, 0.04 s in the middle",
        "20 s watch errors: 0",
    ]


def test_durable_word_count_counts_each_word_once_though_it_is_killed():
    # Its own process starts others, which print what is printed.
    command = [sys.executable, str(EXAMPLES / "durable_word_count.py")]
    ran = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=60)
    assert (ran.stdout.splitlines(), ran.stderr) == (["killed", "the 1000", "and 500", "seven 500"], "")


def test_deduplicate_lets_each_message_through_once(run):
    assert run("deduplicate") == ["m1 order tea", "m2 order cake", "m3 pay"]


def test_player_statistics_are_read_while_the_topology_runs(run):
    assert run("player_statistics") == [
        "ada: 3 played, 20 points on average",
        "grace: 2 played, 16 points on average",
        "linus: 1 played, 7 points on average",
        "ada's best: 30",
    ]


def test_the_port_of_exclamation_logs_the_words(run, caplog):
    with caplog.at_level(logging.INFO):
        run("ports/exclamation")
    assert re.search(r"exclaim2:\d+ emits \['(nathan|mike|jackson|golda|bertels)!!!!!!'\]", caplog.text)


def test_the_port_of_word_count_prints_counts(run):
    counts = dict(line.split(": ") for line in run("ports/word_count"))
    assert sum(map(int, counts.values())) >= 100


def test_the_port_of_sliding_window_prints_the_averages_of_three_sums(run):
    assert run("ports/sliding_window") == ["[7925]", "[13065]"]


def test_the_port_of_sliding_tuple_ts_prints_the_sum_of_each_window(run):
    assert run("ports/sliding_tuple_ts") == ["[11816]", "[21349]", "[22593]", "[24985]", "[25806]"]


def test_the_port_of_join_bolt_prints_each_pair(run):
    genders = ["male", "female"] * 5
    assert sorted(run("ports/join_bolt")) == [f"[{i}, {i}, '{genders[i]}', {i + 20}]" for i in range(10)]


def test_the_readme_lists_every_example():
    listed = set(re.findall(r"\]\((\S+\.py)\)", (EXAMPLES / "README.md").read_text()))
    assert listed == {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.py")}


# Those on Spark have a session of their own, and so a process.


def lines_of(name):
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, cwd=ROOT, env=ENV, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.spark
def test_dataframe_in_out_converts_all_readings_but_the_one_that_cannot_be():
    assert lines_of("dataframe_in_out") == [
        "attic 68.0 °F",
        "attic 86.0 °F",
        "cellar 50.0 °F",
        "cellar 53.6 °F",
        "garden 59.0 °F",
        "dead letter: garden, 9999.0 °C is too hot to be true",
    ]


@pytest.mark.spark
def test_lambda_architecture_answers_from_both_views():
    assert lines_of("lambda_architecture") == [
        "after an hour, from the speed view: {'about': 1, 'home': 2}",
        "after three, from the batch view up to hour 1, and the speed view: {'about': 2, 'home': 5, 'news': 2}",
        "after four: {'about': 2, 'home': 6, 'imprint': 1, 'news': 5}",
    ]


# The demo.


def start_demo(*options, stdout=subprocess.PIPE):
    command = [sys.executable, str(EXAMPLES / "demo.py"), "--engine", "local", *options]
    return subprocess.Popen(command, cwd=ROOT, env=ENV, stdout=stdout, stderr=subprocess.STDOUT, text=True)


def test_the_demo_prints_lines_and_a_summary_where_there_is_no_terminal():
    demo = start_demo("--secs", "3")
    out, _ = demo.communicate(timeout=20)
    assert demo.returncode == 0
    assert re.search(r"^ +\d+\.\d s  [\d,]+ sentences acked, 0 failed, .*; top: the [\d,]+", out, re.MULTILINE)
    assert re.search(r"^sentences +1 +[\d,]+ +[\d,]+ +0 +\d+\.\d +\d+$", out, re.MULTILINE)
    assert re.search(r"^the +█+ +[\d,]+$", out, re.MULTILINE)
    assert re.search(
        r"^done after \d+\.\d s: [\d,]+ of [\d,]+ sentences acked, 0 failed\n[\d,]+ words counted", out, re.M
    )
    assert "\x1b" not in out


def test_the_demo_refreshes_one_table_in_a_terminal():
    ours, theirs = pty.openpty()
    demo = start_demo("--secs", "1", stdout=theirs)
    os.close(theirs)
    out = read_all(ours)
    assert demo.wait(timeout=20) == 0
    titles, ups = out.count("word-count on LocalCluster"), len(re.findall(r"\x1b\[\d+A", out))
    assert titles == ups + 1 > 1
    assert out.index("\x1b[?25l") < out.rindex("\x1b[?25h")


def read_all(descriptor):
    """What is written to a terminal until its other side is closed, which Linux tells by an error."""
    chunks = []
    with open(descriptor, "rb", buffering=0) as terminal:
        try:
            while chunk := terminal.read(4096):
                chunks.append(chunk)
        except OSError:
            pass
    return b"".join(chunks).decode()


def test_ctrl_c_ends_the_demo_with_a_summary():
    demo = start_demo("--secs", "60")
    first = demo.stdout.readline()
    demo.send_signal(signal.SIGINT)
    out, _ = demo.communicate(timeout=20)
    assert first == "Ctrl-C ends it\n"
    assert demo.returncode == 0
    assert re.search(r"^interrupted after \d+\.\d s", out, re.MULTILINE)
    assert "Traceback" not in out


@pytest.mark.spark
def test_the_demo_runs_on_spark_and_ends_cleanly_on_ctrl_c():
    demo = start_demo("--engine", "spark", "--secs", "120")
    shown = [demo.stdout.readline() for _ in range(3)]  # that Spark starts, how to end it, the first counts
    demo.send_signal(signal.SIGINT)
    out, _ = demo.communicate(timeout=60)
    assert shown[0].startswith("starting Spark")
    assert "sentences acked" in shown[2]
    assert demo.returncode == 0
    assert "word-count on SparkCluster" in out
    assert re.search(r"^interrupted after \d+\.\d s: [\d,]+ of [\d,]+ sentences acked, 0 failed", out, re.MULTILINE)
    assert "Traceback" not in out
