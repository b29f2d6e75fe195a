import pytest

from pystorm_spark import CustomStreamGrouping, Fields
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


class First(CustomStreamGrouping):
    def choose_tasks(self, task_id, values):
        return [1]


class JavaFirst(CustomStreamGrouping):
    def chooseTasks(self, task_id, values):
        return [1]


@pytest.mark.parametrize(
    ("grouping", "shown"),
    [
        (ShuffleGrouping(), "shuffle"),
        (LocalOrShuffleGrouping(), "local or shuffle"),
        (FieldsGrouping(Fields("a", "b")), "fields(a, b)"),
        (PartialKeyGrouping(Fields("a")), "partial key(a)"),
        (AllGrouping(), "all"),
        (GlobalGrouping(), "global"),
        (NoneGrouping(), "none"),
        (DirectGrouping(), "direct"),
        (CustomGrouping(First()), "custom(First)"),
    ],
)
def test_a_grouping_has_a_name_to_show(grouping, shown):
    assert str(grouping) == shown


def test_groupings_are_values():
    assert FieldsGrouping(Fields("a")) == FieldsGrouping(Fields("a"))
    assert FieldsGrouping(Fields("a")) != FieldsGrouping(Fields("b"))
    assert FieldsGrouping(Fields("a")) != PartialKeyGrouping(Fields("a"))
    assert ShuffleGrouping() != AllGrouping()


class TestCustom:
    @pytest.mark.parametrize("chooser", [First(), JavaFirst()])
    def test_choose_tasks_may_have_either_name(self, chooser):
        assert chooser.choose_tasks(3, ["a"]) == chooser.chooseTasks(3, ["a"]) == [1]

    def test_prepare_is_optional(self):
        assert First().prepare(None, None, [1, 2]) is None

    def test_a_grouping_without_choose_tasks_names_it(self):
        class Forgetful(CustomStreamGrouping):
            pass

        with pytest.raises(NotImplementedError, match=r"Forgetful must define choose_tasks\(task_id, values\)"):
            Forgetful().choose_tasks(1, [])

    def test_an_override_may_call_super_by_either_name(self):
        class Second(JavaFirst):
            def choose_tasks(self, task_id, values):
                return [*super().chooseTasks(task_id, values), 2]

        assert Second().chooseTasks(1, []) == [1, 2]
