"""How slots are started, with processes that only say what they would."""

import pytest

from pystorm_spark.errors import StormError
from pystorm_spark.spark.driver.engine import Changes, Limits
from pystorm_spark.spark.driver.link import SlotLink
from pystorm_spark.spark.driver.loop import Driver
from pystorm_spark.spark.driver.slots import FIRST_WORD_SECS, PROCESS_POLL_SECS, QUICK_STARTS
from pystorm_spark.spark.protocol.messages import Ready


class Scripted:
    """A connection to a slot that does something when it is told something."""

    def __init__(self, on_told):
        self.on_told = on_told

    def send(self, message):
        self.on_told(message)


class HandChanges(Changes):
    """Nobody waits: time passes at once."""

    def __init__(self):
        super().__init__()
        self.now = 0.0

    def monotonic(self):
        return self.now

    def wait_for(self, predicate, timeout=None):
        if not predicate():
            self.now += timeout
        return predicate()


class Places:
    """Starts processes that do what the next line of a script says of their slots, in their order."""

    def __init__(self, *script, sees=False):
        self.script = list(script)
        self.placed = []
        self.sees = sees  # whether processes live, as on the driver's own machine

    def has_lost(self, slots):
        return self.sees and slots != []

    def place(self, slots):
        self.placed.append(list(slots))
        for slot, fate in zip(slots, self.script.pop(0), strict=True):
            if fate == "dies at once":
                continue
            link = SlotLink(slot, 0, Scripted(lambda message: None), is_near=False)
            self.slots.admit(link)
            if fate == "comes":
                self.slots.on_ready(link, Ready(["socket"], 1))


def slots_of(count, places, start_secs=60):
    limits = Limits(max_restarts=3, silence_secs=60, start_secs=start_secs)
    return Driver(count, places, b"token", limits, HandChanges()).slots


def started(*script, start_secs=60, **how):
    places = Places(*script, **how)
    places.slots = slots_of(2, places, start_secs)
    places.slots.start(is_open=True)
    return places


def test_a_process_that_dies_before_it_says_hello_is_started_again():
    places = started(["comes", "dies at once"], ["dies at once"], ["comes"])

    assert places.placed == [[0, 1], [1], [1]]
    assert places.slots.changed.now == 2 * FIRST_WORD_SECS


def test_a_process_that_is_seen_to_die_before_it_says_hello_is_started_again_at_once():
    places = started(["comes", "dies at once"], ["dies at once"], ["comes"], sees=True)

    assert places.placed == [[0, 1], [1], [1]]
    assert places.slots.changed.now == 2 * PROCESS_POLL_SECS


def test_processes_that_are_seen_to_die_again_and_again_are_not_started_on_and_on():
    dying = [["dies at once"] * 2] * (QUICK_STARTS + 3)  # of which these are 20 s apart

    with pytest.raises(StormError, match=r"slots \[0, 1\] did not start within 60 s"):
        started(*dying, sees=True, start_secs=30)


def test_a_process_that_takes_long_to_open_its_components_is_not_started_again():
    with pytest.raises(StormError, match=r"slots \[1\] did not start within 90 s"):
        started(["comes", "takes long"])


def test_slots_of_which_nothing_is_heard_at_all_are_given_up_in_the_end():
    with pytest.raises(StormError, match=r"slots \[0, 1\] did not start within 90 s"):
        started(*[["dies at once"] * 2] * 5)


def test_a_process_that_comes_when_its_start_was_given_up_is_ended_and_does_not_count_as_the_next_one():
    places = Places(["takes long"])
    slots = places.slots = slots_of(1, places)
    late = SlotLink(0, 0, Scripted(lambda message: None), is_near=False)
    late._connection.close = lambda: None
    slots.admit(late)
    slots.state.lost[0] = "it did not start"  # so it is started anew, in a new epoch

    slots.on_ready(late, Ready(["socket"], 1))

    assert (late.state, slots.links[0]) == ("surplus", None)
