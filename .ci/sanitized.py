"""Run tests on a compiled core that is built with AddressSanitizer and UBSan.

Run by the Makefile as `.venv/bin/python .ci/sanitized.py tests/runtime …`; the arguments are those of pytest. The
package and its tests are copied to `build/sanitized`, and the core is built there, so `.venv` keeps its own. A finding
ends the process that made it, and so the run. Where the machine has no sanitizers the tests are skipped; in CI that is
an error.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "sanitized"
COPIED = ("pystorm_spark", "tests", "setup.py", "setup.cfg", "README.md")
FLAGS = "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all"
RUNTIMES = ("libasan.so", "libclang_rt.asan-x86_64.so", "libclang_rt.asan-aarch64.so")  # of gcc, of clang
OPTIONS = {
    # Python frees little when it exits, so the leak check would report Python. tests/runtime/test_core_leaks.py looks
    # for leaks of the core.
    "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "PYTHONMALLOC": "malloc",  # Python's own allocator would hide freed memory from the sanitizer
}
PROBE = "from pystorm_spark import _core; print(_core.__file__)"


def main() -> None:
    """Build the core and run pytest with the arguments on it."""
    runtime = sanitizer_runtime()
    copy_sources(BUILD)
    problem = build() if runtime else "the C compiler has no AddressSanitizer"
    environment = {**os.environ, **OPTIONS, "LD_PRELOAD": str(runtime), "PYSTORM_SPARK_PURE": "0"}
    problem = problem or start(environment)
    if problem:
        skip(problem)
    sys.exit(subprocess.run([sys.executable, "-m", "pytest", *sys.argv[1:]], cwd=BUILD, env=environment).returncode)


def sanitizer_runtime() -> Path | None:
    """The sanitizer library, which must be preloaded because Python itself is built without it."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    for name in RUNTIMES:
        try:
            found = subprocess.run([*compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        path = Path(found.stdout.strip())
        if path.is_absolute() and path.exists():
            return path.resolve()
    return None


def copy_sources(target: Path) -> None:
    """Copy what the tests need, without a core that was built before."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        else:
            shutil.copy2(ROOT / name, target / name)


def build() -> str:
    """Build the core in place. Returns the problem if that fails."""
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    environment = {**os.environ, "CFLAGS": FLAGS, "LDFLAGS": "-fsanitize=address,undefined"}
    built = subprocess.run(command, cwd=BUILD, env=environment, capture_output=True, text=True)
    if list(BUILD.glob("pystorm_spark/_core.*.so")):
        return ""
    return f"the core cannot be built with the sanitizers:\n{built.stdout}{built.stderr}"


def start(environment: dict[str, str]) -> str:
    """Load the new core. Returns the problem if another core is found or Python does not start."""
    found = subprocess.run([sys.executable, "-c", PROBE], cwd=BUILD, env=environment, capture_output=True, text=True)
    if found.stdout.startswith(str(BUILD)):
        return ""
    return f"the core with the sanitizers cannot be loaded:\n{found.stdout}{found.stderr}"


def skip(reason: str) -> None:
    """End without running the tests; in CI that is an error."""
    if os.environ.get("CI"):
        sys.exit(f"{reason}; CI needs the sanitizers: install gcc with libasan and libubsan, or clang with compiler-rt")
    sys.stdout.write(f"skipped: {reason}\n")
    sys.exit(0)


if __name__ == "__main__":
    main()
