"""What the driver asks its slots, with slots that only say what they would."""

from functools import partial
from threading import Thread

import pytest

from pystorm_spark.errors import StormError
from pystorm_spark.spark.driver.control import SlotLink
from pystorm_spark.spark.driver.slots import HELLO_SECS, LOOK_SECS, QUICK_STARTS, Changes, Slots


class Scripted:
    """A connection to a slot that does something when it is told something."""

    def __init__(self, on_told):
        self.on_told = on_told

    def send(self, message):
        self.on_told(message)


def test_a_state_is_read_from_the_slot_that_comes_in_the_place_of_one_that_dies_meanwhile():
    slots = Slots(1, engine=None, silence_secs=60, start_secs=60, changed=None)

    def put(on_told):
        link = slots.slots[0] = SlotLink(0, 0, Scripted(on_told), is_near=False)
        link.state = "ready"

    def die(message):
        slots.on_end(slots.slots[0])
        put(answer)

    def answer(message):
        slots._on_done(slots.slots[0], {"asked": message["asked"], "found": b"all of it", "size": 9})

    put(die)

    assert slots.read("count", None) == [b"all of it"]


def test_a_state_that_is_too_large_to_be_told_is_an_error_that_says_what_to_do():
    slots = Slots(1, engine=None, silence_secs=60, start_secs=60, changed=None)

    def answer(message):
        slots._on_done(slots.slots[0], {"asked": message["asked"], "found": None, "size": 5_000_000_000})

    link = slots.slots[0] = SlotLink(0, 0, Scripted(answer), is_near=False)
    link.state = "ready"

    with pytest.raises(StormError, match="5,000,000,000 bytes: read it key by key, or with load_state"):
        slots.read("count", None)


def test_all_slots_hear_a_commit_before_they_are_asked_what_is_committed_or_after_it():
    slots = Slots(2, engine=None, silence_secs=60, start_secs=60, changed=None)
    told = {0: [], 1: []}
    other = Thread(target=slots._ask, args=("read",))

    def hear(slot, message):
        told[slot].append(message["kind"])
        if (slot, message["kind"]) == (0, "commit"):
            other.start()
            other.join(0.2)  # it has had its chance to come between the two

    for slot in (0, 1):
        link = slots.slots[slot] = SlotLink(slot, 0, Scripted(partial(hear, slot)), is_near=False)
        link.state = "ready"

    slots._ask("commit")
    other.join()

    assert told == {0: ["commit", "read"], 1: ["commit", "read"]}


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
                self.slots.on_message(link, {"kind": "ready", "address": ["socket"]})


def started(*script, start_secs=60, **how):
    places = Places(*script, **how)
    places.slots = Slots(2, places, silence_secs=60, start_secs=start_secs, changed=HandChanges())
    places.slots.start(is_open=True)
    return places


def test_a_process_that_dies_before_it_says_hello_is_started_again():
    places = started(["comes", "dies at once"], ["dies at once"], ["comes"])

    assert places.placed == [[0, 1], [1], [1]]
    assert places.slots._changed.now == 2 * HELLO_SECS


def test_a_process_that_is_seen_to_die_before_it_says_hello_is_started_again_at_once():
    places = started(["comes", "dies at once"], ["dies at once"], ["comes"], sees=True)

    assert places.placed == [[0, 1], [1], [1]]
    assert places.slots._changed.now == 2 * LOOK_SECS


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
    slots = places.slots = Slots(1, places, silence_secs=60, start_secs=60, changed=HandChanges())
    late = SlotLink(0, 0, Scripted(lambda message: None), is_near=False)
    late._connection.close = lambda: None
    slots.admit(late)
    slots._lost[0] = "it did not start"  # so it is started anew, in a new epoch

    slots.on_message(late, {"kind": "ready", "address": ["socket"]})

    assert (late.state, slots.slots[0]) == ("surplus", None)
