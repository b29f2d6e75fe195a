"""Others that count the same words, each a program of its own, in environments apart from that of the engine.

A peer is asked by a line on its standard input, `{"secs": 5}`, and answers with a line `{"words": …, "secs": …}`: how
many words it moved in about that time, once warm. While it is not asked it rests.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # not by `machine`, whose imports an environment need not have
SHARED, APART = ".bench-venv", {"bytewax_count": ".bench-venv-bytewax", "pyflink_count": ".bench-venv-pyflink"}


class MissingPeerError(Exception):
    """A peer that cannot be had here; it is named as missing, and no figure is guessed."""


class Peer:
    """The program `benchmarks.peers.<name>`, started now and ended with the `with`."""

    def __init__(self, name, *packages):
        home = APART.get(name, SHARED)
        python = ROOT / home / "bin" / "python"
        if not python.exists():
            raise MissingPeerError(f"`make {'bench-peers' if name in APART else 'bench'}` has not made {home}")
        self.versions = versions(python, packages)
        lacking = [package for package in packages if package not in self.versions]
        if lacking:
            raise MissingPeerError(f"{', '.join(lacking)} could not be installed")
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python)}
        self.name = name
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the peer
        self._process = subprocess.Popen(
            [python, "-m", f"benchmarks.peers.{name}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            cwd=ROOT,
            env=environ,
        )

    def rate(self, secs):
        """Words a second, in about `secs`."""
        self._process.stdin.write(json.dumps({"secs": secs}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"peer {self.name} has ended with code {self._process.wait()}:\n{self._last_words()}")
        answer = json.loads(line)
        return answer["words"] / answer["secs"]

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
    """Answer questions with `measure(secs) -> (words, secs)` until there are no more."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed here is no answer
    for line in sys.stdin:
        words, secs = measure(json.loads(line)["secs"])
        output.write(json.dumps({"words": words, "secs": secs}) + "\n")
        output.flush()
