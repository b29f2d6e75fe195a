"""DetachedTuple: a tuple as a value."""

import pickle

import pytest

from pystorm_spark.testing import make_tuple
from pystorm_spark.windowing import DetachedTuple


def detached(values=(1, "a"), **origin):
    return DetachedTuple(make_tuple(list(values), ["number", "text"], **origin))


def test_it_has_the_values_and_the_source_of_the_tuple_and_its_getters():
    tup = make_tuple([1, "a"], ["number", "text"])
    late = DetachedTuple(tup)
    assert late.values == [1, "a"]
    assert late.fields == tup.fields
    assert (late.source_component, late.source_task, late.source_stream_id) == (
        tup.source_component,
        tup.source_task,
        tup.source_stream_id,
    )
    assert late.getSourceGlobalStreamId() == tup.source_global_stream_id
    assert (late["text"], late[0], late.getStringByField("text"), late.get_integer(0)) == ("a", 1, "a", 1)
    assert late.select(["text", "number"]) == ["a", 1]
    assert list(late) == [1, "a"]
    assert (len(late), late.size(), late.contains("text"), late.field_index("text")) == (2, 2, True, 1)
    with pytest.raises(TypeError, match="get_string needs str"):
        late.get_string(0)


def test_it_keeps_its_values_though_the_tuple_s_change():
    tup = make_tuple([1, "a"], ["number", "text"])
    late = DetachedTuple(tup)
    tup.values[0] = 2
    assert late.values == [1, "a"]


def test_it_is_equal_by_value_also_after_travelling():
    late = detached()
    assert late == detached() == pickle.loads(pickle.dumps(late))
    assert hash(late) == hash(detached())
    assert late != detached((2, "a"))
    assert late != [1, "a"]
    assert "DetachedTuple(number=1, text='a'; from" in repr(late)
