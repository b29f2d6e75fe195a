"""Components for the tests of the Spark engine; they write to a journal of files."""

import os
import resource
import signal
import time

from pystorm_spark import BasicBolt, Bolt, Spout, TopologyBuilder


class Numbers(Spout):
    """Emits 0, 1, … with the number as its id; emits again what failed; notes what was acked."""

    outputs = ("number",)

    def __init__(self, count, journal, rate=None):
        self.count, self.journal, self.rate = count, journal, rate

    def open(self, conf, context, collector):
        self.collector = collector
        self.next = context.this_task_index
        self.step = len(context.component_tasks(context.this_component_id))
        self.again = []
        self.journal.note("opened", context.this_task_id)

    def next_tuple(self):
        if self.again:
            number = self.again.pop()
        elif self.next < self.count:
            number, self.next = self.next, self.next + self.step
        else:
            return
        if self.rate:
            time.sleep(1 / self.rate)
        self.collector.emit([number], message_id=number)

    def ack(self, message_id):
        self.journal.note("acked", message_id)

    def fail(self, message_id):
        self.journal.note("failed", message_id)
        self.again.append(message_id)

    def close(self):
        self.journal.note("closed", "spout")


class Twice(BasicBolt):
    """Sends each number on twice."""

    outputs = ("number",)

    def execute(self, tup, collector):
        collector.emit([tup[0]])
        collector.emit([tup[0]])


class Sum(Bolt):
    """Notes each number it executes."""

    def __init__(self, journal):
        self.journal = journal

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.journal.note("prepared", os.getpid())

    def execute(self, tup):
        self.journal.note("executed", tup[0])
        self.collector.ack(tup)

    def cleanup(self):
        self.journal.note("cleaned", "bolt")


class DiesOnce(BasicBolt):
    """Ends its own process the hard way on one number, once."""

    outputs = ("number",)

    def __init__(self, number, marker, how="kill"):
        self.number, self.marker, self.how = number, marker, how

    def execute(self, tup, collector):
        if tup[0] == self.number and not os.path.exists(self.marker):
            open(self.marker, "w").close()
            die(self.how)
        collector.emit([tup[0]])


def die(how):
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "exit":
        os._exit(3)
    elif how == "segfault":
        import ctypes

        ctypes.string_at(0)


class EatsMemoryOnce(DiesOnce):
    """Asks for more memory than its process may have, on one number, once."""

    def execute(self, tup, collector):
        if tup[0] == self.number and not os.path.exists(self.marker):
            open(self.marker, "w").close()
            resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.RLIM_INFINITY))
            bytearray(8 << 30)
        collector.emit([tup[0]])


def steady(count, journal, bolt=None, rate=100):
    """numbers → a bolt → sum, grouped so that tuples cross slots; `rate` numbers a second from each of two spouts."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(count, journal, rate), 2)
    builder.set_bolt("dies", bolt or DiesOnce(-1, "/nonexistent"), 2).fields_grouping("numbers", ["number"])
    builder.set_bolt("sum", Sum(journal), 2).fields_grouping("dies", ["number"])
    return builder.create_topology()


def doubling(count, journal, tasks=2):
    """numbers → twice → sum, grouped so that tuples cross slots."""
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(count, journal), tasks)
    builder.set_bolt("twice", Twice(), tasks).fields_grouping("numbers", ["number"])
    builder.set_bolt("sum", Sum(journal), tasks).fields_grouping("twice", ["number"])
    return builder.create_topology()


def wait_until(condition, secs=300):
    """Wait for `condition`; what is waited for happens in other processes."""
    deadline = time.monotonic() + secs
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
