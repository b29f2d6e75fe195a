"""Shared: an object that a test shares with the tasks of its topology, although components are copied."""

from __future__ import annotations

import os
from typing import Any, ClassVar
from uuid import uuid4
from weakref import WeakValueDictionary

from pystorm_spark.errors import StormError

# {address: object}. A test or a topology keeps an object alive by a reference.
_ALIVE: WeakValueDictionary[str, Shared] = WeakValueDictionary()


class Shared:
    """An object that pickles as its address, so that its copies in the same process are the object itself."""

    owner: ClassVar[str]  # the public class, for error messages

    def __init__(self) -> None:
        self.address = f"{os.getpid()}-{uuid4().hex}"
        _ALIVE[self.address] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return shared_at, (self.address, self.owner)


def shared_at(address: str, owner: str) -> Any:
    """The object at `address`. Raises a `StormError` if it is not in this process."""
    # A forked process has copies of its parent's objects, but the test would not see changes to them.
    found = _ALIVE.get(address) if address.startswith(f"{os.getpid()}-") else None
    if found is None:
        raise StormError(f"{owner} works on LocalCluster only: the object that the test holds is not in this process")
    return found
