import copy
import pickle

import cloudpickle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pystorm_spark import Fields, InvalidTopologyError, Stream, UnknownFieldError, Values
from pystorm_spark.topology.fields import as_fields

names = st.lists(st.text(max_size=5), unique=True, max_size=8)


class TestFieldsMade:
    @pytest.mark.parametrize(
        "made",
        [
            Fields("word", "count"),
            Fields(["word", "count"]),
            Fields(("word", "count")),
            Fields(name for name in ("word", "count")),
            Fields(Fields("word", "count")),
            Fields({"word": 1, "count": 2}),
        ],
    )
    def test_fields_are_made_of_names_or_one_collection_of_names(self, made):
        assert made.to_list() == ["word", "count"]

    def test_fields_may_have_one_name(self):
        assert list(Fields("word")) == ["word"]

    @pytest.mark.parametrize("made", [Fields(), Fields([])])
    def test_fields_may_be_empty(self, made):
        assert (len(made), made.to_list()) == (0, [])

    def test_a_duplicate_is_refused_by_name(self):
        with pytest.raises(InvalidTopologyError, match=r"duplicate field 'b' in \['a', 'b', 'c', 'b'\]"):
            Fields("a", "b", "c", "b")

    @pytest.mark.parametrize("wrong", [5, None, ["a", 5], [None], [["a"]], b"ab", object()])
    def test_an_invalid_name_is_refused(self, wrong):
        with pytest.raises(InvalidTopologyError, match="a field name must be a string, got"):
            Fields(wrong)

    def test_a_list_among_names_is_refused(self):
        with pytest.raises(InvalidTopologyError, match=r"got \['a'\]"):
            Fields(["a"], "b")


class TestFields:
    fields = Fields("word", "count", "time")

    def test_a_field_is_found_by_its_position(self):
        assert (self.fields.get(1), self.fields[1], self.fields[-1]) == ("count", "count", "time")

    def test_a_position_is_found_by_its_field(self):
        assert [self.fields.field_index(name) for name in self.fields] == [0, 1, 2]

    def test_size_and_len_count_the_fields(self):
        assert (self.fields.size(), len(self.fields)) == (3, 3)

    def test_contains_and_in_find_a_field(self):
        assert self.fields.contains("count")
        assert "count" in self.fields
        assert not self.fields.contains("number")
        assert "number" not in self.fields

    def test_an_unknown_field_is_an_error_with_a_suggestion(self):
        with pytest.raises(UnknownFieldError) as caught:
            self.fields.field_index("cuont")
        assert str(caught.value) == "field 'cuont' does not exist; did you mean 'count'? known: count, time, word"

    @pytest.mark.parametrize("wrong", [None, 1, ["word"], {}])
    def test_an_invalid_name_is_an_unknown_field(self, wrong):
        with pytest.raises(UnknownFieldError, match="does not exist"):
            self.fields.field_index(wrong)

    @pytest.mark.parametrize("selector", [Fields("time", "word"), ["time", "word"], ("time", "word")])
    def test_values_are_selected_in_the_order_asked_for(self, selector):
        assert self.fields.select(selector, ["a", 1, 9.5]) == [9.5, "a"]

    def test_values_are_selected_by_one_name(self):
        assert self.fields.select("count", ["a", 1, 9.5]) == [1]

    def test_an_unknown_field_is_not_selected(self):
        with pytest.raises(UnknownFieldError, match="'number'"):
            self.fields.select(["word", "number"], ["a", 1, 9.5])

    def test_the_list_of_names_is_a_copy(self):
        self.fields.to_list().append("more")
        assert self.fields.size() == 3

    def test_equality_and_hash_depend_on_the_names(self):
        assert Fields("a", "b") == Fields(["a", "b"])
        assert hash(Fields("a", "b")) == hash(Fields(["a", "b"]))
        assert Fields("a", "b") != Fields("b", "a")

    @pytest.mark.parametrize("other", [["a"], ("a",), "a", None])
    def test_fields_never_equal_another_type(self, other):
        assert Fields("a") != other

    def test_repr_is_the_call_that_makes_equal_fields(self):
        assert repr(Fields("a", "b c")) == "Fields('a', 'b c')"

    @pytest.mark.parametrize("module", [pickle, cloudpickle])
    def test_fields_can_be_pickled(self, module):
        assert module.loads(module.dumps(self.fields)).select("count", ["a", 1, 9.5]) == [1]

    def test_java_names(self):
        assert (self.fields.fieldIndex("count"), self.fields.toList()) == (1, ["word", "count", "time"])

    @given(names)
    def test_every_name_is_at_its_index(self, given_names):
        fields = Fields(given_names)
        assert [fields[fields.field_index(name)] for name in given_names] == given_names

    @given(names)
    def test_selecting_all_names_gives_all_values(self, given_names):
        values = list(range(len(given_names)))
        assert Fields(given_names).select(given_names, values) == values


class TestAsFields:
    @pytest.mark.parametrize("given", ["a", ["a"], ("a",), Fields("a")])
    def test_a_name_or_a_list_becomes_fields(self, given):
        assert as_fields(given) == Fields("a")

    def test_fields_are_passed_through(self):
        fields = Fields("a")
        assert as_fields(fields) is fields


class TestValues:
    def test_values_are_a_list_of_the_arguments(self):
        values = Values("storm", 1, None)
        assert values == ["storm", 1, None]
        assert isinstance(values, list)

    @pytest.mark.parametrize(("made", "expected"), [(Values(), []), (Values(None), [None]), (Values([1]), [[1]])])
    def test_a_single_argument_is_not_unpacked(self, made, expected):
        assert made == expected

    def test_values_can_be_appended(self):
        values = Values("storm")
        values.append(1)
        assert values == ["storm", 1]

    def test_java_names(self):
        values = Values("storm")
        values.add(1)
        assert (values.get(1), values.size()) == (1, 2)

    @pytest.mark.parametrize("copied", [lambda v: pickle.loads(pickle.dumps(v)), copy.copy, copy.deepcopy])
    def test_values_keep_their_type_in_copies(self, copied):
        values = copied(Values("storm", [1]))
        assert (type(values), values) == (Values, ["storm", [1]])


class TestStream:
    @pytest.mark.parametrize("fields", ["a", ["a"], Fields("a")])
    def test_fields_of_a_stream_may_have_any_form(self, fields):
        assert Stream(fields) == Stream(Fields("a"), direct=False)

    def test_a_stream_may_be_direct(self):
        assert Stream(["a"], direct=True).direct is True
        assert Stream(["a"]).direct is False

    def test_repr_names_fields_and_direct(self):
        assert repr(Stream(["a"])) == "Stream(fields=Fields('a'), direct=False)"

    def test_a_duplicate_field_of_a_stream_is_refused(self):
        with pytest.raises(InvalidTopologyError, match="duplicate field 'a'"):
            Stream(["a", "a"])
