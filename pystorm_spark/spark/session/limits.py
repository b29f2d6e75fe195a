"""Internal. Limits: checks the limits of this process before anything starts."""

from __future__ import annotations

import resource
from pathlib import Path

from pystorm_spark.errors import StormError

DRIVER_FILES = 64  # that this process will open for Spark's sockets; each slot needs one more
JVM_FILES = 1024  # that the JVM needs; it raises its own limit to the hard one


def check_open_files(slots: int = 0) -> None:
    """Raise a `StormError` if the limit of open files is too low: it would be reached later, with a worse error."""
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
    except OSError:  # listing needs one more descriptor, so the limit is reached
        return limit
