"""Dead letters: one JSON object a line, also after a disk that was full."""

import json
import resource
from contextlib import contextmanager

import pytest

from pystorm_spark import CheckpointError
from pystorm_spark.checkpoint.dead_letters import FILE_NAME, DeadLetters


@contextmanager
def room_for(size):
    """No file can grow beyond `size`: what is written is cut off there, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def ids(folder):
    return [json.loads(line)["message_id"] for line in (folder / FILE_NAME).read_text().splitlines()]


def test_letters_that_do_not_fit_on_the_disk_leave_no_incomplete_line(tmp_path):
    letters = DeadLetters(tmp_path)
    letters.add(1, [{"message_id": 1}])
    with room_for(30), pytest.raises(CheckpointError, match=f"{FILE_NAME}' cannot be written: File too large"):
        letters.add(2, [{"message_id": 2}, {"message_id": 3}])
    letters.add(2, [{"message_id": 2}, {"message_id": 3}])
    assert ids(tmp_path) == [1, 2, 3]


def test_a_new_file_of_letters_outlives_a_loss_of_power(tmp_path, synced):
    DeadLetters(tmp_path).add(1, [{"message_id": 1}])
    assert synced == [tmp_path, tmp_path / FILE_NAME]
    DeadLetters(tmp_path).add(2, [{"message_id": 2}])
    assert synced[2:] == [tmp_path / FILE_NAME]


def test_letters_of_a_commit_that_is_tried_again_are_added_once(tmp_path):
    letters = DeadLetters(tmp_path)
    letters.add(1, [{"time": 1, "message_id": 1}, {"time": 1, "message_id": 1}])  # of two tasks
    letters.add(1, [{"time": 2, "message_id": 1}, {"time": 2, "message_id": 1}, {"time": 2, "message_id": 2}])
    assert ids(tmp_path) == [1, 1, 2]
    letters.add(2, [{"time": 3, "message_id": 1}])
    assert ids(tmp_path) == [1, 1, 2, 1]
