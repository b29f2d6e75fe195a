"""What `Control` does between the driver's loop and the slots: leases, and what slots say, without threads."""

from __future__ import annotations

from pystorm_spark.spark.control import LEASE_SECS


class SimulatedControl:
    """Keeps the leases of all slots, and hands on what they say."""

    def __init__(self, simulation):
        self._simulation = simulation
        if simulation.scenario.beats:
            simulation.after(LEASE_SECS, self._keep_lease)

    def on_message(self, link, message):
        kind = message["kind"]
        if kind == "doing":
            link.doing = message["what"]
        elif kind == "full":
            link.full = message["full"]
            self._tell_lease()
        elif kind != "beat":
            if "tasks" in message:
                link.tasks, link.inbox_bytes, link.full = message["tasks"], message["inbox_bytes"], message["full"]
            self._simulation.driver.on_message(link, message)

    def _keep_lease(self):
        if not self._simulation.is_closed:
            self._simulation.after(LEASE_SECS, self._keep_lease)
            self._tell_lease()
            self._simulation.driver.look_for_silence()

    def _tell_lease(self):
        links = [process.wire.link for process in self._simulation.processes if process.wire and process.wire.is_open]
        full = sorted({component for link in links for component in link.full})
        for link in links:
            link.tell("lease", full=full)
