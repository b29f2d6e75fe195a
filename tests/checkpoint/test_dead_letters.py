"""Dead letters: one JSON object a line, also after a disk that was full."""

import json
import resource
from contextlib import contextmanager

import pytest

from pystorm_spark import CheckpointError
from pystorm_spark.checkpoint.dead_letters import NAME, DeadLetters


@contextmanager
def room_for(size):
    """No file can grow beyond `size`: what is written is cut off there, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_letters_that_find_no_room_leave_no_part_of_them(tmp_path):
    letters = DeadLetters(tmp_path)
    letters.add([{"message_id": 1}])
    with room_for(30), pytest.raises(CheckpointError, match=f"{NAME}' cannot be written: File too large"):
        letters.add([{"message_id": 2}, {"message_id": 3}])
    letters.add([{"message_id": 2}, {"message_id": 3}])
    lines = (tmp_path / NAME).read_text().splitlines()
    assert [json.loads(line)["message_id"] for line in lines] == [1, 2, 3]
