"""What a slot answers to exchanges when something is wrong with them, or with itself."""

import gc
import random
from types import SimpleNamespace
from weakref import ref

import msgpack
import pytest

from pystorm_spark import TopologyBuilder
from pystorm_spark.runtime.components import pickle_components
from pystorm_spark.runtime.plan import make_plan
from pystorm_spark.runtime.slot import Slot
from pystorm_spark.spark.protocol.messages import TASK_TO_SLOT, Fed, Feed, Parcels
from pystorm_spark.spark.protocol.wire import WireError
from pystorm_spark.spark.slot.exchanges import HOLD_SECS, LINGER_SECS, Answering, Exchanges
from pystorm_spark.testing import ManualClock
from pystorm_spark.topology.config import resolve
from tests.spark.components import Numbers

PARCEL = msgpack.packb([])


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def exchanges(clock):
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(1, journal=None))
    plan = make_plan(builder.create_topology(), resolve({}), "storm-id", 1)
    slot = Slot(plan, 0, pickle_components(plan), clock, random.Random(1))
    return Exchanges(slot, epoch=1, frames_taken=lambda: None)


def test_an_exchange_that_cannot_be_taken_in_is_lost_for_all_who_ask_again(exchanges):
    with pytest.raises(ValueError, match="Unpack"):
        exchanges.take_in(1, 1, 0, [b"\x92\x01"])

    answer, is_first = exchanges.take_in(1, 1, 0, [])
    assert not is_first
    assert answer.wait() == Parcels("lost", [])


def test_an_exchange_that_cannot_be_handed_out_is_lost_for_all_who_ask_again(exchanges, monkeypatch):
    def out_of_memory(enough_bytes):
        raise MemoryError

    answer, _ = exchanges.take_in(1, 1, 0, [])
    monkeypatch.setattr(exchanges._slot, "take", out_of_memory)
    with pytest.raises(MemoryError):
        exchanges.hand_out(answer, 1, is_last=False)

    assert answer.wait() == Parcels("lost", [])


class Blob(list):
    """Stands for bytes, and is seen to go."""


def test_answers_are_kept_until_their_job_has_ended_and_not_longer(exchanges):
    answer, _ = exchanges.take_in(1, 1, 0, [])
    blob = Blob(["frames"])
    kept = ref(blob)
    answer.give(Parcels("ok", [[0, blob]]))
    del answer, blob
    assert exchanges.take_in(1, 1, 0, [])[0].wait().parcels == [[0, ["frames"]]]
    exchanges.end_job(1, 1)
    assert kept() is None


def test_who_asks_again_when_a_job_has_ended_is_refused_and_the_next_job_is_not(exchanges):
    exchanges.take_in(1, 1, 0, [])
    exchanges.end_job(1, 1)
    assert exchanges.take_in(1, 1, 0, [])[0].wait().status == "refused"
    exchanges.end_job(1, 1)  # what comes late changes nothing
    assert exchanges.take_in(1, 2, 0, [])[1]
    exchanges.end_job(1, 1)
    assert not exchanges.take_in(1, 2, 0, [])[1]
    exchanges.end_job(0, 7)
    assert not exchanges.take_in(1, 2, 0, [])[1]


def test_a_connection_that_waits_for_its_next_request_holds_nothing_of_the_last_one(exchanges):
    kept = []

    class Waiting:
        def __init__(self):
            self.requests = [Feed(3, 1, 0, 0, 0, Blob(["rows"])).to_plain()]

        def receive(self):
            gc.collect()
            if not self.requests:
                assert [found() for found in kept] == [None]
                raise WireError("the end")
            kept.append(ref(self.requests[0]["chunk"]))
            return self.requests.pop()

        def send(self, answer):
            pass

    class Rows:
        def feed(self, asked):
            return Fed(True)

        fetch = feed

    with pytest.raises(WireError, match="the end"):
        Answering(None, exchanges, Rows(), b"token")._serve_one(Waiting())


def test_every_request_of_a_spark_task_has_one_handler(exchanges):
    slot = SimpleNamespace(feed=None, fetch=None)
    assert Answering(None, exchanges, slot, b"token").handled() == TASK_TO_SLOT.classes


def test_a_slot_that_frames_were_brought_to_works_them_through_before_it_answers(exchanges, clock):
    exchanges.take_in(1, 1, 0, [PARCEL])
    assert exchanges.held_secs() > 0

    clock.advance(LINGER_SECS / 2)
    exchanges.note_work(0.001)
    assert exchanges.held_secs() == 0


def test_a_slot_that_nothing_was_brought_to_answers_at_once(exchanges):
    exchanges.take_in(1, 1, 0, [])
    assert exchanges.held_secs() == 0


def test_a_slot_that_is_held_up_by_user_code_is_waited_for_only_once(exchanges, clock):
    answer, _ = exchanges.take_in(1, 1, 0, [PARCEL])
    clock.advance(LINGER_SECS)
    assert exchanges.held_secs() == 0
    exchanges.hand_out(answer, 1, is_last=False)

    exchanges.take_in(1, 1, 1, [PARCEL])
    assert exchanges.held_secs() == 0

    clock.advance(LINGER_SECS)
    exchanges.note_work(0.001)
    exchanges.take_in(1, 1, 2, [PARCEL])
    assert exchanges.held_secs() > 0


def test_a_busy_slot_fills_its_frames_for_a_while(exchanges, clock):
    exchanges.take_in(1, 1, 0, [])
    clock.advance(0.1)
    exchanges.note_work(0.1)
    assert exchanges.held_secs() > 0

    clock.advance(HOLD_SECS)
    assert exchanges.held_secs() == 0


def test_a_busy_slot_that_rests_for_a_commit_answers_at_once(exchanges, clock):
    exchanges.take_in(1, 1, 0, [])
    clock.advance(0.1)
    exchanges.note_work(0.1)
    exchanges._slot.quiescing = True
    assert exchanges.held_secs() == 0
