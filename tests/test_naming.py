from dataclasses import dataclass
from typing import NamedTuple

import pytest

from pystorm_spark.naming import camel_case, getter_name, java_names, link_spellings


@pytest.mark.parametrize(
    ("python", "java", "getter"),
    [
        ("emit", "emit", "getEmit"),
        ("set_bolt", "setBolt", "getSetBolt"),
        ("this_task_id", "thisTaskId", "getThisTaskId"),
        ("get_string_by_field", "getStringByField", "getGetStringByField"),
        ("add_v2", "addV2", "getAddV2"),
    ],
)
def test_names_are_turned_to_camel_case(python, java, getter):
    assert (camel_case(python), getter_name(python)) == (java, getter)


@java_names(getters=["kind", "pid"], setCPULoad="set_cpu_load")
class Machine:
    def __init__(self):
        self.pid = 7
        self.load = 0.0

    @property
    def host_name(self):
        return "storm"

    def kind(self):
        return "big"

    def set_cpu_load(self, load):
        self.load = load
        return self

    @classmethod
    def make_one(cls):
        return cls()

    @staticmethod
    def add_up(a, b):
        return a + b

    def _turn_on(self):
        return "on"


class TestAliases:
    def test_a_method_has_its_camel_case_name(self):
        assert Machine().setCpuLoad(2).load == 2

    def test_a_name_that_follows_no_rule_is_given(self):
        assert Machine().setCPULoad(3).load == 3

    def test_a_property_has_a_getter(self):
        assert Machine().getHostName() == "storm"

    def test_a_getter_says_what_it_stands_for(self):
        assert (Machine.getHostName.__name__, Machine.getHostName.__doc__) == (
            "getHostName",
            "Java's name for `host_name`.",
        )

    def test_a_method_named_as_getter_has_one(self):
        assert Machine().getKind() == "big"

    def test_an_attribute_named_as_getter_has_one(self):
        assert Machine().getPid() == 7

    def test_class_methods_and_static_methods_have_their_names(self):
        assert isinstance(Machine.makeOne(), Machine)
        assert Machine.addUp(1, 2) == 3

    def test_private_names_have_none(self):
        assert not [name for name in vars(Machine) if name.startswith(("turnOn", "_turnOn", "getTurn"))]

    def test_a_name_that_the_class_defines_itself_is_kept(self):
        @java_names()
        class Clock:
            def set_time(self):
                return "python"

            def setTime(self):
                return "java"

        assert (Clock().set_time(), Clock().setTime()) == ("python", "java")

    def test_a_slot_has_a_getter(self):
        @java_names()
        class Point:
            __slots__ = ("left_edge",)

        point = Point()
        point.left_edge = 4
        assert point.getLeftEdge() == 4

    def test_a_field_of_a_named_tuple_has_a_getter(self):
        @java_names()
        class Address(NamedTuple):
            host_name: str

        assert Address("storm").getHostName() == "storm"


class TestDataclass:
    @pytest.fixture(params=[False, True], ids=["dict", "slots"])
    def info(self, request):
        @java_names()
        @dataclass(frozen=True, slots=request.param)
        class Info:
            time: float
            task_id: int = 3

        return Info(1.5)

    def test_a_field_has_a_getter(self, info):
        assert (info.getTime(), info.getTaskId()) == (1.5, 3)

    def test_a_field_is_readable_under_its_java_name(self, info):
        assert info.taskId == 3

    def test_a_field_of_one_word_stays_a_field(self, info):
        assert info.time == 1.5


class TestSubclasses:
    def test_an_override_under_the_python_name_is_what_the_alias_calls(self):
        class Fast(Machine):
            def set_cpu_load(self, load):
                return "fast"

        assert (Fast().setCPULoad(1), Fast().setCpuLoad(1)) == ("fast", "fast")

    def test_an_override_under_the_java_name_is_what_the_python_name_calls(self):
        class Fast(Machine):
            def setCPULoad(self, load):
                return "fast"

        assert Fast().set_cpu_load(1) == "fast"

    def test_a_getter_reads_an_overridden_property(self):
        class Named(Machine):
            host_name = "named"

        assert Named().getHostName() == "named"

    def test_an_override_further_down_wins(self):
        class Fast(Machine):
            def set_cpu_load(self, load):
                return "fast"

        class Faster(Fast):
            def setCPULoad(self, load):
                return f"faster than {super().setCPULoad(load)}"

        assert Faster().set_cpu_load(1) == "faster than fast"

    def test_all_bases_of_a_subclass_are_linked(self):
        @java_names()
        class Printer:
            def print_page(self):
                return "page"

        class Both(Machine, Printer):
            def print_page(self):
                return "both"

            def set_cpu_load(self, load):
                return "both"

        assert (Both().printPage(), Both().setCpuLoad(1)) == ("both", "both")

    def test_an_init_subclass_of_the_class_is_still_called(self):
        seen = []

        @java_names()
        class Base:
            def __init_subclass__(cls, **kwargs):
                seen.append((cls.__name__, kwargs))

            def do_it(self):
                return "base"

        class Sub(Base, colour="red"):
            def do_it(self):
                return "sub"

        assert seen == [("Sub", {"colour": "red"})]
        assert Sub().doIt() == "sub"

    def test_a_class_may_be_decorated_twice(self):
        @java_names()
        @java_names()
        class Twice:
            def do_it(self):
                return "base"

        class Sub(Twice):
            def do_it(self):
                return "sub"

        assert (Twice().doIt(), Sub().doIt()) == ("base", "sub")


class TestLinkSpellings:
    def linked(self, cls):
        link_spellings(cls, {"next_tuple": "nextTuple"})
        return cls

    def test_either_spelling_is_enough(self):
        python = self.linked(type("Python", (), {"next_tuple": lambda self: "python"}))
        java = self.linked(type("Java", (), {"nextTuple": lambda self: "java"}))
        assert (python().nextTuple(), java().next_tuple()) == ("python", "java")

    def test_both_spellings_in_one_class_stay_what_they_are(self):
        both = self.linked(type("Both", (), {"next_tuple": lambda self: 1, "nextTuple": lambda self: 2}))
        assert (both().next_tuple(), both().nextTuple()) == (1, 2)

    def test_what_a_mixin_defines_is_linked_too(self):
        mixin = type("Mixin", (), {"nextTuple": lambda self: "mixin"})
        base = self.linked(type("Base", (), {"next_tuple": lambda self: "base"}))
        assert self.linked(type("Sub", (mixin, base), {}))().next_tuple() == "mixin"

    def test_the_mixin_itself_is_left_alone(self):
        mixin = type("Mixin", (), {"nextTuple": lambda self: "mixin"})
        self.linked(type("Sub", (mixin,), {}))
        assert not hasattr(mixin, "next_tuple")

    def test_a_class_with_neither_gets_neither(self):
        assert not hasattr(self.linked(type("Neither", (), {})), "nextTuple")
