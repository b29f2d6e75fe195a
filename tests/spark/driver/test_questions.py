"""What the driver asks its slots, with slots that only say what they would."""

from functools import partial
from threading import Thread

import pytest

from pystorm_spark.errors import StormError
from pystorm_spark.spark.driver.engine import Limits
from pystorm_spark.spark.driver.link import SlotLink
from pystorm_spark.spark.driver.loop import Driver
from pystorm_spark.spark.protocol.messages import Commit, Found, Read


class Scripted:
    """A connection to a slot that does something when it is told something."""

    def __init__(self, on_told):
        self.on_told = on_told

    def send(self, message):
        self.on_told(message)


def driver_of(slots):
    return Driver(slots, None, b"token", Limits(max_restarts=3, silence_secs=60, start_secs=60))


def put(driver, on_told, slot=0):
    """A slot that does something when it is told something."""
    link = driver.slots.links[slot] = SlotLink(slot, 0, Scripted(on_told), is_near=False)
    link.state = "ready"


def test_a_state_is_read_from_the_slot_that_comes_in_the_place_of_one_that_dies_meanwhile():
    driver = driver_of(1)

    def die(message):
        driver.on_end(driver.slots.links[0])
        put(driver, answer)

    def answer(message):
        driver.questions.on_answer(driver.slots.links[0], Found(message["asked"], 9, b"all of it"))

    put(driver, die)

    assert driver.questions.read("count", None) == [b"all of it"]


def test_a_state_that_is_too_large_to_be_told_is_an_error_that_says_what_to_do():
    driver = driver_of(1)

    def answer(message):
        driver.questions.on_answer(driver.slots.links[0], Found(message["asked"], 5_000_000_000, None))

    put(driver, answer)

    with pytest.raises(StormError, match=r"5,000,000,000 bytes of .* read it key by key, or with load_state"):
        driver.questions.read("count", None)


def test_all_slots_hear_a_commit_before_they_are_asked_what_is_committed_or_after_it():
    driver = driver_of(2)
    told = {0: [], 1: []}
    other = Thread(target=driver.questions.ask, args=(Read("count", None),))

    def hear(slot, message):
        told[slot].append(message["kind"])
        if (slot, message["kind"]) == (0, "commit"):
            other.start()
            other.join(0.2)  # it has had its chance to come between the two

    for slot in (0, 1):
        put(driver, partial(hear, slot), slot)

    driver.questions.ask(Commit(1))
    other.join()

    assert told == {0: ["commit", "read"], 1: ["commit", "read"]}
