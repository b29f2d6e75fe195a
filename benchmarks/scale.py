"""A model of exchanges on Spark: predicts their duration with any number of slots from measurements with a few.

The driver does its work in sequence, wherever the slots are. A slot on a cluster has a core of its own, which it shares
with the Spark task that visits it. All times are in seconds.
"""

import math
from dataclasses import dataclass

from pystorm_spark.runtime.slot import TURN_SECS
from pystorm_spark.spark.driver.commit_schedule import COMMIT_SECS
from pystorm_spark.spark.driver.control import LEASE_INTERVAL_SECS
from pystorm_spark.spark.driver.exchanging import FEWEST_EXCHANGES, MOST_EXCHANGES
from pystorm_spark.spark.slot.exchanges import HOLD_SECS

HIGHEST_SHARE = 0.5  # of a core that the driver may spend on control connections


@dataclass(frozen=True)
class Line:
    """y = fixed + slope * x."""

    fixed: float
    slope: float

    @classmethod
    def through(cls, points):
        """Fit a line to `points`, {x: y}, by relative distances, so that small figures count as much as large ones."""
        weights = {x: 1 / y**2 for x, y in points.items()}
        whole = sum(weights.values())
        mean_x = sum(w * x for x, w in weights.items()) / whole
        mean_y = sum(w * points[x] for x, w in weights.items()) / whole
        spread = sum(w * (x - mean_x) ** 2 for x, w in weights.items())
        slope = sum(w * (x - mean_x) * (points[x] - mean_y) for x, w in weights.items()) / spread
        return cls(mean_y - slope * mean_x, slope)

    def at(self, x):
        return self.fixed + self.slope * x


def latency(exchange, hops):
    """Predict the latency at low load, if each hop goes to another slot and an exchange takes `exchange`.

    The last stage of a chain brings frames and takes none: what is sealed then waits for the next chain.
    """
    in_chain = _exchanges_in_chain(exchange)
    until_taken = (in_chain + 3) / (2 * (in_chain + 1))
    weights = [2, *[1] * (in_chain - 1)]  # likelihood that the first, the second, … exchange takes a frame
    crossing = sum(weight * _crossing(number, in_chain, hops + 1) for number, weight in enumerate(weights))
    return (until_taken + crossing / (in_chain + 1)) * exchange


def _exchanges_in_chain(exchange):
    """Return the number of exchanges in a chain that the driver chooses under load."""
    found = FEWEST_EXCHANGES
    while found < MOST_EXCHANGES and (found + 1) * exchange < COMMIT_SECS / 2:
        found *= 2
    return found


def _crossing(number, in_chain, crossings):
    """Return the number of exchanges for some crossings, if the first one is `number` in its chain."""
    spent = 0
    for _ in range(crossings):
        if number == in_chain:
            number, spent = 0, spent + 1
        number, spent = number + 1, spent + 1
    return spent


@dataclass(frozen=True)
class Model:
    """The fitted lines, and the predictions from them."""

    driver: Line  # CPU of the driver for an exchange, by slots
    task: Line  # CPU of one Spark task, by slots: it reads a block of each
    wall: Line  # duration of an exchange on this machine, by its CPU
    tuple_secs: float  # CPU of a slot for one tuple that crosses, in full frames
    frame_secs: float  # the same for one frame, to seal it and to take it in
    beat_secs: float  # CPU of the driver for one message from a slot and one to it
    order_bytes: Line  # bytes of the orders of a Spark task, by slots
    manifest_bytes: Line  # bytes of a commit, by slots

    def here(self, slots):
        """Predict an exchange on one machine, whose cores all processes share."""
        return self.wall.at(self.driver.at(slots) + slots * self.task.at(slots))

    def exchange(self, slots):
        """Predict an exchange on a cluster: the driver's part, all tasks in parallel, then time without CPU use."""
        return max(0.0, self.wall.fixed) + self.driver.at(slots) + self.task.at(slots)

    def latency(self, slots, hops):
        """Predict the latency at low load, if each hop goes to another slot."""
        return latency(self.exchange(slots), hops)

    def interval(self, slots):
        """Predict the time between two exchanges at full load."""
        return max(HOLD_SECS, self.exchange(slots))

    def slot_rate(self, slots):
        """Predict tuples a second of one slot at full load, if any tuple may go to any slot."""
        spared = 1 - min(1.0, self.task.at(slots) / self.interval(slots))
        return spared * self.tuples_in_turn(slots) / TURN_SECS

    def tuples_in_turn(self, slots):
        """Each turn of a slot seals a frame for each slot that it has tuples for."""
        full = (TURN_SECS - slots * self.frame_secs) / self.tuple_secs
        return full if full >= slots else TURN_SECS / (self.tuple_secs + self.frame_secs)

    def rows_in_frame(self, slots):
        return max(1.0, self.tuples_in_turn(slots) / slots)

    def control_share(self, slots):
        """Predict the driver's share of a core for beats and leases."""
        return self.beat_secs * slots / LEASE_INTERVAL_SECS

    def breaking(self):
        """Return {limit: the number of slots at which it is reached}, in ascending order."""
        found = {
            "the driver schedules for longer than the exchange interval": self._first(
                lambda slots: self.driver.at(slots) > HOLD_SECS
            ),
            "a task reads blocks for longer than the exchange interval": self._first(
                lambda slots: self.task.at(slots) > HOLD_SECS
            ),
            "half of a slot's time goes into frames": self._first(
                lambda slots: self.tuples_in_turn(slots) * self.tuple_secs < TURN_SECS / 2
            ),
            "half of a core goes into control connections": self._first(
                lambda slots: self.control_share(slots) > HIGHEST_SHARE
            ),
        }
        return dict(sorted(found.items(), key=lambda item: item[1]))

    @staticmethod
    def _first(is_so, most=1_000_000):
        """Find the smallest number of slots for which `is_so` is true; it must be true for all larger ones."""
        low, high = 0, 1
        while not is_so(high):
            low, high = high, 2 * high
            if high > most:
                return math.inf
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if is_so(middle) else (middle, high)
        return high
