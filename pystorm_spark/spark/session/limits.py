"""Internal. Limits: what this machine must allow, looked at before anything is started."""

from __future__ import annotations

import resource
from pathlib import Path

from pystorm_spark.errors import StormError

DRIVER_FILES = 64  # of this process, beside those that are open already: Spark's sockets, and one for each slot
JVM_FILES = 1024  # it takes the hard limit for itself


def check_open_files(slots: int = 0) -> None:
    """Refuse to start where the limit of open files would be reached sooner or later, in some other place."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _open_now(soft) + DRIVER_FILES + slots
    for name, limit, least in (("ulimit -Sn", soft, needed), ("ulimit -Hn", hard, max(needed, JVM_FILES))):
        if limit != resource.RLIM_INFINITY and limit < least:
            raise StormError(
                f"this process may have {limit} files open ({name}), which is too few for Spark and the slots; "
                f"allow at least {least}, for example with: ulimit -n 4096"
            )


def _open_now(limit: int) -> int:
    listed = Path("/proc/self/fd")
    if not listed.exists():
        return 32
    try:
        return len(list(listed.iterdir()))
    except OSError:  # to look takes one more file
        return limit
