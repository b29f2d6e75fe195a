"""Poison: tuples that end the process of their slot whenever they are executed."""

import time
from collections import Counter

import pytest

from pystorm_spark import BasicBolt, TopologyBuilder
from pystorm_spark.runtime.keys.hashing import stable_hash
from tests.spark.components import Numbers, die, wait_until

pytestmark = pytest.mark.spark

SOUND, MOST_FAILURES = 800, 4


class GivesUp(Numbers):
    """Emits again what failed, until it has failed `MOST_FAILURES` times; remembers that beyond its own end."""

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        self.failures = Counter(map(int, self.journal.noted("failed")))
        self.done = {*map(int, self.journal.noted("acked")), *map(int, self.journal.noted("given-up"))}

    def next_tuple(self):
        while not self.again and self.next in self.done:
            self.next += self.step
        super().next_tuple()

    def ack(self, message_id):
        self.done.add(message_id)
        super().ack(message_id)

    def fail(self, message_id):
        self.failures[message_id] += 1
        self.journal.note("failed", message_id)
        if self.failures[message_id] < MOST_FAILURES:
            self.again.append(message_id)
        elif message_id not in self.done:
            self.done.add(message_id)
            self.journal.note("given-up", message_id)


class Dies(BasicBolt):
    """Ends its process on some numbers; takes so long that others wait behind them."""

    outputs = ("number",)

    def __init__(self, how, numbers):
        self.how, self.numbers = how, numbers

    def execute(self, tup, collector):
        time.sleep(0.002)
        if tup[0] in self.numbers:
            die(self.how)
        collector.emit([tup[0]])


@pytest.mark.parametrize("how", ["exit", "kill"])
def test_two_messages_that_end_their_process_take_no_other_with_them(cluster, journal, how):
    # Both in the slot without the spout: it is told of every failure.
    far = [number for number in range(SOUND + 2) if stable_hash([number]) % 2 == 1]
    poison = [far[100], far[200]]
    builder = TopologyBuilder()
    builder.set_spout("numbers", GivesUp(SOUND + 2, journal))
    builder.set_bolt("dies", Dies(how, poison), 2).fields_grouping("numbers", ["number"])
    cluster.submit_topology("poisoned", {"topology.workers": 2}, builder.create_topology())

    wait_until(lambda: len(set(journal.noted("acked")) | set(journal.noted("given-up"))) == SOUND + 2, secs=180)

    assert sorted(map(int, journal.noted("given-up"))) == poison


def test_a_message_that_has_ended_its_process_twice_fails_without_being_executed(cluster, journal, caplog):
    poison = next(number for number in range(20) if stable_hash([number]) % 2 == 1)
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(20, journal))  # which never gives up
    builder.set_bolt("dies", Dies("kill", [poison]), 2).fields_grouping("numbers", ["number"])
    cluster.submit_topology("poisoned", {"topology.workers": 2}, builder.create_topology())

    wait_until(lambda: cluster.topology_info("poisoned").components["dies"].errors, secs=120)

    error = cluster.topology_info("poisoned").components["dies"].errors[0]
    assert "is not executed (topology.poison.deaths)" in error.exception
    assert f"number={poison};" in error.input
    assert set(map(int, journal.noted("acked"))) == set(range(20)) - {poison}
    assert caplog.text.count("is lost") == 3  # nobody has seen what the first one was by
