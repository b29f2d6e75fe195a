import dataclasses

import pytest

from pystorm_spark import BasicBolt, Bolt, CustomStreamGrouping, Fields, GlobalStreamId, Spout, Stream, TopologyBuilder
from pystorm_spark.topology.grouping import ShuffleGrouping


class Sentences(Spout):
    outputs = {"default": ["id", "sentence"], "errors": Stream(["error"], direct=True)}


class Split(BasicBolt):
    outputs = ["word"]


class Count(Bolt):
    outputs = ["word", "count"]


class Nearest(CustomStreamGrouping):
    def choose_tasks(self, task_id, values):
        return []


def word_count():
    builder = TopologyBuilder()
    builder.set_spout("sentences", Sentences(), 5)
    builder.set_bolt("split", Split(), 8).shuffle_grouping("sentences")
    builder.set_bolt("count", Count(), 12).fields_grouping("split", Fields("word")).set_num_tasks(24)
    builder.set_bolt("log", print).direct_grouping("sentences", "errors").global_grouping("count")
    builder.set_bolt('top "ten"', Count()).custom_grouping("count", Nearest()).partial_key_grouping("split", ["word"])
    return builder.create_topology()


DESCRIBED = """\
spout sentences (Sentences) x5
  emits default: id, sentence
  emits errors: error direct
bolt split (Split) x8
  emits default: word
  reads sentences/default by shuffle
bolt count (Count) x12
  emits default: word, count
  reads split/default by fields(word)
bolt log (LambdaBolt) x1
  reads sentences/errors by direct
  reads count/default by global
bolt top "ten" (Count) x1
  emits default: word, count
  reads count/default by custom(Nearest)
  reads split/default by partial key(word)"""

MERMAID = """\
flowchart LR
    n0(["sentences x5"])
    n1["split x8"]
    n2["count x12"]
    n3["log x1"]
    n4["top #quot;ten#quot; x1"]
    n0 -->|"shuffle"| n1
    n1 -->|"fields(word)"| n2
    n0 -->|"errors: direct"| n3
    n2 -->|"global"| n3
    n2 -->|"custom(Nearest)"| n4
    n1 -->|"partial key(word)"| n4"""


def test_a_topology_describes_itself():
    assert word_count().describe() == DESCRIBED


def test_a_topology_draws_itself():
    assert word_count().to_mermaid() == MERMAID


def test_components_are_in_the_order_of_their_declaration():
    assert list(word_count().components) == ["sentences", "split", "count", "log", 'top "ten"']


def test_spouts_and_bolts_are_told_apart():
    topology = word_count()
    assert list(topology.spouts) == ["sentences"]
    assert list(topology.bolts) == ["split", "count", "log", 'top "ten"']
    assert {spec.kind for spec in topology.bolts.values()} == {"bolt"}


def test_a_component_keeps_its_declarations():
    spec = word_count().components["count"]
    assert (spec.id, spec.kind, spec.parallelism, spec.conf) == ("count", "bolt", 12, {"topology.tasks": 24})
    assert spec.outputs == {"default": Stream(["word", "count"])}


def test_subscriptions_are_listed_with_their_subscriber():
    found = [(source, spec.id, grouping) for source, spec, grouping in word_count().subscriptions()]
    assert found[0] == (GlobalStreamId("sentences"), "split", ShuffleGrouping())
    assert len(found) == 6


def test_a_topology_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        word_count().components = {}


def test_later_declarations_do_not_change_a_topology():
    builder = TopologyBuilder()
    builder.set_spout("words", Sentences())
    declarer = builder.set_bolt("count", Count()).shuffle_grouping("words")
    topology = builder.create_topology()
    declarer.all_grouping("words", "errors").set_debug(True)
    assert list(topology.components["count"].inputs) == [GlobalStreamId("words")]
    assert topology.components["count"].conf == {}
