"""Internal. Visit: a Spark task's call on one slot, in Spark's Python worker. Imports no pyspark.

It hands over the parcels that the other slots have for this one, and takes what this one has ready for them.
"""

from __future__ import annotations

import gc
import select
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from pystorm_spark.spark.protocol.messages import SLOT_TO_TASK, Exchange, Message, Parcels
from pystorm_spark.spark.protocol.wire import MISSED, Address, Connection, WireError, connect

# Where the other side alone has closed a connection, Linux tells only if it is asked for it.
CLOSED = getattr(select, "POLLRDHUP", 0) | select.POLLHUP
UNREACHED = Parcels("lost", [])  # stands for the answer of a slot that cannot be reached
TARGET = struct.Struct("!q")  # how a partition's number is told to Spark

_connections: dict[Address, Connection] = {}  # of this Python worker, which Spark uses again and again


@dataclass(frozen=True)
class Order:
    """What the tasks of one job need to know."""

    epoch: int
    job: int
    token: bytes
    addresses: tuple[Address, ...]  # of the slots, by number

    def __repr__(self) -> str:
        return f"Order(epoch={self.epoch}, job={self.job})"  # the token is shown nowhere


@dataclass(frozen=True)
class Visit:
    """One stage's call on one slot."""

    order: Order
    number: int
    is_last: bool

    def __call__(self, slot: int, parcels: Iterable[bytes]) -> Iterator[Any]:
        # The input is drained before anything else: a Python worker with input left cannot be used again.
        taken = list(parcels)
        spare_modules()
        answer = ask(self.order.addresses[slot], self.order.token, self.request(taken))
        parcels_of_slot = answer if isinstance(answer, Parcels) else UNREACHED
        if self.is_last:
            yield slot, parcels_of_slot.status
            return
        for target, parcel in self.output(parcels_of_slot):
            yield TARGET.pack(target)
            yield parcel

    def request(self, parcels: list[bytes]) -> Exchange:
        """Ask the slot to take `parcels` in, and to hand out what it has."""
        return Exchange(self.order.epoch, self.order.job, self.number, self.is_last, parcels)

    def output(self, answer: Parcels) -> list[Any]:
        """The parcels for the slots. If this slot was not reached, all slots are told that parcels are missing."""
        if answer.status in ("ok", "missed"):
            return answer.parcels
        return [[slot, MISSED] for slot in range(len(self.order.addresses))]


@cache
def spare_modules() -> None:
    """Have the garbage collector not look at what this Python worker has loaded, as it does after each task.

    Spark's workers collect all generations then, and the next task that they get waits for it: some 100,000 objects of
    PySpark, pandas and the like, which takes longer than all that an exchange does.
    """
    gc.collect()
    gc.freeze()


def ask(address: Address, token: bytes, request: Message) -> Message | None:
    """The answer of a slot; None instead of an error, so that the job drains at once and the driver can recover."""
    for fresh in (False, True):
        connection = None if fresh else _connections.pop(address, None)
        if connection is None and not fresh:
            continue
        try:
            connection = connection or _connect(address, token)
            connection.send(request.to_plain())
            answer = SLOT_TO_TASK.read(connection.receive())
        except WireError:
            continue  # an old connection may have been closed meanwhile: asking again is safe, answers are kept
        _connections[address] = connection
        return answer
    return None


def _connect(address: Address, token: bytes) -> Connection:
    """Connect to a slot, and close connections to slots that have ended."""
    with suppress(OSError):  # an error there does not concern this connection
        for other in _ended(_connections):
            _connections.pop(other).close()
    return connect(address, token)


def _ended(connections: Mapping[Address, Connection]) -> list[Address]:
    """The connections that the other side has closed."""
    poller = select.poll()
    addresses = {connection.fileno(): address for address, connection in connections.items()}
    for number in addresses:
        poller.register(number, CLOSED)
    return [addresses[number] for number, event in poller.poll(0) if event]
