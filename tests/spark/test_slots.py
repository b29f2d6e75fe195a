"""What the driver asks its slots, with slots that only say what they would."""

from pystorm_spark.spark.control import SlotLink
from pystorm_spark.spark.slots import Slots


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
        slots._on_done(slots.slots[0], {"asked": message["asked"], "found": b"all of it"})

    put(die)

    assert slots.read("count", None) == [b"all of it"]
