import pytest

from pystorm_spark import (
    CustomStreamGrouping,
    Fields,
    GlobalStreamId,
    InvalidTopologyError,
    OutputFieldsDeclarer,
    Stream,
)
from pystorm_spark.topology.declarer import BoltDeclarer, SpoutDeclarer
from pystorm_spark.topology.grouping import (
    AllGrouping,
    CustomGrouping,
    DirectGrouping,
    FieldsGrouping,
    GlobalGrouping,
    LocalOrShuffleGrouping,
    NoneGrouping,
    PartialKeyGrouping,
    ShuffleGrouping,
)

FORMS = pytest.mark.parametrize("fields", [Fields("a", "b"), ["a", "b"], ("a", "b")], ids=["Fields", "list", "tuple"])


def declared(call):
    declarer = OutputFieldsDeclarer()
    call(declarer)
    return declarer.streams


class TestOutputFields:
    @FORMS
    def test_the_default_stream_is_declared(self, fields):
        assert declared(lambda d: d.declare(fields)) == {"default": Stream(["a", "b"])}

    @FORMS
    def test_the_default_stream_may_be_direct(self, fields):
        assert declared(lambda d: d.declare(True, fields)) == {"default": Stream(["a", "b"], direct=True)}

    @FORMS
    def test_a_named_stream_is_declared(self, fields):
        assert declared(lambda d: d.declare_stream("s", fields)) == {"s": Stream(["a", "b"])}

    @FORMS
    def test_a_named_stream_may_be_direct(self, fields):
        assert declared(lambda d: d.declare_stream("s", True, fields)) == {"s": Stream(["a", "b"], direct=True)}

    def test_direct_may_be_false(self):
        assert declared(lambda d: d.declare(False, ["a"])) == {"default": Stream(["a"])}

    def test_one_name_is_one_field(self):
        assert declared(lambda d: d.declare("word")) == {"default": Stream(["word"])}

    def test_a_stream_may_have_no_fields(self):
        assert declared(lambda d: d.declare([])) == {"default": Stream([])}

    def test_java_names(self):
        assert declared(lambda d: d.declareStream("s", Fields("a"))) == {"s": Stream(["a"])}

    def test_a_second_declaration_is_refused_and_shows_the_first(self):
        with pytest.raises(InvalidTopologyError, match=r"stream 's' are already set to .*Fields\('a'\)"):
            declared(lambda d: (d.declare_stream("s", ["a"]), d.declare_stream("s", ["a"])))

    def test_the_default_stream_is_declared_once_under_either_name(self):
        with pytest.raises(InvalidTopologyError, match="'default' are already set"):
            declared(lambda d: (d.declare(["a"]), d.declare_stream("default", ["b"])))

    @pytest.mark.parametrize("stream_id", [None, "", 3, ["s"]])
    def test_a_stream_id_that_is_not_a_string_is_refused(self, stream_id):
        with pytest.raises(InvalidTopologyError, match="a stream id must be a non-empty string, got"):
            declared(lambda d: d.declare_stream(stream_id, ["a"]))

    @pytest.mark.parametrize("args", [(), ("a", "b"), (["a"], True), (1, ["a"]), (True, ["a"], ["b"]), ("a", "b", "c")])
    def test_several_field_names_as_arguments_are_refused(self, args):
        with pytest.raises(
            InvalidTopologyError, match=r"takes \(fields\) or \(direct, fields\), and several field names"
        ):
            declared(lambda d: d.declare(*args))

    def test_an_invalid_field_name_is_refused(self):
        with pytest.raises(InvalidTopologyError, match="a field name must be a string, got 5"):
            declared(lambda d: d.declare(5))


class TestConfiguration:
    @pytest.mark.parametrize(
        ("call", "conf"),
        [
            (lambda d: d.set_num_tasks(4), {"topology.tasks": 4}),
            (lambda d: d.set_max_task_parallelism(3), {"topology.max.task.parallelism": 3}),
            (lambda d: d.set_max_spout_pending(2), {"topology.max.spout.pending": 2}),
            (lambda d: d.set_debug(True), {"topology.debug": True}),
            (lambda d: d.add_configuration("my.key", [1]), {"my.key": [1]}),
            (lambda d: d.add_configurations({"a": 1, "b": 2}), {"a": 1, "b": 2}),
            (lambda d: d.add_configurations(None), {}),
            (lambda d: d.setNumTasks(4).setDebug(False), {"topology.tasks": 4, "topology.debug": False}),
            (lambda d: d.setMaxTaskParallelism(3), {"topology.max.task.parallelism": 3}),
            (lambda d: d.setMaxSpoutPending(2), {"topology.max.spout.pending": 2}),
            (lambda d: d.addConfiguration("a", 1).addConfigurations({"a": 2}), {"a": 2}),
        ],
    )
    @pytest.mark.parametrize("kind", [SpoutDeclarer, BoltDeclarer])
    def test_a_setter_sets_its_key_and_can_be_chained(self, kind, call, conf):
        declarer = kind()
        assert call(declarer) is declarer
        assert declarer.component_configuration() == declarer.getComponentConfiguration() == conf

    @pytest.mark.parametrize(
        ("call", "resources"),
        [
            (lambda d: d.set_cpu_load(50), {"cpu.pcore.percent": 50}),
            (lambda d: d.setCPULoad(50), {"cpu.pcore.percent": 50}),
            (lambda d: d.set_memory_load(128.0), {"onheap.memory.mb": 128.0, "offheap.memory.mb": 0.0}),
            (lambda d: d.setMemoryLoad(128.0, 64.0), {"onheap.memory.mb": 128.0, "offheap.memory.mb": 64.0}),
            (lambda d: d.add_resource("gpu", 1.0), {"gpu": 1.0}),
            (lambda d: d.addResources({"gpu": 1.0}).addResource("gpu", 2.0), {"gpu": 2.0}),
        ],
    )
    def test_resources_are_kept(self, call, resources):
        declarer = SpoutDeclarer()
        assert call(declarer) is declarer
        assert declarer.resources == resources

    def test_component_configuration_returns_a_copy(self):
        declarer = SpoutDeclarer().set_debug(True)
        declarer.component_configuration().clear()
        assert declarer.component_configuration() == {"topology.debug": True}

    def test_a_spout_cannot_be_subscribed(self):
        assert not hasattr(SpoutDeclarer(), "shuffle_grouping")


class Chooser(CustomStreamGrouping):
    pass


CHOOSER = Chooser()
PLAIN = {
    "shuffle_grouping": ShuffleGrouping(),
    "local_or_shuffle_grouping": LocalOrShuffleGrouping(),
    "all_grouping": AllGrouping(),
    "global_grouping": GlobalGrouping(),
    "none_grouping": NoneGrouping(),
    "direct_grouping": DirectGrouping(),
}
JAVA = {
    "shuffle_grouping": "shuffleGrouping",
    "local_or_shuffle_grouping": "localOrShuffleGrouping",
    "all_grouping": "allGrouping",
    "global_grouping": "globalGrouping",
    "none_grouping": "noneGrouping",
    "direct_grouping": "directGrouping",
}
BY_FIELDS = {"fields_grouping": FieldsGrouping, "partial_key_grouping": PartialKeyGrouping}


def inputs(method, *args, **kwargs):
    declarer = BoltDeclarer()
    assert getattr(declarer, method)(*args, **kwargs) is declarer
    assert declarer.problems == []
    return declarer.inputs


class TestGroupings:
    @pytest.mark.parametrize("method", PLAIN)
    def test_groupings_subscribe_to_the_default_stream(self, method):
        assert inputs(method, "a") == {GlobalStreamId("a", "default"): PLAIN[method]}

    @pytest.mark.parametrize("method", PLAIN)
    def test_groupings_subscribe_to_a_named_stream(self, method):
        expected = {GlobalStreamId("a", "s"): PLAIN[method]}
        assert inputs(method, "a", "s") == inputs(method, "a", stream_id="s") == expected

    @pytest.mark.parametrize("method", PLAIN)
    def test_java_names(self, method):
        assert inputs(JAVA[method], "a", "s") == {GlobalStreamId("a", "s"): PLAIN[method]}

    @pytest.mark.parametrize("method", BY_FIELDS)
    @FORMS
    def test_fields_grouping_takes_the_default_stream(self, method, fields):
        assert inputs(method, "a", fields) == {GlobalStreamId("a"): BY_FIELDS[method](Fields("a", "b"))}

    @pytest.mark.parametrize("method", BY_FIELDS)
    @FORMS
    def test_fields_grouping_takes_stream_and_fields_in_either_order(self, method, fields):
        expected = {GlobalStreamId("a", "s"): BY_FIELDS[method](Fields("a", "b"))}
        assert inputs(method, "a", fields, "s") == expected
        assert inputs(method, "a", "s", fields) == expected
        assert inputs(method, "a", fields=fields, stream_id="s") == expected

    @pytest.mark.parametrize("method", BY_FIELDS)
    def test_one_name_is_one_field(self, method):
        assert inputs(method, "a", "word") == {GlobalStreamId("a"): BY_FIELDS[method](Fields("word"))}

    @pytest.mark.parametrize("method", BY_FIELDS)
    def test_of_two_names_the_first_is_the_field(self, method):
        assert inputs(method, "a", "word", "s") == {GlobalStreamId("a", "s"): BY_FIELDS[method](Fields("word"))}

    @pytest.mark.parametrize("method", BY_FIELDS)
    def test_fields_have_java_names(self, method):
        java = {"fields_grouping": "fieldsGrouping", "partial_key_grouping": "partialKeyGrouping"}[method]
        assert inputs(java, "a", "s", Fields("w")) == {GlobalStreamId("a", "s"): BY_FIELDS[method](Fields("w"))}

    def test_fields_grouping_without_fields_is_the_global_grouping(self):
        assert inputs("fields_grouping", "a", []) == {GlobalStreamId("a"): GlobalGrouping()}

    def test_a_partial_key_needs_no_fields(self):
        assert inputs("partial_key_grouping", "a") == {GlobalStreamId("a"): PartialKeyGrouping(Fields())}

    @pytest.mark.parametrize("method", ["custom_grouping", "customGrouping"])
    def test_custom_grouping_takes_its_arguments_in_either_order(self, method):
        expected = {GlobalStreamId("a", "s"): CustomGrouping(CHOOSER)}
        assert inputs(method, "a", CHOOSER, "s") == inputs(method, "a", "s", CHOOSER) == expected
        assert inputs(method, "a", CHOOSER) == {GlobalStreamId("a"): CustomGrouping(CHOOSER)}

    @pytest.mark.parametrize("stream", [GlobalStreamId("a", "s"), ("a", "s")])
    def test_grouping_takes_any_grouping_object(self, stream):
        assert inputs("grouping", stream, AllGrouping()) == {GlobalStreamId("a", "s"): AllGrouping()}

    def test_grouping_takes_the_default_stream(self):
        assert inputs("grouping", "split", AllGrouping()) == {GlobalStreamId("split"): AllGrouping()}

    def test_a_second_subscription_to_a_stream_replaces_the_first(self):
        declarer = BoltDeclarer().shuffle_grouping("a").fields_grouping("a", "word")
        assert declarer.inputs == {GlobalStreamId("a"): FieldsGrouping(Fields("word"))}

    def test_subscriptions_to_two_streams_of_a_component_are_two(self):
        declarer = BoltDeclarer().shuffle_grouping("a").all_grouping("a", "s").shuffle_grouping("b")
        assert declarer.inputs == {
            GlobalStreamId("a"): ShuffleGrouping(),
            GlobalStreamId("a", "s"): AllGrouping(),
            GlobalStreamId("b"): ShuffleGrouping(),
        }
