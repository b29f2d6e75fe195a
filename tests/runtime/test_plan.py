"""Which tasks a topology has, their ids as Storm gives them, and the slots they live in."""

from __future__ import annotations

import pytest

from pystorm_spark.metrics.consumer import LoggingMetricsConsumer
from pystorm_spark.runtime.metrics_bolt import METRICS_STREAM
from pystorm_spark.runtime.plan import make_plan
from pystorm_spark.topology.builder import TopologyBuilder
from pystorm_spark.topology.component import Bolt, Spout
from pystorm_spark.topology.config import Config, resolve
from pystorm_spark.topology.tuple import GlobalStreamId

CONSUMER = "__metrics_pystorm_spark.metrics.consumer:LoggingMetricsConsumer"


class Words(Spout):
    outputs = ("word",)


class Count(Bolt):
    outputs = ("word", "count")


def word_count(spout_id="words", bolt_id="count", spouts=1, bolts=1):
    builder = TopologyBuilder()
    builder.set_spout(spout_id, Words(), spouts)
    declarer = builder.set_bolt(bolt_id, Count(), bolts).shuffle_grouping(spout_id)
    return builder, declarer


def plan_of(builder, conf=None, slots=1):
    return make_plan(builder.create_topology(), resolve(conf), "test-1-0", slots)


def test_ids_begin_with_1_over_the_component_ids_in_order():
    builder, _ = word_count("words", "count", spouts=2, bolts=3)
    assert plan_of(builder).tasks == {"__acker": [1], "count": [2, 3, 4], "words": [5, 6]}


def test_upper_case_comes_before_the_acker_and_lower_case_behind():
    builder, _ = word_count("Zebra", "aardvark")
    assert plan_of(builder).tasks == {"Zebra": [1], "__acker": [2], "aardvark": [3]}


def test_digits_upper_case_underscore_and_lower_case_follow_their_bytes():
    builder, _ = word_count("_x", "^x")
    builder.set_bolt("1", Count()).shuffle_grouping("_x")
    builder.set_bolt("é", Count()).shuffle_grouping("_x")
    builder.set_bolt("z", Count()).shuffle_grouping("_x")
    assert list(plan_of(builder).tasks) == ["1", "^x", "__acker", "_x", "z", "é"]


def test_the_order_of_declaration_does_not_matter():
    builder = TopologyBuilder()
    builder.set_bolt("b", Count()).shuffle_grouping("c")
    builder.set_spout("c", Words())
    builder.set_bolt("a", Count()).shuffle_grouping("c")
    assert plan_of(builder).tasks == {"__acker": [1], "a": [2], "b": [3], "c": [4]}


def test_there_is_one_acker_for_each_slot_by_default():
    builder, _ = word_count()
    assert plan_of(builder, slots=3).tasks["__acker"] == [1, 2, 3]


def test_there_is_one_acker_for_each_configured_worker():
    builder, _ = word_count()
    assert plan_of(builder, {"topology.workers": 4}).tasks["__acker"] == [1, 2, 3, 4]


def test_a_given_number_of_ackers_takes_as_many_ids():
    builder, _ = word_count()
    plan = plan_of(builder, {"topology.acker.executors": 2}, slots=3)
    assert plan.tasks == {"__acker": [1, 2], "count": [3], "words": [4]}


def test_without_ackers_no_id_is_taken():
    builder, _ = word_count()
    assert plan_of(builder, {"topology.acker.executors": 0}).tasks == {"__acker": [], "count": [1], "words": [2]}


def test_metrics_consumers_have_ids_between_the_acker_and_lower_case():
    builder, _ = word_count()
    conf = Config()
    conf.register_metrics_consumer(LoggingMetricsConsumer, None, 2)
    conf.register_metrics_consumer(LoggingMetricsConsumer)
    plan = plan_of(builder, conf)
    assert plan.tasks == {"__acker": [1], CONSUMER: [2, 3], f"{CONSUMER}#2": [4], "count": [5], "words": [6]}


def test_a_metrics_consumer_listens_to_every_component_and_not_to_the_system():
    builder, _ = word_count()
    conf = Config()
    conf.register_metrics_consumer(LoggingMetricsConsumer)
    plan = plan_of(builder, conf)
    assert set(plan.specs[CONSUMER].inputs) == {GlobalStreamId(id_, METRICS_STREAM) for id_ in ("count", "words")}
    assert METRICS_STREAM in plan.outputs_of("words")
    assert METRICS_STREAM not in plan.outputs_of(CONSUMER)


def test_without_consumers_there_is_no_stream_of_metrics():
    builder, _ = word_count()
    assert list(plan_of(builder).outputs_of("words")) == ["default"]


def test_num_tasks_overrides_the_parallelism():
    builder, declarer = word_count(bolts=2)
    declarer.set_num_tasks(5)
    assert len(plan_of(builder).tasks["count"]) == 5


def test_the_number_of_tasks_of_the_topology_is_that_of_components_that_set_none():
    builder, declarer = word_count(spouts=2, bolts=3)
    declarer.set_num_tasks(5)
    plan = plan_of(builder, {"topology.tasks": 7})
    assert (len(plan.tasks["words"]), len(plan.tasks["count"]), len(plan.tasks["__acker"])) == (7, 5, 1)


@pytest.mark.parametrize(("hint", "tasks"), [(2, 2), (3, 3), (9, 3)])
def test_max_task_parallelism_caps_the_tasks_of_each_component(hint, tasks):
    builder, _ = word_count(spouts=hint, bolts=hint)
    plan = plan_of(builder, {"topology.max.task.parallelism": 3})
    assert (len(plan.tasks["words"]), len(plan.tasks["count"])) == (tasks, tasks)


def test_max_task_parallelism_caps_num_tasks():
    builder, declarer = word_count()
    declarer.set_num_tasks(9)
    assert len(plan_of(builder, {"topology.max.task.parallelism": 3}).tasks["count"]) == 3


@pytest.mark.parametrize("own", [2, 6])
def test_a_component_has_its_own_max_task_parallelism_over_that_of_the_topology(own):
    builder, declarer = word_count(bolts=9)
    declarer.set_max_task_parallelism(own)
    assert len(plan_of(builder, {"topology.max.task.parallelism": 3}).tasks["count"]) == own


def test_max_task_parallelism_leaves_the_system_alone():
    builder, _ = word_count()
    conf = Config({"topology.max.task.parallelism": 1, "topology.acker.executors": 2})
    conf.register_metrics_consumer(LoggingMetricsConsumer, None, 2)
    plan = plan_of(builder, conf)
    assert (len(plan.tasks["__acker"]), len(plan.tasks[CONSUMER])) == (2, 2)


def test_the_tasks_of_a_component_are_dealt_round_robin_over_the_slots():
    builder, _ = word_count(spouts=2, bolts=5)
    plan = plan_of(builder, slots=3)
    assert [plan.slot_of[task] for task in plan.tasks["count"]] == [0, 1, 2, 0, 1]
    assert [plan.slot_of[task] for task in plan.tasks["words"]] == [0, 1]


def test_the_slots_share_the_tasks_among_them_and_leave_none_out():
    builder, _ = word_count(spouts=2, bolts=5)
    plan = plan_of(builder, slots=3)
    found = [task for slot in range(3) for task in plan.tasks_in(slot)]
    assert sorted(found) == sorted(plan.tasks["count"] + plan.tasks["words"])
    assert all(plan.tasks_in(slot) == sorted(plan.tasks_in(slot)) for slot in range(3))


def test_every_task_id_has_its_component():
    builder, _ = word_count(spouts=2, bolts=2)
    assert plan_of(builder).component_of == {1: "__acker", 2: "count", 3: "count", 4: "words", 5: "words"}


def test_system_components_are_hidden_from_users():
    builder, _ = word_count()
    assert set(plan_of(builder).user_tasks) == {"words", "count"}
