"""CrashOn: a bolt that kills its process, to test recovery."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from pystorm_spark.errors import InvalidTopologyError, StormError
from pystorm_spark.topology.collector import OutputCollector
from pystorm_spark.topology.component import Bolt, Conf, WrappingBolt
from pystorm_spark.topology.context import TopologyContext
from pystorm_spark.topology.tuple import Tuple


class CrashOn(WrappingBolt):
    """Runs `bolt`, but kills its process with SIGKILL instead of executing a tuple for which `when(tup)` is true.

    It needs slots that are separate processes. In the process that built it, as on `LocalCluster`, `prepare` raises.

    >>> from pystorm_spark import LambdaBolt, LambdaSpout, LocalCluster, TopologyBuilder
    >>> builder = TopologyBuilder()
    >>> _ = builder.set_spout("numbers", LambdaSpout(lambda: 7))
    >>> fragile = CrashOn(LambdaBolt(print), when=lambda tup: tup[0] == 7)
    >>> _ = builder.set_bolt("fragile", fragile).shuffle_grouping("numbers")
    >>> LocalCluster().submit_topology("crash", None, builder.create_topology())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    pystorm_spark.errors.StormError: prepare of 'fragile' (task 2) raised StormError: CrashOn would kill the process ...
    """

    def __init__(self, bolt: Bolt, when: Callable[[Tuple], Any]) -> None:
        if not isinstance(bolt, Bolt):
            raise InvalidTopologyError(f"CrashOn wraps a bolt, got {bolt!r} of type {type(bolt).__name__}")
        super().__init__(bolt.as_bolt())
        self._when = when
        self._built_in = os.getpid()

    def prepare(self, conf: Conf, context: TopologyContext, collector: OutputCollector) -> None:
        self._refuse_at_home()
        self.wrapped.prepare(conf, context, collector)

    def execute(self, tup: Tuple) -> None:
        if self._when(tup):
            self._refuse_at_home()
            os.kill(os.getpid(), signal.SIGKILL)
        self.wrapped.execute(tup)

    def _refuse_at_home(self) -> None:
        if os.getpid() == self._built_in:
            raise StormError(
                "CrashOn would kill the process that built it, your own; it needs slots that are separate processes, "
                "so it does not work on LocalCluster"
            )

    def __getattr__(self, name: str) -> Any:
        # The wrapped bolt may have more attributes than a plain bolt.
        if name == "wrapped" or name.startswith("__"):
            raise AttributeError(f"CrashOn has no attribute {name!r}")
        return getattr(self.wrapped, name)
