"""CrashOn kills the process of a bolt, but never the one that built it."""

import signal
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest

from pystorm_spark import BasicBolt, Bolt, InvalidTopologyError, LocalCluster, StormError, TopologyBuilder
from pystorm_spark.testing import CrashOn, FixedTupleSpout, make_tuple

ROOT = Path(__file__).parents[2]  # where another process finds the package
# Runs a pickled bolt on pickled values in a process of its own; prints its emitted values and its number of acks.
SLOT = """
import sys, cloudpickle
from pystorm_spark.testing import RecordingCollector, make_tuple
bolt, rows = cloudpickle.loads(sys.stdin.buffer.read())
collector = RecordingCollector()
bolt.prepare({}, None, collector)
for row in rows:
    bolt.execute(make_tuple(row, ["n"]))
    print([emitted.values for emitted in collector.emitted], len(collector.acked), flush=True)
"""


class Double(BasicBolt):
    outputs = ("n",)

    def component_configuration(self):
        return {"own": 1}

    def execute(self, tup, collector):
        collector.emit([2 * tup["n"]])


class Counting(Bolt):
    def init_state(self, state):
        return f"state {state}"


def run_elsewhere(bolt, rows):
    # The classes of this module cannot be imported there.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        pickled = cloudpickle.dumps((bolt, rows))
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    return subprocess.run([sys.executable, "-c", SLOT], input=pickled, capture_output=True, check=False, cwd=ROOT)


def crash_on(bolt, number):
    return CrashOn(bolt, when=lambda tup: tup["n"] == number)


def test_the_process_is_killed_instead_of_executing_the_tuple():
    ran = run_elsewhere(crash_on(Double(), 2), [[1], [2], [3]])
    assert ran.returncode == -signal.SIGKILL
    assert ran.stdout.decode() == "[[2]] 1\n"


def test_other_tuples_are_executed_by_the_wrapped_bolt():
    ran = run_elsewhere(crash_on(Double(), 99), [[1], [2]])
    assert (ran.returncode, ran.stdout.decode()) == (0, "[[2]] 1\n[[2], [4]] 2\n")


def test_on_local_cluster_the_submit_refuses():
    builder = TopologyBuilder()
    builder.set_spout("numbers", FixedTupleSpout([[1]], ["n"]))
    builder.set_bolt("double", crash_on(Double(), 1)).shuffle_grouping("numbers")
    with (
        LocalCluster(simulated_time=True) as cluster,
        pytest.raises(StormError, match=r"prepare of 'double' .* CrashOn would kill the process that built it"),
    ):
        cluster.submit_topology("crash", None, builder.create_topology())


def test_an_unprepared_crash_in_this_process_raises_instead_of_killing():
    with pytest.raises(StormError, match="CrashOn would kill the process that built it"):
        crash_on(Counting(), 1).execute(make_tuple([1], ["n"]))


def test_streams_and_configuration_are_those_of_the_wrapped_bolt():
    builder = TopologyBuilder()
    builder.set_spout("numbers", FixedTupleSpout([], ["n"]))
    builder.set_bolt("double", crash_on(Double(), 1)).shuffle_grouping("numbers")
    spec = builder.create_topology().components["double"]
    assert list(spec.outputs["default"].fields) == ["n"]
    assert spec.conf["own"] == 1


def test_attributes_of_the_wrapped_bolt_are_accessible():
    assert crash_on(Counting(), 1).init_state(7) == "state 7"


def test_an_attribute_that_the_wrapped_bolt_lacks_is_an_attribute_error():
    assert not hasattr(crash_on(Double(), 1), "init_state")


def test_an_object_that_is_not_a_bolt_is_refused():
    with pytest.raises(InvalidTopologyError, match="CrashOn wraps a bolt, got 7 of type int"):
        CrashOn(7, when=bool)
