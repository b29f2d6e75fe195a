"""Windows: bolts that execute many tuples at once.

Reading order:

| module | what it is |
|---|---|
| `bolt` | `WindowedBolt`, with the methods that choose windows |
| `units`, `settings`, `plan` | lengths; what a bolt's methods have set; that with the configuration, and checked |
| `selecting` | what of a tuple is its key, its value or its timestamp |
| `executor` | the bolt that the engine runs: puts tuples into windows |
| `timing`, `task_clock`, `watermark` | how time comes to windows, by the clock and by timestamps |
| `entry` | a tuple as windows keep it, and a window that is due |
| `kinds/` | which tuples are in which window, and when it fires: pure |
| `execution`, `collector`, `window` | how windows are executed, and what of them a bolt sees |
| `totals`, `folding` | aggregates at a constant cost for each tuple |
| `trigger`, `detached`, `join_bolt` | early firings; late tuples as values; joins of streams |
"""

from pystorm_spark.windowing.bolt import BaseWindowedBolt, IWindowedBolt, WindowedBolt
from pystorm_spark.windowing.detached import DetachedTuple
from pystorm_spark.windowing.join_bolt import JoinBolt
from pystorm_spark.windowing.trigger import (
    CONTINUE,
    FIRE,
    FIRE_AND_PURGE,
    EveryCount,
    EveryDuration,
    Trigger,
)
from pystorm_spark.windowing.units import Count, Duration
from pystorm_spark.windowing.window import TupleWindow

__all__ = [
    "CONTINUE",
    "FIRE",
    "FIRE_AND_PURGE",
    "BaseWindowedBolt",
    "Count",
    "DetachedTuple",
    "Duration",
    "EveryCount",
    "EveryDuration",
    "IWindowedBolt",
    "JoinBolt",
    "Trigger",
    "TupleWindow",
    "WindowedBolt",
]
