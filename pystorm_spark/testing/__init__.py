"""Tools for tests of topologies and components: spouts with given rows, recorded emits, manual time and failures."""

from pystorm_spark.testing.capture import CaptureBolt
from pystorm_spark.testing.clock import ManualClock
from pystorm_spark.testing.complete import complete_topology, read_tuples
from pystorm_spark.testing.crash import CrashOn
from pystorm_spark.testing.feeder import AckFailTracker, FeederSpout
from pystorm_spark.testing.fixed import FixedTupleSpout
from pystorm_spark.testing.recording import Emitted, RecordingCollector, make_tuple

__all__ = [
    "AckFailTracker",
    "CaptureBolt",
    "CrashOn",
    "Emitted",
    "FeederSpout",
    "FixedTupleSpout",
    "ManualClock",
    "RecordingCollector",
    "complete_topology",
    "make_tuple",
    "read_tuples",
]
