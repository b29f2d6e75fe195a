"""What has left its windows leaves nothing behind, however many tuples have come."""

import pickle

import pytest

from pystorm_spark.aggregators import Count as Counting
from pystorm_spark.aggregators import Sum
from pystorm_spark.windowing.entry import Entry
from pystorm_spark.windowing.kinds.count_slides import CountSlides
from pystorm_spark.windowing.kinds.endless import Endless
from pystorm_spark.windowing.kinds.last_ones import LastOnes
from pystorm_spark.windowing.kinds.sessions import Sessions
from pystorm_spark.windowing.kinds.time_slides import TimeSlides
from pystorm_spark.windowing.kinds.tumbling import Tumbling
from pystorm_spark.windowing.trigger import CONTINUE, FIRE, FIRE_AND_PURGE
from pystorm_spark.windowing.units import Count, Duration

FIRST = 1000  # entries, from which on nothing may grow


class Purging:
    """Triggers that fire at every second question of three, and purge at every third one."""

    asked = 0

    def new(self):
        return None

    def on_tuple(self, trigger, entry, window):
        self.asked = (self.asked + 1) % 3
        return (FIRE_AND_PURGE, CONTINUE, FIRE)[self.asked]


KINDS = {
    "time slides": lambda aggregator: TimeSlides(30, 7, aggregator=aggregator),
    "time slides with lateness": lambda aggregator: TimeSlides(30, 7, lateness=20, aggregator=aggregator),
    "time slides with holes": lambda aggregator: TimeSlides(7, 30, aggregator=aggregator),
    "last ones": lambda aggregator: LastOnes(5, 10, aggregator=aggregator),
    "count slides": lambda aggregator: CountSlides(Count(6), 4, in_event_time=True, aggregator=aggregator),
    "count slides by the clock": lambda aggregator: CountSlides(Count(3), 7, aggregator=aggregator),
    "count slides of a time": lambda aggregator: CountSlides(Duration(9), 4, in_event_time=True, aggregator=aggregator),
    "sessions": lambda aggregator: Sessions(2, aggregator=aggregator),
    "sessions with lateness": lambda aggregator: Sessions(2, 20, aggregator),
    "sessions with triggers": lambda aggregator: Sessions(2, 20, aggregator, Purging()),
    "tumbling": lambda aggregator: Tumbling(10, Purging(), lateness=20, aggregator=aggregator),
    "endless": lambda aggregator: Endless(Purging(), aggregator=aggregator),
}


def execute(firings):
    for firing in firings:
        _ = firing.totals if firing.is_aggregated else firing.entries  # each firing is read, as by `Execution`


@pytest.mark.parametrize("aggregator", [None, Sum(), Counting()], ids=["tuples", "sums", "counts"])
@pytest.mark.parametrize("name", KINDS)
def test_a_kind_does_not_grow_with_what_has_left_it(name, aggregator):
    kind = KINDS[name](aggregator)
    sizes = []
    for number in range(6 * FIRST):
        at = number - number % 5 * 3 + number // 40 * 5  # out of order by up to 12, with gaps
        entry = Entry(None, at, number, number // 500, number // 500, 1)
        if not kind.is_late(at):
            execute(kind.add(entry))
        if number % 10 == 9:
            execute(kind.advance(number + number // 40 * 5 - 12))
        kind.released.clear()
        if number >= FIRST:
            sizes.append(len(pickle.dumps(kind)) if number % 100 == 0 else 0)
    # The size of a number in a pickle varies, and a sorted row keeps up to a thousand empty places.
    assert max(sizes[-FIRST:]) < 1.5 * max(sizes[:FIRST]) + 2000
