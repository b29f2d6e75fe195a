"""How many roots a second does a spout emit and see acked without a subscriber?"""

from benchmarks import workload
from benchmarks.components import NumberingSpout


class TellingConstSpout(NumberingSpout):
    """Emits the same data until `limit`; reports its number of emits when it closes."""

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


def nobody(builder, folder):
    pass


def check(emitted, folder):
    """Check that every emit was acked."""
    workload.expect("the emits", workload.told(folder, "emitted"), [emitted])


WORKLOAD = workload.Workload(TellingConstSpout, nobody, check)

if __name__ == "__main__":
    workload.answer("const_spout_only")
