"""The Python of README.md runs as it stands there, and prints what stands below it."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def programs(page):
    """(code, output) of every Python block; the output is the text block that follows it, or nothing."""
    blocks = [*FENCED.findall(page), ("", "")]
    for (language, code), (next_language, text) in itertools.pairwise(blocks):
        if language == "python":
            yield code, text if next_language == "text" else ""


PROGRAMS = list(programs((ROOT / "README.md").read_text(encoding="utf-8")))


def test_the_readme_begins_with_a_topology_and_its_output():
    code, output = PROGRAMS[0]
    assert "submit_topology" in code
    assert output


@pytest.mark.parametrize(("code", "output"), PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_of_the_readme_prints_what_stands_below_it(code, output, tmp_path):
    # A process of its own: whoever tries the README has its classes in `__main__`.
    script = tmp_path / "readme.py"
    script.write_text(code, encoding="utf-8")
    command = [sys.executable, "-W", "error", str(script)]
    ran = subprocess.run(command, cwd=tmp_path, env=ENV, capture_output=True, text=True, timeout=60)
    assert ran.stderr == ""
    assert ran.stdout == output
    assert ran.returncode == 0
