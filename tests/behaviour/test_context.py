"""TopologyContext: what a task can find out about itself and its topology."""

import json

import pytest

from pystorm_spark import Bolt, Config, Fields, GlobalStreamId, Spout, Stream, TopologyBuilder
from tests.behaviour.engine import run
from tests.behaviour.probes import Does, Fed, acks, note, noted


class Asking(Bolt):
    """Notes the result of `question(context)` in every task."""

    outputs = {"default": ["word", "count"], "late": Stream(["word"], direct=True)}

    def __init__(self, question):
        self.question = question

    def prepare(self, conf, context, collector):
        note("answers", self.question(context))


def ask(cluster, question, tasks=2, conf=None):
    """Return the answers of bolt "middle". Tasks: "__acker" 1, "end" 2 to 4, "middle" from 5, "spout" last."""
    builder = TopologyBuilder()
    builder.set_spout("spout", Fed(["sentence"]))
    builder.set_bolt("middle", Asking(question), tasks).fields_grouping("spout", "sentence")
    end = builder.set_bolt("end", Does(acks), 3)
    end.fields_grouping("middle", "word").direct_grouping("middle", "late").all_grouping("spout")
    run(cluster, builder.create_topology(), conf)
    return noted("answers")


def test_a_task_knows_its_id_and_its_index(cluster):
    answers = ask(cluster, lambda context: (context.this_task_id, context.this_task_index, context.this_component_id))

    assert sorted(answers) == [(5, 0, "middle"), (6, 1, "middle")]


def test_task_ids_are_given_from_one_over_the_sorted_component_ids(cluster):
    """ "__acker" comes first: a program must not assume that its component's ids start at 0 or 1."""
    (tasks, *_) = ask(cluster, lambda context: {id_: context.component_tasks(id_) for id_ in context.component_ids})

    assert tasks == {"end": [2, 3, 4], "middle": [5, 6], "spout": [7]}


def test_component_ids_are_sorted_and_leave_out_the_system(cluster):
    assert ask(cluster, lambda context: context.component_ids, tasks=1) == [["end", "middle", "spout"]]


def test_an_unknown_component_has_no_tasks(cluster):
    assert ask(cluster, lambda context: context.component_tasks("nobody"), tasks=1) == [[]]


def test_component_id_of_a_task_is_its_component(cluster):
    (answer,) = ask(cluster, lambda context: (context.component_id(6), context.component_id(-1)), tasks=1)

    assert answer == ("spout", "__system")


def test_task_to_component_is_the_whole_mapping(cluster):
    (answer,) = ask(cluster, lambda context: context.task_to_component, tasks=1)

    assert answer == {2: "end", 3: "end", 4: "end", 5: "middle", 6: "spout"}


def test_sources_are_keyed_by_stream(cluster):
    (answer,) = ask(cluster, lambda context: {key: str(value) for key, value in context.this_sources.items()}, tasks=1)

    assert answer == {GlobalStreamId("spout", "default"): "fields(sentence)"}


def test_targets_are_keyed_by_stream(cluster):
    def targets(context):
        return {key: list(value) for key, value in context.this_targets.items()}

    (answer,) = ask(cluster, targets, tasks=1)

    assert answer == {GlobalStreamId("middle", "default"): ["end"], GlobalStreamId("middle", "late"): ["end"]}


def test_sources_and_targets_of_other_components_are_known(cluster):
    (answer,) = ask(cluster, lambda context: (set(context.sources("end")), set(context.targets("spout"))), tasks=1)

    assert answer[0] == {GlobalStreamId("middle"), GlobalStreamId("middle", "late"), GlobalStreamId("spout")}
    assert answer[1] == {GlobalStreamId("spout", "default")}


def test_output_fields_of_every_stream_are_known(cluster):
    def fields(context):
        return (
            context.component_output_fields("spout", "default"),
            context.component_output_fields("middle", "late"),
            context.this_output_fields(),
            context.this_output_fields("late"),
            context.this_streams,
        )

    (answer,) = ask(cluster, fields, tasks=1)

    assert answer == (
        Fields("sentence"),
        Fields("word"),
        Fields("word", "count"),
        Fields("word"),
        {"default", "late"},
    )


def test_input_fields_are_known(cluster):
    assert ask(cluster, lambda context: context.this_input_fields, tasks=1) == [{"spout": {"default": ["sentence"]}}]


def test_own_configuration_overrides_that_of_the_topology(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", Fed())
    own = builder.set_bolt("a", Asking(lambda context: dict(context.conf))).shuffle_grouping("spout")
    own.add_configurations({"topology.debug": False, "my.own": "bolt", "only.here": [1]})
    conf = Config({"my.own": "topology", "topology.message.timeout.secs": 9})
    run(cluster, builder.create_topology(), conf)

    (seen,) = noted("answers")
    assert (seen["my.own"], seen["only.here"], seen["topology.message.timeout.secs"]) == ("bolt", [1], 9)
    assert seen["topology.name"] == "topology"


def test_a_key_that_belongs_to_the_topology_is_ignored_in_a_component_with_a_warning(cluster, caplog):
    builder = TopologyBuilder()
    builder.set_spout("spout", Fed())
    own = builder.set_bolt("a", Asking(lambda context: context.conf["topology.message.timeout.secs"]))
    own.shuffle_grouping("spout").add_configuration("topology.message.timeout.secs", 1)
    run(cluster, builder.create_topology(), {"topology.message.timeout.secs": 9})

    assert noted("answers") == [9]
    assert any("topology.message.timeout.secs" in r.getMessage() and "'a'" in r.getMessage() for r in caplog.records)


def test_prepare_and_open_get_the_configuration_of_the_context(cluster):
    class Compares(Bolt):
        def prepare(self, conf, context, collector):
            note("answers", conf == context.conf)

    class ComparesSpout(Spout):
        outputs = ("value",)

        def open(self, conf, context, collector):
            note("answers", conf == context.conf)

    builder = TopologyBuilder()
    builder.set_spout("spout", ComparesSpout())
    builder.set_bolt("a", Compares()).shuffle_grouping("spout")
    run(cluster, builder.create_topology())

    assert noted("answers") == [True, True]


def test_the_message_timeout_is_known(cluster):
    def timeout(context):
        return context.max_topology_message_timeout()

    assert ask(cluster, timeout, tasks=1, conf={"topology.message.timeout.secs": 12}) == [12]


def test_task_data_belongs_to_one_task(cluster):
    def keep(context):
        before = context.get_task_data("key")
        context.set_task_data("key", context.this_task_id)
        return before, context.get_task_data("key")

    assert {after for before, after in ask(cluster, keep) if before is None} == {5, 6}


def test_worker_tasks_are_all_tasks_of_the_process(cluster):
    (answer,) = ask(cluster, lambda context: context.this_worker_tasks, tasks=1)

    assert 5 in answer
    assert answer == sorted(answer)


def test_the_topology_itself_is_known(cluster):
    (answer,) = ask(cluster, lambda context: sorted(context.raw_topology.components), tasks=1)

    assert answer == ["end", "middle", "spout"]


def test_the_context_as_json_is_that_of_storms_multilang(cluster):
    (text,) = ask(cluster, lambda context: context.to_json_string(), tasks=1)

    told = json.loads(text)
    assert (told["taskid"], told["componentid"]) == (5, "middle")
    assert told["task->component"]["6"] == "spout"
    assert told["stream->outputfields"] == {"default": ["word", "count"], "late": ["word"]}


def test_a_shared_executor_runs_work_beside_the_task(cluster):
    assert ask(cluster, lambda context: context.shared_executor.submit(pow, 2, 10).result(10), tasks=1) == [1024]


@pytest.mark.parametrize(("tasks", "parallelism", "expected"), [(5, 2, 5), (1, 3, 1), (None, 3, 3)])
def test_the_number_of_tasks_may_differ_from_the_parallelism(cluster, tasks, parallelism, expected):
    builder = TopologyBuilder()
    builder.set_spout("spout", Fed())
    bolt = builder.set_bolt("a", Asking(lambda context: context.this_task_index), parallelism)
    bolt.shuffle_grouping("spout")
    if tasks is not None:
        bolt.set_num_tasks(tasks)
    run(cluster, builder.create_topology())

    assert sorted(noted("answers")) == list(range(expected))


def test_max_task_parallelism_caps_the_number_of_tasks(cluster):
    builder = TopologyBuilder()
    builder.set_spout("spout", Fed())
    builder.set_bolt("a", Asking(lambda context: "a"), 9).shuffle_grouping("spout")
    builder.set_bolt("b", Asking(lambda context: "b"), 9).shuffle_grouping("spout").set_max_task_parallelism(2)
    run(cluster, builder.create_topology(), {"topology.max.task.parallelism": 4})

    assert (noted("answers").count("a"), noted("answers").count("b")) == (4, 2)


def test_the_ackers_take_task_ids(cluster):
    """As in Storm: three ackers are tasks 1 to 3."""
    answers = ask(cluster, lambda context: context.component_tasks("end"), 1, {"topology.acker.executors": 3})

    assert answers == [[4, 5, 6]]
