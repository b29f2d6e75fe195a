"""How many roots a second does a spout emit and see acked when nobody listens?"""

import functools
import math

from benchmarks import meter, report, workload
from benchmarks.components import NumberingSpout
from pystorm_spark import TopologyBuilder

CONF = {}
ROOTS_IN_CALL = 1


class TellingSpout(NumberingSpout):
    """The same data until `limit`; tells at its end how many it has emitted."""

    outputs = ["value"]

    def __init__(self, folder, limit):
        super().__init__(limit)
        self.folder = folder

    def next_tuple(self):
        if self.number < self.limit:
            self.collector.emit(["some data"], message_id=self.number)
            self.number += 1

    def close(self):
        workload.tell(self.folder, "emitted", self.number)


def spout(folder, limit=math.inf):
    return TellingSpout(folder, limit)


def topology(spout, folder):
    builder = TopologyBuilder()
    builder.set_spout(meter.SPOUT, spout)
    return builder.create_topology()


def check(emitted, folder):
    """Every emit was acked."""
    workload.expect("the emits", workload.told(folder, "emitted"), [emitted])


if __name__ == "__main__":
    report.answer(functools.partial(workload.measure, "const_spout_only"))
