"""Shared: an object that a test and the tasks of its topology have in common, although components are copied."""

from __future__ import annotations

import os
from typing import Any, ClassVar
from uuid import uuid4
from weakref import WeakValueDictionary

from pystorm_spark.errors import StormError

# {address: object}. An object lives as long as a test or a topology holds it.
_ALIVE: WeakValueDictionary[str, Shared] = WeakValueDictionary()


class Shared:
    """An object whose copies in the same process are the object itself: pickled is only its address."""

    owner: ClassVar[str]  # what a user knows it as

    def __init__(self) -> None:
        self.address = f"{os.getpid()}-{uuid4().hex}"
        _ALIVE[self.address] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return shared_at, (self.address, self.owner)


def shared_at(address: str, owner: str) -> Any:
    """The object at `address`, if it lives in this process."""
    # A forked process has the objects of its parent, but the test does not see what happens to them.
    found = _ALIVE.get(address) if address.startswith(f"{os.getpid()}-") else None
    if found is None:
        raise StormError(f"{owner} works on LocalCluster only: the object that the test holds is not in this process")
    return found
