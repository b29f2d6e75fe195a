"""What a slot answers to exchanges when something is wrong with them, or with itself."""

import random

import pytest

from pystorm_spark import TopologyBuilder
from pystorm_spark.clock import SystemClock
from pystorm_spark.runtime.components import pickle_components
from pystorm_spark.runtime.plan import make_plan
from pystorm_spark.runtime.slot import Slot
from pystorm_spark.spark.answers import Exchanges
from pystorm_spark.topology.config import resolve
from tests.spark.components import Numbers


@pytest.fixture
def exchanges():
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(1, journal=None))
    plan = make_plan(builder.create_topology(), resolve({}), "storm-id", 1)
    slot = Slot(plan, 0, pickle_components(plan), SystemClock(), random.Random(1))
    return Exchanges(slot, epoch=1, frames_taken=lambda: None)


def test_an_exchange_that_cannot_be_taken_in_is_lost_for_all_who_ask_again(exchanges):
    with pytest.raises(ValueError, match="Unpack"):
        exchanges.take_in(1, 1, 0, [b"\x92\x01"])

    answer, is_first = exchanges.take_in(1, 1, 0, [])
    assert not is_first
    assert answer.is_given()
    assert answer.wait() == ["lost", 1, []]


def test_an_exchange_that_cannot_be_handed_out_is_lost_for_all_who_ask_again(exchanges, monkeypatch):
    def out_of_memory(enough_bytes):
        raise MemoryError

    answer, _ = exchanges.take_in(1, 1, 0, [])
    monkeypatch.setattr(exchanges._slot, "take", out_of_memory)
    with pytest.raises(MemoryError):
        exchanges.hand_out(answer, 1, is_last=False)

    assert answer.wait() == ["lost", 1, []]
