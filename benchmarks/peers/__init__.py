"""Peers: other engines that count the same words, each in a program and an environment of its own.

A peer is asked by a line on its standard input, `{"secs": 5}`, and answers with a line `{"words": …, "secs": …}`: how
many words it moved in about that time, once warm. One that tracks them adds its complete latency: `mean_ms`, `p50_ms`
and `p99_ms`. Between questions it is idle.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # not imported from `machine`: a peer's environment may lack its imports
STORM = ROOT / ".bench-storm"


class MissingPeerError(Exception):
    """A peer that is not installed here. The report lists it as missing, without a figure."""


@dataclass(frozen=True)
class Venv:
    """A virtual environment that `make bench-peers` makes, and the packages in it whose versions matter."""

    home: str
    packages: tuple

    @property
    def python(self):
        return ROOT / self.home / "bin" / "python"

    def versions(self):
        if not self.python.exists():
            raise MissingPeerError(f"`make bench-peers` has not made {self.home}")
        found = versions(self.python, self.packages)
        lacking = [package for package in self.packages if package not in found]
        if lacking:
            raise MissingPeerError(f"{', '.join(lacking)} could not be installed")
        return found


class Jars:
    """Java's Storm, which `make bench-peers` has built by Maven; our own Python starts it."""

    python = sys.executable

    def versions(self):
        jars = list((STORM / "lib").glob("storm-server-*.jar"))
        if not jars:
            raise MissingPeerError(f"`make bench-peers` has not built {STORM.name}")
        return {"Storm": jars[0].stem.removeprefix("storm-server-")}


class Peer:
    """The program `benchmarks.peers.<name>`, started now and ended by `close`."""

    def __init__(self, home, name, *args):
        self.versions = home.versions()
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(home.python)}
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the peer
        self._process = subprocess.Popen(
            [home.python, "-m", f"benchmarks.peers.{name}", *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            cwd=ROOT,
            env=environ,
        )

    def ask(self, secs):
        """Ask for a measurement of about `secs`; returns the answer."""
        self._process.stdin.write(json.dumps({"secs": secs}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            print(self._last_words(), file=sys.stderr)
            raise MissingPeerError(f"it has ended with code {self._process.wait()}")
        return json.loads(line)

    def _last_words(self):
        self._said.seek(0)
        return self._said.read()[-4000:]

    def close(self):
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._said.close()


ASK_VERSIONS = """
import importlib.metadata, json, sys
installed = {each.name: each.version for each in importlib.metadata.distributions()}
print(json.dumps({name: installed[name] for name in sys.argv[1:] if name in installed}))
"""


def versions(python, packages):
    """{package: its version in the environment of that Python}, without those that it lacks."""
    asked = subprocess.run([python, "-c", ASK_VERSIONS, *packages], capture_output=True, text=True, check=True)
    return json.loads(asked.stdout)


def serve(measure):
    """Answer questions with `measure(secs)` until there are no more."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keeps other output apart from the answers
    for line in sys.stdin:
        output.write(json.dumps(measure(json.loads(line)["secs"])) + "\n")
        output.flush()
