"""A durable source and timers, crashed at every durable step: run as a script, in a process of its own.

Its arguments are a folder and a guarantee. The source's position is in the commit and nowhere else; a bolt with state
emits by a timer to another one. What is lost is an error, and with exactly-once also what is counted twice; what timers
cause is exact with both guarantees.
"""

import gc
import logging
import os
import sys
from pathlib import Path

import pystorm_spark.checkpoint.merging as merging
import pystorm_spark.local.commits as local_commits
from pystorm_spark import DurableSpout, LocalCluster, TopologyBuilder
from pystorm_spark.checkpoint.crash_points import POINTS
from pystorm_spark.state import StatefulBolt
from tests.state import crash_sweep
from tests.state.crash_sweep import AtOnce, reached, sweep

ROWS = 8  # row n has the key n % 2
AT_ONCE = 3  # rows between two commits
FAILS = 4  # the row that fails when a process executes it for the first time
ECHOES = 4  # that the timer emits for each key


class Log(DurableSpout):
    """Reads rows from where the last commit says."""

    outputs = ("key", "number")

    def open(self, conf, context, collector):
        self.collector = collector

    def init_position(self, position):
        self.first = self.next = position or 0
        self.done, self.again = set(), []

    rollback_position = init_position

    def settled(self, message_ids):
        self.done.update(message_ids)
        while self.first in self.done:
            self.first += 1

    def position(self):
        return self.first

    def next_tuple(self):
        if self.again:
            self.emit(self.again.pop())
        elif self.next < min(ROWS, self.first + AT_ONCE):
            self.next += 1
            self.emit(self.next - 1)

    def emit(self, number):
        self.collector.emit([number % 2, number], message_id=number)

    def fail(self, message_id):
        self.again.append(message_id)


class Remember(StatefulBolt):
    """Keeps the numbers of each key in the order in which they came, and how many echoes it has sent."""

    outputs = ("key", "echo")

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.has_failed = False
        context.call_every(0.3, self.echo)

    def init_state(self, state):
        self.state = state

    def execute(self, tup):
        self.state.put(tup["key"], [*self.state.get(tup["key"], []), tup["number"]])
        if tup["number"] == FAILS and not self.has_failed:
            self.has_failed = True
            self.collector.fail(tup)
        else:
            self.collector.ack(tup)

    def echo(self):
        for key in (0, 1):
            echoes = self.state.get(f"echoes {key}", 0)
            if key in self.state and echoes < ECHOES:
                self.state.put(f"echoes {key}", echoes + 1)
                self.collector.emit([key, echoes])


class Hear(StatefulBolt):
    """Keeps the echoes of each key; a tick lets it go on."""

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.waiting = []

    def component_configuration(self):
        return {"topology.tick.tuple.freq.secs": 0.7}

    def init_state(self, state):
        self.state = state

    def execute(self, tup):
        if tup.source_component != "__system":
            self.waiting.append(tup)
            return
        for held in self.waiting:
            self.state.put(held["key"], [*self.state.get(held["key"], []), held["echo"]])
            self.collector.ack(held)
        self.waiting = []
        self.collector.ack(tup)


def run(folder):
    """Go on until all rows and echoes are committed."""
    builder = TopologyBuilder()
    builder.set_spout("log", Log())
    builder.set_bolt("remember", Remember(), 2).fields_grouping("log", "key")
    builder.set_bolt("hear", Hear(), 2).fields_grouping("remember", "key")
    with LocalCluster(simulated_time=True, checkpoint=folder) as cluster:
        cluster.submit_topology("log", {"topology.state.guarantee": GUARANTEE}, builder.create_topology())
        for _ in range(100):
            cluster.advance_time(1)
            numbers, echoes = (cluster.read_state("log", bolt) for bolt in ("remember", "hear"))
            if is_complete(numbers, echoes):
                break
        check(numbers, echoes)


def is_complete(numbers, echoes):
    is_heard = all(len(echoes.get(key, [])) >= ECHOES for key in (0, 1))
    return is_heard and set(range(ROWS)) <= {number for key in (0, 1) for number in numbers.get(key, [])}


def check(numbers, echoes):
    """What the states hold is what they would hold if nothing had crashed."""
    for key in (0, 1):
        found = numbers.get(key, [])
        assert echoes.get(key) == list(range(ECHOES)), f"echoes of key {key}: {echoes.get(key)}"
        expected = list(range(key, ROWS, 2))
        assert (found if GUARANTEE == "exactly-once" else sorted(set(found))) == expected, f"key {key}: {found}"


def check_files(folder, restarts):
    """Nothing here is about files: `crash_sweep` looks at them."""


def main(folder):
    os.fsync = lambda _: None  # the system does not crash, only processes do
    merging.FEWEST = 2
    local_commits.ThreadPoolExecutor = AtOnce
    crash_sweep.run, crash_sweep.check_files = run, check_files
    logging.disable(logging.ERROR)
    gc.disable()  # a fork is quick as long as it changes little memory
    new, whole = folder / "new", folder / "whole"
    new.mkdir(mode=0o700, parents=True)
    whole.mkdir(mode=0o700)
    points = reached(whole)
    assert {point.partition(":")[0] for point in points} == {*POINTS}, points
    print(len(points), sweep(folder / "crashed", new, points, crashes=1))


if __name__ == "__main__":
    GUARANTEE = sys.argv[2]
    main(Path(sys.argv[1]))
