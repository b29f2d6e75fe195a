"""The machine, the versions and the commit that figures belong to: compare only figures taken on one machine."""

import os
import platform
import subprocess
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

from pystorm_spark import __version__
from pystorm_spark.core import CORE

ROOT = Path(__file__).resolve().parent.parent
WRITTEN_BY_US = (":!benchmarks/results", ":!docs/performance.md")


def environment(**packages):
    """Return the environment, for comparisons; `packages` are the versions of other software that took part."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "core": CORE,
        "packages": {
            "pystorm-spark": __version__,
            **{name: version(name) for name in ("cloudpickle", "msgpack")},
            **packages,
        },
        "commit": _commit(),
        "date": datetime.now(timezone.utc).date().isoformat(),
    }


def described(env):
    """Describe the environment in one line."""
    packages = ", ".join(f"{name} {number}" for name, number in env["packages"].items())
    core = f", {env['core']} core" if "core" in env else ""  # results from before the compiled core lack it
    return (
        f"{env['cpu']}, {env['cores']} cores, {env['memory_gib']} GiB, {env['system']}; {env['python']}, {packages}"
        f"{core}; commit {env['commit']}, {env['date']}"
    )


def _cpu_model():
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _commit():
    commit = _git("rev-parse", "--short", "HEAD")
    changed = _git("status", "--porcelain", "--", ".", *WRITTEN_BY_US)
    return f"{commit} with changes" if changed else commit


def _git(*args):
    found = subprocess.run(["git", "--no-optional-locks", *args], cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else "unknown"
