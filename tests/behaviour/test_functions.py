"""Components that are plain functions, and components that are defined anywhere."""

import subprocess
import sys
from pathlib import Path

import pytest

from pystorm_spark import InvalidTopologyError, LambdaBolt, TopologyBuilder, Values
from tests.behaviour.engine import chain, component, run
from tests.behaviour.probes import Does, Sink, fails, note, noted, numbers
from tests.ids import shown

ROOT = Path(__file__).resolve().parents[2]


def doubles(tup, collector):
    collector.emit([2 * tup[0]])


def test_a_function_of_tuple_and_collector_becomes_a_bolt(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(3))
    builder.set_bolt("double", doubles, 2, "value").shuffle_grouping("spout")
    builder.set_bolt("a", Sink()).shuffle_grouping("double")
    run(cluster, builder.create_topology())

    assert sorted(noted("a")) == [[0], [2], [4]]
    assert component(cluster, "double").tasks == 2
    assert noted("acked") == [0, 1, 2]


def test_a_function_of_a_tuple_becomes_a_bolt_without_outputs(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(2))
    builder.set_bolt("show", lambda tup: note("seen", tup[0])).shuffle_grouping("spout")
    run(cluster, builder.create_topology())

    assert noted("seen") == [0, 1]
    assert noted("acked") == [0, 1]


@pytest.mark.parametrize("fields", ["value", ["value"], ("value",)], ids=shown)
def test_a_lambda_bolt_declares_its_fields(cluster, fields):
    run(cluster, chain(numbers(1), LambdaBolt(lambda tup, collector: collector.emit(Values("x")), fields), Sink()))

    assert noted("b") == [["x"]]


def test_a_lambda_bolt_anchors_and_acks(cluster):
    run(cluster, chain(numbers(1), LambdaBolt(doubles, ["value"]), Does(fails)))

    assert noted("failed") == [0]


def test_a_lambda_bolt_that_raises_fails_its_input(cluster):
    run(cluster, chain(numbers(1), LambdaBolt(lambda tup: 1 / 0)))

    assert noted("failed") == [0]
    assert component(cluster, "a").errors[0].exception == "ZeroDivisionError: division by zero"


class Callable:
    def __call__(self, tup, collector):
        collector.emit(["called"])


def test_a_callable_object_becomes_a_bolt(cluster):
    run(cluster, chain(numbers(1), LambdaBolt(Callable(), ["value"]), Sink()))

    assert noted("b") == [["called"]]


def test_a_built_in_function_becomes_a_bolt(cluster):
    run(cluster, chain(numbers(1), LambdaBolt(repr)))

    assert noted("acked") == [0]


@pytest.mark.parametrize("function", [lambda: None, lambda a, b, c: None])
def test_a_function_of_other_arguments_is_refused(function):
    builder = TopologyBuilder()
    builder.set_spout("spout", numbers(1))
    builder.set_bolt("the bolt", function).shuffle_grouping("spout")

    with pytest.raises(InvalidTopologyError, match="'the bolt'"):
        builder.create_topology()


def test_a_closure_keeps_its_variables(cluster):
    prefix = "hello "

    run(cluster, chain(numbers(1), LambdaBolt(lambda tup: note("seen", prefix + str(tup[0])))))

    assert noted("seen") == ["hello 0"]


SCRIPT = """
from pystorm_spark import BasicBolt, LocalCluster, Spout, TopologyBuilder

SEEN = []

class Words(Spout):
    outputs = ["word"]
    def open(self, conf, context, collector):
        self.collector, self.words = collector, ["a", "b"]
    def next_tuple(self):
        if self.words:
            self.collector.emit([self.words.pop()], message_id=1)

class Prints(BasicBolt):
    def execute(self, tup, collector):
        print("saw", shout(tup["word"]))

def shout(word):
    return word.upper()

def build():
    class Inner(Prints):
        def cleanup(self):
            print("cleaned up")
    builder = TopologyBuilder()
    builder.set_spout("words", Words())
    builder.set_bolt("inner", Inner()).shuffle_grouping("words")
    return builder.create_topology()

with LocalCluster(simulated_time=True) as cluster:
    cluster.submit_topology("main", None, build())
    cluster.wait_until_idle()
    print(cluster.topology_info("main").components["words"].acked)
"""


def test_components_defined_in_the_main_module_or_a_function_run():
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert done.stderr == ""
    assert done.stdout.splitlines() == ["saw B", "saw A", "2", "cleaned up"]
