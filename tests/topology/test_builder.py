import logging

import pytest

from pystorm_spark import (
    BasicBolt,
    Bolt,
    CustomStreamGrouping,
    Fields,
    GlobalStreamId,
    InvalidTopologyError,
    LambdaBolt,
    LambdaSpout,
    Spout,
    Stream,
    TickAwareBolt,
    TopologyBuilder,
    WorkerHook,
)
from pystorm_spark.topology.grouping import FieldsGrouping, ShuffleGrouping


class Words(Spout):
    outputs = {"default": ["word", "length"], "errors": ["error"]}


class Count(Bolt):
    outputs = ["word", "count"]


class Print(BasicBolt):
    pass


class Chooser(CustomStreamGrouping):
    def choose_tasks(self, task_id, values):
        return []


class Hook(WorkerHook):
    pass


class JavaHook:
    def start(self, conf):
        pass

    def shutdown(self):
        pass


def make(*calls, spout=True):
    """Make a builder with a spout "words" unless `spout` is false, and apply `calls` to it."""
    builder = TopologyBuilder()
    if spout:
        builder.set_spout("words", Words())
    for call in calls:
        call(builder)
    return builder


def refusal(*calls, spout=True):
    """Return the lines of the error that `create_topology` raises; the calls before it must not raise."""
    builder = make(*calls, spout=spout)
    with pytest.raises(InvalidTopologyError) as caught:
        builder.create_topology()
    return str(caught.value).splitlines()


def component(*calls):
    """Return the component "count" of a valid topology."""
    return make(*calls).create_topology().components["count"]


class TestTopology:
    def test_a_spout_alone_is_a_topology(self):
        assert list(make().create_topology().components) == ["words"]

    def test_builder_answers_to_java_names(self):
        builder = TopologyBuilder()
        builder.setSpout("words", Words(), 2).setNumTasks(4)
        builder.setBolt("count", Count(), 3).fieldsGrouping("words", "default", Fields("word"))
        builder.addWorkerHook(Hook())
        topology = builder.createTopology()
        assert [spec.parallelism for spec in topology.components.values()] == [2, 3]
        assert topology.components["count"].inputs == {GlobalStreamId("words"): FieldsGrouping(Fields("word"))}

    def test_a_bolt_may_be_declared_before_its_source(self):
        builder = make(spout=False)
        builder.set_bolt("count", Count()).shuffle_grouping("words")
        builder.set_spout("words", Words())
        assert list(builder.create_topology().components) == ["count", "words"]

    def test_a_topology_can_be_created_again(self):
        builder = make(lambda b: b.set_bolt("count", Count()).shuffle_grouping("words"))
        assert builder.create_topology().describe() == builder.create_topology().describe()

    def test_a_second_subscription_replaces_the_first(self):
        spec = component(lambda b: b.set_bolt("count", Count()).all_grouping("words").shuffle_grouping("words"))
        assert spec.inputs == {GlobalStreamId("words"): ShuffleGrouping()}

    def test_one_instance_may_be_two_components(self):
        bolt = Count()
        topology = make(
            lambda b: b.set_bolt("a", bolt).shuffle_grouping("words"),
            lambda b: b.set_bolt("b", bolt).shuffle_grouping("a"),
        ).create_topology()
        assert topology.components["a"].component is topology.components["b"].component

    def test_a_basic_bolt_is_wrapped_for_the_engine(self):
        bolt = Print()
        assert component(lambda b: b.set_bolt("count", bolt).shuffle_grouping("words")).component.wrapped is bolt

    def test_building_a_topology_runs_nothing(self):
        class Loud(Spout):
            def open(self, conf, context, collector):
                raise AssertionError("opened")

        assert make(lambda b: b.set_spout("loud", Loud())).create_topology().spouts.keys() == {"words", "loud"}


class TestParallelism:
    @pytest.mark.parametrize(("parallelism", "expected"), [(None, 1), (1, 1), (12, 12), (10_000, 10_000)])
    def test_parallelism_is_a_whole_number_above_zero(self, parallelism, expected):
        spec = component(lambda b: b.set_bolt("count", Count(), parallelism).shuffle_grouping("words"))
        assert spec.parallelism == expected

    @pytest.mark.parametrize("parallelism", [0, -1, 1.5, 2.0, 10_001, 10**6, 1e6, True, "2", float("nan"), [2]])
    def test_any_other_parallelism_is_refused(self, parallelism):
        [line] = refusal(lambda b: b.set_bolt("count", Count(), parallelism).shuffle_grouping("words"))
        assert line == f"the parallelism of 'count' must be a whole number from 1 to 10000, got {parallelism!r}"

    def test_parallelism_of_a_spout_is_checked_too(self):
        [line] = refusal(lambda b: b.set_spout("more", Words(), 0))
        assert line.startswith("the parallelism of 'more' must be a whole number")

    @pytest.mark.parametrize("count", [0, -1, 1.5, 10_001, "4"])
    def test_number_of_tasks_is_checked_too(self, count):
        [line] = refusal(lambda b: b.set_bolt("count", Count()).shuffle_grouping("words").set_num_tasks(count))
        assert line == f"the number of tasks of 'count' must be a whole number from 1 to 10000, got {count!r}"

    def test_limit_of_tasks_is_checked_too(self):
        [line] = refusal(lambda b: b.set_spout("more", Words()).set_max_task_parallelism(0))
        assert line.startswith("the maximum of tasks of 'more' must be a whole number")

    def test_a_number_of_tasks_in_the_components_own_configuration_is_checked(self):
        class Greedy(Count):
            def component_configuration(self):
                return {"topology.tasks": -3}

        [line] = refusal(lambda b: b.set_bolt("greedy", Greedy()).shuffle_grouping("words"))
        assert line == "the number of tasks of 'greedy' must be a whole number from 1 to 10000, got -3"

    def test_fewer_tasks_than_executors_are_accepted(self):
        spec = component(lambda b: b.set_bolt("count", Count(), 8).shuffle_grouping("words").set_num_tasks(2))
        assert (spec.parallelism, spec.conf) == (8, {"topology.tasks": 2})

    def test_the_number_of_tasks_may_be_unset(self):
        spec = component(lambda b: b.set_bolt("count", Count(), 8).shuffle_grouping("words").set_num_tasks(None))
        assert spec.conf == {"topology.tasks": None}


class TestIds:
    @pytest.mark.parametrize("id_", ["", None, 3, b"count", ["count"]])
    def test_an_id_that_is_not_a_string_is_refused(self, id_):
        [line] = refusal(lambda b: b.set_bolt(id_, Count()).shuffle_grouping("words"))
        assert line == f"a component id must be a non-empty string, got {id_!r}"

    def test_a_spout_without_an_id_is_still_a_spout(self):
        assert refusal(lambda b: b.set_spout(None, Words()), spout=False) == [
            "a component id must be a non-empty string, got None"
        ]

    @pytest.mark.parametrize("id_", ["__acker", "__", "__mine"])
    def test_ids_of_the_system_are_refused(self, id_):
        [line] = refusal(lambda b: b.set_bolt(id_, Count()).shuffle_grouping("words"))
        assert line == f"component id {id_!r} is reserved: ids that start with '__' belong to the system"

    def test_one_underscore_is_allowed(self):
        assert "_count" in make(lambda b: b.set_spout("_count", Words())).create_topology().components

    @pytest.mark.parametrize(
        ("calls", "kind"),
        [
            ([lambda b: b.set_spout("x", Words()), lambda b: b.set_spout("x", Words())], "spout"),
            ([lambda b: b.set_spout("x", Words()), lambda b: b.set_bolt("x", Count())], "spout"),
            ([lambda b: b.set_bolt("x", Count()).all_grouping("words"), lambda b: b.set_spout("x", Words())], "bolt"),
        ],
    )
    def test_an_id_names_one_component(self, calls, kind):
        assert refusal(*calls) == [f"{kind} 'x' is already declared; component ids must differ"]

    def test_a_spout_with_the_id_of_a_bolt_is_not_reported_as_missing(self):
        calls = [lambda b: b.set_bolt("x", Count()).all_grouping("x"), lambda b: b.set_spout("x", Words())]
        assert refusal(*calls, spout=False) == ["bolt 'x' is already declared; component ids must differ"]


class TestComponents:
    @pytest.mark.parametrize("cls", [Count, Print, TickAwareBolt])
    def test_a_bolt_class_is_refused(self, cls):
        [line] = refusal(lambda b: b.set_bolt("count", cls).shuffle_grouping("words"))
        assert line == f"'count' is the class {cls.__name__}; give an instance: {cls.__name__}()"

    def test_a_spout_class_is_refused(self):
        assert refusal(lambda b: b.set_spout("more", Words)) == ["'more' is the class Words; give an instance: Words()"]

    @pytest.mark.parametrize("wrong", [None, 3, "Count", dict])
    def test_an_object_that_is_not_a_bolt_is_refused(self, wrong):
        [line] = refusal(lambda b: b.set_bolt("count", wrong).shuffle_grouping("words"))
        assert line.startswith("'count' must be an instance of Bolt, got ")

    def test_a_bolt_is_refused_as_a_spout(self):
        [line] = refusal(lambda b: b.set_spout("more", Count()))
        assert line.startswith("'more' must be an instance of Spout, got ")
        assert line.endswith(" of type Count")

    def test_a_spout_is_refused_as_a_bolt(self):
        [line] = refusal(lambda b: b.set_bolt("more", Words()).shuffle_grouping("words"))
        assert line.endswith(" of type Words")

    def test_a_topology_without_a_spout_is_refused(self):
        assert refusal(spout=False) == ["a topology needs at least one spout; add one with set_spout"]

    def test_a_cycle_of_bolts_without_a_spout_is_refused(self):
        lines = refusal(lambda b: b.set_bolt("a", Count()).shuffle_grouping("a"), spout=False)
        assert lines == ["a topology needs at least one spout; add one with set_spout"]

    def test_a_bolt_without_inputs_is_refused(self):
        assert refusal(lambda b: b.set_bolt("count", Count())) == [
            "bolt 'count' has no inputs; subscribe it, for example with .shuffle_grouping(component_id)"
        ]

    def test_a_spout_cannot_have_inputs(self):
        with pytest.raises(AttributeError, match=r"SpoutDeclarer.*shuffle_grouping"):
            TopologyBuilder().set_spout("words", Words()).shuffle_grouping("words")


def with_outputs(outputs, cls=Count):
    bolt = cls()
    bolt.outputs = outputs
    return lambda b: b.set_bolt("count", bolt).shuffle_grouping("words")


class TestOutputs:
    def test_outputs_are_those_that_the_component_declares(self):
        assert component(with_outputs(["a"])).outputs == {"default": Stream(["a"])}

    def test_a_duplicate_field_names_the_component(self):
        assert refusal(with_outputs(["a", "a"])) == [
            "declare_output_fields of 'count': duplicate field 'a' in ['a', 'a']; field names must differ"
        ]

    def test_a_stream_declared_twice_names_the_component(self):
        class Twice(Count):
            def declare_output_fields(self, declarer):
                declarer.declare(["a"])
                declarer.declare(["b"])

        [line] = refusal(lambda b: b.set_bolt("twice", Twice()).shuffle_grouping("words"))
        assert line.startswith("declare_output_fields of 'twice': fields for stream 'default' are already set to ")

    @pytest.mark.parametrize("outputs", [5, [5], {"default": [None]}, {3: ["a"]}, {"": ["a"]}])
    def test_an_invalid_name_names_the_component(self, outputs):
        [line] = refusal(with_outputs(outputs))
        assert line.startswith("declare_output_fields of 'count': a ")

    def test_an_exception_in_declare_output_fields_names_the_component(self):
        class Broken(Count):
            def declareOutputFields(self, declarer):
                raise ValueError("no idea")

        assert refusal(lambda b: b.set_bolt("broken", Broken()).shuffle_grouping("words")) == [
            "declare_output_fields of 'broken' raised ValueError: no idea"
        ]

    def test_streams_of_the_system_are_refused(self):
        assert refusal(with_outputs({"__tick": ["a"]})) == [
            "stream '__tick' of 'count' is reserved: ids that start with '__' belong to the system"
        ]


class TestOwnConfiguration:
    def configured(self, conf, cls=Count):
        class Configured(cls):
            def component_configuration(self):
                return conf

        return lambda b: b.set_bolt("count", Configured()).shuffle_grouping("words").set_debug(True)

    def test_configuration_of_the_declarer_overrides_the_components_own(self):
        spec = component(self.configured({"topology.debug": False, "mine": 1}))
        assert spec.conf == {"topology.debug": True, "mine": 1}

    def test_own_configuration_may_be_none(self):
        assert component(self.configured(None)).conf == {"topology.debug": True}

    def test_own_configuration_of_a_wrapped_bolt_is_read(self):
        assert component(self.configured({"mine": 1}, Print)).conf["mine"] == 1

    @pytest.mark.parametrize("wrong", [[1], "debug", 3, []])
    def test_a_configuration_that_is_not_a_mapping_names_the_component(self, wrong):
        assert refusal(self.configured(wrong)) == [
            f"component_configuration of 'count' must give a mapping or None, got {wrong!r}"
        ]

    def test_an_exception_in_component_configuration_names_the_component(self):
        class Broken(Count):
            def getComponentConfiguration(self):
                raise KeyError("debug")

        assert refusal(lambda b: b.set_bolt("broken", Broken()).shuffle_grouping("words")) == [
            "component_configuration of 'broken' raised KeyError: 'debug'"
        ]


class TestSubscriptions:
    def test_an_unknown_component_names_both_ends_and_the_nearest(self):
        assert refusal(lambda b: b.set_bolt("count", Count()).shuffle_grouping("word")) == [
            "bolt 'count' subscribes to component 'word', which does not exist; "
            "did you mean 'words'? known: count, words"
        ]

    def test_an_unknown_stream_names_both_ends_and_the_nearest(self):
        assert refusal(lambda b: b.set_bolt("count", Count()).shuffle_grouping("words", "error")) == [
            "bolt 'count' subscribes to stream 'error' of 'words', which is not declared; "
            "did you mean 'errors'? known: default, errors"
        ]

    def test_a_component_without_outputs_has_no_stream(self):
        lines = refusal(
            lambda b: b.set_bolt("print", Print()).shuffle_grouping("words"),
            lambda b: b.set_bolt("count", Count()).shuffle_grouping("print"),
        )
        assert lines == ["bolt 'count' subscribes to stream 'default' of 'print', which is not declared; there is none"]

    @pytest.mark.parametrize("grouping", ["fields_grouping", "partial_key_grouping"])
    def test_an_unknown_field_names_both_ends_and_the_nearest(self, grouping):
        assert refusal(lambda b: getattr(b.set_bolt("count", Count()), grouping)("words", ["word", "lenght"])) == [
            "bolt 'count' groups on field 'lenght', but stream 'default' of 'words' declares ['word', 'length']; "
            "did you mean 'length'? known: length, word"
        ]

    def test_a_field_of_another_stream_is_refused(self):
        [line] = refusal(lambda b: b.set_bolt("count", Count()).fields_grouping("words", "error"))
        assert line.startswith("bolt 'count' groups on field 'error', but stream 'default' of 'words' declares")

    @pytest.mark.parametrize("grouping", ["fields_grouping", "partial_key_grouping"])
    def test_grouping_fields_of_a_wrong_type_name_the_bolt(self, grouping):
        assert refusal(lambda b: getattr(b.set_bolt("count", Count()), grouping)("words", ["word", "word"])) == [
            "bolt 'count' groups 'words' on fields, but duplicate field 'word' in ['word', 'word']; "
            "field names must differ"
        ]

    @pytest.mark.parametrize("fields", [5, None, [5]])
    def test_a_grouping_field_that_is_not_a_string_is_refused(self, fields):
        [line] = refusal(lambda b: b.set_bolt("count", Count()).fields_grouping("words", fields))
        assert line.startswith("bolt 'count' groups 'words' on fields, but a field name must be a string, got ")

    @pytest.mark.parametrize("source", [None, 3, Words])
    def test_an_invalid_component_id_does_not_exist(self, source):
        [line] = refusal(lambda b: b.set_bolt("count", Count()).shuffle_grouping(source))
        assert line.startswith(f"bolt 'count' subscribes to component {source!r}, which does not exist")

    def test_an_unhashable_component_id_does_not_exist(self):
        [line, _] = refusal(lambda b: b.set_bolt("count", Count()).shuffle_grouping(["words"]))
        assert line.startswith("bolt 'count' subscribes to GlobalStreamId(component=['words'], stream='default');")

    @pytest.mark.parametrize("chooser", [Chooser, None, 3, len, object()])
    def test_a_custom_grouping_must_be_able_to_choose(self, chooser):
        [line] = refusal(lambda b: b.set_bolt("count", Count()).custom_grouping("words", chooser))
        assert line == (
            "the custom grouping of bolt 'count' must be an instance of CustomStreamGrouping, or have its prepare "
            f"and choose_tasks, got {chooser!r}"
        )

    def test_a_custom_grouping_may_be_any_object_with_its_methods(self):
        class Ported:
            def prepare(self, context, stream, targets):
                pass

            def chooseTasks(self, task_id, values):
                return []

        ported = Ported()
        spec = component(lambda b: b.set_bolt("count", Count()).custom_grouping("words", ported))
        assert spec.inputs[GlobalStreamId("words")].chooser is ported

    def test_an_object_that_is_not_a_grouping_is_refused(self):
        assert refusal(lambda b: b.set_bolt("count", Count()).grouping(GlobalStreamId("words"), "shuffle")) == [
            "bolt 'count' subscribes to 'words' by 'shuffle', which is no grouping"
        ]


class TestSeveralErrors:
    def test_all_errors_are_reported_at_once(self):
        lines = refusal(
            lambda b: b.set_bolt("__a", Count()).shuffle_grouping("words"),
            lambda b: b.set_bolt("b", Count).shuffle_grouping("words"),
            lambda b: b.set_bolt("c", Count(), 0).shuffle_grouping("words"),
            lambda b: b.set_bolt("d", Count()),
            lambda b: b.set_bolt("e", Count()).shuffle_grouping("wrods").fields_grouping("words", "x"),
        )
        assert [line.split(";")[0] for line in lines] == [
            "component id '__a' is reserved: ids that start with '__' belong to the system",
            "'b' is the class Count",
            "the parallelism of 'c' must be a whole number from 1 to 10000, got 0",
            "bolt 'd' has no inputs",
            "bolt 'e' subscribes to component 'wrods', which does not exist",
            "bolt 'e' groups on field 'x', but stream 'default' of 'words' declares ['word', 'length']",
        ]

    def test_an_error_that_follows_from_another_one_is_not_reported(self):
        lines = refusal(
            lambda b: b.set_spout("numbers", Words),
            lambda b: b.set_bolt("count", Count()).fields_grouping("numbers", "number"),
            spout=False,
        )
        assert lines == ["'numbers' is the class Words; give an instance: Words()"]


class TestFunctions:
    def function_bolt(self, *args):
        return component(lambda b: b.set_bolt("count", *args).shuffle_grouping("words"))

    def test_a_function_becomes_a_spout(self):
        builder = TopologyBuilder()
        builder.set_spout("numbers", lambda: 1, 3)
        spec = builder.create_topology().components["numbers"]
        assert (type(spec.component), spec.parallelism) == (LambdaSpout, 3)
        assert spec.outputs == {"default": Stream(["lambda"])}

    def test_a_function_becomes_a_bolt(self):
        spec = self.function_bolt(print, 2)
        assert (type(spec.component.wrapped), spec.parallelism, spec.outputs) == (LambdaBolt, 2, {})

    @pytest.mark.parametrize("fields", [("a", "b"), (["a", "b"],), (Fields("a", "b"),)])
    def test_its_output_fields_follow_the_parallelism(self, fields):
        spec = self.function_bolt(lambda tup, collector: None, 2, *fields)
        assert (spec.parallelism, spec.outputs) == (2, {"default": Stream(["a", "b"])})

    @pytest.mark.parametrize("fields", [("a", "b"), (["a", "b"],), (Fields("a", "b"),)])
    def test_the_parallelism_may_be_left_out(self, fields):
        spec = self.function_bolt(lambda tup, collector: None, *fields)
        assert (spec.parallelism, spec.outputs) == (1, {"default": Stream(["a", "b"])})

    def test_any_callable_becomes_a_bolt(self):
        class Adder:
            def __call__(self, tup):
                pass

        assert isinstance(self.function_bolt(Adder()).component.wrapped, LambdaBolt)

    @pytest.mark.parametrize("function", [lambda: 1, lambda a, b, c: 1, lambda a, *, key: 1])
    def test_a_function_of_other_arguments_is_refused(self, function):
        assert refusal(lambda b: b.set_bolt("count", function).shuffle_grouping("words")) == [
            f"the function of bolt 'count' must take (tup) or (tup, collector), got {function!r}"
        ]

    def test_a_supplier_with_arguments_is_refused(self):
        function = len
        assert refusal(lambda b: b.set_spout("numbers", function)) == [
            f"the function of spout 'numbers' must take no argument, got {function!r}"
        ]

    def test_a_bolt_declares_its_own_fields(self):
        assert refusal(lambda b: b.set_bolt("count", Count(), 2, "word").shuffle_grouping("words")) == [
            "bolt 'count' declares its own output fields; set_bolt cannot give it ['word']"
        ]


class TestWorkerHooks:
    @pytest.mark.parametrize("hook", [Hook(), JavaHook()])
    def test_worker_hooks_keep_their_order(self, hook):
        first = Hook()
        topology = make(lambda b: b.add_worker_hook(first), lambda b: b.add_worker_hook(hook)).create_topology()
        assert topology.worker_hooks == (first, hook)

    @pytest.mark.parametrize("wrong", [None, Hook, 3])
    def test_an_object_that_is_not_a_worker_hook_is_refused(self, wrong):
        assert refusal(lambda b: b.add_worker_hook(wrong)) == [
            f"a worker hook must be an object with start(conf) and shutdown(), got {wrong!r}"
        ]


class TestCycles:
    def test_a_cycle_is_accepted_with_a_warning(self, caplog):
        builder = make(
            lambda b: b.set_bolt("a", Count()).shuffle_grouping("words").shuffle_grouping("b"),
            lambda b: b.set_bolt("b", Count()).shuffle_grouping("a"),
        )
        with caplog.at_level(logging.WARNING):
            topology = builder.create_topology()
        assert list(topology.bolts) == ["a", "b"]
        [message] = caplog.messages
        assert message.startswith("the topology has a cycle: ")
        assert set(message.removeprefix("the topology has a cycle: ").split(";")[0].split(" → ")) == {"a", "b"}

    def test_a_bolt_may_read_itself(self, caplog):
        make(lambda b: b.set_bolt("a", Count()).shuffle_grouping("words").all_grouping("a")).create_topology()
        assert [message.split(";")[0] for message in caplog.messages] == ["the topology has a cycle: a → a"]

    def test_a_diamond_is_not_taken_for_a_cycle(self, caplog):
        make(
            lambda b: b.set_bolt("a", Count()).shuffle_grouping("words"),
            lambda b: b.set_bolt("b", Count()).shuffle_grouping("words"),
            lambda b: b.set_bolt("c", Count()).shuffle_grouping("a").shuffle_grouping("b"),
        ).create_topology()
        assert caplog.messages == []
