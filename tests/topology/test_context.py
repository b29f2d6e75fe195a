import json
import threading

import pytest

from pystorm_spark import (
    Bolt,
    CustomStreamGrouping,
    Fields,
    GlobalStreamId,
    LocalCluster,
    Spout,
    Stream,
    TopologyBuilder,
    UnknownIdError,
)
from pystorm_spark.topology.grouping import AllGrouping, FieldsGrouping, ShuffleGrouping

CONTEXTS = {}


class Words(Spout):
    outputs = {"default": ["word"], "errors": Stream(["error"], direct=True)}

    def open(self, conf, context, collector):
        CONTEXTS[context.this_task_id] = context


class Count(Bolt):
    outputs = ["word", "count"]

    def prepare(self, conf, context, collector):
        CONTEXTS[context.this_task_id] = context


class Everyone(CustomStreamGrouping):
    def choose_tasks(self, task_id, values):
        return []


def build():
    builder = TopologyBuilder()
    builder.set_spout("words", Words(), 2)
    count = builder.set_bolt("count", Count(), 3).fields_grouping("words", "word").all_grouping("words", "errors")
    count.add_configuration("mine", 1)
    builder.set_bolt("top", Count()).shuffle_grouping("count").global_grouping("words").custom_grouping(
        "words", Everyone(), "errors"
    )
    return builder.create_topology()


@pytest.fixture
def contexts():
    """{component: contexts of its tasks} of a running topology."""
    CONTEXTS.clear()
    with LocalCluster(simulated_time=True) as cluster:
        cluster.submit_topology("test", {"topology.message.timeout.secs": 20}, build())
        found = {}
        for _, context in sorted(CONTEXTS.items()):
            found.setdefault(context.this_component_id, []).append(context)
        yield found


@pytest.fixture
def count(contexts):
    return contexts["count"][1]


class TestItself:
    def test_task_ids_follow_the_order_of_components_with_the_acker_first(self, contexts):
        ids = {component: [context.this_task_id for context in found] for component, found in contexts.items()}
        assert ids == {"count": [2, 3, 4], "top": [5], "words": [6, 7]}

    def test_task_indexes_count_within_the_component(self, contexts):
        assert [context.this_task_index for context in contexts["count"]] == [0, 1, 2]

    def test_a_task_knows_its_streams_and_fields(self, contexts):
        words = contexts["words"][0]
        assert words.this_streams == {"default", "errors"}
        assert words.this_output_fields() == Fields("word")
        assert words.this_output_fields("errors") == Fields("error")
        assert words.this_output_fields_for_streams == {"default": ["word"], "errors": ["error"]}

    def test_a_task_knows_its_sources_and_input_fields(self, count):
        assert count.this_sources == {
            GlobalStreamId("words"): FieldsGrouping(Fields("word")),
            GlobalStreamId("words", "errors"): AllGrouping(),
        }
        assert count.this_input_fields == {"words": {"default": ["word"], "errors": ["error"]}}

    def test_a_task_knows_its_targets(self, contexts, count):
        assert count.this_targets == {GlobalStreamId("count"): {"top": ShuffleGrouping()}}
        assert set(contexts["words"][0].this_targets[GlobalStreamId("words")]) == {"count", "top"}
        assert contexts["top"][0].this_targets == {}

    def test_a_task_knows_the_tasks_of_its_worker(self, count):
        assert (count.this_worker_tasks, count.this_worker_port) == ([2, 3, 4, 5, 6, 7], 0)

    def test_own_configuration_overrides_that_of_the_topology(self, contexts, count):
        assert (count.conf["topology.name"], count.conf["mine"]) == ("test", 1)
        assert "mine" not in contexts["top"][0].conf

    def test_the_run_has_an_id(self, count):
        assert count.storm_id.startswith("test-")

    def test_a_task_knows_the_message_timeout(self, count):
        assert count.max_topology_message_timeout() == 20


class TestOthers:
    def test_component_ids_leave_out_the_system(self, count):
        assert count.component_ids == ["count", "top", "words"]

    def test_component_tasks_are_those_of_one_component(self, count):
        assert (count.component_tasks("words"), count.component_tasks("nobody")) == ([6, 7], [])

    def test_component_id_of_a_task_is_found(self, count):
        assert (count.component_id(7), count.component_id(-1)) == ("words", "__system")

    def test_an_unknown_task_is_an_error(self, count):
        with pytest.raises(UnknownIdError, match=r"task 99 does not exist; the tasks are \[2, 3, 4, 5, 6, 7\]"):
            count.component_id(99)

    def test_task_to_component_has_every_task(self, count):
        assert count.task_to_component == {2: "count", 3: "count", 4: "count", 5: "top", 6: "words", 7: "words"}

    def test_streams_and_fields_of_a_component_are_found(self, count):
        assert count.component_streams("words") == {"default", "errors"}
        assert count.component_output_fields("words") == Fields("word")
        assert count.component_output_fields("words", "errors") == Fields("error")

    def test_fields_of_a_stream_are_found_by_its_global_id(self, count):
        assert count.component_output_fields(GlobalStreamId("words", "errors")) == Fields("error")

    @pytest.mark.parametrize("method", ["component_streams", "component_output_fields", "sources", "targets"])
    def test_an_unknown_component_is_an_error_with_a_suggestion(self, count, method):
        with pytest.raises(UnknownIdError, match="component 'wrods' does not exist; did you mean 'words'"):
            getattr(count, method)("wrods")

    def test_an_unknown_stream_is_an_error_with_a_suggestion(self, count):
        with pytest.raises(UnknownIdError, match="'words' does not declare stream 'error'; did you mean 'errors'"):
            count.component_output_fields("words", "error")

    def test_raw_topology_has_all_components(self, count):
        assert list(count.raw_topology.components) == ["words", "count", "top"]

    def test_returned_lists_and_dicts_are_copies(self, count):
        for given in (count.component_tasks("words"), count.task_to_component, count.this_sources, count.this_targets):
            given.clear()
        assert (count.component_tasks("words"), len(count.this_sources)) == ([6, 7], 2)


class TestData:
    @pytest.mark.parametrize(
        ("put", "get"),
        [
            ("set_task_data", "get_task_data"),
            ("setTaskData", "getTaskData"),
            ("set_executor_data", "get_executor_data"),
            ("setExecutorData", "getExecutorData"),
        ],
    )
    def test_data_belongs_to_one_task(self, contexts, put, get):
        first, second, _ = contexts["count"]
        getattr(first, put)("seen", [1])
        assert (getattr(first, get)("seen"), getattr(second, get)("seen")) == ([1], None)

    def test_executor_data_is_separate_from_task_data(self, count):
        count.set_task_data("a", 1)
        count.set_executor_data("a", 2)
        assert (count.get_task_data("a"), count.get_executor_data("a")) == (1, 2)


class TestSharedExecutor:
    def test_all_tasks_share_one_executor(self, contexts):
        pools = {context.shared_executor for found in contexts.values() for context in found}
        assert len(pools) == 1

    def test_the_executor_runs_calls_in_another_thread(self, count):
        assert count.getSharedExecutor().submit(threading.get_ident).result(10) != threading.get_ident()

    def test_the_executor_ends_with_the_topology(self):
        with LocalCluster(simulated_time=True) as cluster:
            CONTEXTS.clear()
            cluster.submit_topology("test", None, build())
            pool = next(iter(CONTEXTS.values())).shared_executor
        with pytest.raises(RuntimeError, match="after shutdown"):
            pool.submit(print)


class TestJson:
    def test_json_is_that_of_storms_multilang(self, count):
        assert json.loads(count.to_json_string()) == {
            "task->component": {
                "2": "count",
                "3": "count",
                "4": "count",
                "5": "top",
                "6": "words",
                "7": "words",
            },
            "taskid": 3,
            "componentid": "count",
            "streams": ["default"],
            "stream->outputfields": {"default": ["word", "count"]},
            "stream->target->grouping": {"default": {"top": {"type": "SHUFFLE"}}},
            "source->stream->grouping": {
                "words": {"default": {"type": "FIELDS", "fields": ["word"]}, "errors": {"type": "ALL"}}
            },
            "source->stream->fields": {"words": {"default": ["word"], "errors": ["error"]}},
        }

    def test_groupings_have_storms_types(self, contexts):
        told = json.loads(contexts["top"][0].toJSONString())
        assert told["source->stream->grouping"] == {
            "count": {"default": {"type": "SHUFFLE"}},
            "words": {"default": {"type": "FIELDS", "fields": []}, "errors": {"type": "CUSTOM_SERIALIZED"}},
        }


@pytest.mark.parametrize(
    ("java", "python"),
    [
        ("getThisTaskId", "this_task_id"),
        ("getThisTaskIndex", "this_task_index"),
        ("getThisComponentId", "this_component_id"),
        ("getThisStreams", "this_streams"),
        ("getThisSources", "this_sources"),
        ("getThisTargets", "this_targets"),
        ("getThisInputFields", "this_input_fields"),
        ("getThisOutputFieldsForStreams", "this_output_fields_for_streams"),
        ("getThisWorkerTasks", "this_worker_tasks"),
        ("getThisWorkerPort", "this_worker_port"),
        ("getComponentIds", "component_ids"),
        ("getTaskToComponent", "task_to_component"),
        ("getConf", "conf"),
        ("getStormId", "storm_id"),
        ("getHooks", "hooks"),
    ],
)
def test_attributes_have_javas_getters(count, java, python):
    assert getattr(count, java)() == getattr(count, python)


@pytest.mark.parametrize(
    ("java", "python", "args"),
    [
        ("getThisOutputFields", "this_output_fields", ("default",)),
        ("getComponentTasks", "component_tasks", ("words",)),
        ("getComponentId", "component_id", (3,)),
        ("getComponentStreams", "component_streams", ("words",)),
        ("getComponentOutputFields", "component_output_fields", ("words", "errors")),
        ("getSources", "sources", ("count",)),
        ("getTargets", "targets", ("words",)),
        ("maxTopologyMessageTimeout", "max_topology_message_timeout", ()),
        ("getRegisteredMetricByName", "registered_metric", ("none",)),
    ],
)
def test_methods_have_javas_names(count, java, python, args):
    assert getattr(count, java)(*args) == getattr(count, python)(*args)
