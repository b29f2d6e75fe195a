import pickle

import pytest

from pystorm_spark import (
    Fields,
    GlobalStreamId,
    LocalCluster,
    MessageId,
    TopologyBuilder,
    Tuple,
    UnknownFieldError,
    is_tick,
)
from pystorm_spark.testing import FixedTupleSpout, make_tuple

FIELDS = ["word", "count", "ratio", "seen", "blob", "nothing"]


def example():
    return make_tuple(["storm", 3, 0.5, True, b"\x00", None], FIELDS, component="split", stream="words", task=7)


class TestAccess:
    def test_values_are_the_emitted_ones(self):
        assert example().values == ["storm", 3, 0.5, True, b"\x00", None]

    @pytest.mark.parametrize(("index", "field"), list(enumerate(FIELDS)))
    def test_a_value_is_found_by_position_and_by_field(self, index, field):
        tup = example()
        expected = tup.values[index]
        assert [tup[index], tup[field], tup.get_value(index), tup.get_value_by_field(field)] == [expected] * 4

    def test_a_position_may_count_from_the_end(self):
        assert example()[-2] == b"\x00"

    def test_a_slice_gives_a_list(self):
        assert example()[:2] == ["storm", 3]

    def test_a_position_beyond_the_end_is_an_index_error(self):
        with pytest.raises(IndexError):
            example().get_value(6)

    def test_size_and_len_count_the_values(self):
        assert (example().size(), len(example())) == (6, 6)

    def test_a_tuple_iterates_over_its_values(self):
        word, *rest = example()
        assert (word, len(rest)) == ("storm", 5)

    def test_a_tuple_knows_its_fields(self):
        assert example().fields == Fields(FIELDS)

    def test_contains_tells_whether_a_field_exists(self):
        assert example().contains("count")
        assert not example().contains("number")

    def test_a_field_has_an_index(self):
        assert example().field_index("ratio") == 2

    @pytest.mark.parametrize("selector", [Fields("count", "word"), ["count", "word"], ("count", "word")])
    def test_several_values_are_selected_in_the_order_asked_for(self, selector):
        assert example().select(selector) == [3, "storm"]

    def test_one_name_selects_one_value(self):
        assert example().select("count") == [3]


class TestUnknownField:
    @pytest.mark.parametrize(
        "ask",
        [
            lambda tup: tup["cuont"],
            lambda tup: tup.get_value_by_field("cuont"),
            lambda tup: tup.get_integer_by_field("cuont"),
            lambda tup: tup.field_index("cuont"),
            lambda tup: tup.select(["word", "cuont"]),
        ],
    )
    def test_every_access_raises_an_error_with_a_suggestion(self, ask):
        with pytest.raises(UnknownFieldError, match="field 'cuont' does not exist; did you mean 'count'"):
            ask(example())

    def test_an_unknown_field_is_a_key_error(self):
        with pytest.raises(KeyError):
            example()["number"]


GETTERS = {
    "string": ("storm", 3, str),
    "integer": (3, "3", int),
    "long": (2**40, 1.0, int),
    "short": (3, "3", int),
    "byte": (3, b"3", int),
    "double": (0.5, 1, float),
    "float": (0.5, "0.5", float),
    "boolean": (True, 1, bool),
    "binary": (b"\x00", "x", bytes),
}
KINDS = pytest.mark.parametrize(("kind", "right", "wrong", "expected"), [(k, *v) for k, v in GETTERS.items()])


def get(value, kind):
    """Both forms of a typed getter, by position and by field."""
    tup = make_tuple([value], ["value"])
    return getattr(tup, f"get_{kind}")(0), getattr(tup, f"get_{kind}_by_field")("value")


class TestTypedGetters:
    @KINDS
    def test_a_getter_returns_the_value_itself(self, kind, right, wrong, expected):
        by_position, by_field = get(right, kind)
        assert by_position is right
        assert by_field is right

    @KINDS
    def test_another_type_is_refused_and_never_converted(self, kind, right, wrong, expected):
        with pytest.raises(TypeError) as caught:
            get(wrong, kind)
        assert str(caught.value) == (
            f"field 'value' holds {wrong!r} of type {type(wrong).__name__}, get_{kind} needs {expected.__name__}"
        )

    @KINDS
    def test_another_type_is_refused_by_field_too(self, kind, right, wrong, expected):
        with pytest.raises(TypeError, match=f"get_{kind} needs"):
            getattr(make_tuple([wrong], ["value"]), f"get_{kind}_by_field")("value")

    @KINDS
    def test_none_is_accepted_by_every_getter(self, kind, right, wrong, expected):
        assert get(None, kind) == (None, None)

    @pytest.mark.parametrize("kind", ["integer", "long", "short", "byte", "double", "string"])
    def test_a_boolean_is_not_taken_for_a_number(self, kind):
        with pytest.raises(TypeError, match="holds True of type bool"):
            get(True, kind)

    @KINDS
    def test_typed_getters_have_java_names(self, kind, right, wrong, expected):
        tup = make_tuple([right], ["value"])
        java = f"get{kind.capitalize()}"
        assert (getattr(tup, java)(0), getattr(tup, f"{java}ByField")("value")) == (right, right)

    def test_typed_getters_have_names_and_docstrings(self):
        assert (Tuple.get_long.__name__, Tuple.get_long.__doc__) == (
            "get_long",
            "The value, which must be int or None; anything else is a TypeError.",
        )


class TestSource:
    def test_a_tuple_knows_its_source(self):
        tup = example()
        assert (tup.source_component, tup.source_task, tup.source_stream_id) == ("split", 7, "words")

    def test_the_stream_has_one_name_for_the_whole_topology(self):
        assert example().source_global_stream_id == GlobalStreamId("split", "words")

    @pytest.mark.parametrize(
        ("java", "python"),
        [
            ("getValues", "values"),
            ("getFields", "fields"),
            ("getSourceComponent", "source_component"),
            ("getSourceTask", "source_task"),
            ("getSourceStreamId", "source_stream_id"),
            ("getSourceGlobalStreamId", "source_global_stream_id"),
            ("getMessageId", "message_id"),
        ],
    )
    def test_attributes_have_javas_getters(self, java, python):
        tup = example()
        assert getattr(tup, java)() == getattr(tup, python)

    def test_other_java_names(self):
        tup = example()
        assert (tup.getValue(0), tup.getValueByField("count"), tup.fieldIndex("count")) == ("storm", 3, 1)


class TestIdentity:
    def test_tuples_with_the_same_values_are_not_equal(self):
        first, second = example(), example()
        assert first != second
        assert len({first, second, first}) == 2

    def test_a_tuple_of_unhashable_values_has_a_hash(self):
        tup = make_tuple([[1], {}], ["list", "dict"])
        assert {tup: "found"}[tup] == "found"


class Unshowable:
    def __repr__(self):
        raise RuntimeError("no")


class TestRepr:
    def test_repr_shows_fields_values_and_source(self):
        tup = make_tuple(["storm", 3], ["word", "count"], component="split", stream="words", task=7)
        assert repr(tup) == "Tuple(word='storm', count=3; from split:7 stream words)"

    def test_a_huge_value_is_cut(self):
        shown = repr(make_tuple(["x" * 10**6], ["value"]))
        assert len(shown) < 300
        assert "… (1000002 characters)" in shown

    def test_a_value_of_two_hundred_characters_is_not_cut(self):
        assert "…" not in repr(make_tuple(["x" * 198], ["value"]))

    def test_a_value_that_cannot_be_shown_does_not_hide_the_others(self):
        assert repr(make_tuple([Unshowable(), 1], ["a", "b"])).startswith(
            "Tuple(a=<Unshowable whose repr raises RuntimeError>, b=1; "
        )

    def test_the_error_of_a_typed_getter_survives_a_broken_repr(self):
        with pytest.raises(TypeError, match="whose repr raises RuntimeError"):
            make_tuple([Unshowable()], ["a"]).get_string(0)

    def test_a_tuple_that_holds_itself_is_shown(self):
        values = []
        values.append(values)
        assert "value=[[...]]" in repr(make_tuple(values, ["value"]))


SEEN = []


def see(tup):
    SEEN.append(tup)


class TestIsTick:
    def test_a_tick_comes_from_the_system_on_the_tick_stream(self):
        assert is_tick(make_tuple([1], ["rate_secs"], component="__system", stream="__tick", task=-1))

    @pytest.mark.parametrize(("component", "stream"), [("__system", "default"), ("clock", "__tick"), ("a", "default")])
    def test_a_tuple_of_another_source_or_stream_is_not_a_tick(self, component, stream):
        assert not is_tick(make_tuple([1], ["rate_secs"], component=component, stream=stream))

    def test_the_engine_makes_ticks(self):
        SEEN.clear()
        builder = TopologyBuilder()
        builder.set_spout("source", FixedTupleSpout([["data"]], ["value"]))
        builder.set_bolt("see", see).shuffle_grouping("source").add_configuration("topology.tick.tuple.freq.secs", 2)
        with LocalCluster(simulated_time=True) as cluster:
            cluster.submit_topology("ticking", None, builder.create_topology())
            cluster.advance_time(3)
        assert [(is_tick(tup), tup.values, tup.source_component) for tup in SEEN] == [
            (False, ["data"], "source"),
            (True, [2], "__system"),
        ]


class TestMessageId:
    def test_the_message_id_of_an_untracked_tuple_is_empty(self):
        assert example().message_id == MessageId.make_unanchored()

    def test_a_message_id_holds_roots_and_edges(self):
        message_id = MessageId.make_root_id(7, 12)
        assert (message_id.anchors, message_id.anchors_to_ids) == (frozenset({7}), {7: 12})

    def test_message_ids_compare_by_value(self):
        first, second = MessageId.make_id({7: 12, 8: 1}), MessageId.make_id({8: 1, 7: 12})
        assert first == second
        assert hash(first) == hash(second)
        assert first != MessageId.make_id({7: 12})

    def test_a_message_id_keeps_its_own_copy(self):
        edges = {7: 12}
        message_id = MessageId.make_id(edges)
        edges[8] = 1
        assert message_id.anchors_to_ids == {7: 12}

    def test_java_names(self):
        message_id = MessageId.makeRootId(7, 12)
        assert (message_id.getAnchors(), message_id.getAnchorsToIds()) == ({7}, {7: 12})
        assert MessageId.makeUnanchored() == MessageId.makeId({})


class TestGlobalStreamId:
    def test_the_stream_is_the_default_one_unless_named(self):
        assert GlobalStreamId("split") == GlobalStreamId("split", "default")

    def test_component_and_stream_have_names(self):
        source = GlobalStreamId(component="split", stream="words")
        assert (source.component, source.stream) == ("split", "words")
        assert (source.component_id, source.stream_id) == ("split", "words")
        assert repr(source) == "GlobalStreamId(component='split', stream='words')"

    def test_a_global_stream_id_can_be_unpacked(self):
        component, stream = GlobalStreamId("split", "words")
        assert (component, stream) == ("split", "words")

    def test_java_names(self):
        source = GlobalStreamId("split", "words")
        assert (source.getComponentId(), source.getStreamId()) == ("split", "words")
        assert (source.get_componentId(), source.get_streamId()) == ("split", "words")

    def test_a_global_stream_id_can_be_pickled(self):
        source = GlobalStreamId("split", "words")
        assert pickle.loads(pickle.dumps(source)) == source
