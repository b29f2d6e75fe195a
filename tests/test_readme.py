"""The Python of README.md runs as it stands there, and prints what stands below it; so does the first block locally."""

import itertools
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def programs(page):
    """(code, output) of every Python block; the output is the text block that follows it, or nothing."""
    blocks = [*FENCED.findall(page), ("", "")]
    for (language, code), (next_language, text) in itertools.pairwise(blocks):
        if language == "python":
            yield code, text if next_language == "text" else ""


PROGRAMS = list(programs((ROOT / "README.md").read_text(encoding="utf-8")))


def marked(number, code, output):
    """A program as a parameter; what names the SparkCluster needs Spark."""
    return pytest.param(code, output, marks=[pytest.mark.spark] if "SparkCluster" in code else [], id=str(number))


def run(code, folder):
    # A process of its own: whoever tries the README has its classes in `__main__`.
    script = folder / "readme.py"
    script.write_text(code, encoding="utf-8")
    command = [sys.executable, "-W", "error", str(script)]
    return subprocess.run(command, cwd=folder, env=ENV, capture_output=True, text=True, timeout=300)


def test_the_readme_begins_with_a_topology_on_spark_and_its_output():
    code, output = PROGRAMS[0]
    assert "with SparkCluster() as cluster" in code
    assert "submit_topology" in code
    assert output


@pytest.mark.parametrize(("code", "output"), [marked(number, *each) for number, each in enumerate(PROGRAMS)])
def test_a_program_of_the_readme_prints_what_stands_below_it(code, output, tmp_path):
    ran = run(code, tmp_path)
    assert ran.stderr == ""
    assert ran.stdout == output
    assert ran.returncode == 0


def test_the_first_program_of_the_readme_runs_in_one_process_by_another_word(tmp_path):
    code, output = PROGRAMS[0]
    ran = run(code.replace("SparkCluster", "LocalCluster"), tmp_path)
    assert ran.stderr == ""
    assert ran.stdout == output


def figures(benchmark):
    return json.loads((ROOT / "benchmarks/results" / f"{benchmark}.json").read_text(encoding="utf-8"))["figures"]


def test_the_figures_of_the_readme_are_those_of_the_kept_results():
    peers, latency, recovery = figures("spark_peers"), figures("spark_latency"), figures("spark_recovery")["secs"]
    rate, ratio = peers["words_per_s"]["pystorm-spark, 2 slots"]["median"], peers["ratio"]
    storm, pandas = ratio["Java Storm, 2/2/2 executors"]["median"], ratio["`applyInPandasWithState`"]["median"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"{round(rate, -3):,.0f} words/s" in readme
    assert f"{storm:.2f} of Java Storm in the same run, {pandas:.1f} times `applyInPandasWithState`" in readme
    assert f"{latency['p50']['median']:.0f} ms median, {latency['p99']['median']:.0f} ms p99" in readme
    assert f"acked after {statistics.median(recovery):.1f} s, {max(recovery):.1f} s at worst" in readme
