"""What `Control` does between the driver and the slots, without threads; the reception of messages is the real one."""

from __future__ import annotations

from pystorm_spark.spark.driver.control import LEASE_INTERVAL_SECS
from pystorm_spark.spark.driver.reception import Reception
from pystorm_spark.spark.protocol.messages import Lease
from tests.spark.simulation.world import SILENCE_SECS


class Unread:
    """Stands for a `SlotOutput` that nobody reads."""

    def log_hung(self, slot, reason, stacks):
        pass


class SimulatedControl:
    """Keeps the leases of all slots, and hands on what they say."""

    def __init__(self, simulation):
        self._simulation = simulation
        self.output = Unread()
        self.reception = Reception(simulation.driver, self, self)
        if simulation.scenario.beats:
            simulation.after(LEASE_INTERVAL_SECS, self._keep_lease)

    # What the reception of messages hands on; nobody counts, and no rows are fed.

    def on_stats(self, link, message):
        pass

    def on_cause(self, message):
        pass

    def block(self, secs):
        """The threads that listen to slots wait for something else."""
        for wire in self._wires():
            wire.to_driver.leave_unread(secs)

    def _wires(self):
        wires = [process.wire for process in self._simulation.processes if process.wire is not None]
        return [wire for wire in wires if wire.is_open]

    def _keep_lease(self):
        if not self._simulation.is_closed:
            self._simulation.after(LEASE_INTERVAL_SECS, self._keep_lease)
            self.tell_lease()
            self._simulation.driver.look_for_silence()
            self._check_silence()

    def _check_silence(self):
        """No slot that takes part is kept when nothing is heard of it."""
        for wire in self._wires():
            silent_secs = self._simulation.now - wire.link.heard_at
            is_kept = wire.link.state == "ready" and not self._simulation.is_ended
            assert not is_kept or silent_secs <= SILENCE_SECS, f"{silent_secs:.0f} s without a word are borne"

    def tell_lease(self):
        links = [wire.link for wire in self._wires()]
        full = sorted({component for link in links for component in link.full})
        for link in links:
            link.tell(Lease(full))
