"""Run tests on a debug build of Python, which checks the reference counts and arguments of the compiled core.

Run by the Makefile as `.venv/bin/python .ci/debug_python.py tests/runtime …`; the arguments are those of pytest. Debian
has such a Python in the package `python3-dbg`. The package and its tests are copied to `build/debug`, and the core is
built there with its assertions. The other packages are those of `.venv`. Where the machine has no debug build of the
same version of Python, the tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from sanitized import copy_sources

BUILD = Path(__file__).resolve().parent.parent / "build" / "debug"
NAME = f"python{sys.version_info.major}.{sys.version_info.minor}-dbg"
FLAGS = "-O1 -g -UNDEBUG"
PROBE = (
    "import sys; assert hasattr(sys, 'gettotalrefcount'); from pystorm_spark import _core; import msgpack, pytest; "
    "print(_core.__file__)"
)


def main() -> None:
    """Build the core and run pytest with the arguments on it."""
    python = shutil.which(NAME)
    if python is None:
        skip(f"there is no {NAME} on PATH")
    copy_sources(BUILD)
    try:
        python = environment_of(python)
    except subprocess.CalledProcessError:
        skip(f"{NAME} makes no virtual environment")
    environment = {**os.environ, "PYSTORM_SPARK_PURE": "0"}
    command = [python, "setup.py", "--quiet", "build_ext", "--inplace"]
    built = subprocess.run(command, cwd=BUILD, env={**environment, "CFLAGS": FLAGS}, capture_output=True, text=True)
    found = subprocess.run([python, "-c", PROBE], cwd=BUILD, env=environment, capture_output=True, text=True)
    if not found.stdout.startswith(str(BUILD)):
        skip(f"{NAME} cannot build or load the core:\n{built.stderr}{found.stderr}")
    tests = [python, "-X", "dev", "-m", "pytest", *sys.argv[1:]]
    sys.exit(subprocess.run(tests, cwd=BUILD, env=environment).returncode)


def environment_of(python: str) -> str:
    """Make a virtual environment that shares the packages of `.venv`; returns its Python."""
    folder = BUILD / ".venv"
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    packages = sysconfig.get_path("purelib", vars={"base": str(folder)})
    Path(packages, "venv.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return str(folder / "bin" / "python")


def skip(reason: str) -> None:
    """End without running the tests."""
    sys.stdout.write(f"skipped: {reason}\n")
    sys.exit(0)


if __name__ == "__main__":
    main()
