"""The control connections without sockets: what is sent arrives in order, late, or not as long as nobody reads."""

from __future__ import annotations

from collections import deque

from pystorm_spark.spark.driver.link import SlotLink
from pystorm_spark.spark.protocol.messages import DRIVER_TO_SLOT, SLOT_TO_DRIVER, Doing
from pystorm_spark.spark.slot.watch import LEASE_TIMEOUT_SECS

# Messages that wait at most while nobody reads; few, for what happens then must happen in the time of a scenario.
ROOM_FOR_SLOT, ROOM_FOR_DRIVER = 12, 40


class Way:
    """One direction of a connection: messages keep their order, each takes its time.

    While nobody reads at the other end they wait there; `on_room` is called when all of them have been read.
    """

    def __init__(self, simulation, room, on_room):
        self._simulation = simulation
        self._pending_limit = room
        self._on_room = on_room
        self._arrived_at = 0.0
        self._waiting = deque()  # what has arrived while nobody reads
        self._unread_until = 0.0
        self.extra_secs = 0.0  # that each message takes longer

    def carry(self, call, takes_time=True):
        """Send something that happens by `call` at the other end."""
        secs = self._simulation.delay() + self.extra_secs if takes_time else 0.0
        at = max(self._arrived_at, self._simulation.now + secs)
        self._arrived_at = at
        self._simulation.at(at, lambda: self._arrive(call))

    def _arrive(self, call):
        if self._waiting or self._unread_until > self._simulation.now:
            self._waiting.append(call)
        else:
            call()

    def leave_unread(self, secs):
        """The other end does not read for a while."""
        self._unread_until = max(self._unread_until, self._simulation.now + secs)
        self._simulation.haunt(secs, self._read_on)

    def _read_on(self):
        while self._waiting and self._unread_until <= self._simulation.now:
            self._waiting.popleft()()
        if not self._waiting:
            self._on_room()

    def is_full(self):
        return len(self._waiting) >= self._pending_limit


class Wire:
    """The control connection of one slot."""

    def __init__(self, simulation, process):
        self._simulation = simulation
        self._process = process
        self.to_slot = Way(simulation, ROOM_FOR_SLOT, lambda: None)
        self.to_driver = Way(simulation, ROOM_FOR_DRIVER, process.go_on)
        self.is_open = True
        self._ended = False
        self.link = SlotLink(process.number, 0, self, is_near=False)

    def send(self, plain):
        """The driver tells the slot something, and waits for nobody: a slot that has too much to read is given up."""
        self._simulation.changes.check_unlocked()
        if self.is_open and self.to_slot.is_full():
            self.link.reason = "it has not read what it was told"
            self.link.kill()
        elif self.is_open:
            self.to_slot.carry(lambda: self._process.hear(DRIVER_TO_SLOT.read(plain)))

    def tell(self, message):
        """The slot tells the driver something."""
        if self.is_open:
            # What a start announces draws no delay: scenarios that were found go on as they did without it.
            is_announced = isinstance(message, Doing) and self.link.state == "starting"
            plain = message.to_plain()
            self.to_driver.carry(lambda: self._heard(SLOT_TO_DRIVER.read(plain)), takes_time=not is_announced)

    def _heard(self, message):
        if self.is_open:
            self.link.heard_at = self._simulation.now
            self._simulation.control.reception.on_message(self.link, message)

    def delay(self, secs):
        """From now on all that is sent takes longer."""
        self.to_slot.extra_secs = self.to_driver.extra_secs = secs
        self._simulation.haunt(2 * secs, lambda: None)

    def close(self):
        """The driver lets go of the slot, and kills it if it can."""
        if self.is_open:
            self.is_open = False
            self._simulation.check_kill(self._process)
            self._simulation.after(0.0, self._end)
            if self._simulation.scenario.near:
                self._process.die()
            else:
                self._process.orphaned_in(LEASE_TIMEOUT_SECS)

    def broken(self):
        """The process is gone, or cannot be heard any more: what it has said still arrives."""
        self.to_driver.carry(self._break)

    def _break(self):
        if self.is_open:
            self.is_open = False
            self._end()

    def _end(self):
        if not self._ended:
            self._ended = True
            self._simulation.driver.on_end(self.link)
