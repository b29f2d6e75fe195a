"""What slots have written for a commit, as the driver finds it."""

import pytest

from pystorm_spark.checkpoint.part import Part
from pystorm_spark.checkpoint.slot_side import Written
from pystorm_spark.errors import CheckpointError
from pystorm_spark.spark.protocol.messages import Prepared
from tests.spark.simulation.state import FaultyFiles, SimulatedCheckpoint
from tests.spark.simulation.world import plan_of


def test_a_part_that_the_driver_does_not_find_is_told_with_what_would_do():
    plan, _ = plan_of(slots=1, tasks=1, pending=10, guarantee="at-least-once")
    checkpoint = SimulatedCheckpoint(plan, FaultyFiles(), world=None)
    written = Written((Part("part-1-0.part", 10, b"", (), True),), ())
    answer = Prepared(1, written.to_plain(), {}, [], {})

    with pytest.raises(CheckpointError, match="a folder that the driver and all executors share"):
        checkpoint.make_commit(1, {0: answer})
