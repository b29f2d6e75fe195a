import copy
import enum
import json
import math
import pickle
import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystorm_spark.errors import InvalidConfigError
from pystorm_spark.topology.config import Config, class_name, component_conf, load_class, resolve, validate
from pystorm_spark.topology.config_keys import KEYS, Scope


class Consumer:
    class Inner:
        pass


CONSUMER = f"{__name__}:Consumer"


def refusal(conf) -> str:
    with pytest.raises(InvalidConfigError) as caught:
        validate(conf)
    return str(caught.value)


class TestTable:
    def test_every_default_is_a_value_that_its_key_takes(self):
        assert [key.name for key in KEYS.values() if not key.accepts(key.default)] == []

    def test_every_key_refuses_values_that_json_lacks(self):
        assert [key.name for key in KEYS.values() if key.accepts(object()) or key.accepts(math.nan)] == []

    def test_every_key_has_a_constant_of_its_own(self):
        assert len({key.constant for key in KEYS.values()}) == len(KEYS)

    def test_task_keys_are_those_that_storm_lets_a_component_override(self):
        assert {key.name for key in KEYS.values() if key.scope is Scope.TASK} == {
            "topology.debug",
            "topology.max.spout.pending",
            "topology.max.task.parallelism",
            "topology.transactional.id",
            "topology.tick.tuple.freq.secs",
            "topology.sleep.spout.wait.strategy.time.ms",
            "topology.spout.wait.strategy",
            "topology.bolts.window.length.count",
            "topology.bolts.window.length.duration.ms",
            "topology.bolts.window.sliding.interval.count",
            "topology.bolts.window.sliding.interval.duration.ms",
            "topology.bolts.tuple.timestamp.max.lag.ms",
            "topology.bolts.watermark.event.interval.ms",  # which has no effect in Storm
            "topology.bolts.message.id.field.name",
            "topology.bolts.late.tuple.stream",
            "topology.state.provider",
            "topology.state.provider.config",
        }

    @pytest.mark.parametrize(
        ("name", "default"),
        [
            ("topology.bolt.on.error", "fail"),
            ("topology.execute.timeout.secs", None),
            ("topology.fall.back.on.pickle", True),
            ("topology.fields.grouping.hash", "stable"),
            ("topology.message.timeout.secs", 30),
            ("topology.poison.deaths", 2),
            ("topology.slot.inbox.max.bytes", 67108864),
            ("topology.slot.max.restarts", 5),
            ("topology.state.guarantee", "at-least-once"),
        ],
    )
    def test_defaults_are_the_documented_ones(self, name, default):
        assert KEYS[name].default == default


class TestConstants:
    @pytest.mark.parametrize(
        ("constant", "key"),
        [
            ("TOPOLOGY_MAX_SPOUT_PENDING", "topology.max.spout.pending"),
            ("TOPOLOGY_MESSAGE_TIMEOUT_SECS", "topology.message.timeout.secs"),
            ("TOPOLOGY_TICK_TUPLE_FREQ_SECS", "topology.tick.tuple.freq.secs"),
            ("TOPOLOGY_WORKERS", "topology.workers"),
            ("TOPOLOGY_DEBUG", "topology.debug"),
            ("TOPOLOGY_AUTO_CREDENTIALS", "topology.auto-credentials"),
            ("TOPOLOGY_STATE_CHECKPOINT_INTERVAL", "topology.state.checkpoint.interval.ms"),
            ("TOPOLOGY_BOLTS_SLIDING_INTERVAL_COUNT", "topology.bolts.window.sliding.interval.count"),
            ("TOPOLOGY_BOLT_ON_ERROR", "topology.bolt.on.error"),
            ("DRPC_REQUEST_TIMEOUT_SECS", "drpc.request.timeout.secs"),
        ],
    )
    def test_config_has_storms_constants(self, constant, key):
        assert getattr(Config, constant) == key

    def test_a_misspelt_constant_is_an_attribute_error(self):
        with pytest.raises(AttributeError):
            Config.TOPOLOGY_DEBUGG  # noqa: B018


SETTERS = [
    ("set_debug", (True,), {"topology.debug": True}),
    ("set_num_workers", (3,), {"topology.workers": 3}),
    ("set_num_ackers", (0,), {"topology.acker.executors": 0}),
    ("set_num_event_loggers", (2,), {"topology.eventlogger.executors": 2}),
    ("set_message_timeout_secs", (2.5,), {"topology.message.timeout.secs": 2.5}),
    ("set_max_task_parallelism", (4,), {"topology.max.task.parallelism": 4}),
    ("set_max_spout_pending", (9,), {"topology.max.spout.pending": 9}),
    ("set_stats_sample_rate", (1.0,), {"topology.stats.sample.rate": 1.0}),
    ("register_serialization", (Consumer,), {"topology.kryo.register": [CONSUMER]}),
    ("register_serialization", ("a.B", "c.D"), {"topology.kryo.register": [{"a.B": "c.D"}]}),
    ("register_decorator", (Consumer,), {"topology.kryo.decorators": [CONSUMER]}),
    ("set_kryo_factory", (Consumer,), {"topology.kryo.factory": CONSUMER}),
    ("set_skip_missing_kryo_registrations", (True,), {"topology.skip.missing.kryo.registrations": True}),
    ("set_fall_back_on_java_serialization", (True,), {"topology.fall.back.on.java.serialization": True}),
    (
        "register_event_logger",
        (Consumer, {"a": 1}),
        {"topology.event.logger.register": [{"class": CONSUMER, "arguments": {"a": 1}}]},
    ),
    ("set_topology_version", ("1.2",), {"topology.version": "1.2"}),
    ("set_classpath", ("/a",), {"topology.classpath": "/a"}),
    ("set_environment", ({"A": "b"},), {"topology.environment": {"A": "b"}}),
    ("set_topology_worker_max_heap_size", (512,), {"topology.worker.max.heap.size.mb": 512}),
    ("set_topology_component_worker_constraints", ("a", "b"), {"topology.ras.constraints": [["a", "b"]]}),
    ("set_topology_constraints_max_state_search", (10,), {"topology.ras.constraint.max.state.search": 10}),
    ("set_topology_priority", (1,), {"topology.priority": 1}),
    ("set_topology_strategy", ("a.Strategy",), {"topology.scheduler.strategy": "a.Strategy"}),
]


class TestSetters:
    @pytest.mark.parametrize(("setter", "arguments", "expected"), SETTERS)
    def test_a_setter_writes_a_valid_value_under_storms_key(self, setter, arguments, expected):
        conf = Config()
        getattr(conf, setter)(*arguments)
        assert conf == expected
        assert resolve(conf) == {**resolve(None), **expected}

    @pytest.mark.parametrize(("setter", "arguments", "expected"), SETTERS)
    def test_a_setter_called_on_the_class_takes_any_dict(self, setter, arguments, expected):
        conf = {}
        getattr(Config, setter)(conf, *arguments)
        assert conf == expected

    def test_java_names_exist_on_instances_and_on_the_class(self):
        conf, other = Config(), {}
        conf.setNumWorkers(2)
        Config.setMaxSpoutPending(other, 5)
        assert (conf, other) == ({"topology.workers": 2}, {"topology.max.spout.pending": 5})

    def test_a_second_registration_is_added_and_leaves_a_shared_list_alone(self):
        first = Config()
        first.register_decorator("a.B")
        second = Config(first)
        second.register_decorator("c.D")
        assert first["topology.kryo.decorators"] == ["a.B"]
        assert second["topology.kryo.decorators"] == ["a.B", "c.D"]

    def test_a_config_is_a_dict_that_survives_pickle_and_json(self):
        conf = Config({"topology.debug": True})
        assert pickle.loads(pickle.dumps(conf)) == json.loads(json.dumps(conf)) == {"topology.debug": True}


class TestMetricsConsumers:
    @pytest.mark.parametrize(
        ("arguments", "argument", "hint"),
        [
            ((), None, 1),
            ((3,), None, 3),
            (({"port": 1},), {"port": 1}, 1),
            (("text", 2), "text", 2),
            ((7, 2), 7, 2),
            ((True,), True, 1),
        ],
    )
    def test_the_types_of_the_arguments_tell_their_order(self, arguments, argument, hint):
        conf = Config()
        conf.register_metrics_consumer(Consumer, *arguments)
        entry = {"class": CONSUMER, "argument": argument, "parallelism.hint": hint}
        assert resolve(conf)["topology.metrics.consumer.register"] == [entry]

    def test_a_consumer_may_be_given_by_name_and_keyword(self):
        conf = Config()
        conf.register_metrics_consumer("a.b.C", argument="x", parallelism_hint=2)
        assert conf["topology.metrics.consumer.register"] == [
            {"class": "a.b.C", "argument": "x", "parallelism.hint": 2}
        ]

    def test_a_class_defined_in_a_function_is_refused_with_a_remedy(self):
        class Local:
            pass

        with pytest.raises(InvalidConfigError, match=r"Local.*inside a function.*top level of a module"):
            Config().register_metrics_consumer(Local)

    def test_an_instance_is_refused(self):
        with pytest.raises(InvalidConfigError, match="is not a class"):
            Config().register_metrics_consumer(Consumer())

    @pytest.mark.parametrize("entry", ["a.B", {}, {"class": "a.B"}, {"class": "a.B", "parallelism.hint": 0}])
    def test_an_entry_written_by_hand_is_checked(self, entry):
        assert "'parallelism.hint'" in refusal({"topology.metrics.consumer.register": [entry]})


class TestLoadClass:
    @pytest.mark.parametrize("cls", [Consumer, Consumer.Inner, dict])
    def test_class_name_and_load_class_round_trip(self, cls):
        assert load_class(class_name(cls)) is cls

    def test_a_class_is_found_by_a_dotted_name(self):
        assert load_class("collections.OrderedDict") is __import__("collections").OrderedDict

    def test_a_class_of_the_main_module_is_found(self, monkeypatch):
        main = types.ModuleType("__main__")
        main.Mine = type("Mine", (), {"__module__": "__main__"})
        monkeypatch.setitem(sys.modules, "__main__", main)
        assert load_class(class_name(main.Mine)) is main.Mine

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("Consumer", "does not name a class"),
            (":Consumer", "does not name a class"),
            ("json:", "does not name a class"),
            ("no_such_module:Consumer", "importing 'no_such_module' raised ModuleNotFoundError"),
            ("json:JSONDecodr", "did you mean 'JSONDecoder'"),
            ("json:dumps", "not a class"),
            ("math:pi.real.deep", "no 'deep' there"),
        ],
    )
    def test_the_error_names_the_step_that_failed(self, name, reason):
        with pytest.raises(InvalidConfigError, match=reason) as caught:
            load_class(name)
        assert repr(name) in str(caught.value)

    def test_the_error_names_a_module_that_breaks_while_it_is_imported(self, tmp_path, monkeypatch):
        (tmp_path / "broken_consumer.py").write_text("raise RuntimeError('no licence')")
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(InvalidConfigError, match=r"'broken_consumer' raised RuntimeError.*no licence"):
            load_class("broken_consumer:Consumer")


class TestValidate:
    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("topology.workers", 1),
            ("topology.acker.executors", 0),
            ("topology.acker.executors", None),
            ("topology.eventlogger.executors", None),
            ("topology.message.timeout.secs", 0.5),
            ("topology.tick.tuple.freq.secs", 0.1),
            ("topology.tick.tuple.freq.secs", None),
            ("topology.stats.sample.rate", 1),
            ("topology.max.spout.pending", None),
            ("topology.bolt.on.error", "restart"),
            ("topology.fields.grouping.hash", "java"),
            ("topology.users", "one"),
            ("topology.users", ["one", "two"]),
            ("topology.users", ("one", "two")),
            ("topology.kryo.register", ["a.B", {"c.D": "e.F"}]),
            ("topology.ras.constraints", {"a": {"maxNodeCoLocationCnt": 2}}),
            ("topology.component.resources.map", {"gpu.count": 1.0}),
            ("drpc.http.port", 0),
        ],
    )
    def test_right_values_pass(self, key, value):
        validate({key: value})

    @pytest.mark.parametrize(
        ("key", "value", "expected"),
        [
            ("topology.workers", 0, "an int of at least 1"),
            ("topology.workers", True, "an int of at least 1"),
            ("topology.workers", 2.0, "an int of at least 1"),
            ("topology.workers", "2", "an int of at least 1"),
            ("topology.workers", 10**400, "an int of at least 1"),
            ("topology.acker.executors", -1, "an int of at least 0 or null"),
            ("topology.max.spout.pending", 0, "an int of at least 1 or null"),
            ("topology.message.timeout.secs", 0, "a number above 0"),
            ("topology.message.timeout.secs", -1, "a number above 0"),
            ("topology.message.timeout.secs", None, "a number above 0"),
            ("topology.message.timeout.secs", True, "a number above 0"),
            ("topology.message.timeout.secs", math.nan, "a number above 0"),
            ("topology.message.timeout.secs", math.inf, "a number above 0"),
            ("topology.tick.tuple.freq.secs", 0.0, "a number above 0 or null"),
            ("topology.stats.sample.rate", 0, "a number above 0 and at most 1"),
            ("topology.stats.sample.rate", 1.5, "a number above 0 and at most 1"),
            ("topology.debug", 1, "True or False"),
            ("topology.debug", None, "True or False"),
            ("topology.name", 5, "a string or null"),
            ("topology.bolt.on.error", "ignore", "one of 'fail', 'restart'"),
            ("topology.state.guarantee", "exactly once", "one of 'at-least-once', 'exactly-once'"),
            ("topology.auto.task.hooks", "a.Hook", "a list of strings or null"),
            ("topology.environment", {"A": 1}, "a mapping of strings to strings or null"),
            ("topology.environment", {1: "A"}, "a mapping of strings to strings or null"),
            ("topology.event.logger.register", [{"arguments": {}}], "a list of mappings with a string as 'class'"),
            ("topology.ras.constraints", ["a", "b"], "a list of lists of component ids"),
            ("drpc.port", 70000, "an int from 0 to 65535"),
        ],
    )
    def test_wrong_values_are_refused_with_key_value_and_valid_values(self, key, value, expected):
        message = refusal({key: value})
        assert key in message
        assert repr(value)[:10] in message
        assert f"must be {expected}" in message

    def test_keys_must_be_strings(self):
        assert refusal({3: "x"}) == "the configuration has the key 3 of type int, but keys must be strings"

    def test_a_configuration_must_be_a_mapping(self):
        assert "must be a mapping" in refusal([("topology.debug", True)])

    def test_pending_limit_without_timeouts_is_refused(self):
        message = refusal({"topology.enable.message.timeouts": False, "topology.max.spout.pending": 10})
        assert "topology.max.spout.pending is 10" in message
        assert "stall its spout for ever" in message

    def test_exactly_once_without_acking_is_refused(self):
        message = refusal({"topology.state.guarantee": "exactly-once", "topology.acker.executors": 0})
        assert "topology.acker.executors is 0: without acking failed tuples are not noticed" in message

    def test_exactly_once_without_timeouts_is_refused(self):
        message = refusal({"topology.state.guarantee": "exactly-once", "topology.enable.message.timeouts": False})
        assert "'exactly-once' while topology.enable.message.timeouts is False" in message
        assert "set topology.message.timeout.secs to more than any tuple takes" in message

    def test_no_timeouts_without_a_pending_limit_pass(self):
        validate({"topology.enable.message.timeouts": False, "topology.max.spout.pending": None})

    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            ([1, 2, {"x": {1}}], "my.key[2].x is {1} of type set"),
            (b"bytes", "my.key is b'bytes' of type bytes"),
            ({"a": [math.nan]}, "my.key.a[0] is nan"),
            (-math.inf, "my.key is -inf"),
            ([{7: "x"}], "my.key[0] has the key 7 of type int"),
            (Consumer, "of type type"),
        ],
    )
    def test_a_value_that_json_lacks_is_refused_with_its_path(self, value, reason):
        assert reason in refusal({"my.key": value})

    def test_a_value_that_contains_itself_is_refused(self):
        circle: list[object] = []
        circle.append(circle)
        assert "my.key[0]" in refusal({"my.key": circle})

    def test_a_near_miss_of_a_known_key_is_kept_with_a_warning(self, caplog):
        assert resolve({"topology.max.spout.pendin": 5})["topology.max.spout.pendin"] == 5
        assert "did you mean 'topology.max.spout.pending'?" in caplog.text
        assert caplog.records[0].name == "pystorm_spark.topology.config"

    def test_an_unknown_key_is_kept_without_a_warning(self, caplog):
        assert resolve({"topology.of.mine": [1], "my.key": None}).items() >= {"my.key": None}.items()
        assert not caplog.records

    def test_a_key_from_an_enum_is_checked_like_its_plain_name(self):
        key = enum.Enum("Name", {"workers": "topology.workers"}, type=str)
        assert "topology.workers is 0" in refusal({key.workers: 0})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
known_values = {
    "topology.workers": st.integers(1, 9),
    "topology.message.timeout.secs": st.floats(0.1, 1e6),
    "topology.users": st.lists(st.text(), max_size=3).map(tuple) | st.text(),
    "topology.environment": st.dictionaries(st.text(), st.text(), max_size=3),
}
confs = st.builds(
    lambda custom, known: {**custom, **known},
    st.dictionaries(st.text().map("my.{}".format), json_values, max_size=4),
    st.fixed_dictionaries({}, optional=known_values),
)


class TestResolve:
    def test_resolve_fills_in_defaults_and_keeps_the_users_values(self):
        resolved = resolve({"topology.debug": True, "my.key": 1})
        assert resolved.keys() == KEYS.keys() | {"my.key"}
        assert (resolved["topology.debug"], resolved["topology.message.timeout.secs"]) == (True, 30)

    def test_an_empty_configuration_resolves_to_the_defaults(self):
        assert resolve(None) == resolve({}) == {key.name: key.default for key in KEYS.values()}

    def test_resolve_takes_any_mapping_and_returns_a_plain_dict(self):
        resolved = resolve(types.MappingProxyType({"my.key": types.MappingProxyType({"a": (1, 2)})}))
        assert type(resolved) is dict
        assert resolved["my.key"] == {"a": [1, 2]}

    def test_later_changes_by_the_user_have_no_effect(self):
        conf = {"my.key": {"a": [1]}}
        resolved = resolve(conf)
        conf["my.key"]["a"].append(2)
        assert resolved["my.key"] == {"a": [1]}

    def test_an_instance_of_a_subclass_becomes_a_plain_value(self):
        level = enum.IntEnum("Level", {"HIGH": 3})
        value = resolve({"my.key": level.HIGH})["my.key"]
        assert (value, type(value)) == (3, int)

    @given(confs)
    def test_resolve_keeps_its_input_is_idempotent_and_gives_json(self, conf):
        before = copy.deepcopy(conf)
        resolved = resolve(conf)
        assert conf == before
        assert resolve(resolved) == resolved == json.loads(json.dumps(resolved, allow_nan=False))


class TestComponentConf:
    def test_a_component_may_override_the_keys_that_storm_allows(self):
        conf = component_conf(resolve({"topology.debug": False}), {"topology.debug": True}, "count")
        assert conf["topology.debug"] is True

    def test_custom_keys_pass_through(self, caplog):
        conf = component_conf(resolve({"my.key": 1}), {"my.key": 2, "its.key": [3]}, "count")
        assert (conf["my.key"], conf["its.key"]) == (2, [3])
        assert not caplog.records

    def test_other_known_keys_are_ignored_with_a_warning(self, caplog):
        conf = component_conf(resolve(None), {"topology.message.timeout.secs": 5}, "count")
        assert conf["topology.message.timeout.secs"] == 30
        assert "component 'count': topology.message.timeout.secs is ignored" in caplog.text

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("topology.tasks", 4),
            ("topology.component.resources.onheap.memory.mb", 256),
            ("topology.component.resources.offheap.memory.mb", 1),
            ("topology.component.cpu.pcore.percent", 50.0),
            ("topology.component.resources.map", {"gpu.count": 1}),
        ],
    )
    def test_keys_that_the_plan_reads_give_no_warning(self, key, value, caplog):
        conf = component_conf(resolve(None), {key: value}, "count")
        assert conf == resolve(None)
        assert not caplog.records

    def test_a_wrong_value_is_refused_with_the_component_named(self):
        with pytest.raises(InvalidConfigError, match=r"component 'count': topology\.tasks is -1, but must be"):
            component_conf(resolve(None), {"topology.tasks": -1}, "count")

    def test_a_value_that_json_lacks_is_refused_with_the_component_named(self):
        with pytest.raises(InvalidConfigError, match=r"component 'count': my\.key\[0\] is"):
            component_conf(resolve(None), {"my.key": [{1}]}, "count")

    def test_a_pending_limit_of_its_own_without_timeouts_is_refused(self):
        conf = resolve({"topology.enable.message.timeouts": False})
        with pytest.raises(InvalidConfigError, match=r"component 'words': topology\.max\.spout\.pending is 5 while"):
            component_conf(conf, {"topology.max.spout.pending": 5}, "words")

    def test_a_warning_of_a_near_miss_names_the_component(self, caplog):
        component_conf(resolve(None), {"topology.debg": True}, "count")
        assert "component 'count': the key 'topology.debg' is unknown" in caplog.text

    def test_components_do_not_share_values(self):
        topology_conf = resolve({"my.key": {"a": [1]}})
        component_conf(topology_conf, None, "one")["my.key"]["a"].append(2)
        assert component_conf(topology_conf, None, "two")["my.key"] == {"a": [1]}

    def test_a_component_without_configuration_has_that_of_the_topology(self):
        topology_conf = resolve({"my.key": 1})
        assert component_conf(topology_conf, None, "count") == topology_conf
