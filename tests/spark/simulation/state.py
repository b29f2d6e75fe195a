"""Commits without disks and threads: files in memory that go wrong, and what stands for a slot's threads."""

from __future__ import annotations

from pystorm_spark.checkpoint.memory import MemoryFiles
from pystorm_spark.checkpoint.part import read_part, read_sections
from pystorm_spark.checkpoint.store import CheckpointStore
from pystorm_spark.errors import CheckpointError
from pystorm_spark.runtime.codec.codec import ValueCodec
from pystorm_spark.spark.driver.commits import Checkpoint
from pystorm_spark.state.key_value import pairs_of

CODEC = ValueCodec()


class FaultyFiles(MemoryFiles):
    """Files of which some cannot be written; `fault` says which, and for how long they cannot be removed either."""

    def __init__(self, topology="simulated"):
        super().__init__()
        self.fault = lambda point, slot: None
        self.topology = topology
        self.stuck = None  # what cannot be removed

    def write(self, name, data):
        kind, *numbers = name.partition(".")[0].split("-")
        slot = 0 if kind == "manifest" else int(numbers[0 if kind == "merged" else 1])
        fault = self.fault("manifest" if kind == "manifest" else "part", slot)
        if fault is None or fault.deed == "doubt":
            super().write(name, data)
        if fault is not None:
            self.stuck = name if fault.secs else None
            raise CheckpointError(f"{name} cannot be written: a fault of the test")

    def remove(self, name):
        if name == self.stuck:
            self.stuck = None  # the next time it goes
            raise CheckpointError(f"{name} cannot be removed: a fault of the test")
        super().remove(name)
        CheckpointStore(self, self.topology)  # whoever starts now can begin


class SimulatedPlace:
    """A place whose only folder is that of the state."""

    def __init__(self, files):
        self.files = lambda: files

    def __truediv__(self, name):
        return self

    def check_lock(self):
        pass


class SimulatedCheckpoint(Checkpoint):
    """Tells the world of each commit."""

    def __init__(self, plan, files, world):
        super().__init__(plan, SimulatedPlace(files), lambda txid, rows: True)
        self._world = world
        self._acked = set()  # the numbers that are acked by the commits so far

    def make_commit(self, txid, answers):
        is_made = super().make_commit(txid, answers)
        manifest = self._log.last
        assert manifest.txid == txid
        tasks = {task for part in manifest.parts for task in part.tasks}
        found = read_sections(self._files, manifest.parts, tasks)
        self._world.committed = {
            key: count for sections in found.values() for key, count in pairs_of(sections, CODEC).items()
        }
        if self.is_exactly_once:
            self._check_whole(manifest)
        return is_made

    def _check_whole(self, manifest):
        """What a commit holds of a tree is all of it, and it acks its message."""
        for part in manifest.acked:
            for section in read_part(self._files, part, part.tasks).values():
                self._acked.update(CODEC.unpack_rows(section, 1)[0])
        unacked = {number for number, _ in self._world.committed} - self._acked
        assert not unacked, f"commit {manifest.txid} holds {unacked} and does not ack them"

    def unneeded(self):
        """The files that no commit needs."""
        kept = self._log._store._kept
        needed = set().union(*(manifest.file_names() for manifest in kept))
        return {name for name in self._files.names() if name.endswith(".part")} - needed


class Later:
    """Stands for a thread: what is submitted happens by and by, as long as the process lives."""

    def __init__(self, process):
        self._process = process
        self._free_at = 0.0

    def submit(self, call, *args):
        simulation = self._process.simulation
        self._free_at = max(self._free_at, simulation.now + simulation.delay())
        simulation.at(self._free_at, lambda: self._process.talkative(lambda: call(*args)))


def files_for_next_commit(state):
    """The files that a slot has written, or merged, for a commit that is being made or comes next."""
    side = state._side
    proposed = side._proposed.parts if side._proposed is not None else ()
    merged = side._merged[1:] if side._merged is not None else ()
    return {part.name for part in (*proposed, *merged)}
