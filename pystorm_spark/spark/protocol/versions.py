"""Internal. The versions that driver and slots must have in common."""

from __future__ import annotations

import platform

import cloudpickle

from pystorm_spark.errors import StormError
from pystorm_spark.version import __version__


def versions() -> dict[str, str]:
    """What must be the same on the driver and in the slots: pickled components do not cross them."""
    return {
        "python": ".".join(platform.python_version_tuple()[:2]),
        "cloudpickle": cloudpickle.__version__.rpartition(".")[0],
        "pystorm-spark": __version__,
    }


def check_versions(ours: dict[str, str], theirs: dict[str, str]) -> None:
    """Refuse a slot that could not read what the driver pickles."""
    different = [name for name in ours if ours[name] != theirs.get(name)]
    if different:
        told = ", ".join(f"{name} {ours[name]} on the driver, {theirs.get(name)} in the slot" for name in different)
        raise StormError(f"driver and slot do not match: {told}; install the same versions on all machines")
