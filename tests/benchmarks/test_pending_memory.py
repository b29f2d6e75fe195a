"""The memory of pending roots is attributed to the code that keeps it."""

import pytest

from benchmarks.components import ForgetfulBolt
from benchmarks.pending_memory import traced


@pytest.mark.slow  # it starts a process and traces its memory
def test_a_pending_root_is_memory_of_the_engine():
    found = traced(ForgetfulBolt, roots=5_000)
    assert found["engine"] > found["values"]
