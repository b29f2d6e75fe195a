"""A full disk only delays: operations that it refuses are retried, and other errors are raised."""

import errno
from pathlib import Path

import pytest

from pystorm_spark.errors import CheckpointError
from pystorm_spark.spark.rows.full_disk import (
    FIRST_BACKOFF_SECS,
    LONGEST_BACKOFF_SECS,
    WARNING_INTERVAL_SECS,
    FullDisk,
    is_full,
)
from tests.disks import run_where_it_may_mount

HERE = Path(__file__).parents[1]
NO_ROOM = OSError(errno.ENOSPC, "No space left on device")


class Waits:
    """A clock that moves only when somebody waits."""

    def __init__(self, most=1000):
        self.now, self.waits, self.most = 0.0, [], most
        self.disk = FullDisk("it", self.pause, lambda: self.now)

    def pause(self, secs):
        self.now += secs
        self.waits.append(secs)
        return len(self.waits) < self.most


@pytest.mark.parametrize(
    "error",
    [
        NO_ROOM,
        OSError(errno.EDQUOT, "in whatever language"),
        OSError(errno.EROFS, "Read-only file system"),
        CheckpointError("the query has ended: java.io.IOException: No space left on device SQLSTATE: XXKST"),
        CheckpointError("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException: The DiskSpace quota is exceeded"),
    ],
    ids=str,
)
def test_a_full_disk_is_recognized_from_every_source(error):
    assert is_full(error)


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), ValueError("out of ink")], ids=str)
def test_other_errors_are_raised_at_once(error):
    def act():
        raise error

    clock = Waits()
    with pytest.raises(type(error)):
        clock.disk.outwaited(act)

    assert clock.waits == []


def test_waits_get_longer_up_to_a_limit_and_warnings_are_throttled(caplog):
    clock, left = Waits(), [NO_ROOM] * 20

    def act():
        if left:
            raise left.pop()
        return "done"

    assert clock.disk.outwaited(act) == "done"
    assert clock.waits[:3] == [FIRST_BACKOFF_SECS, 2 * FIRST_BACKOFF_SECS, 4 * FIRST_BACKOFF_SECS]
    assert clock.waits[-1] == max(clock.waits) == LONGEST_BACKOFF_SECS
    assert 2 <= len(caplog.messages) <= 1 + clock.now / WARNING_INTERVAL_SECS
    assert "retrying until there is space: [Errno 28] No space left on device" in caplog.text


def test_a_disk_that_is_full_again_much_later_starts_with_a_short_wait():
    clock = Waits()
    for _ in range(5):
        clock.disk.makes_wait(NO_ROOM)
    clock.now += 3600

    clock.disk.makes_wait(NO_ROOM)

    assert clock.waits[-1] == FIRST_BACKOFF_SECS


def test_the_wait_for_space_ends_with_the_topology():
    def act():
        raise NO_ROOM

    with pytest.raises(OSError, match="No space"):
        Waits(most=2).disk.outwaited(act)


@pytest.mark.spark
def test_a_source_goes_on_when_there_is_space_again_on_any_disk(tmp_path):
    run_where_it_may_mount(HERE / "full_disk.py", tmp_path)
