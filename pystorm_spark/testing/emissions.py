"""Emissions: the emits of the components of one run, and the rows of its spouts that were acked or failed.

A hook in every task records them. So the topology keeps its tasks and groupings, and direct emits are recorded, too.
The hook finds its `Emissions` by an address in the configuration: that of an object in the same process, or of the
socket of a `Mailbox` if tasks run in other processes of this machine.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Mapping
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from types import TracebackType
from typing import Any

import cloudpickle

from pystorm_spark.errors import StormError
from pystorm_spark.testing.shared import Shared, shared_at
from pystorm_spark.topology.config import class_name, resolve
from pystorm_spark.topology.context import TopologyContext
from pystorm_spark.topology.graph import Topology
from pystorm_spark.topology.hooks import EmitInfo, SpoutAckInfo, SpoutFailInfo, TaskHook

HOOKS = "topology.auto.task.hooks"
ADDRESS = "pystorm.testing.emissions"
READ_TIMEOUT_SECS = 10.0  # for reading what the tasks have sent


class Emissions(Shared):
    """The emits on every declared stream of a topology, and the ids of the rows that were acked or failed."""

    owner = "complete_topology"

    def __init__(self, topology: Topology) -> None:
        super().__init__()
        components = topology.components.items()
        self.rows: dict[str, dict[str, list[list[Any]]]] = {
            id_: {stream: [] for stream in spec.outputs} for id_, spec in components
        }
        self.settled: dict[str, set[Any]] = {id_: set() for id_ in topology.components}  # message ids, acked or failed

    def emitted(self, component_id: str, stream: str, values: list[Any]) -> None:
        """Record an emit of a task of `component_id`. Emits of system components are ignored."""
        if component_id in self.rows:
            self.rows[component_id][stream].append(values)

    def came_back(self, component_id: str, message_id: Any) -> None:
        """Record that a row of the spout `component_id` was acked or failed."""
        self.settled[component_id].add(message_id)


def watching(conf: Mapping[str, Any] | None, address: str) -> dict[str, Any]:
    """`conf` with a hook that reports every task to the `Emissions` at `address`."""
    hooks: Any = resolve(conf)[HOOKS] or ()
    return {**(conf or {}), HOOKS: [*hooks, class_name(EmissionsHook)], ADDRESS: address}


class EmissionsHook(TaskHook):
    """Reports the emits, acks and fails of one task to an `Emissions`."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        address = conf[ADDRESS]
        self._component_id = context.this_component_id
        self._emissions = Sender(address) if os.path.isabs(address) else shared_at(address, Emissions.owner)

    def emit(self, info: EmitInfo) -> None:
        self._emissions.emitted(self._component_id, info.stream, list(info.values))

    def spout_ack(self, info: SpoutAckInfo) -> None:
        self._emissions.came_back(self._component_id, info.message_id)

    def spout_fail(self, info: SpoutFailInfo) -> None:
        self._emissions.came_back(self._component_id, info.message_id)


class Sender:
    """Stands for an `Emissions` in another process of this machine."""

    def __init__(self, address: str) -> None:
        try:
            self._connection = Client(address, "AF_UNIX")
        except OSError as exc:
            raise StormError(f"complete_topology needs all tasks on the machine of the test: {exc}") from exc

    def emitted(self, component_id: str, stream: str, values: list[Any]) -> None:
        self._connection.send_bytes(cloudpickle.dumps(("emitted", (component_id, stream, values))))

    def came_back(self, component_id: str, message_id: Any) -> None:
        self._connection.send_bytes(cloudpickle.dumps(("came_back", (component_id, message_id))))


class Mailbox:
    """Receives messages of `Sender`s for `emissions`, on a socket in a private folder.

    The end of its `with` block waits until everything that ended tasks have sent is read.
    """

    def __init__(self, emissions: Emissions) -> None:
        self._emissions = emissions
        self._folder = Path(tempfile.mkdtemp(prefix="pystorm-"))
        self.address = str(self._folder / "emissions")
        self._listener = Listener(self.address, "AF_UNIX", backlog=64)
        self._closing = False
        self._accepting = threading.Thread(target=self._accept, name="pystorm-emissions", daemon=True)
        self._readers: list[threading.Thread] = []

    def __enter__(self) -> Mailbox:
        self._accepting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        Client(self.address, "AF_UNIX").close()  # wakes the thread that accepts; closing the listener would not
        self._accepting.join()
        self._listener.close()
        for reader in self._readers:
            reader.join(READ_TIMEOUT_SECS)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self) -> None:
        while True:
            connection = self._listener.accept()
            if self._closing:
                connection.close()
                return
            reader = threading.Thread(target=self._read, args=(connection,), name="pystorm-emissions", daemon=True)
            self._readers.append(reader)
            reader.start()

    def _read(self, connection: Connection[Any, Any]) -> None:
        with connection:
            while True:
                try:
                    what, args = cloudpickle.loads(connection.recv_bytes())
                except (EOFError, OSError):
                    return  # the task has ended
                getattr(self._emissions, what)(*args)
